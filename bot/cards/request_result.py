"""What a look-up came to, for people: the fields of a result, or its text as it is. Pure."""

from __future__ import annotations

import json
from typing import Any

from bot.cards.answers import table_blocks, table_room
from bot.cards.labels import humanised
from bot.cards.parts import Json, line, preformatted, rich, words
from bot.cards.text import apart, escape, in_order, plain, visible
from storage.masking import masked

MOST = 2_600  # characters of a result that the thread shows
MOST_FIELDS = 30
ROWS, COLUMNS = 20, 10  # of a table


def result_blocks(effect: str, text: str) -> tuple[str, list[Json]]:
    """Return the notification and the blocks of a result; `effect`: what was looked up."""
    head = plain(in_order(visible(" ".join(masked(effect).split()))), 300)
    title, found = line(words("🔎 "), words(head, bold=True)), _loaded(text)
    rows = _rows(found)
    lines = _fields(found) if isinstance(found, dict) else []
    if not lines and not rows:
        lines = [preformatted(plain(visible(masked(text)).strip() or "(empty)", MOST))]
    return escape(f"🔎 {head}"), [rich("n", [title, *lines]), *rows]


def _loaded(text: str) -> Any:
    """Return what the text means as JSON; None where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _fields(found: dict[str, Any]) -> list[Json]:
    """Return a line for each field of a JSON object but its rows; none for one with too many."""
    told = {name: value for name, value in found.items() if not _are_rows(value)}
    if not told or len(told) > MOST_FIELDS:
        return []
    most = max(MOST // len(told), 60)
    return [
        line(
            words(f"{plain(apart(visible(humanised(str(name)))), 80)}:  ", bold=True),
            words(plain(apart(visible(masked(_value(value)))), most)),
        )
        for name, value in told.items()
    ]


def _are_rows(value: Any) -> bool:
    """Whether this is a list of flat objects, which reads best as a table."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and each for each in value)
        and not any(isinstance(cell, dict) for each in value for cell in each.values())
    )


def _rows(found: Any) -> list[Json]:
    """Return the first list of objects as a table; nothing where there is none."""
    inside = found.items() if isinstance(found, dict) else [("rows", found)]
    name, rows = next(((key, each) for key, each in inside if _are_rows(each)), ("", []))
    if not rows:
        return []
    columns = list(dict.fromkeys(key for each in rows for key in each))
    titles = [humanised(str(each)) for each in columns[:COLUMNS]]
    cells = [[masked(_value(each.get(key))) for key in columns[:COLUMNS]] for each in rows[:ROWS]]
    cells = cells[: table_room(titles, cells)]
    return table_blocks(
        {
            "title": humanised(str(name)),
            "columns": titles,
            "rows": cells,
            "total": len(rows),
            "width": len(columns),
            "more": False,
            "file": "",
        }
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(map(_value, value)) or "—"
    if isinstance(value, dict | list) and value:
        return json.dumps(value, ensure_ascii=False)
    return "—" if value in (None, "", {}) else str(value)
