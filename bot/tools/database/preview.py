"""Previews a database change for the card, and makes sure that the run does the same.

Both run the change and look at all rows that it touches, in every table: the preview in a
transaction that is rolled back, the run before it commits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any
from unicodedata import bidirectional, normalize

from bot.tools import Preview, Table, ToolError
from bot.tools.database import row_changes
from bot.tools.database.session import Session
from bot.tools.database.statement import Statement
from bot.tools.invisible_characters import EMOJI_PATTERN
from bot.tools.tables import format_row_count
from countersign.durations import format_count
from storage.masking import MASK

# The rows of a change as text for a narrow card in a monospaced font, secret columns masked; and
# as one table, for approvers who want to see more of them than a card shows. Pure.

MAX_LINE_CHARS = 60
MAX_ROWS, MAX_COLUMNS = 5, 8
_SENTENCE_VERBS = {"insert": "Adds", "update": "Changes", "delete": "Deletes"}


Step = tuple[Statement, row_changes.Change]  # one statement of a change, and the rows it touches
# takes the rows of a table and the folded names of the columns that the statement sets in it
TableRenderer = Callable[[row_changes.TableRowChanges, frozenset[str]], list[str]]


def render_changes(steps: Sequence[Step]) -> str:
    """Return the card's text: the first rows of each table that the statements touch.

    Of each statement, the table that it names comes first.
    """
    lines = _render_steps(steps, _render_first_rows)
    rows = (row for _, change in steps for each in change.tables for row in each.rows)
    if any(isinstance(value, row_changes.ValueAtRun) for row in rows for value in row.after or ()):
        lines.append("What is set at run time will be another value then.")
    return "\n".join(lines)


def render_change_counts(steps: Sequence[Step]) -> str:
    """Return how many rows of which tables and which columns change, without any values."""
    return "\n".join(_render_steps(steps, _render_changed_columns))


def _render_steps(steps: Sequence[Step], render_table: TableRenderer) -> list[str]:
    """Return a heading for each table that the statements touch, each with `render_table`'s lines.

    If there are several statements, each begins with a title.
    """
    lines = []
    for number, (statement, change) in enumerate(steps, 1):
        lines += [f"Statement {number}:"] if len(steps) > 1 else []
        for each in change.tables:
            heading = touched_row_count_sentence(each, statement.verb)
            is_first = each is change.target
            lines.append(heading if is_first else f"Also {heading[0].lower()}{heading[1:]}")
            lines += render_table(each, statement.assigned_columns if is_first else frozenset())
    return lines


def touched_row_count_sentence(table: row_changes.TableRowChanges, verb: str) -> str:
    """Return a sentence ("Changes 2 rows of orders.") on how the rows of a table change."""
    added, changed, gone = map(len, _group_rows_by_kind(table))
    if table.loose:
        changed = min(added, gone)
    verb_counts = (
        ("Adds", added - changed * table.loose),
        ("Changes", changed),
        ("Deletes", gone - changed * table.loose),
        ("Touches", table.counted),
    )
    parts = [f"{word} {format_row_count(count)}" for word, count in verb_counts if count]
    if not parts:
        return f"{_SENTENCE_VERBS.get(verb, 'Changes')} 0 rows of {table.table}."
    sentence = " and ".join([parts[0], *(each[0].lower() + each[1:] for each in parts[1:])])
    return f"{sentence} of {table.table}{table.why and f' ({table.why})'}."


def no_touched_rows_sentence(steps: Sequence[Step]) -> str:
    """Return a sentence that says why these statements touch no row."""
    found = [
        ("no row would be added to {}" if each.verb == "insert" else "no row of {} matches").format(
            change.target.table
        )
        for each, change in steps
    ]
    return f"it would change nothing: {', '.join(dict.fromkeys(found))}"


def _render_changed_columns(
    table: row_changes.TableRowChanges, set_here: frozenset[str]
) -> list[str]:
    """Return a line that names the columns that change; [] if there are none."""
    found = [
        name
        for at, name in enumerate(table.columns)
        if any(
            row.before is None
            or row.after is None
            or not row_changes.is_same_value(row.before[at], row.after[at])
            for row in table.rows
        )
    ]
    found += [each for each in table.hidden if each.lower() in set_here]
    return [clip_value_text(f"   columns: {', '.join(found)}", 4 * MAX_LINE_CHARS)] if found else []


def _render_first_rows(table: row_changes.TableRowChanges, set_here: frozenset[str]) -> list[str]:
    """Return lines for the first rows of each kind of change, with a count of the rest."""
    added, changed, gone = _group_rows_by_kind(table)
    apart = table.loose and bool(added and gone)
    lines = ["(no lasting key: rows before, then rows after)"] * apart
    lines += _render_whole_rows(table, [row.before or () for row in gone[:MAX_ROWS]])
    lines += _render_rest_count(len(gone))
    for number, row in enumerate(changed[:MAX_ROWS], 1):
        lines += _render_changed_row(number, table, row, set_here)
    lines += _render_rest_count(len(changed))
    lines += _render_whole_rows(table, [row.after or () for row in added[:MAX_ROWS]])
    return lines + _render_rest_count(len(added))


def _group_rows_by_kind(
    table: row_changes.TableRowChanges,
) -> tuple[list[row_changes.RowChange], list[row_changes.RowChange], list[row_changes.RowChange]]:
    """Return the added, the changed and the deleted rows."""
    added = [row for row in table.rows if row.before is None]
    gone = [row for row in table.rows if row.after is None]
    return added, [row for row in table.rows if None not in (row.before, row.after)], gone


def _render_rest_count(count: int) -> list[str]:
    more = count - MAX_ROWS
    return [f"… and {format_count(more, 'more row')}"] if more > 0 else []


def _render_changed_row(
    number: int,
    table: row_changes.TableRowChanges,
    row: row_changes.RowChange,
    set_here: frozenset[str],
) -> list[str]:
    """Return lines for a changed row: its key, then old and new value of each changed column.

    Columns that the statement sets are listed even if their value stays.
    """
    assert row.before is not None
    assert row.after is not None
    called = table.key or table.columns[:3]
    names = ", ".join(
        f"{each} {format_value(row.before[table.columns.index(each)])}" for each in called
    )
    lines = [clip_value_text(f"{number}. {names}", MAX_LINE_CHARS)]
    pairs = list(zip(table.columns, row.before, row.after, strict=True))
    changed = [
        each
        for each in pairs
        if each[0].lower() in set_here or not row_changes.is_same_value(*each[1:])
    ]
    hidden = [each for each in table.hidden if each.lower() in set_here]
    wide = min(max(map(len, [*(each[0] for each in changed), *hidden]), default=0), 20)
    for name, old, new in changed:
        lines += _render_changed_value(name.ljust(wide), old, new)
    lines += [f"   {each.ljust(wide)}  {MASK} → {MASK}" for each in hidden]
    return lines if changed or hidden else [*lines, "   (none of it changes)"]


def _render_changed_value(name: str, before: Any, after: Any) -> list[str]:
    old, new = format_value(before), format_value(after)
    if row_changes.is_same_value(before, after):
        return [clip_value_text(f"   {name}  {old}  (stays)", MAX_LINE_CHARS)]
    begin_alike = len(old) > MAX_LINE_CHARS and _format_beginning(before) == _format_beginning(
        after
    )
    if normalize("NFKC", old) == normalize("NFKC", new) and not begin_alike:
        # they look alike, so show escapes
        old, new = (ascii(each) if isinstance(each, str) else str(each) for each in (before, after))
    line = f"   {name}  {old} → {new}"
    if len(line) <= MAX_LINE_CHARS and not ("→" in old + new or _may_run_leftwards(old + new)):
        return [line]
    return [
        f"   {name.rstrip()}",
        clip_value_text(f"   − {old}", MAX_LINE_CHARS),
        clip_value_text(f"   + {new}", MAX_LINE_CHARS),
    ]


def _may_run_leftwards(text: str) -> bool:
    """Whether a text holds right-to-left letters, which would swap it with what is beside it."""
    return any(bidirectional(each) in ("R", "AL", "AN") for each in text)


def _render_whole_rows(
    table: row_changes.TableRowChanges, rows: Sequence[row_changes.Row]
) -> list[str]:
    """Return lines for whole rows: as a table where it fits, otherwise one value a line."""
    if not rows:
        return []
    names = list(table.columns[:MAX_COLUMNS])
    more = len(table.columns) + len(table.hidden) - len(names)
    cells = [[format_value(value) for value in row[: len(names)]] for row in rows]
    widths = [max(len(each) for each in column) for column in zip(names, *cells, strict=True)]
    note = [f"(and {format_count(more, 'more column')})"] if more else []
    is_narrow = bool(names) and sum(widths) + 2 * len(widths) <= MAX_LINE_CHARS
    if is_narrow and not any(_may_run_leftwards(each) for row in [names, *cells] for each in row):
        lined = [names, *cells]
        return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lined] + note
    wide = min(max((len(each) for each in names), default=0), 20)
    lines = []
    for number, row in enumerate(cells, 1):
        for at, (name, value) in enumerate(zip(names, row, strict=True)):
            ahead = f"{number}. " if at == 0 else "   "
            lines.append(
                clip_value_text(
                    f"{ahead}{clip_value_text(name, wide).ljust(wide)}  {value}", MAX_LINE_CHARS
                )
            )
    return lines + note


# values that look like something else that a preview says; these are quoted
_AMBIGUOUS_TEXT_PATTERN = re.compile(
    rf"$|\s|.*\s$|'.*'$|NULL$|0x|\(set at run time|{MASK[0]}", re.DOTALL
)
_CHARACTER_PATTERN = re.compile(rf"{EMOJI_PATTERN.pattern}|.", re.DOTALL)
MAX_SHOWN_BYTES = 16  # longer values are shortened


def format_value(value: Any) -> str:
    """Return a value on one line for people, with a dot for each unprintable character."""
    if isinstance(value, bytes | memoryview) and len(bytes(value)) > MAX_SHOWN_BYTES:
        return f"0x{bytes(value)[: MAX_SHOWN_BYTES // 2].hex()}… ({len(bytes(value)):,} bytes)"
    return _CHARACTER_PATTERN.sub(
        lambda each: each[0] if len(each[0]) > 1 or each[0].isprintable() else "·",
        _format_beginning(value),
    )


def _format_beginning(value: Any) -> str:
    """Return the beginning of a value, more of it than fits on a line."""
    return _format_full_value(value)[: MAX_LINE_CHARS + 1]


def _format_full_value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes | memoryview):
        return f"0x{bytes(value).hex()}"
    text = str(value)
    return f"'{text}'" if isinstance(value, str) and _AMBIGUOUS_TEXT_PATTERN.match(text) else text


def clip_value_text(text: str, width: int) -> str:
    """Return the text cut to `width` characters, with … at its end if it was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


CHANGE_TABLE_COLUMNS = ("statement", "table", "row", "change", "column", "before", "after")
MAX_TABLE_LINES = 50_000
MAX_TABLE_CHARS = 4_000_000


def build_changed_value_table(steps: Sequence[Step], drawn: str) -> Table | None:
    """Return a table with a line for each value that is added, changed or deleted.

    None if the text `drawn` shows all of them.
    """
    tables = [each for _, change in steps for each in change.tables]
    if not {*"…·"} & {*drawn} and not any(
        len(each.rows) > MAX_ROWS or len(each.columns) > MAX_COLUMNS for each in tables
    ):
        return None
    lines: list[tuple[Any, ...]] = []
    size = 0
    for line in _list_value_table_rows(steps):
        size += sum(len(str(each)) for each in line)
        if len(lines) == MAX_TABLE_LINES or size > MAX_TABLE_CHARS:
            return Table("All rows of the change", CHANGE_TABLE_COLUMNS, tuple(lines), more=True)
        lines.append(line)
    return Table("All rows of the change", CHANGE_TABLE_COLUMNS, tuple(lines))


def _list_value_table_rows(steps: Sequence[Step]) -> Iterator[tuple[Any, ...]]:
    for number, (_, change) in enumerate(steps, 1):
        for table in change.tables:
            for at, row in enumerate(table.rows, 1):
                named = (number, table.table, _row_label(table, at, row))
                yield from ((*named, *each) for each in _list_value_changes(table, row))


def _row_label(table: row_changes.TableRowChanges, at: int, row: row_changes.RowChange) -> str:
    """Return what identifies a row: the values of its key, or its number in this list."""
    there: row_changes.Row = row.before or row.after or ()
    pairs = zip(table.key, table.get_row_key(there), strict=False)
    return ", ".join(f"{name} {_format_full_value(value)}" for name, value in pairs) or f"no. {at}"


def _list_value_changes(
    table: row_changes.TableRowChanges, row: row_changes.RowChange
) -> Iterator[tuple[str, str, str, str]]:
    """Yield (kind of change, column, before, after) for each value of a row that changes."""
    if row.before is None or row.after is None:
        kind, values = ("added", row.after) if row.before is None else ("deleted", row.before)
        for name, value in zip(table.columns, values or (), strict=False):
            cell = _format_full_value(value)
            yield (kind, name, "", cell) if kind == "added" else (kind, name, cell, "")
        return
    pairs = zip(table.columns, row.before, row.after, strict=False)
    changed = [each for each in pairs if not row_changes.is_same_value(*each[1:])]
    for name, before, after in changed:
        yield "changed", name, _format_full_value(before), _format_full_value(after)
    if not changed:
        yield "changed", "(nothing of what may be read)", "", ""


_OUTCOME_TEMPLATES = {"Insert": "Wrote {} into {}", "Delete": "Deleted {} of {}"}  # by verb


def preview_change(session: Session, statements: Sequence[Statement]) -> Preview:
    """Run a change and return its preview; the session is to be rolled back, not committed.

    Raises what `Session.run_changes` raises, and ToolError if nothing would change: then nobody
    is asked.
    """
    changes = session.run_changes(statements)
    steps = list(zip(statements, changes, strict=True))
    if not _count_touched_rows(changes):
        raise ToolError(no_touched_rows_sentence(steps), field="sql")
    text = render_changes(steps)
    rows = build_changed_value_table(steps, text)
    return Preview(
        text, build_changes_digest(changes), in_thread=render_change_counts(steps), rows=rows
    )


def _count_touched_rows(changes: Sequence[row_changes.Change]) -> int:
    return sum(each.total for each in changes)


def build_changes_digest(changes: Sequence[row_changes.Change]) -> str:
    """Return what the run has to match (Preview.expects): the row count, and a digest of rows."""
    digests = [each.digest() for each in changes]
    whole = digests[0] if len(digests) == 1 else sha256("".join(digests).encode()).hexdigest()
    return f"rows={_count_touched_rows(changes)};{whole}"


def preview_mismatch_sentence(expects: str, changes: Sequence[row_changes.Change]) -> str:
    """Return the sentence for people when a run would do something else than its preview showed."""
    shown, total = re.match(r"rows=(\d+);", expects), _count_touched_rows(changes)
    if shown and int(shown[1]) != total:
        now = format_row_count(total)
        names = dict.fromkeys(each.table for change in changes for each in change.tables)
        return (
            f"It would now touch {now} of {' and '.join(names)}, and {int(shown[1]):,} were shown."
        )
    return "It would now touch other rows, or write other values, than those shown."


def build_change_result(changes: Sequence[row_changes.Change]) -> dict[str, Any]:
    """Return the result of a change that was made: the number of rows by table."""
    targets = [each.target for each in changes]
    result: dict[str, Any] = {"rows": sum(each.total for each in targets)}
    if len(targets) == 1:
        result["table"] = targets[0].table
    else:
        named = enumerate(targets, 1)
        result["statements"] = {f"{number}. {each.table}": each.total for number, each in named}
    others: Counter[str] = Counter()
    for each in changes:
        others.update({table.table: table.total for table in each.tables[1:]})
    return result | ({"also": dict(others)} if others else {})


def applied_change_sentence(args: Any, result: Mapping[str, Any]) -> str:
    """Return a sentence for people about a change that was made: "Changed 3 rows of orders …"."""
    count = format_row_count(result["rows"])
    if table := result.get("table"):
        done = _OUTCOME_TEMPLATES.get(
            args.sql.summary.partition(" ")[0], "Changed {} of {}"
        ).format(count, table)
    else:
        done = f"Changed {count} in {len(result['statements'])} steps"
    others = [
        f"{format_row_count(number)} of {name}" for name, number in result.get("also", {}).items()
    ]
    also = f", and with that {', '.join(others)}" if others else ""
    return f"{done} in the database {args.database}{also}"
