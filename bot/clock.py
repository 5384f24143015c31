"""Time as a dependency: everything that asks what time it is asks a Clock it was given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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


class ShiftedClock:
    """The machine's clock plus a shift that only grows; the demo and the tests move it forward.

    `on_shift` callbacks run after each move, on the caller's thread (the loop hangs its wake
    there).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shift = timedelta()
        self.on_shift: list[Callable[[], None]] = []

    def now(self) -> datetime:
        """The machine's time in UTC plus the shift so far."""
        with self._lock:
            return datetime.now(UTC) + self._shift

    def advance(self, seconds: float) -> datetime:
        """Move forward by `seconds` (>= 0) and return the new time; ValueError for a negative move."""
        if not seconds >= 0:
            raise ValueError("the clock only moves forward")
        with self._lock:
            self._shift += timedelta(seconds=seconds)
        for callback in list(self.on_shift):
            callback()
        return self.now()
