"""Time as a dependency: everything that asks what time it is asks a Clock it was given."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the time is, in UTC."""

    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The machine's time in UTC."""
        return datetime.now(UTC)
