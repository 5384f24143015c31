"""One database on a PostgreSQL server, which any number of processes write to.

Each writing transaction begins by taking one lock for the whole database. So what it reads still
holds when it commits, in every process: no second code path is needed for several processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from storage.chain import Chain
from storage.digest import KeyFileError
from storage.migrations import SchemaError
from storage.models import APPEND_ONLY, DELETED, EMPTIED
from storage.postgres_session import LOCKS, MIGRATING, READ, SCHEMA, WRITE, ServerSession, connect
from storage.transaction import Row, Trace, Transaction, driver_error

# A transaction on PostgreSQL. Whether it was committed is known even if the connection broke.


class PostgresTransaction(Transaction):
    """A transaction on PostgreSQL."""

    __slots__ = ("_changed", "_return", "_session", "_was_committed")

    def __init__(
        self,
        session: ServerSession,
        give_back: Callable[[ServerSession], None],
        was_committed: Callable[[str], bool],
        dialect: Dialect,
        trace: Trace | None,
        chain: Chain,
        *,
        writes: bool,
    ) -> None:
        """Use a session that has begun the transaction; it goes to `give_back` at the end.

        `was_committed` returns whether a transaction, given by its number, was committed.
        """
        self._session, self._return, self._was_committed = session, give_back, was_committed
        self._changed = False
        self._begin_with(session.raw, dialect, trace, chain, writes=writes, durable=True)

    @property
    def changed(self) -> bool:
        """Return whether the transaction has changed any row."""
        return self._changed

    def overwrite(self) -> None:
        """Do nothing: the server frees deleted rows at its next vacuum."""

    def command(self, sql: str) -> None:
        """Run COMMIT or ROLLBACK."""
        try:
            if sql == "COMMIT" and not self.writes:
                self._session.end_reading()
            else:
                self._session.end(sql)
        except psycopg.Error as error:
            raise driver_error(error, self.dialect, sql, ()) from error

    def _is_open(self) -> bool:
        return self._session.status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def _release(self) -> None:
        self._return(self._session)

    def _fetch(self, sql: str, values: Any) -> tuple[list[Row], int]:
        if type(values) is not list:  # somebody's own words
            found, many = self._session.ask(sql, values or None)
        else:
            try:
                found, many = self._session.run(sql, values)
            except psycopg.DataError:
                cleaned = _without_nul(values)
                if cleaned == values:
                    raise
                found, many = self._session.run(sql, cleaned)
        self._changed = self._changed or (self.writes and many > 0)
        return found, many

    def _commit(self) -> None:
        if self._session.status == TransactionStatus.INERROR:  # COMMIT would roll back, silently
            self._undo()
            raise RuntimeError("a statement of this transaction had failed, and it went on")
        try:
            super()._commit()
        except DBAPIError:
            # the connection is gone: whether the server had heard, it alone knows
            if not (self.writes and self._session.is_broken and self._stands()):
                raise
            if self._trace is not None:
                self._trace.committed(self)

    def _stands(self) -> bool:
        return self._was_committed(self._session.number)


def _without_nul(values: list[Any]) -> list[Any]:
    """Return the values with NUL characters replaced: PostgreSQL cannot store them in text."""
    return [
        each.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(each, str) else each
        for each in values
    ]


# Triggers that make the append-only tables refuse update, delete and truncate.

CHANGES = ("update", "delete", "truncate")


def triggers_made() -> list[str]:
    """Return the DDL of the triggers that refuse update and delete, except for a purge."""
    return [statement for table in APPEND_ONLY for statement in _made(table)]


def triggers_dropped() -> list[str]:
    """Return the DDL that drops those triggers for the time of a migration."""
    return [statement for table in APPEND_ONLY for statement in _dropped(table)]


def _dropped(table: str) -> list[str]:
    return [f'DROP TRIGGER IF EXISTS {table}_no_{change} ON "{table}"' for change in CHANGES]


def _made(table: str) -> list[str]:
    refuse = f"RAISE EXCEPTION '{table} is append-only' USING ERRCODE = '23001'"
    function = f"{table}_append_only"
    return [
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql"
        f" SET search_path TO {SCHEMA} AS $$ BEGIN {_purging(table)} {refuse}; END $$",
        *_dropped(table),
        *(
            f"CREATE TRIGGER {table}_no_{change} BEFORE {change.upper()}"
            f' ON "{table}" FOR EACH {"STATEMENT" if change == "truncate" else "ROW"}'
            f" EXECUTE FUNCTION {function}()"
            for change in CHANGES
        ),
    ]


def _purging(table: str) -> str:
    """Return the trigger code that lets a purge change or delete rows of this table."""
    if table not in EMPTIED:
        return ""
    column, empty, others, run = EMPTIED[table]
    same = " AND ".join(
        f'NEW."{each}" IS NOT DISTINCT FROM OLD."{each}"' for each in others.split()
    )
    purged = f"(SELECT purged_at FROM run WHERE id = ({run})) IS NOT NULL"  # noqa: S608 # our names
    gone = f" IF TG_OP = 'DELETE' THEN IF {purged} THEN RETURN OLD; END IF; END IF;"
    return (
        "IF TG_OP = 'UPDATE' THEN"
        f" IF NEW.{column} = '{empty}' AND {same} AND {purged} THEN RETURN NEW; END IF;"
        f" END IF;{gone if table in DELETED else ''}"
    )


OLDEST = 13  # the version of PostgreSQL that is needed
DOUBT = 10.0  # seconds in which the fate of a commit is asked for


class PostgresDatabase:
    """One database on a server, which any number of processes write to."""

    shared = True
    held = False  # no process has it alone

    def __init__(self, url: URL, path: Path) -> None:
        """Set the address of the database; nothing is connected yet.

        `path`: the path after which the sockets on this machine are named.
        """
        url = url.set(drivername="postgresql+psycopg")
        self._url = url
        self.path = path
        self.engine: Engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
        event.listen(self.engine, "connect", _begin_session)
        self._idle: list[ServerSession] = []

    @property
    def name(self) -> str:
        """Return the address without its password and options."""
        plain = self._url.set(drivername="postgresql", query={})
        return plain.render_as_string(hide_password=True)

    def open(self, *, exclusive: bool) -> None:
        """Check the server's version, its encoding, and that there is a schema for the tables.

        Raises SchemaError if the server cannot be used.
        """
        with self._session() as session:
            found, _ = session.ask(
                "SELECT current_setting('server_version_num'), getdatabaseencoding()"
            )
            version, encoding = int(found[0][0]) // 10_000, found[0][1]
            if version < OLDEST:
                raise SchemaError(
                    f"{self.name} is PostgreSQL {version}; Countersign needs {OLDEST} or newer"
                )
            if encoding != "UTF8":
                raise SchemaError(f"{self.name} holds {encoding}; Countersign needs UTF8")

    def load_key(self) -> bytes:
        """Raise KeyFileError: all processes share the key given in the settings."""
        raise KeyFileError(
            "with PostgreSQL COUNTERSIGN_KEY must be set, the same for every process"
        )

    def prepare(self) -> None:
        """Create the schema if it does not exist."""
        with self._session() as session:
            if not session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,))[0]:
                with self.migrating():
                    session.do(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")

    @contextmanager
    def migrating(self) -> Iterator[None]:
        """Hold the migration lock during the block; wait for it without a time limit."""
        with self._session() as session:
            session.do("SET lock_timeout TO 0; SET statement_timeout TO 0")
            session.do(f"SELECT pg_advisory_lock({LOCKS}, {MIGRATING})")
            try:
                yield
            finally:
                session.close()  # which gives the lock back, in whatever state it is

    def lacks_table(self, error: Exception) -> bool:
        """Return whether PostgreSQL's error is that a table does not exist."""
        return isinstance(getattr(error, "orig", None), psycopg.errors.UndefinedTable)

    def copy_before(self, revision: str) -> None:
        """Do nothing: a migration is one transaction, and backups are the server's task."""

    def append_only(self) -> list[str]:
        """Return the DDL of the append-only triggers and their functions."""
        return triggers_made()

    def not_append_only(self) -> list[str]:
        """Return the DDL that drops the append-only triggers."""
        return triggers_dropped()

    def settle(self) -> None:
        """Do nothing: PostgreSQL needs no further step."""

    def head_note(self, chain: Chain) -> None:
        """Return None: a file on one machine could not follow what other machines write."""

    def begin(
        self, trace: Trace | None, chain: Chain, *, writes: bool, durable: bool
    ) -> PostgresTransaction:
        """Begin a transaction; one that `writes` waits for the other writers."""
        session = self._begun(WRITE if writes else READ)
        dialect = self.engine.dialect
        return PostgresTransaction(
            session, self._give_back, self._was_committed, dialect, trace, chain, writes=writes
        )

    def _begun(self, begin: str) -> ServerSession:
        """Return a session with a begun transaction; skip those that the server ended."""
        while True:
            kept = bool(self._idle)
            try:
                session = self._idle.pop() if kept else self._connected()
            except IndexError:  # another thread was faster
                continue
            try:
                session.begin(begin)
            except psycopg.Error as error:
                ended = session.is_broken
                session.close()
                if not (kept and ended):
                    raise driver_error(error, self.engine.dialect, begin, ()) from error
            except BaseException:
                session.close()
                raise
            else:
                return session

    def _connected(self) -> ServerSession:
        """Return a new session; DBAPIError if the server cannot be reached."""
        _, given = self.engine.dialect.create_connect_args(self._url)
        try:
            return connect(**given)
        except psycopg.Error as error:
            raise driver_error(error, self.engine.dialect, "connect", ()) from error

    @contextmanager
    def _session(self) -> Iterator[ServerSession]:
        """Yield a new session outside a transaction, and close it at the end."""
        session = self._connected()
        try:
            yield session
        except psycopg.Error as error:
            raise driver_error(error, self.engine.dialect, "", ()) from error
        finally:
            session.close()

    def _give_back(self, session: ServerSession) -> None:
        """Keep the session for the next transaction, or close it if it stopped during one."""
        if session.is_free:
            self._idle.append(session)
        else:
            session.close()

    def _was_committed(self, number: str) -> bool:
        """Return whether a transaction was committed whose session broke before saying so.

        False also if the server cannot be asked for too long: then the commit counts as failed, and
        a retry begins from the rows.
        """
        until = time.monotonic() + DOUBT
        while True:
            with suppress(DBAPIError), self._session() as session:
                [[found]], _ = session.ask("SELECT pg_xact_status(%s::xid8)", (number,))
                if found != "in progress":
                    return bool(found == "committed")
            if time.monotonic() > until:
                return False
            time.sleep(0.1)

    def give_back(self, tx: Transaction, spare: float) -> bool:
        """Return False: the server vacuums by itself."""
        return False

    def write_back(self) -> None:
        """Do nothing: the server manages its own log."""

    def rewrite(self) -> str:
        """Return "" and do nothing: the server vacuums by itself."""
        return ""

    def sync(self) -> None:
        """Do nothing: every commit waits for the disk."""

    def disconnect(self) -> None:
        """Close the idle sessions."""
        idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def close(self) -> None:
        """Close the idle sessions; no lock is held."""
        self.disconnect()


def _begin_session(connection: psycopg.Connection[Any], _record: object) -> None:
    """Set the search path of SQLAlchemy's own connections, which migrations use."""
    connection.execute(f"SET search_path TO {SCHEMA}")
    connection.commit()
