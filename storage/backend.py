"""What DATABASE_URL says: which kind of database it is, and where."""

from __future__ import annotations

import hashlib
import os
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine, make_url
from sqlalchemy.exc import ArgumentError

from storage.chain import Chain
from storage.trail import HeadFile
from storage.transaction import Trace, Transaction

# What a kind of database does for the store: SQLite's file in `storage.sqlite`,
# PostgreSQL's in `storage.engines`.

# Which tables only grow, and what is let through in them: a purge.

APPEND_ONLY = ("audit", "revision", "vote", "answer", "attempt", "item", "mode")
_OF_RUN = "OLD.run_id"
_OF_CALL = 'SELECT run_id FROM "call" WHERE id = OLD.call_id'
# In rows of a request that is marked as purged this column is emptied, and these others stay as
# they are; and which request a row is part of.
EMPTIED = {
    "audit": (
        "payload",
        "",
        "seq at run_id call_id actor event data key_id previous hash",
        _OF_RUN,
    ),
    "revision": ("arguments", "{}", "seq call_id number digest author created_at", _OF_CALL),
    "answer": ("given", "{}", "seq call_id revision person declined created_at", _OF_CALL),
    "item": ("body", "{}", "seq run_id turn created_at", _OF_RUN),
}
# Their rows may go as a whole with a request that is marked so: what the model was told and said.
DELETED = ("item",)


class Backend(Protocol):
    """One database. `open`, then `prepare`, and `close` at the end."""

    path: Path  # what lies beside the record on this machine is named after it
    shared: bool  # whether other processes may write it as well

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's, for migrations."""
        ...

    @property
    def held(self) -> bool:
        """Whether this process alone may write it."""
        ...

    @property
    def name(self) -> str:
        """What it is called for people, without a password."""
        ...

    def open(self, *, exclusive: bool) -> None:
        """See that it is ours to use, and hold it where only one process may.

        Raises AlreadyRunningError, SchemaError, and the driver's error where it cannot be reached.
        """
        ...

    def load_key(self) -> bytes:
        """The key that is kept beside it; KeyFileError where there is none."""
        ...

    def prepare(self) -> None:
        """Make it, where it is not there; before its schema is looked at."""
        ...

    def migrating(self) -> AbstractContextManager[None]:
        """Hold off others who would change the schema."""
        ...

    def lacks_table(self, error: Exception) -> bool:
        """Whether that is what the error says."""
        ...

    def copy_before(self, revision: str) -> None:
        """Keep what is there, where that is the database's to do: a migration comes."""
        ...

    def append_only(self) -> list[str]:
        """DDL that makes the append-only tables refuse update and delete, but for a purge."""
        ...

    def not_append_only(self) -> list[str]:
        """DDL that takes that away, for the time of a migration."""
        ...

    def settle(self) -> None:
        """Do what is to be done once the schema stands."""
        ...

    def head_note(self, chain: Chain) -> HeadFile | None:
        """Where it is noted how far the audit has come; None: nowhere."""
        ...

    def begin(
        self, trace: Trace | None, chain: Chain, *, writes: bool, durable: bool
    ) -> Transaction:
        """Begin a transaction, to be used in a `with`."""
        ...

    def sync(self) -> None:
        """Return once all that was committed is on the disk."""
        ...

    def give_back(self, tx: Transaction, spare: float) -> bool:
        """Give some of what lies free back to the disk, in this transaction, but for that part of
        the whole; whether more is left.
        """
        ...

    def write_back(self) -> None:
        """Have nothing stand in a log any more, as far as nobody reads it just now."""
        ...

    def rewrite(self) -> str:
        """Write all of it anew without what lies free, which takes as long as it takes; why it was
        not, for people, and "" where it was.
        """
        ...

    def disconnect(self) -> None:
        """Close the connections that nobody uses."""
        ...

    def close(self) -> None:
        """Give back what is held, the connections among it."""
        ...


SUPPORTED = (
    "DATABASE_URL must name an SQLite file, e.g. sqlite:///countersign.db, or a database of"
    " PostgreSQL, e.g. postgresql://countersign@db.internal/countersign"
)


def is_shared(url: str) -> bool:
    """Whether several processes may write the database at this address."""
    return url.startswith("postgres")


def local_path(url: str) -> Path:
    """After which path what lies beside the record on this machine is named.

    For SQLite the file itself. A server's record has no place here, so its address gives a name in
    the folder that the system keeps for this account's sockets, else in the working folder;
    `bot.programs.program_client` finds it the same way.
    """
    if is_shared(url):
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return Path(folder) / f"countersign-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    return Path(url.removeprefix("sqlite:///"))


def server_address(address: str) -> str:
    """The address of a PostgreSQL database as SQLAlchemy has it; ValueError for any other."""
    scheme, _, rest = address.partition("://")
    if scheme not in ("postgres", "postgresql", "postgresql+psycopg") or not rest:
        raise ValueError("it is no address of PostgreSQL: postgresql://user:password@host/database")
    name = rest.partition("?")[0].rpartition("@")[2].partition("/")[2]
    if not name or "/" in name:
        raise ValueError("it names no database")
    return f"postgresql://{rest}"


def backend_of(url: str) -> Backend:
    """The database at an SQLAlchemy URL; ValueError for one that cannot hold the record.

    Found by name: nobody loads the driver of the other kind.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(SUPPORTED) from None
    if is_shared(url):
        made: Backend = import_module("storage.postgres").PostgresDatabase(parsed, local_path(url))
        return made
    if not url.startswith("sqlite") or not parsed.database or parsed.database == ":memory:":
        raise ValueError(SUPPORTED)
    file: Backend = import_module("storage.sqlite").SqliteFile(parsed)
    return file
