"""The SQLite backend: one file, one process; pragmas, the lock, the append-only triggers."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from sqlmodel import create_engine

from storage.chain import Chain
from storage.digest import key_path, load_key
from storage.migrations import SchemaError
from storage.models import APPEND_ONLY, DELETED, EMPTIED
from storage.sqlite_connections import (
    DIALECT,
    FileConnection,
    LostFileError,
    OpenFile,
    foreign_file_sentence,
    holds_foreign,
    is_foreign,
    open_connection,
    open_prepared,
    prepare,
    prepare_all,
)
from storage.trail import HeadFile, head_path
from storage.transaction import Trace, Transaction, driver_error

# Free pages of an SQLite file: returned to the disk step by step, or all at once.

STEP = 400  # pages that are given back in one transaction
SOON = 200  # milliseconds in which readers may end
INCREMENTAL = 2  # what SQLite answers of a file that can


def keep_track(raw: sqlite3.Connection) -> None:
    """Turn on incremental vacuum for a file that is empty or about to be rewritten."""
    raw.execute("PRAGMA auto_vacuum=INCREMENTAL")


def give_back(raw: sqlite3.Connection, spare: float) -> bool:
    """Return at most STEP free pages to the disk in this transaction; True if there are more.

    `spare`: the share of the file's pages that may stay free.
    """
    if _pragma(raw, "auto_vacuum") != INCREMENTAL:
        return False
    too_many = _pragma(raw, "freelist_count") - int(spare * _pragma(raw, "page_count"))
    if too_many > 0:
        for _ in range(min(too_many, STEP)):  # the driver steps a statement without columns once
            raw.execute("PRAGMA incremental_vacuum(1)")
    return too_many > STEP


def write_back(raw: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file and empty it, unless a reader needs it for longer."""
    waits = _pragma(raw, "busy_timeout")
    raw.execute(f"PRAGMA busy_timeout={SOON}")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    raw.execute(f"PRAGMA busy_timeout={waits}")


def rewrite(raw: sqlite3.Connection, path: Path) -> str:
    """Rewrite the file at `path` without free pages, and empty the log; return "" or why not.

    If the disk has no room for a second copy, free pages are returned step by step instead.
    """
    size = _pragma(raw, "page_size") * (_pragma(raw, "page_count") - _pragma(raw, "freelist_count"))
    needed = 2 * size  # SQLite writes all of it aside first, and then into the log
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        why = f"that takes {needed:,} bytes on the disk, and {free:,} are free"
    else:
        try:
            keep_track(raw)
            raw.execute("VACUUM")
            why = ""
        except sqlite3.OperationalError as error:
            why = str(error)
    if why:
        _bit_by_bit(raw)
    write_back(raw)
    return why


def _bit_by_bit(raw: sqlite3.Connection) -> None:
    more = True
    while more:
        raw.execute("BEGIN IMMEDIATE")
        more = give_back(raw, 0.0)
        raw.execute("COMMIT")


def _pragma(raw: sqlite3.Connection, name: str) -> int:
    with closing(raw.execute(f"PRAGMA {name}")) as found:
        return int(found.fetchone()[0])


KEPT = 8  # connections between transactions: a burst takes more, each of which has caches


class AlreadyRunningError(Exception):
    """Raised when another process holds the lock of this database."""


class _Idle(list[FileConnection]):
    """Idle connections; the one returned last is used first."""

    def keep(self, connection: FileConnection) -> None:
        """Take back a connection, or close it if there are enough."""
        if len(self) < KEPT:
            self.append(connection)
        else:
            connection.close()


class FileTransaction(Transaction):
    """A transaction on a file; a durable commit fails if the file is no longer there.

    The contents of other commits are made public only after `sync`, which checks as well.
    """

    __slots__ = ("file",)

    file: OpenFile | None

    def command(self, sql: str) -> None:
        """Run BEGIN, COMMIT or ROLLBACK."""
        if sql == "COMMIT" and self.durable and self.file is not None:
            try:
                self.file.check()
            except LostFileError as error:
                raise driver_error(error, self.dialect, sql, ()) from error
        super().command(sql)


class SqliteFile:
    """One SQLite file, which one process writes to; see `storage.backend.Backend`."""

    shared = False

    def __init__(self, url: URL, connect: Callable[[URL], FileConnection] = open_prepared) -> None:
        """Set the file's URL without opening it; `connect` creates its connections."""
        self.path = Path(url.database or "")
        self._file = self.path  # as SQLite knows it once it is open, links followed
        self._lock: IO[Any] | None = None
        self._open_file: OpenFile | None = None  # once it stands, where this process writes it
        self._url, self._connect = url, connect
        # Connections are kept between transactions; the last one given back is taken first. They
        # are not SQLAlchemy's: its pools take 15 µs for what a list does in one, and a request has
        # thirty transactions.
        self._idle = _Idle()

    @cached_property
    def engine(self) -> Engine:
        """Return an SQLAlchemy engine for migrations, with its own connections.

        Disposing of it closes this object's idle connections as well.
        """
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            connect_args={"check_same_thread": False},
            hide_parameters=True,  # errors are logged
        )
        prepare_all(engine)
        event.listen(engine, "engine_disposed", lambda _: self.disconnect())
        return engine

    @property
    def held(self) -> bool:
        """Return whether this process has the lock."""
        return self._lock is not None

    @property
    def name(self) -> str:
        """Return the file's path."""
        return str(self.path)

    def open(self, *, exclusive: bool) -> None:
        """Check the file and, if `exclusive`, lock it.

        Raises AlreadyRunningError, and SchemaError for another application's file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.resolve()
        with ExitStack() as undone:
            found = self._found()
            if found is not None:
                undone.callback(found.close)
            if exclusive:
                self._lock = lock(self.path)
                undone.callback(self.close)
            if found is not None:
                prepare(found)
                self._idle.append(found)
            undone.pop_all()

    def _found(self) -> FileConnection | None:
        """Return a first, unprepared connection to the file; None if there is no file.

        Raises SchemaError for another application's file.
        """
        if not self._file.exists():
            return None
        # what a crash left behind is its owner's to mend, which whoever may write does unasked
        left = (Path(f"{self._file}-{each}") for each in ("journal", "wal"))
        if any(each.exists() for each in left) and is_foreign(self._file):
            raise SchemaError(foreign_file_sentence(self.path))
        connection = open_connection(self._url)
        try:
            if holds_foreign(connection):
                raise SchemaError(foreign_file_sentence(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def load_key(self) -> bytes:
        """Return the key in the file beside the database, created on first use."""
        return load_key(key_path(self.path))

    def prepare(self) -> None:
        """Create the file if it does not exist."""
        create(self._file)
        if not self._file.stat().st_size:
            connection = open_connection(self._url)
            try:
                keep_track(connection)  # before the first page is written
                prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    @contextmanager
    def migrating(self) -> Iterator[None]:
        """Do nothing: the lock already keeps other processes out."""
        yield

    def lacks_table(self, error: Exception) -> bool:
        """Return whether SQLite's error is that a table does not exist."""
        orig = getattr(error, "orig", None)
        return isinstance(error, OperationalError) and "no such table" in str(orig)

    def copy_before(self, revision: str) -> None:
        """Copy the file to one beside it that is named after the revision."""
        copy_to(self.engine, self.path.with_name(f"{self.path.name}.before-{revision}"))

    def append_only(self) -> list[str]:
        """Return the DDL of the append-only triggers."""
        return append_only_triggers()

    def not_append_only(self) -> list[str]:
        """Return the DDL that drops the triggers; with them, tables cannot be recreated."""
        return without_triggers()

    def settle(self) -> None:
        """Make the files readable by their owner only, and start checking that they stay."""
        make_private(self._file)
        if self.held:
            kept = self._connect(self._url)
            kept.execute("SELECT 1 FROM sqlite_master").fetchall()
            self._open_file = OpenFile(self.path, self._file, kept)

    def head_note(self, chain: Chain) -> HeadFile:
        """Return the head file beside the database."""
        return HeadFile(head_path(self.path), chain)

    def begin(
        self, trace: Trace | None, chain: Chain, *, writes: bool, durable: bool
    ) -> Transaction:
        """Begin a transaction; one that `writes` takes the write lock at once, before it reads."""
        idle = self._idle  # where it goes back to, and nobody looks once all were disconnected
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connected()
        try:
            if writes:
                connection.wait(waits=durable)
            tx = FileTransaction(
                connection,
                idle.keep,
                DIALECT,
                trace,
                chain,
                writes=writes,
                durable=durable,
            )
            tx.file = self._open_file
            tx.command("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")
        except BaseException:
            connection.close()
            raise
        return tx

    def _connected(self) -> FileConnection:
        """Return a new connection to the open file; fail if the file is gone, not recreate it."""
        if self._open_file is not None:
            self._unless_lost(self._open_file.is_there)
        return self._connect(self._url)

    def _unless_lost(self, look: Callable[[], None]) -> None:
        try:
            look()
        except LostFileError as error:
            raise driver_error(error, DIALECT, "", ()) from error

    def give_back(self, tx: Transaction, spare: float) -> bool:
        """Return up to STEP free pages to the disk; True if there are more."""
        return give_back(tx.raw, spare)

    def write_back(self) -> None:
        """Run a checkpoint that empties the write-ahead log."""
        with closing(self._connect(self._url)) as raw:
            write_back(raw)

    def rewrite(self) -> str:
        """Run VACUUM if the disk has room for it; return "" or why not."""
        self._close_idle()  # a connection knows from its beginning whether a file keeps track
        with closing(self._connect(self._url)) as raw:
            return rewrite(raw, self._file)

    def disconnect(self) -> None:
        """Close the idle connections; closing the last one writes the log back."""
        self._close_idle()
        kept, self._open_file = self._open_file, None
        if kept is not None:
            kept.close()

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, _Idle()
        for connection in idle:
            connection.close()

    def sync(self) -> None:
        """Return once the log is on the disk; DBAPIError if the open file was replaced."""
        if self._open_file is not None:
            self._unless_lost(self._open_file.check)
        sync(self._file)

    def close(self) -> None:
        """Close the connections and release the lock."""
        self.disconnect()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def create(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists.

    SQLite gives the log the same permissions.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def make_private(path: Path) -> None:
    """Make the database and its log files readable by their owner only, if permitted."""
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(FileNotFoundError, PermissionError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def append_only_triggers() -> list[str]:
    """Return DDL that makes the append-only tables refuse update and delete.

    Only a purge is let through.
    """
    return [
        f"CREATE TRIGGER IF NOT EXISTS {table}_no_{change} BEFORE {change.upper()} ON {table} "
        f"{_but_for_a_purge(table, change)}"
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in APPEND_ONLY
        for change in ("update", "delete")
    ]


def without_triggers() -> list[str]:
    """Return the DDL that drops the append-only triggers for the time of a migration."""
    return [
        f"DROP TRIGGER IF EXISTS {table}_no_{change}"
        for table in APPEND_ONLY
        for change in ("update", "delete")
    ]


def _but_for_a_purge(table: str, change: str) -> str:
    if table not in (EMPTIED if change == "update" else DELETED):
        return ""
    column, empty, others, run = EMPTIED[table]
    purged = f"(SELECT purged_at FROM run WHERE id = ({run})) IS NOT NULL"  # noqa: S608 # our names
    if change == "delete":
        return f"WHEN NOT ({purged}) "
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in others.split())
    return f"WHEN NOT (NEW.{column} = '{empty}' AND {same} AND {purged}) "


def lock(path: Path) -> IO[Any]:
    """Take the exclusive lock beside the database file, held while the returned file is open.

    Raises AlreadyRunningError if another process has it.
    """
    file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    handle = open(file, "r+")  # noqa: SIM115 # outlives this
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        process = handle.read().strip()
        handle.close()
        who = f" (process {process})" if process.isdecimal() else ""
        raise AlreadyRunningError(
            f"Countersign is already running on {path}{who}; stop that one first"
        ) from None
    handle.write(f"{os.getpid():<20}\n")  # over the last one: emptying a file waits for the disk
    handle.flush()
    return handle


def sync(path: Path) -> None:
    """Return once everything committed to the database at `path` is on the disk."""
    try:
        # SQLite's locks are on other files, so closing this one drops none
        log = os.open(f"{path}-wal", os.O_RDONLY)
    except FileNotFoundError:  # written back into the database, which SQLite did wait for
        return
    try:
        os.fsync(log)
    finally:
        os.close(log)


def copy_to(engine: Engine, target: Path) -> None:
    """Write a consistent copy of the whole database (VACUUM INTO) to `target`."""
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        # VACUUM INTO refuses a file that an earlier try left behind
        part = target.with_name(f"{target.name}.part")
        part.unlink(missing_ok=True)
        create(part)
        raw.execute("VACUUM INTO ?", (str(part),))
        part.replace(target)
