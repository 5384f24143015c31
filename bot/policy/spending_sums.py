"""Sums over calls as conditions write them: `spent("tool", "field", "24h")`, `count("tool", "1h")`.

Further arguments say whose calls are summed, and which of them. PURE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.policy.condition_values import SpendingSum
from countersign.durations import DAY, MINUTE, parse_duration

SPENDING_FUNCTIONS = {"spent": '"tool", "field", "24h"', "count": '"tool", "24h"'}
BY_ANYONE = "by anyone"
_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SAME_FIELD_PATTERN = re.compile(r"same ([A-Za-z_][A-Za-z0-9_]{0,99})")


def parse_spending_sum(name: str, words: Sequence[str]) -> SpendingSum:
    """Return the sum that `spent` or `count` (`name`) asks for with these arguments (`words`).

    Raises ValueError, with what is wrong.
    """
    shape = SPENDING_FUNCTIONS[name]
    needed = shape.count(",") + 1
    if len(words) < needed:
        raise ValueError(f"needs words in quotes, as in {name}({shape})")
    tool, field, window = words[:3] if name == "spent" else (words[0], "", words[1])
    if not _NAME_PATTERN.fullmatch(tool) or (
        name == "spent" and not _NAME_PATTERN.fullmatch(field)
    ):
        raise ValueError(f"needs the names of a tool and a field in {name}({shape})")
    same_fields: set[str] = set()
    anyone = False
    for word in words[needed:]:
        if word == BY_ANYONE:
            anyone = True
        elif match := _SAME_FIELD_PATTERN.fullmatch(word):
            same_fields.add(match[1])
        else:
            raise ValueError(
                f"has {word!r} in {name}(), which means nothing there; "
                f'write "{BY_ANYONE}" or "same currency"'
            )
    return SpendingSum(
        tool, field, parse_window_seconds(window), tuple(sorted(same_fields)), anyone
    )


def parse_window_seconds(text: str) -> int:
    """Return the seconds in "30m", "24h" or "7d", at most 90 days; raises ValueError."""
    length = parse_duration(text, "mhd")
    if not MINUTE <= length <= 90 * DAY:
        raise ValueError(f'{text!r} is not a window; write "30m", "24h" or "7d", at most "90d"')
    return length
