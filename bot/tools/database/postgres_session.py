"""One transaction on a PostgreSQL database.

Statements go by the extended protocol, which takes exactly one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.errors import error_from_result

from bot.tools import ToolError
from bot.tools.database.catalog import OWN_TABLES, Catalog, Relation, quoted
from bot.tools.database.config import Database
from bot.tools.database.session import HERE, Rows, Secrets, Session, bounded, reflect
from bot.tools.database.side_effects import in_postgres
from bot.tools.database.sql.statement import Statement
from bot.tools.database.sql.tokens import StatementError

_NAME = b"countersign"  # of the prepared statement
_RELATIONS = """
    SELECT c.relname, c.relkind::text,
        CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid) END,
        ARRAY(SELECT p.relname::text FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p
              ON p.oid = i.inhparent AND i.inhrelid = c.oid
              OR p.oid = i.inhrelid AND i.inhparent = c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND c.relname NOT LIKE 'pg\\_%%'
        AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE')"""
_CHANGEABLE = """
    SELECT bool_or(pg_catalog.has_any_column_privilege(c.oid, 'INSERT, UPDATE')
            OR pg_catalog.has_table_privilege(c.oid, 'DELETE'))
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'f')"""
_KINDS = {"r": "table", "v": "view", "m": "view", "p": "partitioned", "f": "foreign"}
_OBSTACLES = """
    SELECT 'it has the trigger ' || tgname FROM pg_catalog.pg_trigger
        WHERE tgrelid = %(table)s::regclass AND NOT tgisinternal AND tgenabled <> 'D'
            AND tgtype & %(bit)s <> 0
    UNION ALL SELECT 'it has the rule ' || rulename FROM pg_catalog.pg_rewrite
        WHERE ev_class = %(table)s::regclass AND ev_enabled <> 'D'
    UNION ALL SELECT 'other tables inherit from it' FROM pg_catalog.pg_inherits
        WHERE inhparent = %(table)s::regclass
    UNION ALL SELECT DISTINCT 'rows of ' || conrelid::regclass || ' change with it (foreign key)'
        FROM pg_catalog.pg_constraint
        WHERE contype = 'f' AND confrelid = %(table)s::regclass
            AND NOT CASE %(verb)s WHEN 'delete' THEN confdeltype WHEN 'update' THEN confupdtype
                ELSE 'a' END IN ('a', 'r')
    """


class PostgresSession(Session):
    """One transaction on a PostgreSQL database."""

    def __init__(self, database: Database, connection: Any, raw: psycopg.Connection[Any]) -> None:
        super().__init__(database, connection)
        self._raw = raw

    def _reflected(self) -> Catalog:
        """Tables and views of the configured schema that the role may read or change."""
        schema = self.database.schema_name
        listed = self._raw.execute(_RELATIONS, (schema,)).fetchall()
        tables = reflect(
            self.connection,
            schema,
            {name: _KINDS[kind] for name, kind, *_ in listed},
            definition={name: text for name, _, text, _ in listed if text},
            kin={name: frozenset(kin) for name, _, _, kin in listed},
        )
        return Catalog("postgres", schema, {each.name: each for each in tables})

    def _is_own(self, found: Catalog) -> bool:
        """Countersign's own tables, in whatever schema, whether the role may read them or not."""
        asked = self._raw.execute(
            "SELECT count(DISTINCT relname) FROM pg_catalog.pg_class "
            "WHERE relkind = 'r' AND relname = ANY(%s) GROUP BY relnamespace",
            (sorted(OWN_TABLES),),
        )
        return any(count == len(OWN_TABLES) for (count,) in asked.fetchall())

    def query(self, statement: Statement, limit: int, secrets: Secrets) -> Rows:
        """See Session. The server is asked what the columns are before anything runs."""
        self._own_functions(statement)
        described = self._described(statement.text)
        columns = tuple(
            (described.fname(at) or b"?").decode("utf-8", "replace")
            for at in range(described.nfields)
        )
        origins = self._origins(
            [(described.ftable(at), described.ftablecol(at)) for at in range(described.nfields)]
        )
        with self._raw.cursor() as cursor:
            found, more = bounded(cursor.stream(statement.text.encode()), limit)
        return Rows(columns, found, more, origins)

    def change(self, statement: Statement, secrets: Secrets) -> int:
        """See Session."""
        self._own_functions(statement)
        if self._described(statement.text).nfields:
            raise ToolError("the database says that it returns rows, which no change does")
        cursor = self._raw.execute(statement.text.encode(), prepare=True)
        done = (cursor.statusmessage or "").lower()
        if not done.startswith(statement.verb):
            raise ToolError(
                f"the database did something else than {statement.verb.upper()}: {done[:60]}"
            )
        return cursor.rowcount

    def insert(self, statement: Statement, secrets: Secrets, shown: str) -> list[tuple[Any, ...]]:
        """See Session."""
        self._own_functions(statement)
        return self._raw.execute(
            f"{statement.text} RETURNING {shown}".encode(), prepare=True
        ).fetchall()

    def rows(
        self, text: str, secrets: Secrets, values: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """See Session."""
        ours = text.replace("%", "%%").replace(HERE, "%s") if values else text
        return self._raw.execute(ours.encode(), tuple(values) or None, prepare=True).fetchall()

    def obstacles(self, table: Relation, statement: Statement) -> list[str]:
        """Triggers, rules, children, and foreign keys that act.

        A table that is not one plain table here.
        """
        told = [] if table.kind == "table" else [f"{table.name} is a {table.kind} table"]
        bit = {"insert": 4, "delete": 8, "update": 16}[statement.verb]
        values = {"table": self._full(table), "bit": bit, "verb": statement.verb}
        return told + sorted(text for (text,) in self._raw.execute(_OBSTACLES, values).fetchall())

    def hidden(self, table: Relation, statement: Statement) -> list[str]:
        """See Session."""
        return in_postgres(self._raw, self.database.schema_name, self._full(table), statement)

    def _full(self, table: Relation) -> str:
        return f"{quoted(self.database.schema_name)}.{quoted(table.name)}"

    def version(self) -> str:
        """See Session."""
        found = self._raw.execute(
            "SELECT pg_catalog.current_setting('server_version'), current_user"
        ).fetchone()
        return "PostgreSQL {} as {}".format(*(found or ("?", "?")))

    def changeable(self) -> bool:
        """See Session."""
        (found,) = self._raw.execute(_CHANGEABLE, (self.database.schema_name,)).fetchone() or (
            False,
        )
        return bool(found)

    def commit(self) -> None:
        """See Session."""
        try:
            self._raw.commit()
        except psycopg.Error as error:
            if error.sqlstate and error.sqlstate[:2] not in ("08", "57", "58", "XX"):
                raise  # the server said no: nothing was changed
            raise ConnectionError(
                "the answer to COMMIT was lost; whether the change was made is not known"
            ) from None

    def _described(self, text: str) -> pq.abc.PGresult:
        """What the server says the one statement in `text` returns; it refuses more than one.

        Nothing runs.
        """
        line = self._raw.pgconn
        line.send_prepare(_NAME, text.encode())
        self._answer()
        line.send_describe_prepared(_NAME)
        result = self._answer()
        self._raw.execute(b"DEALLOCATE countersign")
        return result

    def _answer(self) -> pq.abc.PGresult:
        """What comes back for what was sent.

        The time the server takes is left to other threads, as libpq would not.
        """
        result: pq.abc.PGresult
        (result,) = self._raw.wait(generators.execute(self._raw.pgconn))
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise error_from_result(result)
        return result

    def _origins(self, found: list[tuple[int, int]]) -> tuple[tuple[str, str] | None, ...]:
        """Return table and column for each table OID and column number; None where computed."""
        asked = self._raw.execute(
            "SELECT a.attrelid::int8, a.attnum::int, c.relname::text, a.attname::text "
            "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
            "WHERE c.oid = ANY(%s::oid[])",
            ([table for table, _ in found if table],),
        )
        known = {
            (table, number): (name, column) for table, number, name, column in asked.fetchall()
        }
        return tuple(known.get(pair) for pair in found)

    def _own_functions(self, statement: Statement) -> None:
        """Refuse a name that the database's owner has given to a function as well: it may not only
        compute.
        """
        asked = self._raw.execute(
            "SELECT DISTINCT proname::text FROM pg_catalog.pg_proc p "
            "JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
            "WHERE n.nspname = %s AND proname = ANY(%s)",
            (self.database.schema_name, sorted(statement.names)),
        )
        if names := [name for (name,) in asked.fetchall()]:
            raise StatementError(
                f"this database has a function {names[0]} of its own, so it cannot be used"
            )
