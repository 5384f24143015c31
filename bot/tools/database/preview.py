"""What a change would do, for the card: run in a transaction that is rolled back, or, where that is
not safe, counted.

The text is for a narrow card in a monospaced font: up to five rows, before and after, secret
columns masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.tools import Preview, ToolError
from bot.tools.database.catalog import Catalog, Relation, quoted
from bot.tools.database.secrets import set_columns, target
from bot.tools.database.session import HERE, Session
from bot.tools.database.sql.statement import Statement

WIDTH = 60  # characters
MAX_ROWS, MAX_COLUMNS = 5, 8
MASK = "••••••••"
EXPECTS = "rows="
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the table as a preview reads them: secret ones are never read."""

    table: Relation
    open: tuple[str, ...]  # names of the columns that may be read
    hidden: tuple[str, ...]  # names of those that may not

    def listed(self) -> str:
        """The readable columns for a SELECT."""
        return ", ".join(map(quoted, self.open)) or "NULL"


def preview_change(session: Session, statement: Statement) -> Preview:
    """Try the change out.

    Raises ToolError where it is refused or fails; the session is left to be rolled back.
    """
    table = target(statement, session.catalog)
    hidden = session.hidden(table, statement)
    told = obstacles(session, table, statement) + hidden
    shape = _shape(table, session.catalog)
    if told:
        count = None if hidden else _count(session, statement, table)
        known = (
            "How many rows it touches is not known."
            if count is None
            else _touches(statement, table, count)
        )
        lines = [known, "Not tried out beforehand, because:", *(f"- {each}" for each in told)]
        return Preview("\n".join(lines), "" if count is None else f"{EXPECTS}{count}")
    tried = _try_insert if statement.verb == "insert" else _try
    count, lines = tried(session, statement, shape)
    too_many(session, count)
    return Preview("\n".join([_touches(statement, table, count), *lines]), f"{EXPECTS}{count}")


def obstacles(session: Session, table: Relation, statement: Statement) -> list[str]:
    """Why the change is not tried out beforehand, a line each."""
    told = [f"{name} gives another value when it runs" for name in statement.volatile]
    if statement.verb == "insert":
        given = {each.name.lower() for each in set_columns(statement)}
        made = [each.name for each in table.columns if each.made and each.name.lower() not in given]
        told += [f"{name} gets its value only when it runs" for name in made]
    return told + session.obstacles(table, statement)


def too_many(session: Session, count: int) -> None:
    """Raise ToolError when a change touches more rows than the settings allow."""
    if count > session.database.max_changes:
        most = session.database.max_changes
        raise ToolError(f"it touches {count:,} rows, and at most {most:,} may change at once")


def _shape(table: Relation, catalog: Catalog) -> Shape:
    hidden = tuple(each.name for each in table.columns if catalog.column_key(each) in table.secret)
    return Shape(
        table, tuple(each.name for each in table.columns if each.name not in hidden), hidden
    )


def _count(session: Session, statement: Statement, table: Relation) -> int | None:
    """How many rows the change is about, told without running it; None when that depends on when it
    runs.
    """
    if statement.volatile or table.kind == "foreign":
        return None
    ahead, where_from, what = statement.pieces
    if statement.verb != "insert":
        return int(session.rows(f"{ahead} SELECT count(*) FROM {where_from} {what}")[0][0])
    if what[:6].lower() == "values":
        return len(statement.tree.args["expression"].expressions)
    return int(session.rows(f"{ahead} SELECT count(*) FROM ({what}) AS counted")[0][0])


def _try(session: Session, statement: Statement, shape: Shape) -> tuple[int, list[str]]:
    """Run it and read the rows before and after; their number, and the lines that show them."""
    ahead, where_from, what = statement.pieces
    key = [each for each in shape.table.key if each in shape.open]
    order = f" ORDER BY {', '.join(map(quoted, key))}" if key else ""
    text = f"{ahead} SELECT {shape.listed()} FROM {where_from} {what}{order} LIMIT {MAX_ROWS}"
    before = session.rows(text)
    count = session.change(statement).count
    rest = _rest(count - len(before))
    if statement.verb == "delete":
        return count, [*_rows(shape, before), *rest]
    set_here = {each.name.lower() for each in set_columns(statement)}
    keyless = (
        not key or len(key) != len(shape.table.key) or {each.lower() for each in key} & set_here
    )
    if keyless:
        return count, [
            "(the table has no lasting key: only the rows before)",
            *_rows(shape, before),
            *rest,
        ]
    lines = []
    for number, row in enumerate(before, 1):
        after = _again(session, shape, key, row)
        lines += _difference(number, shape, key, set_here, (row, after))
    return count, [*lines, *rest]


def _try_insert(session: Session, statement: Statement, shape: Shape) -> tuple[int, list[str]]:
    added = list(session.change(statement, shape.listed()).rows)
    given = {each.name.lower() for each in set_columns(statement)}
    guessed = [
        f"({each} may be another when it runs)"
        for each in shape.table.key
        if each.lower() not in given
    ]
    return len(added), [*_rows(shape, added[:MAX_ROWS]), *_rest(len(added) - MAX_ROWS), *guessed]


def _again(session: Session, shape: Shape, key: list[str], row: Row) -> Row | None:
    values = [row[shape.open.index(each)] for each in key]
    where = " AND ".join(f"{quoted(each)} = {HERE}" for each in key)
    found = session.rows(
        f"SELECT {shape.listed()} FROM {quoted(shape.table.name)} WHERE {where}",
        values,
    )
    return found[0] if found else None


def _rest(count: int) -> list[str]:
    return [f"… and {count:,} more row{'' if count == 1 else 's'}"] if count > 0 else []


def _touches(statement: Statement, table: Relation, count: int) -> str:
    verb = {"insert": "Adds", "update": "Changes", "delete": "Deletes"}[statement.verb]
    return f"{verb} {count:,} row{'' if count == 1 else 's'} of {table.name}" + (
        "." if count else ": nothing matches."
    )


def _difference(
    number: int, shape: Shape, key: list[str], set_here: set[str], pair: tuple[Row, Row | None]
) -> list[str]:
    """One row: its key, then each column that is set, old and new."""
    before, after = pair
    names = ", ".join(f"{each} {show(before[shape.open.index(each)])}" for each in key)
    lines = [clip(f"{number}. {names}", WIDTH)]
    wide = max(
        (len(each) for each in (*shape.open, *shape.hidden) if each.lower() in set_here), default=0
    )
    for at, name in enumerate(shape.open):
        old, new = before[at], after[at] if after else None
        if name.lower() in set_here or old != new:
            lines += _old_new(name.ljust(min(wide, 20)), show(old), show(new), same=old == new)
    hidden = [each for each in shape.hidden if each.lower() in set_here]
    return lines + [f"   {each.ljust(min(wide, 20))}  {MASK} → {MASK}" for each in hidden]


def _old_new(name: str, old: str, new: str, *, same: bool) -> list[str]:
    if same:
        return [clip(f"   {name}  {old}  (stays)", WIDTH)]
    line = f"   {name}  {old} → {new}"
    if len(line) <= WIDTH:
        return [line]
    return [f"   {name.rstrip()}", clip(f"   − {old}", WIDTH), clip(f"   + {new}", WIDTH)]


def _rows(shape: Shape, rows: list[Row]) -> list[str]:
    """Whole rows: side by side where they fit, one below the other where not."""
    if not rows:
        return []
    names = list(shape.open[:MAX_COLUMNS])
    more = len(shape.open) + len(shape.hidden) - len(names)
    cells = [[show(value) for value in row[: len(names)]] for row in rows]
    widths = [max(len(each) for each in column) for column in zip(names, *cells, strict=True)]
    note = [f"(and {more} more column{'' if more == 1 else 's'})"] if more else []
    if sum(widths) + 2 * len(widths) <= WIDTH and names:
        table = [names, *cells]
        return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in table] + note
    wide = min(max(len(each) for each in names), 20)
    lines = []
    for number, row in enumerate(cells, 1):
        for at, (name, value) in enumerate(zip(names, row, strict=True)):
            ahead = f"{number}. " if at == 0 else "   "
            lines.append(clip(f"{ahead}{clip(name, wide).ljust(wide)}  {value}", WIDTH))
    return lines + note


def show(value: Any) -> str:
    """A value in one line, as people read it."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes | memoryview):
        return f"({len(bytes(value)):,} bytes)"
    text = str(value)
    plain = "".join(each if each.isprintable() else "·" for each in text)
    return plain if plain else "''"


def clip(text: str, width: int) -> str:
    """At most `width` characters, with … where something is missing."""
    return text if len(text) <= width else text[: width - 1] + "…"
