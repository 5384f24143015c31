"""SQLite's connections: how one is opened, what it is told first, whose tables it finds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

OURS = {"run", "call", "vote", "audit"}  # every record has these tables, of whichever build
WAIT = 10  # seconds for a lock, also on a database that is only looked at
PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=10000",
    "PRAGMA foreign_keys=ON",
    # a megabyte for each connection: a request reads few pages, and what is big the system keeps
    "PRAGMA cache_size=-1000",
    # INSERT OR REPLACE then fires the delete triggers, so nothing is overwritten
    "PRAGMA recursive_triggers=ON",
    # what is overwritten is zeroes, so that a purge finds it where it thinks it is
    "PRAGMA secure_delete=FAST",
)
DIALECT = SQLiteDialect_pysqlite(dbapi=sqlite3)


class FileConnection(sqlite3.Connection):
    """A connection that knows whether its commits wait until they are on the disk."""

    waits = True

    def wait(self, *, waits: bool) -> None:
        """Have the next commit wait or not. SQLite takes 10 µs for it, so it is told of changes."""
        if waits is not self.waits:
            self.execute(f"PRAGMA synchronous={'FULL' if waits else 'NORMAL'}")
            self.waits = waits


def opened(url: URL) -> FileConnection:
    """A new connection, which was told nothing yet."""
    (name,), options = DIALECT.create_connect_args(url)
    options = {"timeout": WAIT, **options, "check_same_thread": False}
    return sqlite3.connect(name, **options, factory=FileConnection)


def connected(url: URL) -> FileConnection:
    """A new connection, prepared."""
    connection = opened(url)
    try:
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def looking(url: URL) -> FileConnection:
    """A new connection that only reads."""
    uri = f"{Path(url.database or '').absolute().as_uri()}?mode=ro"
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=WAIT,
        isolation_level=None,
        check_same_thread=False,
        factory=FileConnection,
    )


def foreign(path: Path) -> str:
    """What to say of another application's file."""
    return f"{path} is the database of another application; name one of its own in DATABASE_URL"


def is_foreign(path: Path) -> bool:
    """Whether the file at `path` holds another application's tables or marks; it is only read.

    What a death left in a journal beside it is not undone here. Of a record that is one page at
    most, its first: a file is switched to a log by that, and then written by way of the log alone.

    Raises sqlite3.Error where it cannot be read.
    """
    how = "mode=ro"
    if Path(f"{path}-journal").exists():
        how += "&immutable=1"  # else SQLite would want to write what the journal holds
    uri = f"{path.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(uri, uri=True, timeout=WAIT)) as database:
        return holds_foreign(database)


def holds_foreign(database: sqlite3.Connection) -> bool:
    """Whether that database has another application's tables or marks; sqlite3.Error where it
    cannot be read.
    """
    try:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {str(name) for (name,) in found}
    except UnicodeDecodeError:  # SQLite's own complaint names what is not a name
        raise sqlite3.DatabaseError("its schema is damaged") from None
    marks = [
        database.execute(f"PRAGMA {each}").fetchone()[0]
        for each in ("application_id", "user_version")
    ]
    return any(marks) or (bool(tables) and not tables >= OURS)


def prepare(connection: sqlite3.Connection) -> None:
    """Install the pragmas on a connection, and end the driver's own transactions."""
    connection.isolation_level = None
    for pragma in PRAGMAS:
        connection.execute(pragma)


def prepare_all(engine: Engine) -> None:
    """Prepare every connection of SQLAlchemy's `engine`, whose transactions begin as they say."""

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: object) -> None:
        prepare(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN DEFERRED")
