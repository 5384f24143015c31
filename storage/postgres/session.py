"""One connection to PostgreSQL, as it is begun and used; by one thread at a time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from storage.statement import Row

SCHEMA = "countersign"  # where our tables are, beside those of others
LOCKS = 0x436F756E  # the first half of our advisory locks' names
WRITING, MIGRATING = 1, 2  # the second
IDLE = 10  # seconds after which the server ends a session that stopped amid a transaction
WAIT = 20  # seconds for a lock
LONGEST = 60  # seconds for a statement
REACHING = 5  # seconds for a connection
ON_THE_LINE = {  # libpq's names; a line that was cut is noticed in fifteen seconds
    "application_name": "countersign",
    "connect_timeout": REACHING,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
}
SETTINGS = (
    f"SET search_path TO {SCHEMA}",
    f"SET idle_in_transaction_session_timeout TO '{IDLE}s'",
    f"SET lock_timeout TO '{WAIT}s'",
    f"SET statement_timeout TO '{LONGEST}s'",
    "SET synchronous_commit TO on",
    "SET client_min_messages TO warning",
)
WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    f" SELECT pg_advisory_xact_lock({LOCKS}, {WRITING}), pg_current_xact_id()::text"
)
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class ServerSession:
    """One connection to the server and its cursor, used by one thread at a time."""

    __slots__ = ("_cursor", "number", "raw")

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        """`raw`: outside a transaction, which only begins where it is told."""
        self.raw = raw
        self._cursor = raw.cursor()
        self.number = ""  # of the transaction that writes

    @property
    def status(self) -> TransactionStatus:
        """Where it stands."""
        return self.raw.info.transaction_status

    @property
    def is_broken(self) -> bool:
        """Whether the connection is gone."""
        return self.raw.closed or self.raw.broken

    def begin(self, sql: str) -> None:
        """Begin a transaction; of one that writes the number is known then."""
        self._cursor.execute(sql, prepare=False)
        if self._cursor.nextset():
            (_, self.number) = self._cursor.fetchone()  # type: ignore[misc]  # it has a row

    def run(self, sql: str, values: Any) -> tuple[list[Row], int]:
        """The rows that a statement returns, and how many it changed."""
        cursor = self._cursor
        cursor.execute(sql, values)
        return (cursor.fetchall() if cursor.description else []), cursor.rowcount

    def ask(self, sql: str, values: Any = None) -> list[Row]:
        """The rows that a statement returns."""
        return self.run(sql, values)[0]

    def do(self, sql: str) -> None:
        """Run statements without values."""
        self._cursor.execute(sql, prepare=False)

    def close(self) -> None:
        """End it; what it had begun is rolled back."""
        with suppress(psycopg.Error):
            self.raw.close()


def connect(**given: Any) -> ServerSession:
    """A session with our settings; psycopg.Error where the server cannot be reached."""
    given = {**ON_THE_LINE, **given}
    session = ServerSession(psycopg.connect(**given, autocommit=True))
    session.do("; ".join(SETTINGS))
    return session
