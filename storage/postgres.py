"""One database on a PostgreSQL server, which any number of processes write to.

Each writing transaction begins by taking one lock for the whole database. So what it reads still
holds when it commits, in every process: no second code path is needed for several processes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from storage import postgres_place, postgres_session, record_copies, trail, workspace_owners
from storage.backend import Backend, require_schema_name
from storage.database_errors import OlderRecordError
from storage.digest import AuditChainSealer, KeyFileError
from storage.migrations import SchemaError
from storage.models import APPEND_ONLY_TABLES, DELETABLE_TABLES, EMPTIED_COLUMN_BY_TABLE
from storage.transaction import (
    Row,
    StoreClosedError,
    Trace,
    Transaction,
    replace_nul_characters,
    wrap_driver_error,
)

log = logging.getLogger("countersign.store")


class PostgresTransaction(Transaction):
    """A transaction on PostgreSQL; whether it was committed is known even if its session broke."""

    def __init__(
        self,
        session: postgres_session.PostgresServerSession,
        give_back: Callable[[postgres_session.PostgresServerSession], None],
        was_committed: Callable[[str], bool],
        dialect: Dialect,
        trace: Trace | None,
        chain: AuditChainSealer,
        *,
        writes: bool,
    ) -> None:
        """Use a session that has begun the transaction; it goes to `give_back` at the end.

        `was_committed` returns whether a transaction, given by its number, was committed.
        """
        self._session, self._was_committed = session, was_committed
        super().__init__(session.raw, give_back, dialect, trace, chain, writes=writes, durable=True)

    @property
    def session(self) -> postgres_session.PostgresServerSession:
        """Return the session that the transaction uses."""
        return self._session

    def overwrite_erased_data(self) -> None:
        """Do nothing: the server frees deleted rows at its next vacuum."""

    def run_begin_commit_or_rollback(self, sql: str) -> None:
        """Run COMMIT or ROLLBACK; BEGIN is up to the session."""
        try:
            if sql == "COMMIT" and not self.writes:
                self._session.commit_read_without_waiting()
            else:
                self._session.end_transaction(sql)
        except psycopg.Error as error:
            raise wrap_driver_error(error, self.dialect, sql, ()) from error

    def _is_in_progress(self) -> bool:
        return self._session.status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def _release_connection(self) -> None:
        self._give_back(self._session)

    def _run_and_fetch(self, sql: str, values: Any) -> tuple[list[Row], int]:
        if type(values) is not list:  # not a compiled statement, but SQL text
            return self._session.run_psycopg_statement(sql, values or None)
        try:
            return self._session.run_statement(sql, values)
        except psycopg.DataError:
            cleaned = [*map(replace_nul_characters, values)]
            if cleaned == values:
                raise
            return self._session.run_statement(sql, cleaned)

    def _commit(self) -> None:
        if self._session.status == TransactionStatus.INERROR:  # COMMIT would silently roll back
            self._roll_back()
            raise RuntimeError("a statement of this transaction had failed, and it went on")
        try:
            super()._commit()
        except DBAPIError:
            # the connection is lost: only the server knows whether it has committed
            is_in_doubt = self.writes and self._session.is_broken
            if not (is_in_doubt and self._was_committed(self._session.number)):
                raise
            if self._trace is not None:
                self._trace.after_commit(self)


GUARDED_CHANGES = ("update", "delete", "truncate")


def _build_table_drop_triggers(table: str) -> list[str]:
    return [
        f'DROP TRIGGER IF EXISTS {table}_no_{change} ON "{table}"' for change in GUARDED_CHANGES
    ]


def _build_table_create_triggers(table: str, schema: str) -> list[str]:
    refuse = f"RAISE EXCEPTION '{table} is append-only' USING ERRCODE = '23001'"
    function = f"{table}_append_only"
    return [
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SET "
        f"search_path TO {schema} AS $$ BEGIN {_build_purge_exception(table)} "
        f"{refuse}; END $$",
        *_build_table_drop_triggers(table),
        *(
            f"CREATE TRIGGER {table}_no_{change} BEFORE {change.upper()}"
            f' ON "{table}" FOR EACH {"STATEMENT" if change == "truncate" else "ROW"}'
            f" EXECUTE FUNCTION {function}()"
            for change in GUARDED_CHANGES
        ),
    ]


def _build_purge_exception(table: str) -> str:
    """Return the trigger code that lets a purge change or delete rows of this table."""
    if table not in EMPTIED_COLUMN_BY_TABLE:
        return ""
    column, empty, others, run = EMPTIED_COLUMN_BY_TABLE[table]
    same = " AND ".join(
        f'NEW."{each}" IS NOT DISTINCT FROM OLD."{each}"' for each in others.split()
    )
    purged = f"(SELECT purged_at FROM run WHERE id = ({run})) IS NOT NULL"  # noqa: S608 # our names
    gone = f" IF TG_OP = 'DELETE' THEN IF {purged} THEN RETURN OLD; END IF; END IF;"
    return (
        f"IF TG_OP = 'UPDATE' THEN IF NEW.{column} = '{empty}' AND {same} AND {purged} THEN "
        f"RETURN NEW; END IF; END IF;{gone if table in DELETABLE_TABLES else ''}"
    )


MIN_SERVER_VERSION = 13
SERVED_ELSEWHERE_ERROR = "another process serves this workspace now"
COMMIT_CHECK_TIMEOUT_SECONDS = 10.0  # for the query whether a commit succeeded
MAX_SHARED_SESSIONS = 12  # for all workspaces of one process
SHARED_SESSION_WAIT_SECONDS = 2.0  # then one more is opened: the holders may wait for each other


class SharedSessions:
    """The database sessions that the records of one process's many workspaces share."""

    def __init__(self) -> None:
        self.idle: list[postgres_session.PostgresServerSession] = []
        self._used = 0
        self._slot_freed = threading.Condition()

    def wait_for_turn(self) -> None:
        """Wait until a session may be used, at most two seconds; `end_turn` must follow."""
        with self._slot_freed:
            self._slot_freed.wait_for(
                lambda: self._used < MAX_SHARED_SESSIONS, SHARED_SESSION_WAIT_SECONDS
            )
            self._used += 1

    def end_turn(self) -> None:
        """Count a session as no longer in use, and wake a thread that waits for one."""
        with self._slot_freed:
            self._used -= 1
            self._slot_freed.notify()


_SHARED_SESSIONS_BY_URL: dict[URL, SharedSessions] = {}


class PostgresDatabase(Backend):
    """One database on a server, which any number of processes write to."""

    is_multi_process = True
    has_exclusive_lock = False  # any process may write

    def __init__(self, url: URL, path: Path) -> None:
        """Set the address of the database; nothing is connected yet.

        `path`: the path that sockets on this machine are named after. `schema=…` in the address
        names the schema of the tables; ValueError if it is not a plain name. With
        `workspace=…&process=…` this process can write only while it holds that workspace.
        """
        require_schema_name(url)
        self._schema = str(url.query.get("schema", postgres_session.DEFAULT_SCHEMA))
        workspace, process = (str(url.query.get(each, "")) for each in ("workspace", "process"))
        fence = workspace_owners.build_fence(workspace, process) if process else ""
        # with several processes the fence tells who has a workspace, so the session's name need not
        is_usual = fence or self._schema == postgres_session.DEFAULT_SCHEMA
        self._name = "countersign" if is_usual else f"countersign:{self._schema}"[:63]
        url = url.difference_update_query(["schema", "workspace", "process"]).set(
            drivername="postgresql+psycopg"
        )
        self.path = path
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"client_encoding": "utf8"},
        )
        event.listen(self._engine, "connect", self._prepare_for_migrations)
        # where one process serves many workspaces, their records share sessions; each transaction
        # sets its schema
        self._shared = _SHARED_SESSIONS_BY_URL.setdefault(url, SharedSessions()) if fence else None
        self._begin = postgres_session.build_write_statement(self._schema, fence)
        self._begin_to_read = postgres_session.BEGIN_READ_ONLY
        if self._shared:
            self._begin_to_read += f"; SET LOCAL search_path TO {self._schema}"
        self._idle = self._shared.idle if self._shared else []
        self._timeline = ""  # of the server as this process knows it; "" if it does not say
        self._is_synchronous = False  # whether that server's commits wait for a standby

    @property
    def engine(self) -> Engine:
        """Return the SQLAlchemy engine that migrations use."""
        return self._engine

    @property
    def display_name(self) -> str:
        """Return the address without its password and options."""
        plain = self._engine.url.set(drivername="postgresql", query={})
        return plain.render_as_string(hide_password=True)

    def open(self, *, exclusive: bool) -> None:
        """Check the server's version, its encoding, and that sessions are not pooled.

        Raises SchemaError if the server cannot be used.
        """
        self._timeline, self.older_error = "", None
        with self._temporary_session() as session, self._temporary_session() as other:
            found, _ = session.run_psycopg_statement(
                "SELECT current_setting('server_version_num'), getdatabaseencoding()"
            )
            version, encoding = int(found[0][0]) // 10_000, found[0][1]
            name, needs = self.display_name, "Countersign needs"
            if version < MIN_SERVER_VERSION:
                raise SchemaError(
                    f"{name} is PostgreSQL {version}; {needs} {MIN_SERVER_VERSION} or newer"
                )
            if encoding != "UTF8":
                raise SchemaError(f"{name} uses {encoding}; {needs} UTF8")
            if postgres_session.are_pooled(session, other):
                raise SchemaError(
                    f"{name} is behind a pooler that changes the session between transactions; "
                    f"{needs} the server itself, or PgBouncer with pool_mode = session"
                )

    def load_local_signing_key(self) -> bytes:
        """Raise KeyFileError: all processes share the key given in the settings."""
        raise KeyFileError("with PostgreSQL there is no key file")

    def create_if_missing(self) -> None:
        """Create the schema if it does not exist."""
        with self._temporary_session() as session:
            if not session.run_psycopg_statement(
                "SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._schema,)
            )[0]:
                with self.migration_lock():
                    session.run_long_statements(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")

    def is_at_noted_place(self, tx: Transaction) -> bool:
        """Return whether the audit's comment says where it is, or this role cannot note it."""
        assert isinstance(tx, PostgresTransaction)
        self._timeline = tx.session.timeline
        self._is_synchronous = tx.session.is_synchronous
        return not postgres_place.may_note(tx) or postgres_place.is_noted(tx, self._timeline)

    def note_place(self, tx: Transaction) -> None:
        """Note in the audit's comment where it is; mark the record as a copy if it was elsewhere.

        A dump includes the comment, but what is put back from the dump is another table.
        """
        if reason := postgres_place.replace_note(tx, self._timeline):
            postgres_place.mark_as_copy(tx, reason)

    @contextmanager
    def migration_lock(self) -> Iterator[None]:
        """Hold the migration lock during the block; wait for it without a time limit."""
        with self._temporary_session() as session:
            session.run_long_statements(postgres_session.NO_TIME_LIMITS)
            _, migrating = postgres_session.compute_lock_numbers(self._schema)
            session.run_long_statements(
                f"SELECT pg_advisory_lock({postgres_session.ADVISORY_LOCK_CLASS}, {migrating})"
            )
            try:
                yield
            finally:
                session.close()  # this also releases the lock, whatever the session's state

    def is_missing_table_error(self, error: Exception) -> bool:
        """Return whether PostgreSQL's error is that a table does not exist."""
        return isinstance(getattr(error, "orig", None), psycopg.errors.UndefinedTable)

    def list_create_trigger_statements(
        self, among: Container[str] = APPEND_ONLY_TABLES
    ) -> list[str]:
        """Return DDL for triggers (and their functions) of the append-only tables in `among`."""
        tables = [table for table in APPEND_ONLY_TABLES if table in among]
        return [
            each for table in tables for each in _build_table_create_triggers(table, self._schema)
        ]

    def list_drop_trigger_statements(self) -> list[str]:
        """Return the DDL that drops the append-only triggers."""
        return [each for table in APPEND_ONLY_TABLES for each in _build_table_drop_triggers(table)]

    def begin_transaction(
        self, trace: Trace | None, chain: AuditChainSealer, *, writes: bool, durable: bool
    ) -> PostgresTransaction:
        """Begin a transaction; one that `writes` waits for the other writers."""
        if self._shared:
            self._shared.wait_for_turn()
        try:
            session = self._begin_on_free_session(self._begin if writes else self._begin_to_read)
        except BaseException:
            self._end_turn()
            raise
        if writes and not session.number:
            session.close()
            self._end_turn()
            raise StoreClosedError(SERVED_ELSEWHERE_ERROR)
        dialect = self.engine.dialect
        return PostgresTransaction(
            session, self._return_session, self._was_committed, dialect, trace, chain, writes=writes
        )

    def _begin_on_free_session(self, begin: str) -> postgres_session.PostgresServerSession:
        """Return a session with a begun transaction; skip those that the server ended."""
        while True:
            was_idle = bool(self._idle)
            try:
                session = self._idle.pop() if was_idle else self._connect()
            except IndexError:  # another thread took it
                continue
            try:
                if self._timeline and session.timeline != self._timeline:
                    self._check_other_timeline(session)
                session.begin_transaction(begin)
            except psycopg.Error as error:
                was_broken = session.is_broken
                session.close()
                if not (was_idle and was_broken):
                    raise wrap_driver_error(error, self.engine.dialect, begin, ()) from error
            except BaseException:
                session.close()
                raise
            else:
                return session

    def _connect(self) -> postgres_session.PostgresServerSession:
        """Return a new session; DBAPIError if the server cannot be reached."""
        _, given = self.engine.dialect.create_connect_args(self._engine.url)
        try:
            given = {"application_name": self._name, **given}
            session = postgres_session.connect_session(self._schema, **given)
        except psycopg.Error as error:
            raise wrap_driver_error(error, self.engine.dialect, "connect", ()) from error
        if session.timeline == self._timeline:
            self._is_synchronous = session.is_synchronous
        return session

    def _check_other_timeline(self, session: postgres_session.PostgresServerSession) -> None:
        """Mark the record as a copy, and raise DBAPIError, if the server may lack its last rows.

        It has taken over from the one that this process knew, or went back to an earlier moment. It
        lacks nothing if that one's commits waited for a standby, and is no other if it is still a
        standby itself.
        """
        if self.older_error is not None:
            raise self.older_error
        session.read_timeline()
        if session.timeline in ("", self._timeline):
            return
        session.begin_transaction(self._begin)
        if not session.number:
            raise StoreClosedError(SERVED_ELSEWHERE_ERROR)
        parts = (self.engine.dialect, None, AuditChainSealer(b"", dict))
        ours = PostgresTransaction(session, lambda _: None, lambda _: False, *parts, writes=True)
        with ours as tx:
            may_note, head = postgres_place.may_note(tx), self.known_head
            is_checked = may_note and postgres_place.is_noted(tx, session.timeline)
            is_older = (
                not (is_checked or self._is_synchronous)
                or record_copies.find_copy_note(tx) is not None
                or (head is not None and trail.find_audit_head_at(tx, head.seq) != head)
            )
            if is_older:
                postgres_place.mark_as_copy(tx, postgres_place.OTHER_TIMELINE_REASON)
            elif may_note:
                postgres_place.replace_note(tx, session.timeline)
        if is_older:
            self.older_error = DBAPIError(None, None, OlderRecordError())
            log.critical("the database is lost: %s", self.older_error.orig)
            raise self.older_error
        self._timeline, self._is_synchronous = session.timeline, session.is_synchronous

    @contextmanager
    def _temporary_session(self) -> Iterator[postgres_session.PostgresServerSession]:
        """Yield a new session outside a transaction, and close it at the end."""
        session = self._connect()
        try:
            yield session
        except psycopg.Error as error:
            raise wrap_driver_error(error, self.engine.dialect, "", ()) from error
        finally:
            session.close()

    def _return_session(self, session: postgres_session.PostgresServerSession) -> None:
        """Keep the session for the next transaction; close it if it is unusable or one too many."""
        if session.is_free and not (self._shared and len(self._idle) >= MAX_SHARED_SESSIONS):
            self._idle.append(session)
        else:
            session.close()
        self._end_turn()

    def _end_turn(self) -> None:
        if self._shared:
            self._shared.end_turn()

    def _was_committed(self, number: str) -> bool:
        """Return whether a transaction was committed whose session broke before saying so.

        False also if the server cannot be asked for too long: then the commit counts as failed, and
        a retry begins from the rows.
        """
        until = time.monotonic() + COMMIT_CHECK_TIMEOUT_SECONDS
        while True:
            with suppress(DBAPIError), self._temporary_session() as session:
                if self._timeline and session.timeline not in ("", self._timeline):
                    return False  # this server may have given the number to another transaction
                [[found]], _ = session.run_psycopg_statement(
                    "SELECT pg_xact_status(%s::xid8)", (number,)
                )
                if found != "in progress":
                    return bool(found == "committed")
            if time.monotonic() > until:
                return False
            time.sleep(0.1)

    def close_idle_connections(self) -> None:
        """Close the idle sessions, unless other workspaces' records share them."""
        if self._shared:
            return
        idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _prepare_for_migrations(self, connection: psycopg.Connection[Any], _record: object) -> None:
        """Prepare SQLAlchemy's own connections for migrations, however long these take."""
        connection.execute(f"SET search_path TO {self._schema}; {postgres_session.NO_TIME_LIMITS}")
        connection.commit()


def drop_schema(url: URL, schema: str) -> None:
    """Delete a PostgreSQL schema, if it exists, and its contents; raises the database's errors."""
    engine = PostgresDatabase(url.update_query_dict({"schema": schema}), Path(schema)).engine
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    engine.dispose()
