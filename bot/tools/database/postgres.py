"""PostgreSQL for the database tools: a role with few rights, limits on time and locks.

A query runs in a READ ONLY transaction. Messages for people hold no address, DETAIL or secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import psycopg
from psycopg.types.string import TextLoader
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from sqlglot import exp

from bot.tools import Table, ToolError
from bot.tools.database import row_changes, session
from bot.tools.database.catalog import (
    COUNTERSIGN_TABLES,
    Catalog,
    Relation,
    quote_name,
    reflect_tables,
)
from bot.tools.database.config import Database
from bot.tools.database.postgres_changes import open_row_cursor, run_changes_tracking_rows
from bot.tools.database.postgres_rights import StatementReachChecker, check_role_rights
from bot.tools.database.statement import WRITE_NODES, Statement

_SELECT_RELATIONS = """
    SELECT c.relname, c.relkind::text, ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute a
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
            AND NOT pg_catalog.has_column_privilege(c.oid, attnum, 'SELECT')),
        ARRAY(SELECT coalesce(a.attname::text, '') FROM pg_catalog.pg_index i
            CROSS JOIN pg_catalog.unnest(i.indkey::int2[]) AS k
            LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k AND k > 0
            WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)),
        ARRAY(SELECT pg_catalog.json_build_array(a.attname, p.relname, b.attname)::text
            FROM pg_catalog.pg_constraint f JOIN pg_catalog.pg_class p ON p.oid = f.confrelid
            CROSS JOIN ROWS FROM (pg_catalog.unnest(f.conkey), pg_catalog.unnest(f.confkey))
                AS k(own, other)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.own
            JOIN pg_catalog.pg_attribute b ON b.attrelid = f.confrelid AND b.attnum = k.other
            WHERE f.contype = 'f' AND f.conrelid = c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND c.relname NOT LIKE 'pg\\_%%'
        AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE')"""
_SELECT_CAN_CHANGE_TABLES = """
    SELECT bool_or(pg_catalog.has_any_column_privilege(c.oid, 'INSERT, UPDATE')
            OR pg_catalog.has_table_privilege(c.oid, 'DELETE'))
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'p', 'f')"""
_KIND_BY_CODE = {"r": "table", "v": "view", "m": "view", "p": "partitioned", "f": "foreign"}


class PostgresSession(session.Session):
    """One transaction on a PostgreSQL database."""

    _raw: psycopg.Connection[Any]

    @cached_property
    def _checked_texts(self) -> set[str]:
        """The texts of statements that were found to reach no forbidden function."""
        return set()

    def _read_catalog(self) -> Catalog:
        """Return the tables and views of the configured schemas that the role may read or change.

        Columns that the role may not read are marked secret.
        """
        tables: dict[str, Relation] = {}
        schemas = self.database.schemas
        for schema in schemas:
            listed = self._raw.execute(_SELECT_RELATIONS, (schema,)).fetchall()
            found = reflect_tables(
                self.connection,
                schema,
                {name: _KIND_BY_CODE[kind] for name, kind, *_ in listed},
                secret={name: frozenset(unread) for name, _, unread, *_ in listed},
                keys={name: tuple((each,) for each in keys) for name, _, _, keys, _ in listed},
                references={
                    name: tuple(tuple(json.loads(each)) for each in found)
                    for name, *_, found in listed
                },
            )
            ahead = "" if schema == schemas[0] else f"{schema.lower()}."
            tables |= {f"{ahead}{each.name}": replace(each, schema=schema) for each in found}
        return Catalog("postgres", schemas, tables)

    def _is_countersign_database(self, found: Catalog) -> bool:
        """Whether any schema holds Countersign's own tables, even if the role may not read them."""
        asked = self._raw.execute(
            "SELECT count(DISTINCT relname) FROM pg_catalog.pg_class "
            "WHERE relkind = 'r' AND relname = ANY(%s) GROUP BY relnamespace",
            (sorted(COUNTERSIGN_TABLES),),
        )
        return any(count == len(COUNTERSIGN_TABLES) for (count,) in asked.fetchall())

    def run_query(self, statement: Statement, limit: int) -> Table:
        run = statement.text  # as it is: EXECUTE would store all its rows before it sends any
        if statement.explain_options is not None:
            run = f"EXPLAIN {statement.explain_options} EXECUTE countersign"
        with self._prepare_statement(statement), self._raw.cursor() as cursor:
            found, more = session.limit_rows(cursor.stream(run.encode()), limit)
            columns = tuple(each.name for each in cursor.description or ())
        return Table(f"Rows from {self.database.name}", columns, found, more)

    def check_statement(self, statement: Statement) -> None:
        """Have a statement planned, not run, since the server checks rights no earlier."""
        with self._prepare_statement(statement):
            self._raw.execute(b"EXPLAIN EXECUTE countersign")

    def _run_changes(
        self, named: Sequence[tuple[Statement, Relation]]
    ) -> tuple[row_changes.Change, ...]:
        for number, (each, _) in enumerate(named, 1):
            with row_changes.add_statement_number_to_errors(number, named):
                self.check_statement(each)  # planning takes the locks that the run would take
        return run_changes_tracking_rows(
            self._raw, self.catalog, named, self._run_change, self.database.max_changes
        )

    def _run_change(self, statement: Statement, shown: str = "") -> list[tuple[Any, ...]]:
        """Run a change and return the rows of its RETURNING, with the columns `shown` added."""
        with self._prepare_statement(statement, f" RETURNING {shown}" if shown else ""):
            cursor = open_row_cursor(self._raw).execute(b"EXECUTE countersign")
            rows = cursor.fetchall() if cursor.description else []
            done = (cursor.statusmessage or "?").split()[0].lower()
            if done != (statement.verb if isinstance(statement.tree, WRITE_NODES) else "select"):
                raise ToolError(f"the database did something other than it says: {done[:60]}")
        return rows

    @contextmanager
    def _prepare_statement(self, statement: Statement, more: str = "") -> Iterator[None]:
        """PREPARE the statement; inside the block, EXECUTE runs it.

        PREPARE takes exactly one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES, and nothing else.
        """
        catalog = self.catalog  # read it first: after an error the transaction answers no query
        self._check_reached_functions(statement)
        try:
            text = f"PREPARE countersign AS {statement.text_without_explain}{more}"
            # asking for binary rows takes the extended protocol, which has only one statement
            self._raw.execute(text.encode(), binary=True)
            yield
        except psycopg.errors.InsufficientPrivilege as error:
            if error.diag.source_function == _RAISE_FUNCTION:
                raise
            words = error.diag.message_primary or "permission denied"
            raise ToolError(
                f"the database says: {words}{_unreadable_columns_note(statement, catalog)}"
            ) from None
        # not after the rest of a query was cancelled
        if self._raw.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            self._raw.execute(b"DEALLOCATE countersign")

    def _check_reached_functions(self, statement: Statement) -> None:
        """Raise ToolError if the statement could reach a function that acts beyond it.

        Each text is checked once; see StatementReachChecker.
        """
        if statement.text not in self._checked_texts:
            reach = StatementReachChecker(self._raw, writes=not self._raw.read_only)
            reach.check_statement(statement.text)
            self._checked_texts.add(statement.text)

    def describe_server_and_role(self) -> str:
        found = self._raw.execute(
            "SELECT pg_catalog.current_setting('server_version'), current_user"
        ).fetchone()
        return "PostgreSQL {} as {}".format(*(found or ("?", "?")))

    def can_change_tables(self) -> bool:
        schemas = list(self.database.schemas)
        return any(
            found
            for (found,) in self._raw.execute(_SELECT_CAN_CHANGE_TABLES, (schemas,)).fetchall()
        )

    def commit(self) -> None:
        try:
            self._raw.commit()
        except psycopg.Error as error:
            if error.sqlstate and error.sqlstate[:2] not in ("08", "57", "58", "XX"):
                raise  # the server refused, so nothing was changed
            raise ConnectionError(
                "the answer to COMMIT was lost; whether the change was made is not known"
            ) from None


def _unreadable_columns_note(statement: Statement, catalog: Catalog) -> str:
    named = {each.name for each in statement.tree.find_all(exp.Table)}
    found = [
        f"{table.name}.{column}"
        for table in catalog.tables.values()
        if table.name in named
        for column in sorted(table.secret)
    ]
    return f" ({', '.join(found[:10])}: secret; name the columns that are not)" if found else ""


_RAISE_FUNCTION = "exec_stmt_raise"  # PL/pgSQL's RAISE: a function chose code and text
# read as text, because Python's types cannot hold all values, such as the date infinity
_TYPES_AS_TEXT = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "json", "jsonb")
_ERROR_TEXTS = (  # text of libpq or the server, which names addresses → what people read instead
    ("password authentication failed|no password supplied", "its password is wrong or missing"),
    ('role ".*" does not exist', "its server has no such role"),
    ('database ".*" does not exist', "its server has no such database"),
    ("no pg_hba.conf entry", "its server does not let that role in from here"),
    ("permission denied for database", "the role may not connect to it"),
    ("connection slots|too many connections", "its server accepts no more connections"),
    ("translate host name|resolve|not known", "its host is not known"),
    ("refused|no such file", "nothing answers at its address"),
    ("timeout|timed out", "no answer in time"),
    ("ssl|certificate", "no agreement on encryption, see sslmode"),
)


class PostgresSource:
    """One PostgreSQL database that can be opened."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._engine = create_engine(
            database.url_parts.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            hide_parameters=True,
            use_native_hstore=False,
            connect_args={
                "connect_timeout": session.CONNECT_TIMEOUT_SECONDS,
                "application_name": "countersign",
                "client_encoding": "utf8",
                "prepare_threshold": None,  # behind a pooler, statements would outlast the session
                "tcp_user_timeout": 15_000,  # milliseconds until a dead connection is noticed
            },
        )

    @contextmanager
    def open(self, *, writes: bool, timeout: float | None = None) -> Iterator[session.Session]:
        """Return a context with a transaction, READ ONLY unless it `writes`; see Source.

        Raises ExcessiveRoleRightsError for a role with too many rights.
        """
        seconds = timeout or self.database.timeout
        sentence = partial(_database_error_sentence, seconds=seconds)
        with session.open_connection(self._engine, psycopg.Error, sentence) as (connection, raw):
            raw.rollback()  # ends the transaction of SQLAlchemy's own first queries
            level = psycopg.IsolationLevel
            raw.read_only = not writes
            # a change and the look-ups of its rows need the same snapshot
            raw.isolation_level = level.REPEATABLE_READ if writes else level.READ_COMMITTED
            for name in _TYPES_AS_TEXT:
                raw.adapters.register_loader(name, TextLoader)
            self._configure_transaction(raw, seconds, timeout or self.database.lock_timeout)
            yield PostgresSession(self.database, connection)

    def _configure_transaction(
        self, raw: psycopg.Connection[Any], seconds: float, lock_seconds: float
    ) -> None:
        limits = {
            "search_path": ", ".join(
                ["pg_catalog", *map(quote_name, self.database.schemas), "pg_temp"]
            ),
            "statement_timeout": f"{seconds * 1000:.0f}",
            # shorter than the statement's, so that the error tells of the lock
            "lock_timeout": f"{min(lock_seconds, seconds * 0.9) * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{(seconds + 5) * 1000:.0f}",
            "standard_conforming_strings": "on",
            "transform_null_equals": "off",
            "backslash_quote": "off",
            "bytea_output": "hex",
            "extra_float_digits": "1",
            "datestyle": "ISO",
            "intervalstyle": "iso_8601",
            "row_security": "on",
            "check_function_bodies": "on",
            "default_transaction_read_only": "on" if raw.read_only else "off",
        }
        # these override the role's own settings
        raw.execute(b"DEALLOCATE ALL")  # of an earlier session that failed, behind a pooler
        for_now = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(limits))
        raw.execute(
            f"SELECT {for_now}".encode(), [each for pair in limits.items() for each in pair]
        )
        check_role_rights(raw, self.database)


def _database_error_sentence(error: BaseException | None, seconds: float) -> str:
    """Return a message for people about a database error, without DETAIL and connection string.

    What a function raised, and values that could not be read, are left out: they could be secret.
    """
    state = getattr(error, "sqlstate", None)
    if state == "57014":
        return f"it took longer than {seconds:g} s and was stopped; nothing was changed"
    if state == "40001":
        return "somebody else is changing the same rows; nothing was changed. Try it again"
    if state == "55P03":
        return "rows are locked by somebody else; nothing was changed. Trying again later may work"
    diag = getattr(error, "diag", None)
    if state and diag is not None and diag.message_primary:
        # whether the text is the server's own, not a function's
        servers = state[:2] in ("25", "42") and diag.source_function != _RAISE_FUNCTION
        if diag.context and not servers:
            return (
                f"{row_changes.statement_number_prefix(error)}a function of the database refused "
                f"it; its message could reveal a secret (SQLSTATE {state})"
            )
        words = diag.message_primary
        if state.startswith("22"):
            words = session.mask_quoted_values(words)
        return f"{row_changes.statement_number_prefix(error)}the database says: {words[:300]}"
    why = next(
        (words for pattern, words in _ERROR_TEXTS if re.search(pattern, str(error), re.IGNORECASE)),
        "",
    )
    return (
        f"the database cannot be reached, or ended the connection{why and f' ({why})'}; "
        "nothing was changed"
    )
