"""SQLite as the database tools use it: opened for reading unless told otherwise, with an authorizer
on what runs (`guard`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from bot.tools import ToolError
from bot.tools.database.config import Database
from bot.tools.database.guard import Guard, refuse_joins
from bot.tools.database.reflection import reflect, remarks
from bot.tools.database.rows.change import Change
from bot.tools.database.rows.place import place_of
from bot.tools.database.rows.sqlite_watch import observe
from bot.tools.database.secrets import mark
from bot.tools.database.session import (
    Rows,
    Session,
    bounded,
    close,
    refuse_own,
)
from bot.tools.database.sql.catalog import Catalog, quoted
from bot.tools.database.sql.statement import Statement

_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LENGTH: 10_000_000,  # bytes of any one value
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
}
_PRAGMAS = (
    "trusted_schema=OFF",
    "foreign_keys=ON",
    "recursive_triggers=ON",
    "cell_size_check=ON",
    "temp_store=MEMORY",
)
_STEPS = 1_000  # instructions between two looks at the clock
_INERT = {"NO ACTION", "RESTRICT"}  # what a foreign key may do that changes no other row
_UNTOUCHED = {
    "SQLITE_BUSY",
    "SQLITE_FULL",
    "SQLITE_READONLY",
    "SQLITE_CONSTRAINT",
    "SQLITE_INTERRUPT",
    "SQLITE_LOCKED",
}


class SqliteSource:
    """One SQLite file."""

    def __init__(self, database: Database, own: Path | None) -> None:
        """`own`: the file of Countersign's own database, which is never opened."""
        self.database = database
        self._own = own

    @contextmanager
    def open(
        self, *, writes: bool, timeout: float | None = None, lock_timeout: float | None = None
    ) -> Iterator[Session]:
        """A transaction on the file, which must exist; BEGIN IMMEDIATE when it `writes`."""
        path, seconds = self.database.path, timeout or self.database.timeout
        refuse_own(path, self._own)
        if not path.is_file():
            raise ToolError(f"the file of the database {self.database.name} is not there")
        uri = f"{path.as_uri()}?mode={'rw' if writes else 'ro'}"

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(
                uri,
                uri=True,
                isolation_level=None,
                cached_statements=0,
                check_same_thread=False,
                timeout=lock_timeout or self.database.lock_timeout,
            )

        engine = create_engine(
            "sqlite+pysqlite://", creator=connect, poolclass=NullPool, hide_parameters=True
        )
        try:
            connection = engine.connect()
            try:
                raw: Any = connection.connection.driver_connection
                _prepare(raw, writes, time.monotonic() + seconds)
                # again, should the name have come to mean another file meanwhile
                refuse_own(path, self._own)
                yield SqliteSession(self.database, connection, raw)
            finally:
                close(connection)
        except sqlite3.Error as error:
            raise ToolError(_reason(error, seconds)) from None
        except DBAPIError as error:  # the same, as SQLAlchemy wraps it
            raise ToolError(_reason(error.orig, seconds)) from None


def _prepare(raw: sqlite3.Connection, writes: bool, deadline: float) -> None:
    if hasattr(raw, "enable_load_extension"):  # some builds of Python cannot load extensions at all
        raw.enable_load_extension(False)
    raw.text_factory = lambda value: value.decode("utf-8", "replace")
    for limit, value in _LIMITS.items():
        raw.setlimit(limit, value)
    for pragma in (*_PRAGMAS, f"query_only={'OFF' if writes else 'ON'}"):
        raw.execute(f"PRAGMA {pragma}")
    # made known here: making itself known, it reads the schema, which the authorizer refuses
    raw.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
    raw.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    raw.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


class SqliteSession(Session):
    """One transaction on an SQLite file."""

    def __init__(self, database: Database, connection: Any, raw: sqlite3.Connection) -> None:
        super().__init__(database, connection)
        self._raw = raw

    def _reflected(self) -> Catalog:
        """Tables, views and virtual tables of the main database; SQLite's own are left out."""
        listed = self._raw.execute("PRAGMA main.table_list").fetchall()
        kinds = {
            name: {"table": "table", "view": "view"}.get(kind, "virtual")
            for _, name, kind, *_ in listed
            if not name.lower().startswith("sqlite_") and self._opens(name)
        }
        views = dict(
            self._raw.execute("SELECT name, sql FROM main.sqlite_schema WHERE type = 'view'")
        )
        tables = reflect(
            self.connection,
            None,
            kinds,
            definition=views,
            keys=self._keys(),
            references=self._own_references(),
        )
        found = Catalog("sqlite", ("main",), {each.name.lower(): each for each in tables})
        return mark(found, self.database)

    def remarked(self, catalog: Catalog) -> Catalog:
        """See Session."""
        named = [each.name for each in catalog.tables.values() if each.kind == "table"]
        found = remarks(self.connection, None, named)
        return catalog.with_remarks({name.lower(): each for name, each in found.items()})

    def _opens(self, name: str) -> bool:
        """Whether SQLite itself can tell its columns.

        Not those of a view whose tables are gone, for example.
        """
        try:
            self._raw.execute(f"PRAGMA main.table_xinfo({quoted(name)})").close()
        except sqlite3.OperationalError:
            return False
        return True

    def query(self, statement: Statement, limit: int) -> Rows:
        """See Session."""
        with self._guarded(statement):
            cursor = self._raw.execute(statement.text)
            found, more = bounded(cursor, limit)
            columns = tuple(str(each[0]) for each in cursor.description or ())
            cursor.close()
        return Rows(columns, found, more)

    def look(self, statement: Statement) -> None:
        """See Session."""
        with self._guarded(statement):
            self._raw.execute(f"EXPLAIN {statement.body}").close()

    def observe(self, statements: Sequence[Statement]) -> tuple[Change, ...]:
        """See Session."""
        most = self.database.max_changes
        return observe(self._raw, self.catalog, self._guarded, statements, most)

    def version(self) -> str:
        """See Session."""
        return f"SQLite {sqlite3.sqlite_version}"

    def changeable(self) -> bool:
        """See Session."""
        return True  # or BEGIN IMMEDIATE would have failed

    def commit(self) -> None:
        """See Session."""
        self._before_commit()
        try:
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            code = str(getattr(error, "sqlite_errorname", ""))
            if not any(code.startswith(each) for each in _UNTOUCHED):
                raise ConnectionError(
                    f"the change was made, but writing it down failed: {code}"
                ) from None
            raise

    def _references(self) -> list[tuple[str, str, str | None, str, str]]:
        """All foreign keys: child table, parent table, parent's column, what an update and a delete
        there do.
        """
        return self._raw.execute(
            'SELECT t.name, k."table", k."to", k.on_update, k.on_delete '
            "FROM main.sqlite_schema AS t, pragma_foreign_key_list(t.name) AS k "
            "WHERE t.type = 'table'"
        ).fetchall()

    def _keys(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The columns of each table's unique indexes, "" for what is computed."""
        rows = self._raw.execute(
            "SELECT t.name, l.name, coalesce(x.name, '') FROM main.sqlite_schema AS t, "
            'pragma_index_list(t.name) AS l, pragma_index_xinfo(l.name) AS x WHERE l."unique" '
            "AND x.key AND t.type = 'table'"
        ).fetchall()
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for table, index, column in rows:
            columns = found.setdefault(table, {})
            columns[index] = (*columns.get(index, ()), column)
        return {table: tuple(each.values()) for table, each in found.items()}

    def _own_references(self) -> dict[str, tuple[tuple[str, str, str], ...]]:
        """Each table's foreign keys: its column, the other table, the column there."""
        rows = self._raw.execute(
            'SELECT t.name, k."from", k."table", coalesce(k."to", (SELECT p.name FROM '
            'pragma_table_info(k."table") AS p WHERE p.pk = k.seq + 1)) '
            "FROM main.sqlite_schema AS t, pragma_foreign_key_list(t.name) AS k "
            "WHERE t.type = 'table'"
        ).fetchall()
        found: dict[str, tuple[tuple[str, str, str], ...]] = {}
        for table, own, other, column in rows:
            if column:
                found[table] = (*found.get(table, ()), (own, other, column))
        return found

    def _reached(self, target: str) -> set[str]:
        """The tables whose rows change with those of `target`, by foreign keys."""
        found, known = {target}, -1
        acting = [each for each in self._references() if not {each[3], each[4]} <= _INERT]
        while known != len(found):
            known = len(found)
            found |= {child.lower() for child, parent, *_ in acting if parent.lower() in found}
        return found - {target}

    def _others(self) -> set[str]:
        """The folded names of all that SQLite knows beside the tables of the catalog: its own
        tables, those of modules, our temporary ones.
        """
        named = {name for _, name, *_ in self._raw.execute("PRAGMA table_list").fetchall()}
        named |= {name for (name,) in self._raw.execute("PRAGMA module_list").fetchall()}
        return {each.lower() for each in named} - set(self.catalog.tables)

    @contextmanager
    def _guarded(self, statement: Statement | None) -> Iterator[Guard]:
        """Whatever runs inside may only read, or change what the statement is about."""
        others = self._others()
        guard = Guard(self.catalog, others=others)
        if statement is not None:
            refuse_joins(statement.tokens, self.catalog)
            if statement.target is not None and statement.verb != "select":
                name = statement.target.name.lower()
                verbs = (
                    {statement.verb, "update"}
                    if statement.tree.args.get("conflict")
                    else {statement.verb}
                )
                guard = Guard(self.catalog, name, frozenset(verbs), self._reached(name), others)
        self._raw.set_authorizer(guard)
        try:
            yield guard
        except sqlite3.Error:
            if guard.refused:
                raise ToolError(guard.refused) from None
            raise
        finally:
            self._raw.set_authorizer(None)


def _reason(error: Any, seconds: float) -> str:
    """SQLite's own words. A secret is in none of them: nothing that reads one has begun."""
    text = next(iter(str(error).splitlines()), "") or type(error).__name__
    if text == "interrupted":
        return f"it took longer than {seconds:g} s and was stopped; nothing was changed"
    if "locked" in text:
        return (
            "another program holds the database; nothing was changed. Trying again later may work"
        )
    return f"{place_of(error)}the database says: {text[:300]}"
