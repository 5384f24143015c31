"""Finds the columns that a statement sets to something new in each run, like now(). Pure."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

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


def list_columns_set_at_run(statement: Statement) -> dict[str, bool]:
    """Return the columns that a statement sets to something new in each run, such as now().

    The keys are folded names. The value is true if only a time or a day changes, and the text
    joined to it stays the same.
    """
    found: dict[str, bool] = {}
    for name, value in _list_set_values(statement):
        plain_value = _drop_conditions_of_time(value, statement.dialect)
        if _differs_in_every_run(plain_value, statement.dialect):
            joined = _is_text_joined_to_time(plain_value, statement.dialect)
            found[name.lower()] = joined and found.get(name.lower(), True)
    return found


def is_text_of_time(value: Any) -> bool:
    """Whether a value is a word that a database reads as a time, such as "now"."""
    return bool(_TIME_WORD_PATTERN.fullmatch(f"'{value}'"))


def _list_set_values(statement: Statement) -> list[tuple[str, exp.Expr]]:
    """Return each column that a statement sets by its name, with what it is set to."""
    tree = statement.changing_node
    if tree is None:
        return []
    conflict = tree.args.get("conflict")
    pairs = [
        (column.name, each.expression)
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
        pairs += [pair for row in rows for pair in zip(names, row, strict=False)]
    return pairs


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
    """Whether an expression may have another value in each run.

    Quoted texts and names do not count, except a text that means a time, such as 'now'.
    """

    def keep_time(found: re.Match[str]) -> str:
        alone = not (found[1] or found[3])
        return found[2] if alone and _TIME_WORD_PATTERN.fullmatch(found[2]) else "?"

    sql = _TEXT_OR_NAME_PATTERN.sub(keep_time, value.sql(dialect))
    return bool(_TIME_EXPRESSION_PATTERN.search(sql) or _VOLATILE_CALL_PATTERN.search(sql))


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
