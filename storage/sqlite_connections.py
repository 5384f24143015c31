"""SQLite connections, and checks that the open file is still the one its path names.

SQLite does not report this in write-ahead mode. It goes on writing to a file that was removed or
replaced, and those writes are lost when the process ends.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

REQUIRED_TABLES = {"run", "call", "vote", "audit"}  # every build's record has these
LOCK_TIMEOUT_SECONDS = 10  # also when a database is only inspected
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=10000",
    "PRAGMA foreign_keys=ON",
    # a megabyte for each connection: a request reads few pages, and the system caches the others
    "PRAGMA cache_size=-1000",
    # makes INSERT OR REPLACE fire the delete triggers, so nothing is overwritten
    "PRAGMA recursive_triggers=ON",
    # overwritten content is zeroed, so that no old copy is left that a purge would miss
    "PRAGMA secure_delete=FAST",
)
DIALECT = SQLiteDialect_pysqlite(dbapi=sqlite3)


class SyncSwitchConnection(sqlite3.Connection):
    """A connection that knows whether its commits wait for the disk."""

    waits_for_disk = True

    def set_waits_for_disk(self, *, waits: bool) -> None:
        """Set whether commits wait for the disk; the pragma (10 µs) is run only on a change."""
        if waits is not self.waits_for_disk:
            self.execute(f"PRAGMA synchronous={'FULL' if waits else 'NORMAL'}")
            self.waits_for_disk = waits


def open_plain_connection(url: URL) -> SyncSwitchConnection:
    """Return a new connection without pragmas set."""
    (name,), options = DIALECT.create_connect_args(url)
    options = {"timeout": LOCK_TIMEOUT_SECONDS, **options, "check_same_thread": False}
    return sqlite3.connect(name, **options, factory=SyncSwitchConnection)


def open_prepared_connection(url: URL) -> SyncSwitchConnection:
    """Return a new connection with the pragmas set."""
    with close_on_error(open_plain_connection(url)) as connection:
        prepare_connection(connection)
        return connection


@contextmanager
def close_on_error(connection: SyncSwitchConnection) -> Iterator[SyncSwitchConnection]:
    """Yield the connection, and close it if the block raises."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def open_read_only_connection(url: URL) -> SyncSwitchConnection:
    """Return a new read-only connection."""
    uri = f"{Path(url.database or '').absolute().as_uri()}?mode=ro"
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=LOCK_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=SyncSwitchConnection,
    )


def describe_file_problem(path: Path) -> str:
    """Return why what is at `path` cannot be a database; "" for a file, or if nothing is there."""
    if path.is_dir():
        return f"{path} is a folder, not a database"
    if path.exists() and not path.is_file():
        return f"{path} is a device or the like, not a database"
    return ""


def foreign_file_sentence(path: Path) -> str:
    """Return the message for a file that belongs to another application."""
    return f"{path} is the database of another application; name one of its own in DATABASE_URL"


def is_foreign_file(path: Path) -> bool:
    """Return whether the file at `path` is another application's; it is only read.

    A leftover rollback journal is not applied. In a Countersign file it could only affect the first
    page, which is written to switch the file to write-ahead mode; all later writes go through the
    write-ahead log.

    Raises sqlite3.Error if the file cannot be read.
    """
    how = "mode=ro"
    if Path(f"{path}-journal").exists():
        how += "&immutable=1"  # else SQLite would try to write back the journal
    uri = f"{path.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_SECONDS)) as database:
        return has_foreign_content(database)


def has_foreign_content(database: sqlite3.Connection) -> bool:
    """Return whether the database has another application's tables, id or version number.

    Raises sqlite3.Error if it cannot be read.
    """
    try:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {str(name) for (name,) in found}
    except UnicodeDecodeError:  # SQLite's own error names what cannot be decoded
        raise sqlite3.DatabaseError("its schema is damaged") from None
    marks = [read_pragma(database, each) for each in ("application_id", "user_version")]
    return any(marks) or (bool(tables) and not tables >= REQUIRED_TABLES)


def prepare_connection(connection: sqlite3.Connection) -> None:
    """Set the pragmas on a connection, and turn off the driver's own transactions."""
    connection.isolation_level = None
    for pragma in PRAGMAS:
        connection.execute(pragma)


def prepare_engine_connections(engine: Engine) -> None:
    """Prepare every connection of an SQLAlchemy engine, with transactions begun as DEFERRED."""

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: object) -> None:
        prepare_connection(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN DEFERRED")


log = logging.getLogger("countersign.store")
SELECT_LAST_AUDIT_ROW = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
RETRY_SECONDS = (0.01, 0.05, 0.2)  # between checks of a file that seems to be a different one
SELECT_AUDIT_HASH = "SELECT hash FROM audit WHERE seq = ?"
STOP_TEXT = "nothing is stored and nothing runs until"
PUT_BACK_REMEDY_TEXT = (
    f"{STOP_TEXT} it is put back; otherwise stop Countersign, restore a copy"
    " (countersign restore) and start it again"
)
RESTART_REMEDY_TEXT = f"{STOP_TEXT} Countersign is stopped normally and started again"


class LostFileError(sqlite3.OperationalError):
    """Raised when the open database file is no longer the one its path names.

    It carries SQLite's own error code for that, so callers treat it as a temporary fault.
    """

    def __init__(self, what: str, remedy: str = PUT_BACK_REMEDY_TEXT) -> None:
        super().__init__(f"{what}; {remedy}")
        self.sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED
        self.sqlite_errorname = "SQLITE_READONLY_DBMOVED"


class OpenFileGuard:
    """Checks that the database file, its log and the log's index are still those that were opened.

    A connection to them is kept open, so that no other file can get their inode numbers.
    """

    def __init__(self, path: Path, file: Path, connection: SyncSwitchConnection) -> None:
        """Remember the files; `file` is `path` with links resolved.

        `connection` must have read already, and is closed by `close`. Raises OSError if one of the
        files is gone already.
        """
        self.path = path
        self._connection = connection
        self._paths = (str(path), f"{file}-wal", f"{file}-shm")
        found = [os.stat(name) for name in self._paths]
        self._identities = [(each.st_ino, each.st_dev) for each in found]
        self._checked_state = (0, 0)  # when the database file was last written, and its length
        self._log_length = 0
        self._checked_head: tuple[int, str] = (0, "")  # newest audit row, read without the log
        self._is_lost = False

    def check_before_commit(self) -> None:
        """Raise LostFileError if a commit would be lost; the caller holds the writers' lock.

        It is cheap: three `stat` calls, and more only if the database file was written to.
        """
        try:
            self._check_files()
        except LostFileError as error:
            if not self._is_lost:
                log.critical("the database is lost: %s", error)
            self._is_lost = True
            raise
        if self._is_lost:
            self._is_lost = False
            log.warning("the database is back: %s", self.path)

    def close(self) -> None:
        """Close the kept connection; closing the last connection writes the log back."""
        self._connection.close()

    def check_file_identities(self) -> list[os.stat_result]:
        """Return the files' states; LostFileError if a new connection would open another file."""
        found = []
        for name, own in zip(self._paths, self._identities, strict=True):
            try:
                each = os.stat(name)
            except OSError as error:
                gone = f"{name} is gone ({error.strerror})"
                raise self._build_lost_file_error(name, gone) from None
            if (each.st_ino, each.st_dev) != own:
                raise self._build_lost_file_error(name, f"another file has replaced {name}")
            found.append(each)
        return found

    def _build_lost_file_error(self, name: str, what: str) -> LostFileError:
        if name == self._paths[0]:
            return LostFileError(what)
        # stored rows are in the log, which is still open: write them into the database now
        saved = self._save_log_and_describe()
        return LostFileError(f"{what}, and {saved}", RESTART_REMEDY_TEXT)

    def _save_log_and_describe(self) -> str:
        try:
            whole = self._try_to_write_back_log()
        except sqlite3.Error as error:
            return f"what was in it could not be saved ({error})"
        return "what was in it is saved" if whole else "what was in it is saved in part"

    def _check_files(self) -> None:
        main, written, _ = self.check_file_identities()
        if not main.st_mode & 0o222:
            raise LostFileError(f"{self.path} is read-only since its mode was changed")
        state = (main.st_mtime_ns, main.st_size)
        if state != self._checked_state:
            self._check_database_file()
        if written.st_size < self._log_length:
            self._check_shortened_log(written.st_size)
        self._log_length = written.st_size

    def _check_database_file(self) -> None:
        """Check that the database file was not overwritten, once all of its log is written back.

        Before that the file is rightly half old and half new. If that cannot be done now, the next
        commit tries again. Another thread may commit meanwhile, so only a fault that persists
        counts.
        """
        for pause in (*RETRY_SECONDS, None):
            try:
                if not self._try_to_write_back_log():
                    return
                main = os.stat(self.path)
                self._checked_head = self._read_head_without_log(main.st_size)
            except sqlite3.Error as error:
                if pause is None and not isinstance(error, LostFileError):
                    raise LostFileError(f"{self.path} was overwritten ({error})") from None
                if pause is None:
                    raise
                time.sleep(pause)
            else:
                self._checked_state = (main.st_mtime_ns, main.st_size)
                return

    def _try_to_write_back_log(self) -> bool:
        busy, frames, done = self._connection.execute("PRAGMA wal_checkpoint").fetchone()
        return not busy and frames == done

    def _read_head_without_log(self, length: int) -> tuple[int, str]:
        """Return the newest audit row in the database file, read without its log.

        Raises LostFileError if the file is another application's, cut short, or older than before.
        """
        changed = f"{self.path} was overwritten"
        try:
            # such a connection reads neither the log nor the locks
            uri = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_SECONDS)) as alone:
                if has_foreign_content(alone):
                    raise LostFileError(f"{changed} by the database of another application")
                pages = read_pragma(alone, "page_count")
                pages *= read_pragma(alone, "page_size")
                head = (
                    alone.execute(SELECT_LAST_AUDIT_ROW).fetchone()
                    if _has_audit_table(alone)
                    else None
                )
            there = (
                self._connection.execute(SELECT_AUDIT_HASH, head[:1]).fetchone() if head else None
            )
        except LostFileError:
            raise
        except sqlite3.Error as error:
            raise LostFileError(f"{changed} or cut short ({error})") from None
        if not length or pages > length:
            raise LostFileError(f"{self.path} was cut short")
        seq, seal = head or (0, "")
        if seq < self._checked_head[0] or (head and there != (seal,)):
            raise LostFileError(f"{changed} by another record or an older copy")
        return seq, seal

    def _check_shortened_log(self, length: int) -> None:
        """Check a log that has become shorter: it must still hold all frames that SQLite counts."""
        try:
            _, frames, _ = self._connection.execute("PRAGMA wal_checkpoint").fetchone()
            page = read_pragma(self._connection, "page_size")
        except sqlite3.Error as error:
            raise LostFileError(f"{self._paths[1]} was cut short ({error})") from None
        if frames * (page + 24) > length:  # each frame has a page and a header of 24 bytes
            raise LostFileError(f"{self._paths[1]} was cut short")


def read_pragma(database: sqlite3.Connection, name: str) -> int:
    """Return the value of a pragma that is a number."""
    with closing(database.execute(f"PRAGMA {name}")) as found:
        return int(found.fetchone()[0])


def _has_audit_table(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit'").fetchall())
