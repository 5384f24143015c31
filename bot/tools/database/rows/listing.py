"""All rows of a change as one table, for who decides about more of them than a card shows. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bot.tools import Table
from bot.tools.database.rows.change import Row, RowChange, TableRows
from bot.tools.database.rows.drawing import MAX_COLUMNS, MAX_ROWS, STATEMENT, Step

COLUMNS = ("statement", "table", "row", "change", "column", "before", "after")
MOST_VALUES, MOST_CHARACTERS = 50_000, 4_000_000


def listed(steps: Sequence[Step], drawn: str) -> Table | None:
    """Return a table with a line for each value that is added, changed or deleted.

    None where the `drawn` text shows all of it.
    """
    tables = [each for step in steps for each in step.change.tables]
    if not _is_cut(drawn) and not any(map(_is_large, tables)):
        return None
    lines: list[tuple[Any, ...]] = []
    size = 0
    for line in _lines(steps):
        size += sum(len(str(each)) for each in line)
        if len(lines) == MOST_VALUES or size > MOST_CHARACTERS:
            return Table("All rows of the change", COLUMNS, tuple(lines), more=True)
        lines.append(line)
    return Table("All rows of the change", COLUMNS, tuple(lines))


def _is_cut(drawn: str) -> bool:
    """Whether a value is; how a statement begins is cut as well, and stands elsewhere in full."""
    return any("…" in line for line in drawn.splitlines() if not line.startswith(STATEMENT))


def _is_large(table: TableRows) -> bool:
    return len(table.rows) > MAX_ROWS or len(table.columns) > MAX_COLUMNS


def _lines(steps: Sequence[Step]) -> Iterator[tuple[Any, ...]]:
    for number, step in enumerate(steps, 1):
        for table in step.change.tables:
            for at, row in enumerate(table.rows, 1):
                named = (number, table.table, _name(table, at, row))
                yield from ((*named, *each) for each in _values(table, row))


def _name(table: TableRows, at: int, row: RowChange) -> str:
    """By what a row is found again: its key, or only its number in this list."""
    there: Row = row.before or row.after or ()
    pairs = zip(table.key, table.key_of(there), strict=False)
    return ", ".join(f"{name} {_cell(value)}" for name, value in pairs) or f"no. {at}"


def _values(table: TableRows, row: RowChange) -> Iterator[tuple[str, str, str, str]]:
    """The kind of change, the column, before and after, of each value that is not the same."""
    if row.before is None or row.after is None:
        kind, values = ("added", row.after) if row.before is None else ("deleted", row.before)
        for name, value in zip(table.columns, values or (), strict=False):
            cell = _cell(value)
            yield (kind, name, "", cell) if kind == "added" else (kind, name, cell, "")
        return
    before, after = row.before, row.after
    changed = [at for at in range(len(table.columns)) if before[at] != after[at]]
    for at in changed:
        yield "changed", table.columns[at], _cell(before[at]), _cell(after[at])
    if not changed:
        yield "changed", "(nothing of what may be read)", "", ""


def _cell(value: Any) -> str:
    """A value in full."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes | memoryview):
        return f"0x{bytes(value).hex()}"
    return str(value) or "''"
