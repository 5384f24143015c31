"""What a change would run that its text does not show: volatile functions in views, checks, row
security, operators.

A rolled-back trial would not undo all that these do, and they may give other values later: the card
names them instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
from sqlglot import exp

from bot.tools.database.catalog import Catalog, Relation
from bot.tools.database.sql.functions import BARE, VOLATILE
from bot.tools.database.sql.statement import Statement

_CALL = re.compile(r'([A-Za-z_]\w*|"(?:[^"]|"")+")\s*\(')
# another value in the next transaction
_STABLE = {"now", "transaction_timestamp", "statement_timestamp", "age"}
# Of the tables read, and of the views these stand for, what is computed; of the table changed, what
# is checked.
_TEXTS = """
    WITH RECURSIVE used(oid) AS (
        SELECT c.oid FROM pg_catalog.pg_class c
            WHERE c.relnamespace = %(schema)s::regnamespace AND lower(c.relname) = ANY(%(tables)s)
        UNION SELECT d.refobjid FROM used u
            JOIN pg_catalog.pg_rewrite r ON r.ev_class = u.oid
            JOIN pg_catalog.pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                AND d.refclassid = 'pg_class'::regclass)
    SELECT 'the view ' || c.relname, pg_catalog.pg_get_viewdef(c.oid)
        FROM used JOIN pg_catalog.pg_class c USING (oid) WHERE c.relkind = 'v'
    UNION ALL SELECT 'the row security of ' || polrelid::regclass, pg_catalog.concat_ws(' ',
            pg_catalog.pg_get_expr(polqual, polrelid),
            pg_catalog.pg_get_expr(polwithcheck, polrelid))
        FROM used JOIN pg_catalog.pg_policy ON polrelid = used.oid
    UNION ALL SELECT 'the check ' || conname, pg_catalog.pg_get_constraintdef(oid)
        FROM pg_catalog.pg_constraint
        WHERE contype = 'c' AND (conrelid = %(table)s::regclass OR contypid IN (
            SELECT atttypid FROM pg_catalog.pg_attribute WHERE attrelid = %(table)s::regclass))"""
# Whoever made an operator or a cast has an OID of 16384 or more:
# https://www.postgresql.org/docs/15/system-catalog-initial-data.html
_SYMBOLS = """
    SELECT 'the operator ' || oprname || ' of this database', proname FROM pg_catalog.pg_operator o
        JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode WHERE o.oid >= 16384 AND provolatile = 'v'
    UNION ALL SELECT 'a cast of this database', proname FROM pg_catalog.pg_cast c
        JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc
        WHERE c.oid >= 16384 AND provolatile = 'v'"""


def in_postgres(
    raw: psycopg.Connection[Any], schema: str, name: str, statement: Statement
) -> list[str]:
    """Why a change of the table `name` (quoted, with its schema) cannot be tried out safely, a line
    each.
    """
    values = {"schema": f'"{schema}"', "table": name, "tables": sorted(_tables(statement))}
    texts = [(what, called(text or "")) for what, text in raw.execute(_TEXTS, values).fetchall()]
    names = sorted({each for _, found in texts for each in found})
    asked = (
        "SELECT DISTINCT proname::text FROM pg_catalog.pg_proc "
        "WHERE provolatile = 'v' AND proname = ANY(%s)"
    )
    volatile = {each for (each,) in raw.execute(asked, (names,)).fetchall()} | _STABLE | BARE
    told = [(what, each) for what, found in texts for each in found & volatile]
    return _sentences([*told, *raw.execute(_SYMBOLS).fetchall()])


def in_sqlite(catalog: Catalog, statement: Statement) -> list[str]:
    """The same for SQLite, where only views can hide anything."""
    told = []
    for view in _views(catalog, _tables(statement)):
        told += [(f"the view {view.name}", each) for each in called(view.definition) & VOLATILE]
    return _sentences(told)


def called(text: str) -> frozenset[str]:
    """The functions that an expression, as a database writes it, could call by name."""
    words = {each.lower() for each in re.findall(r"[A-Za-z_]+", text)}
    names = {
        each.lower() if each[0] != '"' else each[1:-1].replace('""', '"')
        for each in _CALL.findall(text)
    }
    return frozenset(names | (words & BARE))


def _tables(statement: Statement) -> set[str]:
    return {each.name.lower() for each in statement.tree.find_all(exp.Table)}


def _views(catalog: Catalog, names: set[str]) -> Iterator[Relation]:
    """The views among these names, and those that they read."""
    seen: set[str] = set()
    while names:
        seen |= names
        found = [catalog.tables[each] for each in names if each in catalog.tables]
        yield from (each for each in found if each.kind == "view")
        words = {word.lower() for each in found for word in re.findall(r"\w+", each.definition)}
        names = (words & set(catalog.tables)) - seen


def _sentences(told: list[tuple[str, str]]) -> list[str]:
    return sorted(
        {
            f"{what} calls {name}, which may do or give something else when it runs"
            for what, name in told
        }
    )
