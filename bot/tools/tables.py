"""Writes a tool's Table as JSON lines for the model, text cells for people, or a CSV file. Pure.

Data from a database is not trusted: no cell can become a formula in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from bot.tools import Table
from countersign.durations import format_count

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")  # they begin a formula in spreadsheets
OMISSION_NOTE_CHARS = 80  # kept free for the note about what is not shown


def convert_table_to_json_values(table: Table) -> Table:
    """Return a copy of the table with JSON values.

    Decimals become exact text, times ISO text, bytes base64.
    """
    cells = to_jsonable_python(
        table.rows, fallback=str, inf_nan_mode="strings", bytes_mode="base64"
    )
    return Table(
        table.title, tuple(map(str, table.columns)), tuple(tuple(row) for row in cells), table.more
    )


def render_table_for_model(table: Table, limit: int) -> str:
    """Return the columns and then the rows, one JSON list per line, in at most `limit` characters.

    The last line is a note on the rows that are missing, if any.
    """
    lines = [dump_json(list(table.columns))]
    left = limit - len(lines[0]) - OMISSION_NOTE_CHARS
    for row in table.rows:
        line = dump_json(list(row))
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    hidden = len(table.rows) - (len(lines) - 1)
    notes = [f"{hidden} more rows not shown to you; people can see them"] if hidden else []
    notes += ["there are more rows than were read"] if table.more else []
    return "\n".join([*lines, *([f"[… {'; '.join(notes)}]"] if notes else [])])


def row_count_text(table: Table) -> str:
    """Return the number of rows as a phrase for the card, for example "12 rows"."""
    count = format_row_count(len(table.rows))
    return f"{count}, and there are more" if table.more else count


def format_row_count(count: int) -> str:
    """Return a number of rows in words: "1 row", "1,200 rows"."""
    return format_count(count, "row")


def format_table_cell(value: Any) -> str:
    """Return a cell's value as text for people; "—" for None, "(empty)" for an empty text."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == "":
        return "(empty)"
    return value if isinstance(value, str) else dump_json(value)


def csv_text(table: Table) -> str:
    """Return the whole table as CSV (RFC 4180).

    An apostrophe is put before a text that a spreadsheet would take for a formula.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_escape_formula(name) for name in table.columns])
    for row in table.rows:
        writer.writerow([_escape_formula(value) for value in row])
    return out.getvalue()


def _escape_formula(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return dump_json(value)
    return f"'{value}" if value.startswith(_FORMULA_PREFIXES) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(".", "", 1).isdecimal()


def dump_json(value: Any) -> str:
    """Return a value of any type as compact JSON."""
    return to_json(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()


def clip_line(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, with … at its end if cut."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
