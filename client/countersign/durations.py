"""Durations, read as people write them ("90s", "4h") and in words; other numbers with their noun.

Pure.
"""

from __future__ import annotations

import re
from datetime import timedelta

MINUTE, HOUR, DAY = 60, 3_600, 86_400  # seconds

_DURATION_PATTERN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS_BY_UNIT = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
_UNIT_WORDS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"))


def parse_duration(text: str, units: str = "smhd") -> int:
    """Return the seconds in a duration such as "4h"; 0 for other text, or for other units."""
    found = _DURATION_PATTERN.fullmatch(text)
    return int(found[1]) * _SECONDS_BY_UNIT[found[2]] if found and found[2] in units else 0


def format_duration(duration: int) -> str:
    """Return a number of seconds in words, in the largest unit that is exact: "4 hours"."""
    for size, unit in _UNIT_WORDS:
        if duration >= size and duration % size == 0:
            return format_count(duration // size, unit)
    return format_count(duration, "second")


def format_rough_duration(left: timedelta) -> str:
    """Return a time span as people say it: "45 minutes", "1 hour", "3 days".

    Rounded to the minute up to two hours, above that down to whole hours or days; at least a
    minute.
    """
    minutes = max(1, round(left.total_seconds() / MINUTE))
    for size, unit in _UNIT_WORDS:
        count, rest = divmod(minutes * MINUTE, size)
        if count >= 2 or (count == 1 and not rest):
            return format_count(count, unit)
    return format_count(minutes, "minute")


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 row", "1,200 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
