"""What a kind of database does for the store: SQLite's file in `storage.sqlite`, PostgreSQL's in
`storage.postgres`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine

from storage.chain import Chain
from storage.head_file import HeadFile
from storage.transaction import Trace, Transaction


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
