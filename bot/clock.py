"""Clocks: everything that asks what time it is asks a Clock that it was given."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

log = logging.getLogger("countersign.clock")
STEP = timedelta(seconds=0.5)  # by which a clock is off once it was set, and not only inexact
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux has it


def elapsed_seconds() -> float:
    """Return seconds since some moment that stays the same while the process lives.

    Whatever the machine's clock says, and though the machine slept meanwhile.
    """
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


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


class RecordClock:
    """The record's time: that of the machine, which goes on as time passes when it is set back.

    So what has expired stays so. Any thread.
    """

    def __init__(self, own: Clock) -> None:
        """`own`: the machine's."""
        self._own = own
        self._stepping = threading.Lock()
        # what was said last, and when that was as time passes
        self._last: tuple[datetime, timedelta] | None = None
        self._ahead = timedelta()  # of what the clock says that this goes by

    @property
    def on_shift(self) -> list[Callable[[], None]]:
        """What is called where a test moves the clock."""
        found: list[Callable[[], None]] = getattr(self._own, "on_shift", [])
        return found

    def wall(self) -> datetime:
        """What the clock says that this goes by, though it was set back: the world's time."""
        return self._own.now()

    def now(self) -> datetime:
        """The record's time, in UTC; never before what was said earlier."""
        with self._stepping:
            return self._next()

    def advance_past(self, moment: datetime) -> None:
        """Have it be that moment at least: the newest that the record holds."""
        with self._stepping:
            behind = moment - self._next()
            if behind > timedelta():
                self._ahead += behind
                self._last = moment, self._passed()
        if behind > STEP:
            log.warning(
                "the clock is %.1f s behind the newest time on record; time goes on from there",
                behind.total_seconds(),
            )

    def _passed(self) -> timedelta:
        """How much time has passed, and by how much a test has moved its clock."""
        shift: timedelta = getattr(self._own, "shift", timedelta())
        return timedelta(seconds=elapsed_seconds()) + shift

    def _next(self) -> datetime:
        said, at = self.wall(), self._passed()
        now = said + self._ahead
        if self._last is not None:
            expected = self._last[0] + max(at - self._last[1], timedelta())
            if abs(now - expected) > STEP:  # it was set
                if now < expected:
                    log.warning("the clock was set back; the record's time goes on as it passes")
                now = max(said, expected)
                self._ahead = now - said
            now = max(now, self._last[0])
        self._last = now, at
        return now


def world_time(clock: Clock) -> datetime:
    """What time it is for others, as Slack: where the clock was set back, the record is ahead."""
    return clock.wall() if isinstance(clock, RecordClock) else clock.now()


def lead_over_world_time(clock: Clock) -> timedelta:
    """How far the record's time is ahead of that; nothing where it is not."""
    return max(clock.now() - world_time(clock), timedelta())
