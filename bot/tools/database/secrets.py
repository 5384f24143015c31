"""Determines which columns are secret, and which table a change is about. Pure.

The databases themselves keep the secrets: SQLite by its authorizer (see `sqlite`), PostgreSQL by
the role's rights (see `postgres_rights`). This module only says which columns these are.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from sqlglot import exp

from bot.tools.database.catalog import Catalog, Relation
from bot.tools.database.config import Database
from bot.tools.database.statement import Statement, StatementError


def get_target_table(statement: Statement, catalog: Catalog) -> Relation:
    """Return the table that a change is about.

    Raises StatementError if it does not exist or cannot be changed.
    """
    assert statement.target is not None
    found = catalog.find_table(statement.target)
    if found is None:
        raise StatementError(
            f"there is no table {statement.target.name}; the tool tables lists them"
        )
    if found.kind not in ("table", "partitioned", "foreign"):
        raise StatementError(f"{found.name} is a {found.kind}; only a table can be changed")
    _check_no_secret_guessing(statement, found, catalog)
    return found


def _check_no_secret_guessing(statement: Statement, table: Relation, catalog: Catalog) -> None:
    """Raise StatementError for a change that would reveal values of a secret column.

    Which rows it touches, or whether it fails, can tell a value: by many guesses at a unique column
    at once, or by what a foreign key allows.
    """
    told = {
        name
        for key in (table.key, *table.keys)
        if any(not name or catalog.fold_name(name, quoted=True) in table.secret for name in key)
        for name in key
    }
    if told and table.secret and isinstance(statement.changing_node, exp.Insert):
        which = ", ".join(sorted(filter(None, told))) or "a key"
        for here, after in zip_longest(statement.tokens, statement.tokens[1:]):
            if here.word == "conflict" and (after is None or after.text != "("):
                raise StatementError(
                    f"{which} of {table.name} is secret and in no two rows alike: ON CONFLICT has "
                    "to say of which other columns"
                )
        given = statement.changing_node.expression
        if given is not None and not (
            isinstance(given, exp.Values) and len(given.expressions) == 1
        ):
            raise StatementError(
                f"{which} of {table.name} is secret and in no two rows alike: add one row, with "
                "VALUES, in a statement"
            )
    named = statement.assigned_columns
    inserts = isinstance(statement.changing_node, exp.Insert)
    for own, parent, column in table.references:
        if catalog.is_secret(parent, column) and (own.lower() in named or (inserts and not named)):
            raise StatementError(
                f"{table.name}.{own} can only be what {parent}.{column} is, and that is secret"
            )


def mark_secret_columns(catalog: Catalog, database: Database) -> Catalog:
    """Return the catalog with its secret columns marked.

    They are secret by the settings or by their names, or computed from, or referring to, a secret
    one.
    """
    found = catalog.copy_with_secret_columns(
        {key: _list_secret_columns(table, database) for key, table in catalog.tables.items()}
    )
    known = -1
    while known != (now := sum(len(each.secret) for each in found.tables.values())):
        known = now  # a column that refers to a secret one has its values
        found = found.copy_with_secret_columns(
            {
                key: [
                    found.fold_name(own, quoted=True)
                    for own, parent, column in table.references
                    if found.is_secret(parent, column)
                    and not database.is_declared_not_secret(table.name, own)
                ]
                for key, table in found.tables.items()
            }
        )
    return found


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
