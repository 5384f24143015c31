"""The database's schema: its tables, columns, indexes and triggers, checked and upgraded."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from storage.backend import Backend
from storage.migrations import SCRIPTS_FOLDER, newest

SchemaShape = dict[str, str]  # by name ("column run.team"): its table and its properties
SqlReader = Callable[[str], Iterable[Sequence[Any]]]  # runs a query and returns its rows
MAX_DIFFERENCES_NAMED = 3
# Alembic keeps the running migration in module globals, so a process runs one at a time
_UPGRADE_LOCK = threading.Lock()


# each row: the name, its table, and its properties
_SQLITE_SCHEMA_QUERIES = (
    "SELECT 'table ' || name, name, '' FROM sqlite_master"
    " WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
    "SELECT 'column ' || m.name || '.' || c.name, m.name, lower(c.type)"
    " || CASE c.\"notnull\" WHEN 1 THEN ' not null' ELSE '' END"
    " || CASE c.pk WHEN 0 THEN '' ELSE ' key ' || c.pk END"
    " || coalesce(' default ' || c.dflt_value, '')"
    " FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
    "SELECT 'foreign key of ' || m.name || '.' || f.\"from\", m.name,"
    " f.\"table\" || '.' || f.\"to\" || ' on delete ' || f.on_delete"
    " FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'",
    "SELECT CASE origin WHEN 'c' THEN 'index ' || index_name"
    " ELSE 'unique key of ' || name || ' (' || columns || ')' END, name,"
    " columns || CASE is_unique WHEN 1 THEN ' unique' ELSE '' END"
    " || CASE partial WHEN 1 THEN ' partial' ELSE '' END FROM (SELECT m.name, i.name AS index_name,"
    ' i."unique" AS is_unique, i.origin, i.partial,'
    " (SELECT group_concat(coalesce(x.name, '?'), ', ') FROM pragma_index_info(i.name) x)"
    " AS columns FROM sqlite_master m, pragma_index_list(m.name) i WHERE m.type = 'table')",
    "SELECT 'trigger ' || name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'",
)
_OURS = (
    "pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace AND n.nspname = current_schema()"
    " AND t.relkind IN ('r', 'p')"
)
_POSTGRESQL_SCHEMA_QUERIES = (
    f"SELECT 'table ' || t.relname, t.relname, t.relpersistence::text FROM {_OURS}",  # noqa: S608 # our own words
    "SELECT 'column ' || t.relname || '.' || a.attname, t.relname,"  # noqa: S608 # our own words
    " format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END"
    " || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')"
    f" FROM {_OURS} JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0"
    " AND NOT a.attisdropped"
    " LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum",
    "SELECT 'constraint ' || c.conname, t.relname, pg_get_constraintdef(c.oid)"  # noqa: S608 # our own words
    f" FROM {_OURS} JOIN pg_constraint c ON c.conrelid = t.oid AND c.contype IN ('p','f','u','c')",
    "SELECT 'index ' || c.relname, t.relname, pg_get_indexdef(i.indexrelid)"  # noqa: S608 # our own words
    f" FROM {_OURS} JOIN pg_index i ON i.indrelid = t.oid AND i.indisvalid"
    " JOIN pg_class c ON c.oid = i.indexrelid",
    "SELECT 'trigger ' || g.tgname, t.relname, pg_get_triggerdef(g.oid) || ' is '"  # noqa: S608 # our own words
    f" || g.tgenabled::text || ': ' || p.prosrc FROM {_OURS} JOIN pg_trigger g ON g.tgrelid = t.oid"
    " AND NOT g.tgisinternal JOIN pg_proc p ON p.oid = g.tgfoid",
)
_SELECT_CURRENT_SCHEMA = "SELECT current_schema()"
_SCHEMA_QUERIES_BY_DIALECT = {
    "sqlite": _SQLITE_SCHEMA_QUERIES,
    "postgresql": _POSTGRESQL_SCHEMA_QUERIES,
}


def read_schema_shape(ask: SqlReader, dialect: str) -> SchemaShape:
    """Return the shape of a database: each table's columns, indexes and triggers by name."""
    found: SchemaShape = {}
    # left out of the result: the schema's name differs between workspaces
    schema = (
        f"{next(iter(ask(_SELECT_CURRENT_SCHEMA)))[0]}." if dialect == "postgresql" else "main."
    )
    for query in _SCHEMA_QUERIES_BY_DIALECT[dialect]:
        for name, table, like in ask(query):
            found[name] = f"{table}: {' '.join(like.replace(schema, '').split())}"
    return found


def load_schema_ddl(revision: str, scripts: Path = SCRIPTS_FOLDER) -> list[str]:
    """Return the DDL that creates an empty SQLite database of that revision; [] if not stored."""
    path = scripts / "shapes" / f"{revision}.sqlite.sql"
    if not path.exists():
        return []
    return [each.strip() for each in path.read_text("utf-8").split("\n;\n") if each.strip()]


def load_expected_shape(
    revision: str, dialect: str, scripts: Path = SCRIPTS_FOLDER
) -> SchemaShape | None:
    """Return the tables, columns and so on that a revision should have; None if not stored."""
    if dialect == "sqlite":
        made = load_schema_ddl(revision, scripts)
        return _read_shape_of_ddl(made) if made else None
    path = scripts / "shapes" / f"{revision}.{dialect}.json"
    if not path.exists():
        return None
    shape: SchemaShape = json.loads(path.read_text("utf-8"))
    return shape


def _read_shape_of_ddl(made: list[str]) -> SchemaShape:
    with closing(sqlite3.connect(":memory:")) as raw:
        for each in made:
            raw.execute(each)
        return read_schema_shape(raw.execute, "sqlite")


def describe_shape_differences(found: SchemaShape, due: SchemaShape) -> list[str]:
    """Return a phrase for each way in which the schema `found` differs from the expected `due`."""
    tables = {_extract_table_name(said) for said in due.values()}
    lost = {each for each in tables if f"table {each}" not in found}
    told = [f"table {each} is missing" for each in sorted(lost)]
    for name, like in due.items():
        if _extract_table_name(like) not in lost and found.get(name) != like:
            told.append(f"{name} is {'missing' if name not in found else 'another one'}")
    strange = [
        name for name in found if name not in due and _extract_table_name(found[name]) in tables
    ]
    return told + [f"{name} is not Countersign's" for name in strange]


def _extract_table_name(said: str) -> str:
    return said.partition(":")[0]


def describe_schema_mismatch(
    name: str,
    revision: str | None,
    ask: SqlReader,
    dialect: str,
    scripts: Path = SCRIPTS_FOLDER,
    *,
    reading: bool = False,
) -> str:
    """Return why a database's shape does not match the schema revision it names; "" if it does.

    Having Countersign's tables without naming a revision is a mismatch, too. With `reading` only
    tables and columns are compared.
    """
    if (
        revision is not None
        and dialect == "sqlite"
        and _is_identical_to_ddl(ask, revision, scripts)
    ):
        return ""
    due = load_expected_shape(revision or newest(scripts), dialect, scripts)
    actual_shape = read_schema_shape(ask, dialect)
    if due is None:
        return ""
    if reading:
        due = _select_tables_and_columns(due)
        actual_shape = _select_tables_and_columns(actual_shape)
    if revision is None:
        own_tables = [each for each in due if each.startswith("table ") and each in actual_shape]
        wrong = "it has Countersign's tables but does not say which schema" if own_tables else ""
    else:
        wrong = _format_differences(describe_shape_differences(actual_shape, due))
        wrong = wrong and f"it says that its schema is {revision}, but {wrong}"
    if not wrong:
        return ""
    return (
        f"{name} cannot be used: {wrong}. A version before 0.1.0 made it, which cannot be"
        " upgraded, or it was changed by hand. Restore a backup (`countersign restore FILE`), or"
        " start over with another DATABASE_URL"
    )


def _is_identical_to_ddl(ask: SqlReader, revision: str, scripts: Path) -> bool:
    """Return whether a file's schema is word for word the DDL of that revision.

    If so, the search for differences can be skipped; it would take ten times as long at each start.
    """
    made = {" ".join(each.split()) for each in load_schema_ddl(revision, scripts)}
    found = ask("SELECT tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    there = [(str(table), " ".join(str(sql).split())) for table, sql in found]
    ours = {table for table, sql in there if sql in made}
    return bool(made) and {sql for table, sql in there if table in ours} == made


def _format_differences(odd: list[str]) -> str:
    more = len(odd) - MAX_DIFFERENCES_NAMED
    return ", ".join(odd[:MAX_DIFFERENCES_NAMED]) + (
        f", and {more} more like that" if more > 0 else ""
    )


def _select_tables_and_columns(shape: SchemaShape) -> SchemaShape:
    return {name: like for name, like in shape.items() if name.startswith(("table ", "column "))}


def create_missing_triggers(raw: sqlite3.Connection, revision: str) -> None:
    """Create the missing triggers of that schema revision in a backup's working copy."""
    there = {str(name) for (name,) in raw.execute("SELECT name FROM sqlite_master")}
    for each in load_schema_ddl(revision):
        if each.startswith("CREATE TRIGGER ") and each.split()[2] not in there:
            raw.execute(each)


def upgrade_schema(database: Backend, current: str | None, scripts: Path, newest: str) -> None:
    """Migrate a database from revision `current` (None: empty) to `newest` of `scripts`.

    A database with a revision is copied first, if its backend keeps such copies.
    """
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts))
    if current is not None:
        database.copy_before_migration(newest)
    config.attributes["engine"] = database.engine
    config.attributes["beforehand"] = database.list_drop_trigger_statements()
    # a migration that creates a table anew drops its triggers
    config.attributes["afterwards"] = database.list_create_trigger_statements
    with _UPGRADE_LOCK:
        command.upgrade(config, newest)
