"""A statement against what the database really holds: its tables and columns exist, and it tells no
secret. PURE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp, parse_one

from bot.tools.database.catalog import Catalog, Relation
from bot.tools.database.config import Database
from bot.tools.database.lineage import Flow
from bot.tools.database.sql import Dialect
from bot.tools.database.sql.statement import Statement
from bot.tools.database.sql.tokens import StatementError


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of looking for secrets."""

    # which columns of a query's result are masked, by position; empty for a change
    masks: tuple[bool, ...]
    # the secret columns that it mentions: folded table and column
    secrets: frozenset[tuple[str, str]]


def check(statement: Statement, catalog: Catalog) -> Checked:
    """Look for secrets.

    Raises StatementError where a table or column is not there, or a secret would be told.
    """
    for each in statement.tree.find_all(exp.Table):
        _look_up(each, catalog, statement)
    _names(statement, catalog)
    flow = Flow(_as_query(statement), catalog)
    masks = flow.outputs()
    if statement.verb == "select":
        return Checked(masks, frozenset(flow.secrets))
    if any(masks):
        raise StatementError("it would copy a secret column to where it can be read")
    return Checked((), frozenset(flow.secrets))


def target(statement: Statement, catalog: Catalog) -> Relation:
    """The table that a change is about.

    Raises StatementError when it is none that can be changed.
    """
    assert statement.target is not None
    table = _look_up(statement.target, catalog, statement)
    assert table is not None
    if table.kind not in ("table", "partitioned", "foreign"):
        raise StatementError(f"{table.name} is a {table.kind}; only a table can be changed")
    names = {catalog.column_key(each) for each in table.columns}
    for identifier in set_columns(statement):
        if catalog.fold(identifier.name, quoted=bool(identifier.args.get("quoted"))) not in names:
            raise StatementError(f"{table.name} has no column {identifier.name}")
    return table


def set_columns(statement: Statement) -> list[exp.Identifier]:
    """The columns that an UPDATE sets or an INSERT fills, as written."""
    if statement.verb == "update":
        return [each.this.this for each in statement.tree.expressions]
    return list(statement.tree.this.expressions) if statement.verb == "insert" else []


def mark(catalog: Catalog, database: Database) -> Catalog:
    """The catalog with the columns marked that the settings call secret, and those of views that
    show them.
    """
    return _marked(catalog.dialect, catalog.schema, tuple(catalog.tables.items()), database)


# following views takes a while, and a database rarely changes between two visits
@lru_cache(maxsize=64)
def _marked(
    dialect: Dialect, schema: str, tables: tuple[tuple[str, Relation], ...], database: Database
) -> Catalog:
    catalog = Catalog(dialect, schema, dict(tables))
    named = {}
    for key, table in tables:
        secret = {
            catalog.column_key(each)
            for each in table.columns
            if database.is_secret(table.name, each.name)
        }
        named[key] = _generated(table, catalog, secret)
    return mark_views(catalog.with_secrets(named))


def _generated(table: Relation, catalog: Catalog, secret: set[str]) -> set[str]:
    """The secret columns with those that the database computes from them."""
    known = -1
    while secret and known != len(secret):
        known = len(secret)
        names = "|".join(map(re.escape, secret))
        for each in table.columns:
            if each.computed == "" or re.search(
                rf"(?<!\w)(?:{names})(?!\w)", each.computed or "", re.IGNORECASE
            ):
                secret = secret | {catalog.column_key(each)}
    return secret


def mark_views(catalog: Catalog) -> Catalog:
    """The catalog with the columns of views marked secret that show secret columns of tables."""
    if not any(table.secret for table in catalog.tables.values()):
        return catalog
    views = {name: table for name, table in catalog.tables.items() if table.kind == "view"}
    for _ in range(len(views) + 1):  # a view may read views: again until nothing more is found
        found = {name: _of_view(table, catalog) for name, table in views.items()}
        further = catalog.with_secrets(found)
        if further == catalog:
            break
        catalog = further
    return catalog


def _of_view(view: Relation, catalog: Catalog) -> set[str]:
    names = [catalog.column_key(each) for each in view.columns]
    try:
        tree = parse_one(view.definition.strip().rstrip(";"), dialect=catalog.dialect)
        query = tree.expression if isinstance(tree, exp.Create) else tree
        for each in query.find_all(exp.Table):
            each.set("db", None)
        masks = Flow(query, catalog, lenient=True).outputs()
    except Exception:  # noqa: BLE001 - sqlglot may stumble over it: in doubt all is secret
        return set(names)
    return (
        {name for name, masked in zip(names, masks, strict=True) if masked}
        if len(masks) == len(names)
        else {*names}
    )


def _names(statement: Statement, catalog: Catalog) -> None:
    """No result column may take the name of a secret one: databases differ in which of the two a
    name then means.
    """
    used = [catalog.tables.get(each.name.lower()) for each in statement.tree.find_all(exp.Table)]
    used += [catalog.tables.get(each.name) for each in statement.tree.find_all(exp.Table)]
    secrets = {name.lower() for table in used if table for name in table.secret}
    given = [
        each
        for each in statement.tree.find_all(exp.Alias)
        if each.this.name.lower() != each.alias.lower()
    ]
    named = [each.alias for each in given]
    named += [
        column.name for each in statement.tree.find_all(exp.TableAlias) for column in each.columns
    ]
    for name in named:
        if name.lower() in secrets:
            raise StatementError(
                f"{name} is the name of a secret column; call the result something else"
            )


def _as_query(statement: Statement) -> exp.Expr:
    """A SELECT that mentions every column the statement mentions.

    It is only looked at, never run.
    """
    tree = statement.tree.copy()
    if statement.verb == "select":
        return tree
    query = exp.Select()
    if statement.verb == "insert":
        source = tree.args["expression"]
        if isinstance(source, exp.Values):
            cells = [
                cell for row in source.expressions for cell in getattr(row, "expressions", [row])
            ]
            query = exp.select(
                *(exp.alias_(cell, f"c{number}") for number, cell in enumerate(cells))
            )
        else:
            query = source
    else:
        values = (
            [each.expression for each in tree.expressions] if statement.verb == "update" else []
        )
        named = [exp.alias_(each, f"c{number}") for number, each in enumerate(values)] or [
            exp.alias_("1", "c")
        ]
        query = exp.select(*named).from_(tree.this)
        if where := tree.args.get("where"):
            query.set("where", where)
    if ahead := tree.args.get("with_"):
        inner = query.args.get("with_")
        query.set(
            "with_",
            exp.With(expressions=[*ahead.expressions, *(inner.expressions if inner else [])]),
        )
        query.args["with_"].set(
            "recursive", ahead.args.get("recursive") or (inner and inner.args.get("recursive"))
        )
    return query


def _look_up(table: exp.Table, catalog: Catalog, statement: Statement) -> Relation | None:
    """The table a name means; None for the name of a WITH.

    Raises StatementError for anything else.
    """
    quoted = bool(table.this.args.get("quoted"))
    name = catalog.fold(table.name, quoted=quoted)
    ctes = {
        catalog.fold(each.alias, quoted=_is_quoted(each))
        for each in statement.tree.find_all(exp.CTE)
    }
    if name in ctes:
        if name in catalog.tables or table.db or table is statement.target:
            raise StatementError(
                f"{table.name} is the name of a WITH and of a table; choose another name"
            )
        return None
    if table.db and table.db.lower() != catalog.schema.lower():
        raise StatementError(
            f"only tables of {catalog.schema} can be used, not {table.db}.{table.name}"
        )
    found = catalog.tables.get(name)
    if found is None:
        raise StatementError(f"there is no table {table.name}; the tool tables lists them")
    if found.kind == "virtual":
        raise StatementError(f"{table.name} is a virtual table; those cannot be used")
    return found


def _is_quoted(cte: exp.CTE) -> bool:
    alias = cte.args["alias"].this
    return bool(alias.args.get("quoted")) if isinstance(alias, exp.Identifier) else False
