"""Two trials of one change made one: what came out differently is set at run time. PURE."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database.rows.change import AtRun, Change, RowChange, TableRows
from bot.tools.database.rows.moment import Moment
from bot.tools.database.sql.statement import Statement

# what gives another value with time or each time it is called, as it is written
_ANEW = re.compile(
    r"""\b(?:current_(?:date|time|timestamp)|localtime(?:stamp)?|random\w*|gen_random_uuid|nextval
    |now|(?:clock|statement|transaction)_timestamp)\b|\(\s*\)
    |'(?:now|today|tomorrow|yesterday)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def most_events(most: int) -> int:
    """So many events are looked at, where `most` rows may change: a row may change repeatedly."""
    return most * 8 + 1000


class UnforeseenError(ToolError):
    """Two trials of a change did not touch the same rows."""

    def __init__(self) -> None:
        super().__init__(
            "which rows it touches cannot be foreseen: chance decides, or somebody changes them now"
        )


class TooManyError(ToolError):
    """The change touches more rows than the settings allow."""

    def __init__(self, most: int, count: int | None = None) -> None:
        touched = f"more than {most:,}" if count is None else f"{count:,}"
        super().__init__(f"it touches {touched} rows, and at most {most:,} may change at once")


def too_many(changes: Sequence[Change], most: int) -> None:
    """Raise TooManyError when the changes together touch more rows than the settings allow."""
    total = sum(each.total for each in changes)
    if total > most:
        raise TooManyError(most, total)


def filled(statement: Statement) -> frozenset[str]:
    """The folded names of the columns that an INSERT names."""
    tree = statement.tree
    named = isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema)
    return frozenset(each.name.lower() for each in (tree.this.expressions if named else ()))


def made_by(statement: Statement) -> frozenset[str]:
    """The folded names of the columns that a statement sets to what every run makes anew."""
    tree = statement.change
    if tree is None:
        return frozenset()
    conflict = tree.args.get("conflict")
    pairs = [
        (column.name, [each.expression])
        for each in [*(tree.expressions or ()), *(conflict.expressions if conflict else ())]
        if isinstance(each, exp.EQ)
        for column in each.this.find_all(exp.Column)
    ]
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        names = [each.name for each in tree.this.expressions]
        source = tree.args.get("expression")
        if isinstance(source, exp.Values):
            rows = [getattr(each, "expressions", [each]) for each in source.expressions]
        else:
            rows = [getattr(source, "selects", [])]
        pairs += [
            (name, [row[at] for row in rows if at < len(row)]) for at, name in enumerate(names)
        ]
    return frozenset(
        name.lower()
        for name, values in pairs
        if any(_ANEW.search(each.sql(statement.dialect)) for each in values)
    )


def settled(once: Change, again: Change, moment: Moment, made: frozenset[str]) -> Change:
    """Return `again` with an AtRun for what was another value `once`, or is of this `moment`.

    `made`: names of columns of the statement's table whose values it makes anew by each run. Raises
    UnforeseenError where the two have not touched the same rows.
    """
    refuse_chance(once, again)
    known = {each.table: each for each in once.tables}
    tables = []
    for each in again.tables:
        twins = _by_key(known[each.table]) if each.table in known else {}
        static = made if each is again.target else frozenset()
        places = [at for at, name in enumerate(each.columns) if name.lower() in static]
        rows = [
            _settled(row, twins.get(key), moment, places)
            for row, key in zip(each.rows, _keys(each), strict=True)
        ]
        tables.append(replace(each, rows=tuple(rows)))
    return Change(tuple(tables))


def refuse_chance(once: Change, again: Change) -> None:
    """Raise UnforeseenError where two trials have not touched the same rows."""
    if [_touched(each) for each in once.tables] != [_touched(each) for each in again.tables]:
        raise UnforeseenError


def _touched(table: TableRows) -> tuple[str, int, list[str]]:
    """Which rows of a table were there before, and how many in all."""
    return table.table, table.total, sorted(repr(row.before) for row in table.rows)


def _keys(table: TableRows) -> Iterable[Any]:
    """What tells the rows of two trials apart: the key before, and the number among its equals."""
    seen: Counter[str] = Counter()
    for row in table.rows:
        key = "" if row.before is None else repr(table.key_of(row.before))
        seen[key] += 1
        yield key, seen[key]


def _by_key(table: TableRows) -> dict[Any, RowChange]:
    return dict(zip(_keys(table), table.rows, strict=True))


def _settled(row: RowChange, twin: RowChange | None, moment: Moment, made: list[int]) -> RowChange:
    if row.after is None:
        return row
    after = list(row.after)
    other = twin.after if twin and twin.after and len(twin.after) == len(after) else None
    for at, value in enumerate(after):
        if at in made:
            after[at] = AtRun()
        elif other is not None and other[at] != value:
            told = moment.told(value)  # the clock's next second may have begun between the two
            after[at] = told if told == moment.told(other[at]) else AtRun()
        elif row.before is None or row.before[at] != value:
            after[at] = moment.told(value)
    return replace(row, after=tuple(after))
