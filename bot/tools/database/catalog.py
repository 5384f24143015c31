"""The tables of a database as the agent may know them, read with SQLAlchemy."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from sqlalchemy import Connection, inspect
from sqlalchemy.dialects.postgresql import DOMAIN, ENUM
from sqlalchemy.engine import interfaces
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.exc import SAWarning
from sqlalchemy.types import NullType, TypeEngine
from sqlglot import exp

from bot.tools.database.config import Database, Dialect
from bot.tools.database.statement import Statement, StatementError
from bot.tools.tables import clip_line

# about types that SQLAlchemy does not know; they are shown as "?"
warnings.filterwarnings("ignore", "Did not recognize type", SAWarning)

MAX_ENUM_VALUES = 20  # shown per column
MAX_CHECKS = 5  # shown per table
MAX_COMMENT_CHARS = 120
COUNTERSIGN_TABLES = frozenset(
    {"delivery", "run", "item", "plan", "call", "revision", "vote", "audit"}
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table or view."""

    name: str
    type: str
    nullable: bool = True
    default: str = ""  # in SQL, or in words
    computed: str | None = None  # the expression of a generated column; "" when it is not known
    values: tuple[str, ...] = ()  # all labels of an enum type
    comment: str = ""  # from the database


@dataclass(frozen=True, slots=True)
class Relation:
    """One table or view that the database role can see."""

    name: str
    kind: str  # table, view, partitioned, foreign, virtual
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()  # the primary key's columns
    definition: str = ""  # a view's SELECT
    secret: frozenset[str] = frozenset()  # folded names of columns whose values nobody is shown
    schema: str = ""  # PostgreSQL only
    comment: str = ""  # from the database
    checks: tuple[str, ...] = ()  # CHECK conditions, in SQL
    keys: tuple[tuple[str, ...], ...] = ()  # columns unique together; "" for a computed
    # foreign keys: (own column, other table, column there)
    references: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables and views of one database, by folded name.

    The name includes the schema ("sales.orders") unless that is the first of `schemas`.
    """

    dialect: Dialect
    schemas: tuple[str, ...]
    tables: Mapping[str, Relation]

    def fold_name(self, name: str, *, quoted: bool = False) -> str:
        """Return a table or column name in the case in which the database compares names.

        SQLite ignores case everywhere, PostgreSQL only in names without quotes.
        """
        return name if self.dialect == "postgres" and quoted else name.lower()

    def find_table(self, table: exp.Table) -> Relation | None:
        """Return the table or view that a name in a statement refers to; None if there is none."""
        name = self.fold_name(table.name, quoted=bool(table.this.args.get("quoted")))
        places = [table.db.lower()] if table.db else [each.lower() for each in self.schemas]
        first = self.schemas[0].lower()
        keys = [name if place == first else f"{place}.{name}" for place in places]
        return next((self.tables[key] for key in keys if key in self.tables), None)

    def copy_with_secret_columns(self, secrets: Mapping[str, Iterable[str]]) -> Catalog:
        """Return a copy with these further secret columns, given by folded table name."""
        known = {
            name: replace(table, secret=table.secret | frozenset(secrets.get(name, ())))
            for name, table in self.tables.items()
        }
        return replace(self, tables=known)

    def is_secret(self, table: str, column: str) -> bool:
        """Whether a table with this name, in any schema, has a secret column with that name."""
        folded = column.lower() if self.dialect == "sqlite" else column
        return any(
            folded in each.secret
            for each in self.tables.values()
            if each.name.lower() == table.lower()
        )

    def describe_table(self, table: Relation, *, brief: bool = False) -> str:
        """Return one line about a table: its kind and columns, with keys and secret ones marked.

        Unless `brief`, also enum values, NOT NULL, defaults, checks and the owner's comments.
        """
        kind = "" if table.kind == "table" else f" [{table.kind}]"
        columns = ", ".join(self._describe_column(table, each, brief) for each in table.columns)
        name = f"{table.name}{kind}"
        if brief:
            return f"{name}: {columns}"
        # a CHECK on a secret column may reveal something of its values
        shown_checks = [
            each
            for each in table.checks
            if not any(name.lower() in each.lower() for name in table.secret)
        ]
        checks = "".join(f"; CHECK {clip_line(each, 100)}" for each in shown_checks[:MAX_CHECKS])
        return f"{name}{_quote_comment(table.comment)}: {columns}{checks}"

    def _describe_column(self, table: Relation, column: Column, brief: bool) -> str:
        text = f"{column.name} {column.type}" + " key" * (column.name in table.key)
        if self.fold_column_name(column) in table.secret:
            return f"{text} SECRET"
        if brief:
            return text
        if column.values:
            more = len(column.values) - MAX_ENUM_VALUES
            listed = "|".join(clip_line(each, 30) for each in column.values[:MAX_ENUM_VALUES])
            text += f" ({listed}{f'|… {more} more' if more > 0 else ''})"
        text += " NOT NULL" * (not column.nullable and column.name not in table.key)
        if column.computed is not None:
            text += " computed"
        elif column.default:
            text += f" default {clip_line(column.default, 40)}"
        return text + _quote_comment(column.comment)

    def fold_column_name(self, column: Column) -> str:
        """Return a column's name in the case in which the database compares names."""
        return self.fold_name(column.name, quoted=True)


def _quote_comment(comment: str) -> str:
    return f" “{clip_line(comment, MAX_COMMENT_CHARS)}”" if comment.strip() else ""


def quote_name(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


_CAST_PATTERN = re.compile(r"""('(?:[^']|'')*')::[\w\s".]+(?:\[\])?""")  # PostgreSQL's 'text'::type
_SHORT_TYPE_NAMES = {
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIME WITHOUT TIME ZONE": "TIME",
    "TIME WITH TIME ZONE": "TIMETZ",
}


def reflect_tables(
    connection: Connection, schema: str | None, kinds: dict[str, str], **facts: Mapping[str, Any]
) -> list[Relation]:
    """Return the tables that `kinds` (name -> kind) lists, with their columns and keys.

    `facts`: values of further fields of Relation, each a mapping by table name.
    """
    inspector, filters = inspect(connection), _build_reflection_filter(schema, kinds)
    columns = inspector.get_multi_columns(**filters)
    keys = inspector.get_multi_pk_constraint(**filters)
    tables = []
    for (_, name), reflected_columns in columns.items():
        if name in kinds:
            key: Any = keys.get((schema, name)) or {}
            more = {field: values[name] for field, values in facts.items() if name in values}
            built_columns = tuple(
                _build_column(each, connection.dialect) for each in reflected_columns
            )
            tables.append(
                Relation(
                    name,
                    kinds[name],
                    built_columns,
                    tuple(key.get("constrained_columns") or ()),
                    **more,
                )
            )
    return tables


def add_comments_and_check_constraints(connection: Connection, catalog: Catalog) -> Catalog:
    """Return the catalog with each table's comment and CHECK constraints."""
    inspector, tables = inspect(connection), dict(catalog.tables)
    for schema in {each.schema for each in tables.values()}:
        schema_tables = {key: each for key, each in tables.items() if each.schema == schema}
        filters = _build_reflection_filter(
            schema or None, {each.name for each in schema_tables.values()}
        )
        constraints: Any = inspector.get_multi_check_constraints(**filters)
        can_comment = inspector.dialect.supports_comments
        comments: Any = inspector.get_multi_table_comment(**filters) if can_comment else {}
        for key, each in schema_tables.items():
            place = (schema or None, each.name)
            comment = str((comments.get(place) or {}).get("text") or "")
            checks = tuple(str(check["sqltext"]) for check in constraints.get(place) or ())
            tables[key] = replace(each, comment=comment, checks=checks)
    return replace(catalog, tables=tables)


def _build_reflection_filter(schema: str | None, names: Any) -> Any:
    return {"schema": schema, "kind": ObjectKind.ANY, "filter_names": list(names)}


def _build_column(reflected: Any, dialect: interfaces.Dialect) -> Column:
    kind = reflected["type"]
    default = _CAST_PATTERN.sub(r"\1", str(reflected.get("default") or ""))
    if reflected.get("identity") or default.startswith("nextval("):
        default = "the next number"
    return Column(
        reflected["name"],
        _format_column_type(kind, dialect),
        bool(reflected.get("nullable", True)),
        default,
        reflected["computed"]["sqltext"] if reflected.get("computed") else None,
        tuple(kind.enums) if isinstance(kind, ENUM) else (),
        str(reflected.get("comment") or ""),
    )


def _format_column_type(kind: TypeEngine[Any], dialect: interfaces.Dialect) -> str:
    """Return a type as this database writes it; "?" if SQLAlchemy does not know it."""
    if isinstance(kind, DOMAIN):
        return f"{kind.name} ({_format_column_type(kind.data_type, dialect)})"
    if isinstance(kind, NullType):
        return "?"
    try:
        written = str(kind.compile(dialect=dialect))
    except Exception:  # noqa: BLE001 - SQLAlchemy cannot write down types it does not know
        return "?"
    return _SHORT_TYPE_NAMES.get(written, written)


# Which columns are secret, and which table a change is about. The databases themselves enforce the
# secrecy: SQLite by its authorizer (see `sqlite`), PostgreSQL by the role's rights (see
# `postgres_rights`). This part only finds out which columns are secret.


def get_target_table(statement: Statement, catalog: Catalog) -> Relation:
    """Return the table that a change is about.

    Raises StatementError if it does not exist or cannot be changed.
    """
    assert statement.target is not None
    table = catalog.find_table(statement.target)
    if table is None:
        raise StatementError(
            f"there is no table {statement.target.name}; the tool tables lists them"
        )
    if table.kind not in ("table", "partitioned"):
        kind = f"{table.kind}{' table' * (table.kind != 'view')}"
        raise StatementError(f"{table.name} is a {kind}; only a plain table can be changed")
    _check_no_secret_guessing(statement, table, catalog)
    return table


def _check_no_secret_guessing(statement: Statement, table: Relation, catalog: Catalog) -> None:
    """Raise StatementError for a change that would reveal values of a secret column.

    Which rows it touches, or whether it fails, can reveal a value: if one statement makes many
    guesses at a unique column, or if a foreign key refers to a secret column.
    """
    secret_key_columns = {
        name
        for key in (table.key, *table.keys)
        if any(not name or catalog.fold_name(name, quoted=True) in table.secret for name in key)
        for name in key
    }
    if secret_key_columns and table.secret and isinstance(statement.changing_node, exp.Insert):
        which = ", ".join(sorted(filter(None, secret_key_columns))) or "a key"
        for here, after in zip_longest(statement.tokens, statement.tokens[1:]):
            if here.word == "conflict" and (after is None or after.text != "("):
                raise StatementError(
                    f"{which} of {table.name} is secret and unique: ON CONFLICT has to name other "
                    "columns"
                )
        inserted_rows = statement.changing_node.expression
        if inserted_rows is not None and not (
            isinstance(inserted_rows, exp.Values) and len(inserted_rows.expressions) == 1
        ):
            raise StatementError(
                f"{which} of {table.name} is secret and unique: add one row per statement, with "
                "VALUES"
            )
    assigned_columns = statement.assigned_columns
    inserts = isinstance(statement.changing_node, exp.Insert)
    for own, parent, column in table.references:
        if catalog.is_secret(parent, column) and (
            own.lower() in assigned_columns or (inserts and not assigned_columns)
        ):
            raise StatementError(
                f"{table.name}.{own} has to match {parent}.{column}, which is secret"
            )


def mark_secret_columns(catalog: Catalog, database: Database) -> Catalog:
    """Return the catalog with its secret columns marked.

    A column is secret by the settings or by its name, or if it is computed from a secret column or
    refers to one.
    """
    marked = catalog.copy_with_secret_columns(
        {key: _list_secret_columns(table, database) for key, table in catalog.tables.items()}
    )
    last_count = -1
    while last_count != (secret_count := sum(len(each.secret) for each in marked.tables.values())):
        last_count = secret_count  # a column that references a secret one is secret, too
        marked = marked.copy_with_secret_columns(
            {
                key: [
                    marked.fold_name(own, quoted=True)
                    for own, parent, column in table.references
                    if marked.is_secret(parent, column)
                    and not database.is_declared_not_secret(table.name, own)
                ]
                for key, table in marked.tables.items()
            }
        )
    return marked


def _list_secret_columns(table: Relation, database: Database) -> set[str]:
    secret = {
        each.name.lower() for each in table.columns if database.is_secret(table.name, each.name)
    }
    known = -1
    while secret and known != len(secret):
        known = len(secret)
        plain = all(re.fullmatch(r"\w+", each) for each in secret)
        names = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, secret))})(?!\w)", re.IGNORECASE)
        for each in table.columns:
            computed = each.computed is not None
            if computed and not (plain and each.computed and not names.search(each.computed)):
                secret.add(each.name.lower())
    return secret
