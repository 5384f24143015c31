"""Clocks: code that needs the current time asks a Clock that was passed to it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

log = logging.getLogger("countersign.clock")
CLOCK_SET_THRESHOLD = timedelta(seconds=0.5)  # a larger difference means that the clock was set
_BOOT_CLOCK_ID: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # exists on Linux only


def monotonic_seconds() -> float:
    """Return the seconds since a fixed moment, to measure how much time passes.

    Setting the machine's clock does not change it. Time asleep counts where the system has
    CLOCK_BOOTTIME (Linux).
    """
    return time.monotonic() if _BOOT_CLOCK_ID is None else time.clock_gettime(_BOOT_CLOCK_ID)  # noqa: TID251  # not of day


class Clock(Protocol):
    """A source of the current time, in UTC."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's time in UTC."""
        return datetime.now(UTC)  # noqa: TID251  # it is the clock


class ForwardOnlyClock:
    """The time used in the record: the machine's time, except that it never goes back.

    If the machine's clock is set back, this clock goes on from its last time, so what has expired
    stays expired. Thread-safe.
    """

    def __init__(self, own: Clock) -> None:
        """`own`: the machine's clock, or one like this, from whose time this one goes on."""
        self._system_clock = own
        self._lock = threading.Lock()
        # the time returned last, and the elapsed time at that moment
        self._last_reading: tuple[datetime, timedelta] | None = None
        self._offset = timedelta()  # added to the machine's time
        if isinstance(own, ForwardOnlyClock):
            own.now()
            self._system_clock = own._system_clock
            self._last_reading = own._last_reading
            self._offset = own._offset

    @property
    def on_shift(self) -> list[Callable[[], None]]:
        """Return the callbacks that a test's clock calls when moved; empty for a real clock."""
        found: list[Callable[[], None]] = getattr(self._system_clock, "on_shift", [])
        return found

    def read_source_clock(self) -> datetime:
        """Return the time of the machine's clock as it is, even if that was set back."""
        return self._system_clock.now()

    def now(self) -> datetime:
        """Return the record's time in UTC; never earlier than a time returned before."""
        with self._lock:
            return self._compute_now()

    def advance_past(self, moment: datetime) -> None:
        """Move this clock forward to `moment`, the newest time on record, if it is behind."""
        with self._lock:
            behind = moment - self._compute_now()
            if behind > timedelta():
                self._offset += behind
                self._last_reading = moment, self._get_elapsed_time()
        if behind > CLOCK_SET_THRESHOLD:
            log.warning(
                "the clock is %.1f s behind the newest time on record; time continues from there",
                behind.total_seconds(),
            )

    def _get_elapsed_time(self) -> timedelta:
        """Return the time that has passed, plus the shift by which a test has moved its clock."""
        shift: timedelta = getattr(self._system_clock, "shift", timedelta())
        return timedelta(seconds=monotonic_seconds()) + shift

    def _compute_now(self) -> datetime:
        said, at = self.read_source_clock(), self._get_elapsed_time()
        now = said + self._offset
        if self._last_reading is not None:
            expected = self._last_reading[0] + max(at - self._last_reading[1], timedelta())
            if abs(now - expected) > CLOCK_SET_THRESHOLD:  # the machine's clock was set
                if now < expected:
                    log.warning("the clock was set back; the record's time keeps moving forward")
                now = max(said, expected)
                self._offset = now - said
            now = max(now, self._last_reading[0])
        self._last_reading = now, at
        return now


def get_machine_time(clock: Clock) -> datetime:
    """Return the machine's time, for comparison with the clocks of others such as Slack.

    The record's time is ahead of it if the machine's clock was set back.
    """
    return clock.read_source_clock() if isinstance(clock, ForwardOnlyClock) else clock.now()


def get_lead_over_machine_time(clock: Clock) -> timedelta:
    """Return how far the record's time is ahead of `get_machine_time`; zero if it is not."""
    return max(clock.now() - get_machine_time(clock), timedelta())
