"""The numbers that SQLite gives to the rows that are added. It only reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bot.tools.database.rows.change import AtRun, Change, RowChange
from bot.tools.database.sql.catalog import Relation, quoted


def highest_numbers(
    raw: sqlite3.Connection, tables: Iterable[tuple[Relation, str]]
) -> Mapping[str, int]:
    """The highest number that each table has given to a row, where SQLite gives the numbers.

    `tables`: each with the name by which its rows are told apart.
    """
    counters: dict[str, int] = {}
    if raw.execute("SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_sequence'").fetchone():
        counters = dict(raw.execute("SELECT lower(name), seq FROM main.sqlite_sequence").fetchall())
    found = {}
    for table, identity in tables:
        types = {column.name: column.type.upper() for column in table.columns}
        if [types[name] for name in table.key] == ["INTEGER"] and "id" in identity:
            text = f"SELECT max({quoted(identity)}) FROM main.{quoted(table.name)}"
            ((highest,),) = raw.execute(text).fetchall()
            found[table.name] = max(highest or 0, counters.get(table.name.lower()) or 0)
    return found


def numbered(change: Change, highest: Mapping[str, int], given: frozenset[str]) -> Change:
    """Return the change with an AtRun for the numbers that SQLite gives to added rows.

    They go on from the highest one, which may be another by then. `given`: the columns that the
    statement fills itself.
    """
    tables = []
    for table in change.tables:
        start = highest.get(table.table)
        said = table is change.target and {each.lower() for each in table.key} <= given
        if start is not None and table.key and not said:
            at = table.columns.index(table.key[0])
            rows = tuple(_with_number(row, at, start) for row in table.rows)
            table = replace(table, rows=rows)
        tables.append(table)
    return Change(tuple(tables))


def _with_number(row: RowChange, at: int, start: int) -> RowChange:
    if row.before is not None or row.after is None:
        return row
    number = row.after[at]
    if not isinstance(number, int) or number <= start:
        return row
    further = number - start - 1
    told = AtRun(f"the next number{f' + {further}' * bool(further)}")
    after = (*row.after[:at], told, *row.after[at + 1 :])
    return RowChange(None, after)
