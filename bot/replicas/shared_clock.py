"""The database's clock: all processes decide by its time, whatever their machines' clocks say.

The database is asked at every heartbeat; between two of them the time advances with this process's
elapsed seconds. The time never goes back, even if the database's clock is set back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.clock import Clock, ForwardOnlyClock, monotonic_seconds
from storage.record import Store

if TYPE_CHECKING:
    from storage.installations import InstallationRecord

CLOCK_TOLERANCE_SECONDS = 0.001  # besides half the time that the answer took


class DatabaseTime:
    """The database's time, even if it is set back; this machine's before it is known."""

    def __init__(self, machine: Clock) -> None:
        """`machine`: this machine's clock.

        If it is a test's clock, its `shift` is added to the database's time.
        """
        self._machine = machine
        self._known: tuple[datetime, float] | None = None  # database's time, monotonic time then

    @property
    def is_known(self) -> bool:
        """Return whether the database has told its time."""
        return self._known is not None

    @property
    def shift(self) -> timedelta:
        """Return the time by which a test has moved the machine's clock."""
        found: timedelta = getattr(self._machine, "shift", timedelta())
        return found

    @property
    def on_shift(self) -> list[Callable[[], None]]:
        """Return the callbacks that a test's clock calls when moved; empty for a real clock."""
        found: list[Callable[[], None]] = getattr(self._machine, "on_shift", [])
        return found

    def now(self) -> datetime:
        """Return the database's time in UTC; this machine's before it is known."""
        known = self._known
        if known is None:
            return self._machine.now()
        return known[0] + timedelta(seconds=monotonic_seconds() - known[1]) + self.shift

    def follow(self, at: datetime, middle: float, unsure: float) -> None:
        """Follow the time `at` that the database had at the moment `middle`, `unsure` seconds off.

        The old value is kept if it agrees with the new one within that error, so that time does not
        jump back and forth.
        """
        if self._known is not None:
            expected = self._known[0] + timedelta(seconds=middle - self._known[1])
            if abs((at - expected).total_seconds()) <= unsure:
                return
        self._known = at, middle


class DatabaseClock(ForwardOnlyClock):
    """A clock that follows the database's time; one per process, any thread.

    A `ForwardOnlyClock` made from it follows that time too.
    """

    def __init__(self, own: Clock) -> None:
        """`own`: this machine's clock, used until the database has told its time."""
        self._database = DatabaseTime(own)
        super().__init__(self._database)
        self._follow_lock = threading.Lock()

    def now(self) -> datetime:
        """Return the database's time in UTC, never going back; the machine's before it is known."""
        return super().now() if self._database.is_known else self._database.now()

    def synchronize_with_database(self, database: Store | InstallationRecord) -> None:
        """Ask the database for its time and follow it; raise what the database raises."""
        with database.read() as tx:
            tx.exec_driver_sql("SELECT 1")  # begins the transaction: only the next query is timed
            asked = monotonic_seconds()
            found: Any = tx.exec_driver_sql("SELECT clock_timestamp()").scalar()
            answered = monotonic_seconds()
        self.follow_database_time(found, asked, answered)

    def follow_database_time(self, at: datetime, asked: float, answered: float) -> None:
        """Follow the time `at` that the database gave between `asked` and `answered`."""
        middle, unsure = (asked + answered) / 2, (answered - asked) / 2 + CLOCK_TOLERANCE_SECONDS
        with self._follow_lock:
            self._database.follow(at, middle, unsure)


def open_installations_clock(record: InstallationRecord, machine: Clock) -> ForwardOnlyClock:
    """Return a clock for a record of installations: the server's if it is on one."""
    if record.path is not None:
        return ForwardOnlyClock(machine)
    clock = DatabaseClock(machine)
    clock.synchronize_with_database(record)
    return clock
