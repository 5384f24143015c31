"""All that is SQLite's own: one file, one process; pragmas, the lock, the append-only triggers."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Connection, Engine, PoolProxiedConnection, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from sqlmodel import create_engine

from storage.append_only import APPEND_ONLY, EMPTIED
from storage.chain import Chain
from storage.digest import key_path, load_key
from storage.head_file import HeadFile, head_path
from storage.migrations import SchemaError
from storage.transaction import Trace, Transaction

WAIT = 10  # seconds for a lock on a database that is looked at
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=10000",
    "PRAGMA foreign_keys=ON",
    # INSERT OR REPLACE then fires the delete triggers, so nothing is overwritten
    "PRAGMA recursive_triggers=ON",
    # what is overwritten is zeroes, so that a purge finds it where it thinks it is
    "PRAGMA secure_delete=FAST",
)


class AlreadyRunningError(Exception):
    """Another process holds this database."""


class SqliteFile:
    """One SQLite file, which one process writes; see `storage.backend.Backend`."""

    shared = False

    def __init__(self, url: URL) -> None:
        """The file that `url` names; nothing is touched yet."""
        self.path = Path(url.database or "")
        self._file = self.path  # as SQLite knows it once it is open, links followed
        self._lock: IO[Any] | None = None
        self.engine: Engine = create_engine(
            url,
            poolclass=NullPool,
            connect_args={"check_same_thread": False},
            hide_parameters=True,  # errors are logged
        )
        prepare(self.engine)
        # Connections are kept between transactions, until the engine is disposed of; the last one
        # given back is taken first. SQLAlchemy's pools take 15 µs for what a list does in one; a
        # request has thirty transactions.
        self._idle: list[PoolProxiedConnection] = []
        event.listen(self.engine, "engine_disposed", lambda _: self.disconnect())

    @property
    def held(self) -> bool:
        """Whether this process has the lock."""
        return self._lock is not None

    @property
    def name(self) -> str:
        """The file's path."""
        return str(self.path)

    def open(self, *, exclusive: bool) -> None:
        """Lock it, unless not `exclusive`; AlreadyRunningError, SchemaError for another's file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.resolve()
        if self._file.exists() and is_foreign(self._file):
            raise SchemaError(foreign(self.path))
        if exclusive:
            self._lock = lock(self.path)

    def load_key(self) -> bytes:
        """The key in the file beside it, made on first use."""
        return load_key(key_path(self.path))

    def prepare(self) -> None:
        """Make the file."""
        create(self._file)

    @contextmanager
    def migrating(self) -> Iterator[None]:
        """The lock holds off others already."""
        yield

    def lacks_table(self, error: Exception) -> bool:
        """Whether SQLite says so."""
        orig = getattr(error, "orig", None)
        return isinstance(error, OperationalError) and "no such table" in str(orig)

    def copy_before(self, revision: str) -> None:
        """A copy of the file beside it."""
        copy_to(self.engine, self.path.with_name(f"{self.path.name}.before-{revision}"))

    def append_only(self) -> list[str]:
        """Triggers."""
        return append_only_triggers()

    def not_append_only(self) -> list[str]:
        """Their end: a table that another one's trigger reads cannot be made anew."""
        return without_triggers()

    def settle(self) -> None:
        """Let nobody but their owner read the files."""
        make_private(self._file)

    def head_note(self, chain: Chain) -> HeadFile:
        """The head file beside it."""
        return HeadFile(head_path(self.path), chain)

    def begin(
        self, trace: Trace | None, chain: Chain, *, writes: bool, durable: bool
    ) -> Transaction:
        """Begin at once where it `writes`, so that reading first never fails later."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.engine.raw_connection()
        try:
            if writes:
                raw: Any = connection.driver_connection
                wait_for_the_disk(raw, wait=durable)
            tx = Transaction(
                connection,
                self._idle.append,
                self.engine.dialect,
                trace,
                chain,
                writes=writes,
                durable=durable,
            )
            tx.command("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")
        except BaseException:
            connection.close()
            raise
        return tx

    def disconnect(self) -> None:
        """Close those that are idle, the last of which writes the log back."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def sync(self) -> None:
        """Have the log on the disk."""
        sync(self._file)

    def close(self) -> None:
        """Give back connections and the lock."""
        self.disconnect()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def foreign(path: Path) -> str:
    """What to say of another application's file."""
    return f"{path} is the database of another application; name one of its own in DATABASE_URL"


def is_foreign(path: Path) -> bool:
    """Whether the file at `path` holds another application's tables or marks; it is only read.

    Raises sqlite3.Error where it cannot be read.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=WAIT)) as database:
        try:
            found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {str(name) for (name,) in found}
        except UnicodeDecodeError:  # SQLite's own complaint names what is not a name
            raise sqlite3.DatabaseError("its schema is damaged") from None
        marks = [
            database.execute(f"PRAGMA {each}").fetchone()[0]
            for each in ("application_id", "user_version")
        ]
    return any(marks) or (bool(tables) and not {"alembic_version", *APPEND_ONLY} <= tables)


def prepare(engine: Engine) -> None:
    """Install pragmas and explicit transactions on every connection of `engine`."""

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: object) -> None:
        # the driver's own implicit BEGIN is off; ours below is the only one
        connection.isolation_level = None
        for pragma in PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN DEFERRED")  # migrations; the store begins its own


def create(path: Path) -> None:
    """Make an empty file that only its owner reads, unless there is a file; SQLite goes by it."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def make_private(path: Path) -> None:
    """Let nobody but their owner read a database and its log, as far as that is ours to say."""
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(FileNotFoundError, PermissionError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def wait_for_the_disk(raw: sqlite3.Connection, *, wait: bool) -> None:
    """Say whether the next commit on this connection waits until it is on the disk."""
    raw.execute(f"PRAGMA synchronous={'FULL' if wait else 'NORMAL'}")


def append_only_triggers() -> list[str]:
    """DDL that makes the append-only tables refuse update and delete, but for a purge."""
    return [
        f"CREATE TRIGGER IF NOT EXISTS {table}_no_{change} BEFORE {change.upper()} ON {table} "
        f"{_but_for_a_purge(table) if change == 'update' else ''}"
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in APPEND_ONLY
        for change in ("update", "delete")
    ]


def without_triggers() -> list[str]:
    """DDL that takes them away, for the time of a migration."""
    return [
        f"DROP TRIGGER IF EXISTS {table}_no_{change}"
        for table in APPEND_ONLY
        for change in ("update", "delete")
    ]


def _but_for_a_purge(table: str) -> str:
    if table not in EMPTIED:
        return ""
    column, empty, others, run = EMPTIED[table]
    same = " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in others.split())
    purged = f"(SELECT purged_at FROM run WHERE id = ({run})) IS NOT NULL"  # noqa: S608 # our names
    return f"WHEN NOT (NEW.{column} = '{empty}' AND {same} AND {purged}) "


def lock(path: Path) -> IO[Any]:
    """Take the exclusive lock beside the database file; the lock lives as long as the returned file
    is open.

    Raises AlreadyRunningError when another process has it.
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
    """A consistent copy of the whole database (VACUUM INTO), taken before a migration."""
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        # VACUUM INTO refuses a file that an earlier try left behind
        part = target.with_name(f"{target.name}.part")
        part.unlink(missing_ok=True)
        create(part)
        raw.execute("VACUUM INTO ?", (str(part),))
        part.replace(target)
