"""The SQLite backend: one file, one process; pragmas, the lock, the append-only triggers."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Container
from contextlib import ExitStack, closing, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, TypeVar

from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from sqlmodel import create_engine

from storage import sqlite_connections
from storage.backend import Backend
from storage.digest import AuditChainSealer, key_file_path, load_or_create_signing_key
from storage.migrations import SchemaError
from storage.models import APPEND_ONLY_TABLES, DELETABLE_TABLES, EMPTIED_COLUMN_BY_TABLE
from storage.sqlite_connections import read_pragma
from storage.trail import AuditHeadFile, audit_head_file_path
from storage.transaction import Trace, Transaction, wrap_driver_error

T = TypeVar("T")
OTHER_PROCESS_REMEDY = "stop that first, or, if it serves many, pause the workspace and wait 30 s"
MAX_PAGES_PER_VACUUM_STEP = 400  # freed in one transaction
CHECKPOINT_BUSY_MILLISECONDS = 200  # how long it waits for readers to end
INCREMENTAL_VACUUM_MODE = 2  # SQLite's number for it


def enable_incremental_vacuum(raw: sqlite3.Connection) -> None:
    """Turn on incremental vacuum for a file that is empty or about to be rewritten."""
    raw.execute("PRAGMA auto_vacuum=INCREMENTAL")


def vacuum_some_pages(raw: sqlite3.Connection, spare: float) -> bool:
    """Return at most MAX_PAGES_PER_VACUUM_STEP free pages to the disk; True if there are more.

    `spare`: the share of the file's pages that may stay free.
    """
    if read_pragma(raw, "auto_vacuum") != INCREMENTAL_VACUUM_MODE:
        return False
    too_many = read_pragma(raw, "freelist_count") - int(spare * read_pragma(raw, "page_count"))
    if too_many > 0:
        # the driver steps a statement without result columns only once
        for _ in range(min(too_many, MAX_PAGES_PER_VACUUM_STEP)):
            raw.execute("PRAGMA incremental_vacuum(1)")
    return too_many > MAX_PAGES_PER_VACUUM_STEP


def run_checkpoint(raw: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file and empty it, unless a reader needs it for longer."""
    waits = read_pragma(raw, "busy_timeout")
    raw.execute(f"PRAGMA busy_timeout={CHECKPOINT_BUSY_MILLISECONDS}")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    raw.execute(f"PRAGMA busy_timeout={waits}")


def vacuum_file(raw: sqlite3.Connection, path: Path) -> str:
    """Rewrite the file at `path` without free pages, and empty the log; return "" or why not.

    If the disk has no room for a second copy, free pages are returned step by step instead.
    """
    pages = read_pragma(raw, "page_count") - read_pragma(raw, "freelist_count")
    size = read_pragma(raw, "page_size") * pages
    needed = 2 * size  # SQLite writes a complete copy, and then all of it into the log
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        why = f"that needs {needed:,} bytes on the disk, but {free:,} are free"
    else:
        try:
            enable_incremental_vacuum(raw)
            raw.execute("VACUUM")
            why = ""
        except sqlite3.OperationalError as error:
            why = str(error)
    if why:
        _vacuum_in_steps(raw)
    run_checkpoint(raw)
    return why


def _vacuum_in_steps(raw: sqlite3.Connection) -> None:
    more = True
    while more:
        raw.execute("BEGIN IMMEDIATE")
        more = vacuum_some_pages(raw, 0.0)
        raw.execute("COMMIT")


ConnectionMaker = Callable[[URL], sqlite_connections.SyncSwitchConnection]
MAX_IDLE_CONNECTIONS = 8  # a burst opens more; those are not kept, because each has caches


class AlreadyRunningError(Exception):
    """Raised when another process holds the lock of this database."""


class _IdleConnections(list[sqlite_connections.SyncSwitchConnection]):
    """Idle connections; the one returned last is used first."""

    def add_or_close(self, connection: sqlite_connections.SyncSwitchConnection) -> None:
        """Take back a connection, or close it if there are enough."""
        if len(self) < MAX_IDLE_CONNECTIONS:
            self.append(connection)
        else:
            connection.close()


def _wrap_file_errors(use: Callable[[], T]) -> T:
    """Return what `use` returns; DBAPIError for an error of SQLite, or that the file is lost."""
    try:
        return use()
    except sqlite3.Error as error:
        raise wrap_driver_error(error, sqlite_connections.DIALECT, "", ()) from error


class SqliteTransaction(Transaction):
    """A transaction on a file; a durable commit fails if the file is no longer there.

    What the other commits wrote is made public only after `sync_commits`, which checks the file as
    well.
    """

    file: sqlite_connections.OpenFileGuard | None

    def run_begin_commit_or_rollback(self, sql: str) -> None:
        """Run BEGIN, COMMIT or ROLLBACK."""
        if sql == "COMMIT" and self.durable and self.file is not None:
            _wrap_file_errors(self.file.check_before_commit)
        super().run_begin_commit_or_rollback(sql)


class SqliteFile(Backend):
    """One SQLite file, which one process writes to."""

    is_multi_process = False

    def __init__(
        self,
        url: URL,
        connect: ConnectionMaker = sqlite_connections.open_prepared_connection,
    ) -> None:
        """Set the file's URL without opening it; `connect` creates its connections."""
        self.path = Path(url.database or "")
        self._file = self.path  # once open: with links resolved, as SQLite has it
        self._lock: IO[Any] | None = None
        # set once the file is open, if this process writes it
        self._open_database_file: sqlite_connections.OpenFileGuard | None = None
        self._url, self._connect = url, connect
        # Connections are kept between transactions; the one returned last is used first.
        # SQLAlchemy's pools are not used: they take 15 µs for what a list does in one, and a
        # request has thirty transactions.
        self._idle = _IdleConnections()

    @cached_property
    def engine(self) -> Engine:
        """Return an SQLAlchemy engine for migrations, with its own connections.

        Disposing of it closes this object's idle connections as well.
        """
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            connect_args={"check_same_thread": False},
            hide_parameters=True,  # errors are logged, and must not show values
        )
        sqlite_connections.prepare_engine_connections(engine)
        event.listen(engine, "engine_disposed", lambda _: self.close_idle_connections())
        return engine

    @property
    def has_exclusive_lock(self) -> bool:
        """Return whether this process has the lock."""
        return self._lock is not None

    @property
    def display_name(self) -> str:
        """Return the file's path."""
        return str(self.path)

    def open(self, *, exclusive: bool) -> None:
        """Check the file and, if `exclusive`, lock it.

        Raises AlreadyRunningError, and SchemaError for another application's file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.resolve()
        with ExitStack() as undone:
            connection = self._connect_to_existing_file()
            if connection is not None:
                undone.callback(connection.close)
            if exclusive:
                self._lock = lock_database(self.path)
                undone.callback(self.close)
            if connection is not None:
                sqlite_connections.prepare_connection(connection)
                self._idle.append(connection)
            undone.pop_all()

    def _connect_to_existing_file(self) -> sqlite_connections.SyncSwitchConnection | None:
        """Return a first, unprepared connection to the file; None if there is no file.

        Raises SchemaError for another application's file, and for what is no file.
        """
        if not self._file.exists():
            return None
        if wrong := sqlite_connections.describe_file_problem(self.path):
            raise SchemaError(wrong)
        # only the owner may repair what a crash left; opening the file would do it unasked
        left = (Path(f"{self._file}-{each}") for each in ("journal", "wal"))
        if any(each.exists() for each in left) and sqlite_connections.is_foreign_file(self._file):
            raise SchemaError(sqlite_connections.foreign_file_sentence(self.path))
        opened = sqlite_connections.open_plain_connection(self._url)
        with sqlite_connections.close_on_error(opened) as connection:
            if sqlite_connections.has_foreign_content(connection):
                raise SchemaError(sqlite_connections.foreign_file_sentence(self.path))
            return connection

    def load_local_signing_key(self) -> bytes:
        """Return the key in the file beside the database, created on first use."""
        return load_or_create_signing_key(key_file_path(self.path))

    def create_if_missing(self) -> None:
        """Create the file if it does not exist."""
        create_private_file(self._file)
        if not self._file.stat().st_size:
            opened = sqlite_connections.open_plain_connection(self._url)
            with sqlite_connections.close_on_error(opened) as connection:
                enable_incremental_vacuum(connection)  # only possible before the first page
                sqlite_connections.prepare_connection(connection)
                self._idle.append(connection)

    def is_missing_table_error(self, error: Exception) -> bool:
        """Return whether SQLite's error is that a table does not exist."""
        orig = getattr(error, "orig", None)
        return isinstance(error, OperationalError) and "no such table" in str(orig)

    def copy_before_migration(self, revision: str) -> None:
        """Copy the file to one beside it that is named after the revision."""
        copy_database(self.engine, self.path.with_name(f"{self.path.name}.before-{revision}"))

    def list_create_trigger_statements(
        self, among: Container[str] = APPEND_ONLY_TABLES
    ) -> list[str]:
        """Return DDL that makes the append-only tables in `among` refuse update and delete."""
        return [
            f"CREATE TRIGGER IF NOT EXISTS {table}_no_{change} BEFORE {change.upper()} ON {table} "
            f"{_build_purge_exception(table, change)}"
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            for table in APPEND_ONLY_TABLES
            if table in among
            for change in ("update", "delete")
        ]

    def list_drop_trigger_statements(self) -> list[str]:
        """Return DDL that drops the append-only triggers, as they prevent recreating tables."""
        return [
            f"DROP TRIGGER IF EXISTS {table}_no_{change}"
            for table in APPEND_ONLY_TABLES
            for change in ("update", "delete")
        ]

    def protect_open_database_files(self) -> None:
        """Make the files readable by their owner only, and watch that they are not replaced."""
        restrict_file_permissions(self._file)
        if self.has_exclusive_lock:
            kept = self._connect(self._url)
            kept.execute("SELECT 1 FROM sqlite_master").fetchall()
            self._open_database_file = sqlite_connections.OpenFileGuard(self.path, self._file, kept)

    def build_audit_head_file(self, chain: AuditChainSealer) -> AuditHeadFile:
        """Return the file beside the database that notes the audit's newest row."""
        return AuditHeadFile(audit_head_file_path(self.path), chain)

    def begin_transaction(
        self, trace: Trace | None, chain: AuditChainSealer, *, writes: bool, durable: bool
    ) -> Transaction:
        """Begin a transaction; one that `writes` takes the write lock at once, before it reads."""
        idle = self._idle  # returns to this list, which is unused once `_idle` is replaced
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect_to_open_file()
        try:
            if writes:
                connection.set_waits_for_disk(waits=durable)
            tx = SqliteTransaction(
                connection,
                idle.add_or_close,
                sqlite_connections.DIALECT,
                trace,
                chain,
                writes=writes,
                durable=durable,
            )
            tx.file = self._open_database_file
            tx.run_begin_commit_or_rollback("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")
        except BaseException:
            connection.close()
            raise
        return tx

    def _connect_to_open_file(self) -> sqlite_connections.SyncSwitchConnection:
        """Return a new connection to the open file; DBAPIError if there can be none."""
        if self._open_database_file is not None:
            _wrap_file_errors(self._open_database_file.check_file_identities)
        return _wrap_file_errors(partial(self._connect, self._url))

    def release_free_pages(self, tx: Transaction, spare: float) -> bool:
        """Return up to MAX_PAGES_PER_VACUUM_STEP free pages to the disk; True if there are more."""
        return vacuum_some_pages(tx.raw, spare)

    def checkpoint_write_ahead_log(self) -> None:
        """Run a checkpoint that empties the write-ahead log."""
        with closing(self._connect(self._url)) as raw:
            run_checkpoint(raw)

    def vacuum_database(self) -> str:
        """Run VACUUM if the disk has room for it; return "" or why not."""
        self._empty_idle_list()  # an open connection does not see that the auto-vacuum mode changes
        with closing(self._connect(self._url)) as raw:
            return vacuum_file(raw, self._file)

    def close_idle_connections(self) -> None:
        """Close the idle connections; closing the last one writes the log back."""
        self._empty_idle_list()
        kept, self._open_database_file = self._open_database_file, None
        if kept is not None:
            kept.close()

    def _empty_idle_list(self) -> None:
        idle, self._idle = self._idle, _IdleConnections()
        for connection in idle:
            connection.close()

    def sync_commits(self) -> None:
        """Return once the log is on the disk; DBAPIError if the open file was replaced."""
        if self._open_database_file is not None:
            _wrap_file_errors(self._open_database_file.check_before_commit)
        with suppress(FileNotFoundError):  # SQLite has written it back, and waited for the disk
            sync_to_disk(Path(f"{self._file}-wal"))  # closing it is safe: SQLite locks other files

    def close(self) -> None:
        """Close the connections and release the lock."""
        self.close_idle_connections()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def create_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists.

    SQLite gives the log the same permissions.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def restrict_file_permissions(path: Path) -> None:
    """Make the database and its log files readable by their owner only, if permitted."""
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(FileNotFoundError, PermissionError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def _build_purge_exception(table: str, change: str) -> str:
    if table not in (EMPTIED_COLUMN_BY_TABLE if change == "update" else DELETABLE_TABLES):
        return ""
    column, empty, others, run = EMPTIED_COLUMN_BY_TABLE[table]
    purged = f"(SELECT purged_at FROM run WHERE id = ({run})) IS NOT NULL"  # noqa: S608 # our names
    if change == "delete":
        return f"WHEN NOT ({purged}) "
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in others.split())
    return f"WHEN NOT (NEW.{column} = '{empty}' AND {same} AND {purged}) "


def lock_database(path: Path) -> IO[Any]:
    """Take the exclusive lock beside the database file, held while the returned file is open.

    Raises AlreadyRunningError if another process has it.
    """
    real = path.resolve()  # a link and the file that it names have one lock
    file = os.open(real.with_name(f"{real.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    handle = open(file, "r+")  # noqa: SIM115 # outlives this
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        process = handle.read().strip()
        handle.close()
        who = f" (process {process})" if process.isdecimal() else ""
        raise AlreadyRunningError(
            f"Countersign is already running on {path}{who}; {OTHER_PROCESS_REMEDY}"
        ) from None
    handle.write(f"{os.getpid():<20}\n")  # over the old one: truncating a file waits for the disk
    handle.flush()
    return handle


def is_free(path: Path) -> bool:
    """Return whether surely no process works with the database file."""
    real = path.resolve()
    try:
        with open(real.with_name(f"{real.name}.lock")) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def sync_to_disk(path: Path) -> None:
    """Return once this file, or the file names in this folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_database(engine: Engine, target: Path) -> None:
    """Write a consistent copy of the whole database (VACUUM INTO) to `target`."""
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        # a file left by an earlier try, which VACUUM INTO refuses, is deleted
        part = target.with_name(f"{target.name}.part")
        part.unlink(missing_ok=True)
        create_private_file(part)
        raw.execute("VACUUM INTO ?", (str(part),))
        part.replace(target)
