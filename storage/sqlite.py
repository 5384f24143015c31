"""All that is SQLite's own: pragmas, who may begin what, the one-process lock, the append-only
triggers.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, event

APPEND_ONLY = ("audit", "revision", "vote", "answer", "attempt", "item", "mode")
# The one change that is let through, in rows of a request that is marked as purged: this column is
# emptied, and these others stay as they are; and which request a row is part of.
OF_RUN = "OLD.run_id"
OF_CALL = 'SELECT run_id FROM "call" WHERE id = OLD.call_id'
EMPTIED = {
    "audit": (
        "payload",
        "",
        "seq at run_id call_id actor event data key_id previous hash",
        OF_RUN,
    ),
    "revision": ("arguments", "{}", "seq call_id number digest author created_at", OF_CALL),
    "answer": ("given", "{}", "seq call_id revision person declined created_at", OF_CALL),
    "item": ("body", "{}", "seq run_id turn created_at", OF_RUN),
}
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
    handle.truncate(0)
    handle.write(str(os.getpid()))
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
