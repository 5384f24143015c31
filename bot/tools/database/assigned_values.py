"""Finds the columns that a statement sets to something new in each run, like now(). Pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp

from bot.tools.database.catalog import Relation
from bot.tools.database.statement import Statement

# a quoted text or name, with any || before or after it that joins it to something
_TEXT_OR_NAME_PATTERN = re.compile(r"""(\|\|\s*)?('(?:[^']|'')*'|"(?:[^"]|"")*")(?=(\s*\|\|)?)""")
_TIME_WORD_PATTERN = re.compile(
    r"'\s*(?:now|today|tomorrow|yesterday)(?:\s+[\d:.+-]+|\s+allballs)?\s*'", re.IGNORECASE
)
# calls that may return another value each time, among them any function without arguments
_VOLATILE_CALL_PATTERN = re.compile(r"\(\s*\)|\b(?:random\w*|nextval)\s*\(", re.IGNORECASE)
# expressions that change with time; the only quotes left in the SQL are words such as 'now'
_TIME_EXPRESSION_PATTERN = re.compile(
    r"""\b(?:current_(?:date|time|timestamp)|localtime(?:stamp)?)\b(?:\s*\(\s*\))?
    |\b(?:(?:clock|statement|transaction)_timestamp|timeofday
    |now|date|datetime|time|julianday|unixepoch)\s*\(\s*\)|'""",
    re.IGNORECASE | re.VERBOSE,
)
_CURRENT_TIME_NODES = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)


class ColumnsSetAtRun(NamedTuple):
    """The columns that a statement sets to something new in each run, such as now().

    The keys are folded names. The value is true if only a time or a day changes, and the text
    joined to it stays the same.
    """

    added: dict[str, bool]  # in rows that it adds
    changed: dict[str, bool]  # in rows that were there before


def list_columns_set_at_run(statement: Statement, table: Relation) -> ColumnsSetAtRun:
    """Return the columns of the statement's table that it sets to something new in each run."""
    defaults = _parse_defaults_with_time(statement, table)

    def choose(values: list[tuple[str, exp.Expr]]) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for name, value in values:
            if value.name.upper() == "DEFAULT":
                value = defaults.get(name.lower(), value)
            plain_value = _drop_conditions_of_time(value, statement.dialect)
            if _differs_in_every_run(plain_value, statement.dialect):
                joined = _is_text_joined_to_time(plain_value, statement.dialect)
                found[name.lower()] = joined and found.get(name.lower(), True)
        return found

    changed = choose(_list_assignments(statement))
    if not isinstance(statement.changing_node, exp.Insert):
        return ColumnsSetAtRun(changed, changed)  # a row may be shown as deleted and added
    names, rows = list_inserted_values(statement, table)
    values = [pair for row in rows for pair in zip(names, row, strict=False)]
    return ColumnsSetAtRun(
        choose([*values, *(each for each in defaults.items() if each[0] not in names)]), changed
    )


def list_inserted_values(
    statement: Statement, table: Relation
) -> tuple[list[str], list[list[exp.Expr]]]:
    """Return the folded names of the columns that an INSERT sets itself, and its rows of values."""
    change = statement.changing_node
    if not isinstance(change, exp.Insert) or change.expression is None:
        return [], []
    source = change.expression
    if isinstance(source, exp.Values):
        rows = [getattr(each, "expressions", [each]) for each in source.expressions]
    else:
        rows = [getattr(source, "selects", [])]
    names = [each.name for each in table.columns if each.computed is None]
    if isinstance(change.this, exp.Schema):
        names = [each.name for each in change.this.expressions]
    elif not any(each.find(exp.Star) for row in rows for each in row):
        names = names[: max(map(len, rows), default=0)]
    return [each.lower() for each in names], rows


def _parse_defaults_with_time(statement: Statement, table: Relation) -> dict[str, exp.Expr]:
    """Return the defaults of a table's columns that depend on the time, by folded column name."""
    found: dict[str, exp.Expr] = {}
    for each in table.columns:
        if each.default and _TIME_EXPRESSION_PATTERN.search(_drop_texts(each.default)):
            try:
                found[each.name.lower()] = sqlglot.parse_one(
                    each.default, dialect=statement.dialect
                )
            except sqlglot.errors.SqlglotError:
                found[each.name.lower()] = exp.CurrentTimestamp()
    return found


def is_text_of_time(value: Any) -> bool:
    """Whether a value is a word that a database reads as a time, such as "now"."""
    return bool(_TIME_WORD_PATTERN.fullmatch(f"'{value}'"))


def _list_assignments(statement: Statement) -> list[tuple[str, exp.Expr]]:
    """Return each column that a statement sets in rows that exist, with what it is set to."""
    tree = statement.changing_node
    if tree is None:
        return []
    conflict = tree.args.get("conflict")
    return [
        (column.name, each.expression)
        for each in [*(tree.expressions or ()), *(conflict.expressions if conflict else ())]
        if isinstance(each, exp.EQ)
        for column in each.this.find_all(exp.Column)
    ]


def _drop_conditions_of_time(value: exp.Expr, dialect: str) -> exp.Expr:
    """Return an expression with its comparisons replaced by true, except those left to chance.

    A comparison with a time gives the same result in each run until that time has come. One left to
    chance calls a function such as random().
    """

    def drop(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Predicate):
            return node
        plain = _TIME_EXPRESSION_PATTERN.sub("", _TEXT_OR_NAME_PATTERN.sub("?", node.sql(dialect)))
        return node if _VOLATILE_CALL_PATTERN.search(plain) else exp.true()

    return value.transform(drop)


def _differs_in_every_run(value: exp.Expr, dialect: str) -> bool:
    """Whether an expression may have another value in each run."""
    sql = _drop_texts(value.sql(dialect))
    return bool(_TIME_EXPRESSION_PATTERN.search(sql) or _VOLATILE_CALL_PATTERN.search(sql))


def _drop_texts(sql: str) -> str:
    """Return SQL with ? for each quoted text or name, except a text that means a time ('now')."""

    def keep_time(found: re.Match[str]) -> str:
        alone = not (found[1] or found[3])
        return found[2] if alone and _TIME_WORD_PATTERN.fullmatch(found[2]) else "?"

    return _TEXT_OR_NAME_PATTERN.sub(keep_time, sql)


def _is_text_joined_to_time(value: exp.Expr, dialect: str) -> bool:
    """Whether an expression joins (||) only fixed parts and the plain current time or day."""
    parts, open_parts = [], [value.unnest()]
    while open_parts:
        part = open_parts.pop().unnest()
        if isinstance(part, exp.DPipe):
            open_parts += [part.left, part.right]
        else:
            parts.append(part)
    return len(parts) > 1 and all(
        (isinstance(part, _CURRENT_TIME_NODES) and not part.this)
        or not _differs_in_every_run(part, dialect)
        for part in map(_drop_cast_to_text, parts)
    )


def _drop_cast_to_text(part: exp.Expr) -> exp.Expr:
    """Return what a cast to text of any length is applied to; any other expression as it is."""
    kind = part.args.get("to") if isinstance(part, exp.Cast) else None
    is_text = kind is not None and kind.is_type("text", "varchar") and not kind.expressions
    return part.this.unnest() if is_text else part
