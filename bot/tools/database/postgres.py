"""PostgreSQL as the database tools reach it: a role with few rights, limits on time and locks, and
no address, DETAIL or secret in what people are told. A query runs in a READ ONLY transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.types.string import TextLoader
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from bot.tools import ToolError
from bot.tools.database.config import Database
from bot.tools.database.postgres_session import PostgresSession
from bot.tools.database.rights import refuse_rights
from bot.tools.database.rows.place import place_of
from bot.tools.database.session import CONNECT_TIMEOUT, Session, close, hide
from bot.tools.database.sql.catalog import quoted

# infinity is no date
_AS_TEXT = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "json", "jsonb")
_UNREACHED = (  # what libpq and the server say, which names addresses, and what people are told
    ("password authentication failed|no password supplied", "its password is wrong or missing"),
    ('role ".*" does not exist', "its server has no such role"),
    ('database ".*" does not exist', "its server has no such database"),
    ("no pg_hba.conf entry", "its server lets nobody in from here by that role"),
    ("permission denied for database", "the role may not connect to it"),
    ("connection slots|too many connections", "its server takes no more connections"),
    ("translate host name|resolve|not known", "its host is not known"),
    ("refused|no such file", "nothing answers at its address"),
    ("timeout|timed out", "no answer in time"),
    ("ssl|certificate", "no agreement on encryption, see sslmode"),
)


class PostgresSource:
    """One PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._engine = create_engine(
            database.parts.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            hide_parameters=True,
            use_native_hstore=False,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT,
                "application_name": "countersign",
                "client_encoding": "utf8",
                "tcp_user_timeout": 15_000,  # milliseconds until a dead line is noticed
            },
        )

    @contextmanager
    def open(
        self, *, writes: bool, timeout: float | None = None, lock_timeout: float | None = None
    ) -> Iterator[Session]:
        """A transaction; READ ONLY unless it `writes`. Refused to a role that may do too much."""
        seconds = timeout or self.database.timeout
        try:
            connection = self._engine.connect()
            try:
                raw: Any = connection.connection.driver_connection
                raw.rollback()  # what SQLAlchemy asked at the start
                level = psycopg.IsolationLevel
                raw.read_only = not writes
                # the rows of a change are told from one snapshot
                raw.isolation_level = level.REPEATABLE_READ if writes else level.READ_COMMITTED
                for name in _AS_TEXT:
                    raw.adapters.register_loader(name, TextLoader)
                self._prepare(raw, seconds, lock_timeout or self.database.lock_timeout)
                yield PostgresSession(self.database, connection, raw)
            finally:
                close(connection)
        except psycopg.Error as error:
            raise ToolError(_reason(error, seconds)) from None
        except DBAPIError as error:  # the same, as SQLAlchemy wraps it
            raise ToolError(_reason(error.orig, seconds)) from None

    def _prepare(self, raw: psycopg.Connection[Any], seconds: float, lock_seconds: float) -> None:
        limits = {
            "search_path": ", ".join(
                ["pg_catalog", *map(quoted, self.database.schemas), "pg_temp"]
            ),
            "statement_timeout": f"{seconds * 1000:.0f}",
            "lock_timeout": f"{min(lock_seconds, seconds) * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{(seconds + 5) * 1000:.0f}",
            "standard_conforming_strings": "on",
            "transform_null_equals": "off",
            "backslash_quote": "off",
            "bytea_output": "hex",
            "datestyle": "ISO",
            "intervalstyle": "iso_8601",
            "row_security": "on",
            "check_function_bodies": "on",
            "default_transaction_read_only": "on" if raw.read_only else "off",
        }
        # whatever the role's own ones are
        for_now = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(limits))
        raw.execute(
            f"SELECT {for_now}".encode(), [each for pair in limits.items() for each in pair]
        )
        refuse_rights(raw, self.database)


def _reason(error: BaseException | None, seconds: float) -> str:
    """The database's own words, the first line: its DETAIL and our connection string stay away from
    people.

    Without what a function raised, and the values that could not be read: they could be secret.
    """
    state = getattr(error, "sqlstate", None)
    if state == "57014":
        return f"it took longer than {seconds:g} s and was stopped; nothing was changed"
    if state == "40001":
        return "somebody else changes the same rows; nothing was changed. Try it again"
    if state == "55P03":
        return "rows are locked by somebody else; nothing was changed. Trying again later may work"
    diag = getattr(error, "diag", None)
    if state and diag is not None and diag.message_primary:
        if diag.context and state[:2] not in ("25", "42"):  # those are the server's own words
            return (
                f"{place_of(error)}a function of the database refused it; its words could tell a "
                f"secret (SQLSTATE {state})"
            )
        words = hide(diag.message_primary) if state.startswith("22") else diag.message_primary
        return f"{place_of(error)}the database says: {words[:300]}"
    why = next(
        (words for found, words in _UNREACHED if re.search(found, str(error), re.IGNORECASE)), ""
    )
    return (
        f"the database cannot be reached, or ended the connection{why and f' ({why})'}; "
        "nothing was changed"
    )
