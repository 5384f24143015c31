"""What a look-up came to, for people: the fields of a result, or its text as it is. Pure."""

from __future__ import annotations

import json
from typing import Any

from bot.messages.forms.slots import humanised
from bot.messages.parts import Json, line, preformatted, rich, words
from bot.messages.text import escape, plain, visible
from storage.masking import masked

MOST = 2_600  # characters of a result that the thread shows
MOST_FIELDS = 30


def result_blocks(effect: str, text: str) -> tuple[str, list[Json]]:
    """Return the notification and the blocks of a result; `effect`: what was looked up."""
    head = plain(visible(" ".join(masked(effect).split())), 300)
    title = line(words("🔎 "), words(head, bold=True))
    body = _fields(text) or [preformatted(plain(visible(masked(text)).strip() or "(empty)", MOST))]
    return escape(f"🔎 {head}"), [rich("n", [title, *body])]


def _fields(text: str) -> list[Json]:
    """Return a line for each field of a flat JSON object; none for anything else."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    if not isinstance(found, dict) or not found or len(found) > MOST_FIELDS:
        return []
    if any(isinstance(each, dict | list) and each for each in found.values()):
        return [preformatted(plain(visible(masked(_pretty(found))), MOST))]
    most = max(MOST // len(found), 60)
    return [
        line(
            words(f"\n{plain(visible(humanised(str(key))), 80)}:  ", bold=True),
            words(plain(visible(masked(_value(value))), most)),
        )
        for key, value in found.items()
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "—" if value in (None, "", [], {}) else str(value)


def _pretty(found: Any) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)
