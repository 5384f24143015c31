"""The database's clock: all replicas decide by its time, whatever their machines' clocks say.

The database is asked at every heartbeat; between two of them the time advances with this process's
elapsed seconds. The time never goes back, even if the database's clock is set back.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

from bot.clock import Clock, ForwardOnlyClock, monotonic_seconds
from storage.record import Store

CLOCK_TOLERANCE_SECONDS = 0.001  # besides half the time that the answer took


class DatabaseClock(ForwardOnlyClock):
    """A clock that follows the database's time; one per process, any thread."""

    def __init__(self, own: Clock) -> None:
        """`own`: this machine's clock, used until the database has told its time.

        If it is a test's clock, its `shift` is added to the database's time.
        """
        super().__init__(own)
        self._lock = threading.Lock()
        self._known: tuple[datetime, float] | None = None  # database's time, monotonic time then

    def now(self) -> datetime:
        """Return the database's time in UTC, never going back; the machine's before it is known."""
        return self._system_clock.now() if self._known is None else super().now()

    def read_source_clock(self) -> datetime:
        """Return the database's time, even if set back; this machine's before it is known."""
        known = self._known
        if known is None:
            return self._system_clock.now()
        shift: timedelta = getattr(self._system_clock, "shift", timedelta())
        return known[0] + timedelta(seconds=monotonic_seconds() - known[1]) + shift

    def synchronize_with_database(self, store: Store) -> None:
        """Ask the database for its time and follow it; raise what the database raises."""
        with store.read() as tx:
            tx.exec_driver_sql("SELECT 1")  # begins the transaction: only the next query is timed
            asked = monotonic_seconds()
            found: Any = tx.exec_driver_sql("SELECT clock_timestamp()").scalar()
            answered = monotonic_seconds()
        self.follow_database_time(found, asked, answered)

    def follow_database_time(self, at: datetime, asked: float, answered: float) -> None:
        """Follow the time `at` that the database gave between the moments `asked` and `answered`.

        The old value is kept if it agrees with the new one within the measuring error, so that time
        does not jump back and forth.
        """
        middle, unsure = (asked + answered) / 2, (answered - asked) / 2 + CLOCK_TOLERANCE_SECONDS
        with self._lock:
            if self._known is not None:
                expected = self._known[0] + timedelta(seconds=middle - self._known[1])
                if abs((at - expected).total_seconds()) <= unsure:
                    return
            self._known = at, middle
