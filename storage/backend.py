"""The interface that every kind of database implements, and the choice of one by DATABASE_URL."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Container
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from storage.digest import AuditChainSealer, AuditHead
from storage.models import APPEND_ONLY_TABLES
from storage.trail import AuditHeadFile
from storage.transaction import Trace, Transaction


class Backend(ABC):
    """The interface of one database: `open`, then `create_if_missing`, and `close` at the end.

    Methods that only one kind of database needs do nothing by default.
    """

    path: Path  # local files (key, lock, …) are named after it
    is_multi_process: bool  # whether other processes may write it as well
    known_head: AuditHead | None = None  # the audit's newest row at this process's last commit
    older_error: DBAPIError | None = None  # once the record may lack what this process has written

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """Return the SQLAlchemy engine that migrations use."""

    @property
    @abstractmethod
    def has_exclusive_lock(self) -> bool:
        """Whether only this process may write to the database."""

    @property
    @abstractmethod
    def display_name(self) -> str:
        """Return the database's name for messages to people, without a password."""

    @abstractmethod
    def open(self, *, exclusive: bool) -> None:
        """Check that this process may use the database, and lock it where only one process may.

        Raises AlreadyRunningError, SchemaError, and the driver's error if the database cannot be
        reached.
        """

    @abstractmethod
    def load_local_signing_key(self) -> bytes:
        """Return the key stored beside the database; KeyFileError if there is none."""

    @abstractmethod
    def create_if_missing(self) -> None:
        """Create the database if it does not exist; called before its schema is checked."""

    def migration_lock(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the schema while this one migrates."""
        return nullcontext()

    @abstractmethod
    def is_missing_table_error(self, error: Exception) -> bool:
        """Return whether the error means that a table does not exist."""

    def copy_before_migration(self, revision: str) -> None:  # noqa: B027 # not all keep copies
        """Copy the database file before a migration, if this backend keeps such copies."""

    @abstractmethod
    def list_create_trigger_statements(
        self, among: Container[str] = APPEND_ONLY_TABLES
    ) -> list[str]:
        """Return DDL that makes the append-only tables in `among` refuse update and delete.

        Only a purge may still change their rows.
        """

    @abstractmethod
    def list_drop_trigger_statements(self) -> list[str]:
        """Return the DDL that lifts the append-only protection during a migration."""

    def protect_open_database_files(self) -> None:  # noqa: B027 # a server needs no further step
        """Protect the open database's files, if it has any, once its schema is up to date."""

    def build_audit_head_file(self, chain: AuditChainSealer) -> AuditHeadFile | None:
        """Return the file that notes the audit's newest row; None if this backend keeps none.

        A file on one machine could not follow what other machines write.
        """
        return None

    def is_at_noted_place(self, tx: Transaction) -> bool:
        """Return whether the record is where it was when it was last opened to be written."""
        return True

    def note_place(self, tx: Transaction) -> None:  # noqa: B027 # a file has its head file
        """Note where the record is; mark it as a copy if it was last opened in another place.

        Then a tool of the database's own has put the record back or moved it, and it may be older
        than when it was last used.
        """

    @abstractmethod
    def begin_transaction(
        self, trace: Trace | None, chain: AuditChainSealer, *, writes: bool, durable: bool
    ) -> Transaction:
        """Return a new transaction, to be used in a `with`; writers wait for one another."""

    def sync_commits(self) -> None:  # noqa: B027 # at a server every commit waits for the disk
        """Return once everything committed so far is on the disk."""

    def release_free_pages(self, tx: Transaction, spare: float) -> bool:
        """Return some free pages to the disk within this transaction; True if there are more.

        `spare`: the share of the whole database that may stay free.
        """
        return False

    def checkpoint_write_ahead_log(self) -> None:  # noqa: B027 # a server manages its own
        """Move the write-ahead log into the database, except what readers still need."""

    def vacuum_database(self) -> str:
        """Rewrite the whole database without its free space, however long that takes.

        Returns "" when done, else the reason why not, for people.
        """
        return ""

    @abstractmethod
    def close_idle_connections(self) -> None:
        """Close the connections that are not in use."""

    def close(self) -> None:
        """Release the lock and close the connections."""
        self.close_idle_connections()


UNSUPPORTED_URL_ERROR = (
    "DATABASE_URL must name an SQLite file, e.g. sqlite:///countersign.db, or a PostgreSQL"
    " database, e.g. postgresql://countersign@db.internal/countersign"
)


def is_postgres_url(url: str) -> bool:
    """Return whether the URL is PostgreSQL's, so that several processes may write."""
    return url.startswith("postgres")


def build_local_path(url: str) -> Path:
    """Return the path that the database's local files (key, lock, …) are named after.

    For SQLite it is the database file. For a server it is a name made from the address, in the
    folder that the system keeps for this account's sockets, else in the working folder;
    `countersign.wire` finds it the same way.
    """
    if is_postgres_url(url):
        url = url.partition("&workspace=")[0]  # the same record, whichever process works for it
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return Path(folder) / f"countersign-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    return Path(url.removeprefix("sqlite:///"))


MAX_SOCKET_PATH_BYTES = 100  # less than any system's limit


def socket_path(record: Path) -> Path:
    """Return the path of the local socket at which programs and commands reach the running bot."""
    return record.with_name(record.name + ".socket")


def normalize_postgres_url(address: str) -> str:
    """Return a PostgreSQL address in SQLAlchemy's form; ValueError for any other address."""
    scheme, _, rest = address.partition("://")
    if scheme not in ("postgres", "postgresql", "postgresql+psycopg") or not rest:
        raise ValueError("it is not a PostgreSQL address: postgresql://user:password@host/database")
    name = rest.partition("?")[0].rpartition("@")[2].partition("/")[2]
    if not name or "/" in name:
        raise ValueError("it names no database")
    require_schema_name(parse_database_url(f"postgresql://{rest}"))
    return f"postgresql://{rest}"


def require_schema_name(url: URL) -> None:
    """Raise ValueError if `schema=…` in the address is not the plain name of a schema."""
    name = str(url.query.get("schema", "_"))
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", name):
        raise ValueError(f"{name!r} cannot be the name of a schema")


UNREADABLE_URL_ERROR = (
    "its host, port or password cannot be told apart: in a password write @ as %40, / as %2F and"
    " % as %25; name several hosts at the end, ?host=one:5432&host=two:5432"
)


def parse_database_url(url: str) -> URL:
    """Return the parts of a database's URL; the path of an SQLite file is taken as it stands.

    Raises ValueError if they cannot be told; it shows none of them, as one may be a password's.
    """
    if url.startswith("sqlite:///"):
        return URL.create("sqlite", database=url.removeprefix("sqlite:///"))
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(UNSUPPORTED_URL_ERROR) from None
    except ValueError:  # the port is no number
        raise ValueError(UNREADABLE_URL_ERROR) from None
    if "@" in (parsed.host or ""):
        raise ValueError(UNREADABLE_URL_ERROR)
    return parsed


def build_backend(url: str) -> Backend:
    """Return the backend for an SQLAlchemy URL; ValueError if it cannot hold the record.

    Each backend is imported on demand, so the other kind's driver is not loaded.
    """
    parsed, path = parse_database_url(url), build_local_path(url)
    if is_postgres_url(url):
        made: Backend = import_module("storage.postgres").PostgresDatabase(parsed, path)
        return made
    if parsed.drivername != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise ValueError(UNSUPPORTED_URL_ERROR)
    file: Backend = import_module("storage.sqlite").SqliteFile(parsed)
    return file


def drop_schema(url: str, schema: str) -> None:
    """Delete a schema of a PostgreSQL database and its contents; raises the database's errors."""
    drop = import_module("storage.postgres").drop_schema
    drop(make_url(url), schema)
