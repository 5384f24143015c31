"""One transaction on a PostgreSQL database.

What a statement may be is left to the server's PREPARE, what it may read and change to the role's
rights and to READ ONLY, what it may call to what the server would resolve (`reach`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database.config import Database
from bot.tools.database.reach import StatementReach
from bot.tools.database.reflection import reflect, remarks
from bot.tools.database.rows.change import Change
from bot.tools.database.rows.place import placed
from bot.tools.database.rows.postgres_watch import observe
from bot.tools.database.secrets import target
from bot.tools.database.session import Rows, Session, bounded
from bot.tools.database.sql.catalog import OWN_TABLES, Catalog, Relation
from bot.tools.database.sql.functions import WRITES
from bot.tools.database.sql.statement import Statement

_RELATIONS = """
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
_CHANGEABLE = """
    SELECT bool_or(pg_catalog.has_any_column_privilege(c.oid, 'INSERT, UPDATE')
            OR pg_catalog.has_table_privilege(c.oid, 'DELETE'))
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'p', 'f')"""
_KINDS = {"r": "table", "v": "view", "m": "view", "p": "partitioned", "f": "foreign"}


class PostgresSession(Session):
    """One transaction on a PostgreSQL database."""

    def __init__(self, database: Database, connection: Any, raw: psycopg.Connection[Any]) -> None:
        super().__init__(database, connection)
        self._raw = raw
        self._held: set[str] = set()  # statements that reach nothing which they may not

    def _reflected(self) -> Catalog:
        """Tables and views of the configured schemas that the role may read or change; what it may
        not read of them is secret.
        """
        tables: dict[str, Relation] = {}
        schemas = self.database.schemas
        for schema in schemas:
            listed = self._raw.execute(_RELATIONS, (schema,)).fetchall()
            found = reflect(
                self.connection,
                schema,
                {name: _KINDS[kind] for name, kind, *_ in listed},
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

    def remarked(self, catalog: Catalog) -> Catalog:
        """See Session."""
        told: dict[str, tuple[str, tuple[str, ...]]] = {}
        for schema in self.database.schemas:
            own = {each.name: key for key, each in catalog.tables.items() if each.schema == schema}
            found = remarks(self.connection, schema, list(own))
            told |= {own[name]: each for name, each in found.items()}
        return catalog.with_remarks(told)

    def _is_own(self, found: Catalog) -> bool:
        """Countersign's own tables, in whatever schema, whether the role may read them or not."""
        asked = self._raw.execute(
            "SELECT count(DISTINCT relname) FROM pg_catalog.pg_class "
            "WHERE relkind = 'r' AND relname = ANY(%s) GROUP BY relnamespace",
            (sorted(OWN_TABLES),),
        )
        return any(count == len(OWN_TABLES) for (count,) in asked.fetchall())

    def query(self, statement: Statement, limit: int) -> Rows:
        """See Session."""
        run = "EXECUTE countersign"
        if statement.explains is not None:
            run = f"EXPLAIN {statement.explains} {run}"
        with self._prepared(statement), self._raw.cursor() as cursor:
            found, more = bounded(cursor.stream(run.encode()), limit)
            columns = tuple(each.name for each in cursor.description or ())
        return Rows(columns, found, more)

    def look(self, statement: Statement) -> None:
        """See Session. A plan is made: rights are asked about no earlier."""
        with self._prepared(statement):
            self._raw.execute(b"EXPLAIN EXECUTE countersign")

    def observe(self, statements: Sequence[Statement]) -> tuple[Change, ...]:
        """See Session."""
        named = [(each, target(each, self.catalog)) for each in statements]
        for number, each in enumerate(statements, 1):
            with placed(number, statements):
                self._hold(each)
        return observe(self._raw, self.catalog, named, self._run, self.database.max_changes)

    def _run(self, statement: Statement, shown: str = "") -> list[tuple[Any, ...]]:
        """Run a change; what it returns of its rows, with `shown` (a list of columns in SQL)."""
        with self._prepared(statement, f" RETURNING {shown}" if shown else ""):
            cursor = self._raw.execute(b"EXECUTE countersign")
            rows = cursor.fetchall() if cursor.description else []
            done = (cursor.statusmessage or "?").split()[0].lower()
            if done != (statement.verb if isinstance(statement.tree, WRITES) else "select"):
                raise ToolError(f"the database did something else than it says: {done[:60]}")
        return rows

    @contextmanager
    def _prepared(self, statement: Statement, more: str = "") -> Iterator[None]:
        """PREPARE takes exactly one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES, and nothing
        else; it is run by EXECUTE inside.
        """
        catalog = self.catalog  # before anything can fail, after which the server answers nothing
        self._hold(statement)
        try:
            text = f"PREPARE countersign AS {statement.body}{more}"
            self._raw.execute(text.encode(), prepare=True)  # by the protocol that takes one
            yield
        except psycopg.errors.InsufficientPrivilege as error:
            words = error.diag.message_primary or "permission denied"
            raise ToolError(f"the database says: {words}{_hint(statement, catalog)}") from None
        self._raw.execute(b"DEALLOCATE countersign")

    def _hold(self, statement: Statement) -> None:
        """Refuse what could reach a function that acts beyond the statement; see StatementReach."""
        if statement.text not in self._held:
            StatementReach(self._raw, writes=not self._raw.read_only).refuse(statement.text)
            self._held.add(statement.text)

    def version(self) -> str:
        """See Session."""
        found = self._raw.execute(
            "SELECT pg_catalog.current_setting('server_version'), current_user"
        ).fetchone()
        return "PostgreSQL {} as {}".format(*(found or ("?", "?")))

    def changeable(self) -> bool:
        """See Session."""
        (found,) = self._raw.execute(_CHANGEABLE, (list(self.database.schemas),)).fetchone() or (
            False,
        )
        return bool(found)

    def commit(self) -> None:
        """See Session."""
        self._before_commit()
        try:
            self._raw.commit()
        except psycopg.Error as error:
            if error.sqlstate and error.sqlstate[:2] not in ("08", "57", "58", "XX"):
                raise  # the server said no: nothing was changed
            raise ConnectionError(
                "the answer to COMMIT was lost; whether the change was made is not known"
            ) from None


def _hint(statement: Statement, catalog: Catalog) -> str:
    """Which columns of the tables that a statement names cannot be read."""
    named = {each.name for each in statement.tree.find_all(exp.Table)}
    found = [
        f"{table.name}.{column}"
        for table in catalog.tables.values()
        if table.name in named
        for column in sorted(table.secret)
    ]
    return f" ({', '.join(found[:10])}: secret; name the columns that are not)" if found else ""
