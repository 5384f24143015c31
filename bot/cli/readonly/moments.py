"""Durations and moments as they are typed behind an option."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

from countersign.durations import DAY, seconds

_LONGEST = 99_999 * DAY  # seconds


def duration(text: str) -> timedelta:
    """How long "12h" or "30d" is; the usage tells of anything else."""
    found = seconds(text, "hd")
    if not 0 < found <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write it as 12h or 30d")
    return timedelta(seconds=found)


def moment(text: str) -> datetime:
    """The moment "2026-11-24" or "2026-11-24T22:00" is, in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write it as 2026-11-24 or 2026-11-24T22:00"
        ) from None
