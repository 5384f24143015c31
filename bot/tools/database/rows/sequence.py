"""Statements that run one after the other in one transaction: what each of them does. PURE.

A later statement may meet rows that an earlier one has left. What of them is set at run time is so
for the later one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bot.tools.database.rows.change import Change, Row, RowChange
from bot.tools.database.rows.moment import Moment
from bot.tools.database.rows.trials import made_by, settled
from bot.tools.database.sql.statement import Statement


class Left:
    """The rows that the statements so far have left in one trial, with what is told of them."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Row] = {}

    def met(self, change: Change) -> Change:
        """Return a change by a later statement, with what is told of the rows that it has met."""
        return Change(
            tuple(
                replace(each, rows=tuple(self._met(each.table, row) for row in each.rows))
                for each in change.tables
            )
        )

    def _met(self, table: str, row: RowChange) -> RowChange:
        told = self._told.get((table, repr(row.before)))
        if told is None or row.before is None:
            return row
        if row.after is None:
            return RowChange(told, None)
        sides = zip(told, row.before, row.after, strict=True)
        return RowChange(told, tuple(said if old == new else new for said, old, new in sides))

    def keep(self, change: Change, told: Change) -> None:
        """Keep what a statement has left, and what is told of it."""
        for each, said in zip(change.tables, told.tables, strict=False):
            for row, other in zip(each.rows, said.rows, strict=False):
                if row.after is not None and other.after not in (None, row.after):
                    self._told[each.table, repr(row.after)] = other.after


def settle(
    once: Sequence[Change],
    again: Sequence[Change],
    moment: Moment,
    statements: Sequence[Statement],
    number: Callable[[Change, Statement], Change] = lambda change, _: change,
) -> tuple[Change, ...]:
    """Two trials of the statements made one, as `settled` does it with one statement.

    `number` says which numbers of added rows the database gives.
    """
    first, last = Left(), Left()
    result = []
    for one, other, statement in zip(once, again, statements, strict=True):
        made = settled(
            number(first.met(one), statement),
            number(last.met(other), statement),
            moment,
            made_by(statement),
        )
        first.keep(one, made)
        last.keep(other, made)
        result.append(made)
    return tuple(result)
