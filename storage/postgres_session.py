"""One connection to PostgreSQL, used by one thread at a time, with its transactions."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from storage.transaction import Row

DEFAULT_SCHEMA = "countersign"  # the schema of our tables, apart from those of other programs
ADVISORY_LOCK_CLASS = 0x436F756E  # first number of each advisory lock; the second: what is locked
IDLE_TIMEOUT_SECONDS = 10  # then the server ends a session that is idle in a transaction
LOCK_TIMEOUT_SECONDS = 20
STATEMENT_TIMEOUT_SECONDS = 60
CONNECT_TIMEOUT_SECONDS = 5
MAX_PREPARED_STATEMENTS = 256  # that the server keeps for one session
MAX_REMEMBERED_STATEMENTS = 2000  # statements of one session that are known to have run before
_TEXT_FORMAT = [PyFormat.TEXT]
CONNECTION_PARAMETERS = {  # libpq's names; a broken connection is noticed in fifteen seconds
    "application_name": "countersign",
    "client_encoding": "utf8",  # else PGCLIENTENCODING counts, or the role's or database's own
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
}
SESSION_SETTINGS = (
    f"SET idle_in_transaction_session_timeout TO '{IDLE_TIMEOUT_SECONDS}s'",
    f"SET lock_timeout TO '{LOCK_TIMEOUT_SECONDS}s'",
    f"SET statement_timeout TO '{STATEMENT_TIMEOUT_SECONDS}s'",
    "SET synchronous_commit TO on",
    "SET DateStyle TO ISO",  # the only one in which psycopg reads times
    "SET client_min_messages TO warning",
    "SET quote_all_identifiers TO off",  # else the schema's names are spelled in another way
)
NO_TIME_LIMITS = "; ".join(
    f"SET {each} TO 0"
    for each in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
)
# the number that a server changes when it takes over from another or recovers to a moment; and
# whether each commit waits for a standby. Nothing while it is a standby itself
_SELECT_TIMELINE = """
    SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
           current_setting('synchronous_standby_names') <> ''
    WHERE NOT pg_is_in_recovery()
"""
BEGIN_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresServerSession:
    """One connection to the server, used by one thread at a time.

    Statements go directly to libpq through psycopg's wrapper, and values through its adapters: that
    takes a third of the time of a psycopg cursor.
    """

    __slots__ = (
        "_adapter",
        "_is_commit_sent",
        "_is_lost",
        "_libpq",
        "_prepared_names",
        "_seen_statements",
        "is_synchronous",
        "number",
        "raw",
        "timeline",
    )

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        """Use the connection `raw`, which must be outside a transaction and in autocommit mode."""
        self.raw = raw
        self._libpq = raw.pgconn
        self._adapter = Transformer(raw)
        self._seen_statements: set[str] = set()  # statements that have run once
        self._prepared_names: dict[str, bytes] = {}  # names of prepared statements, by their SQL
        self._is_commit_sent = False  # the last COMMIT was sent, but its answer not read
        self._is_lost = False  # libpq failed, and not the server; psycopg does not always notice
        self.number = ""  # of the writing transaction
        self.timeline = ""  # the server's, by `read_timeline`; "" if it does not say
        self.is_synchronous = False  # whether the server's commits wait for a standby

    @property
    def is_free(self) -> bool:
        """Return whether the next transaction may begin on this session."""
        return self._is_commit_sent or self.status == TransactionStatus.IDLE

    @property
    def status(self) -> int:
        """Return the connection's state, one of psycopg's TransactionStatus."""
        return self._libpq.transaction_status

    @property
    def is_broken(self) -> bool:
        """Return whether the connection is lost or closed."""
        return self._is_lost or self.raw.closed or self.raw.broken

    def read_timeline(self) -> None:
        """Ask the server for its timeline; not all providers let it say."""
        self._is_commit_sent = False
        try:
            # libpq first reads the answer to the last COMMIT
            found, _ = self._read_result(self._libpq.exec_(_SELECT_TIMELINE.encode()))
        except psycopg.Error:
            if self.is_broken:
                raise
            found = []
        self.timeline, self.is_synchronous = found[0] if found else ("", False)

    def begin_transaction(self, sql: str) -> None:
        """Begin a transaction; `number` is the transaction's own if `sql` returns it, else ""."""
        self._is_commit_sent = False
        # libpq first reads the answer to the last COMMIT
        found, _ = self._read_result(self._libpq.exec_(sql.encode()))
        self.number = found[0][1] if found else ""

    def commit_read_without_waiting(self) -> None:
        """Send the COMMIT of a read-only transaction without waiting for the answer."""
        self._libpq.send_query(b"COMMIT")
        self._is_commit_sent = True

    def run_statement(self, sql: str, values: list[Any]) -> tuple[list[Row], int]:
        """Run one statement with placeholders ($1); return its rows and how many it changed."""
        given: Any = (
            self._adapter.dump_sequence(values, _TEXT_FORMAT * len(values)) if values else ()
        )
        name = self._prepared_names.get(sql)
        if (
            name is None
            and sql in self._seen_statements
            and len(self._prepared_names) < MAX_PREPARED_STATEMENTS
        ):
            name = f"own{len(self._prepared_names)}".encode()
            self._read_result(self._libpq.prepare(name, sql.encode()))
            self._prepared_names[sql] = name
        if name is not None:
            return self._read_result(self._libpq.exec_prepared(name, given))
        if len(self._seen_statements) < MAX_REMEMBERED_STATEMENTS:
            self._seen_statements.add(sql)
        return self._read_result(self._libpq.exec_params(sql.encode(), given))

    def run_psycopg_statement(self, sql: str, values: Any = None) -> tuple[list[Row], int]:
        """Run one statement in psycopg's style (%s); return its rows and how many it changed."""
        cursor = self.raw.execute(sql, values, prepare=False)
        return (cursor.fetchall() if cursor.description else []), cursor.rowcount

    def end_transaction(self, sql: str) -> None:
        """Run COMMIT or ROLLBACK."""
        self._read_result(self._libpq.exec_(sql.encode()))

    def run_long_statements(self, sql: str) -> None:
        """Run statements without values that may take long; an interrupt ends the wait."""
        self.raw.execute(sql, prepare=False)

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        with suppress(psycopg.Error):
            self.raw.close()

    def _read_result(self, result: PGresult) -> tuple[list[Row], int]:
        """Return a result's rows and how many were changed; psycopg.Error for a failure."""
        status = result.status
        if status == ExecStatus.TUPLES_OK:
            many = result.ntuples
            if not many:
                return [], 0
            self._adapter.set_pgresult(result)
            return self._adapter.load_rows(0, many, tuple), many
        if status == ExecStatus.COMMAND_OK:
            return [], result.command_tuples or 0
        if not result.error_field(DiagnosticField.SQLSTATE):  # a server's error always has one
            self._is_lost = True
            raise psycopg.OperationalError(result.get_error_message())
        raise error_from_result(result)


def compute_lock_numbers(schema: str) -> tuple[int, int]:
    """Return the numbers of a schema's two advisory locks: for writing, and for migrating."""
    if schema == DEFAULT_SCHEMA:
        return 1, 2
    first = zlib.crc32(schema.encode()) & 0x3FFF_FFFF | 0x4000_0000
    return first & ~1, first | 1


def build_write_statement(schema: str, fence: str = "") -> str:
    """Return the SQL that begins a writing transaction, once the schema's other writers are done.

    It returns the lock and the transaction's number. `fence`: a table with a condition; nothing is
    returned where no row of it fulfils that.
    """
    writing, _ = compute_lock_numbers(schema)
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
    begin += f"SET LOCAL search_path TO {schema}; SELECT " if fence else "SELECT "
    lock = f"pg_advisory_xact_lock({ADVISORY_LOCK_CLASS}, {writing})"
    number = "pg_current_xact_id()::text"
    check = f"; SELECT '', {number} FROM {fence}" if fence else ""  # noqa: S608 # our own names
    return f"{begin}{lock}, {number}{check}"


def connect_session(schema: str = DEFAULT_SCHEMA, **given: Any) -> PostgresServerSession:
    """Return a new session with the settings applied; psycopg.Error if that fails."""
    given = {**CONNECTION_PARAMETERS, **given}
    # psycopg must prepare nothing itself: after a DROP it would deallocate our statements, too
    raw = psycopg.connect(**given, autocommit=True, prepare_threshold=None)
    session = PostgresServerSession(raw)
    session.run_long_statements("; ".join((f"SET search_path TO {schema}", *SESSION_SETTINGS)))
    session.read_timeline()
    return session


def are_pooled(*sessions: PostgresServerSession) -> bool:
    """Return whether a pooler runs the statements of these sessions in any of the server's.

    There a session's settings and prepared statements may be those of another one.
    """
    first, second = (
        [each.run_psycopg_statement("SELECT pg_backend_pid()")[0][0][0] for each in sessions]
        for _ in range(2)
    )
    return first != second or len(set(first)) < len(first)
