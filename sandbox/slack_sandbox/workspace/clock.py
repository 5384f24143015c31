"""The sandbox's time: a clock that a test may move forward."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The interface of a clock that the sandbox can use, or share with an app."""

    on_shift: list[Callable[[], None]]  # called after each move

    def now(self) -> datetime:
        """Return the time, timezone-aware, in UTC."""
        ...

    def advance(self, seconds: float) -> datetime:
        """Move forward by `seconds` and return the new time; ValueError for a negative move."""
        ...


class ShiftedClock:
    """The machine's clock and a shift that only grows.

    The functions in `on_shift` are called after each move, on the caller's thread.
    """

    def __init__(self, begin: datetime | None = None) -> None:
        """It begins at `begin` (timezone-aware), or now."""
        self._lock = threading.Lock()
        self._shift = begin - datetime.now(UTC) if begin else timedelta()
        self.on_shift: list[Callable[[], None]] = []

    @property
    def shift(self) -> timedelta:
        """How far the clock has been moved."""
        return self._shift

    def now(self) -> datetime:
        """Return the machine's time in UTC plus the shift so far."""
        with self._lock:
            return datetime.now(UTC) + self._shift

    def advance(self, seconds: float) -> datetime:
        """Move forward by `seconds` and return the new time; ValueError for a negative move."""
        if not seconds >= 0:
            raise ValueError("the clock only moves forward")
        with self._lock:
            self._shift += timedelta(seconds=seconds)
        for callback in list(self.on_shift):
            callback()
        return self.now()
