"""The database's clock: all replicas decide by the same time, whatever their machines say.

It is asked at every beat, and between two of them it goes on as time passes here. Where it was set
back, time goes on as it passes, too.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

from bot.clock import Clock, RecordClock, elapsed_seconds
from storage.store import Store

CLOSE = 0.001  # seconds that what is known may be off beyond what an answer's way explains


class SharedClock(RecordClock):
    """One per process; any thread."""

    def __init__(self, own: Clock) -> None:
        """`own`: this machine's, which counts until `measure`, and as far as a test moves it."""
        super().__init__(own)
        self._lock = threading.Lock()
        self._known: tuple[datetime, float] | None = None  # the database's time, and when it was so

    def now(self) -> datetime:
        """The record's time, in UTC; until `measure` this machine's."""
        return self._own.now() if self._known is None else super().now()

    def wall(self) -> datetime:
        """The database's time, in UTC; until `measure` this machine's."""
        known = self._known
        if known is None:
            return self._own.now()
        shift: timedelta = getattr(self._own, "shift", timedelta())
        return known[0] + timedelta(seconds=elapsed_seconds() - known[1]) + shift

    def measure(self, store: Store) -> None:
        """Ask the database what time it is; raises what that raises."""
        with store.read() as tx:
            tx.exec_driver_sql("SELECT 1")  # its own way is not the question's
            asked = elapsed_seconds()
            found: Any = tx.exec_driver_sql("SELECT clock_timestamp()").scalar()
            answered = elapsed_seconds()
        self.learn(found, asked, answered)

    def learn(self, at: datetime, asked: float, answered: float) -> None:
        """The database says that it is `at`, to a question of that moment, answered at that.

        What is known stays where that may be as right, so that time does not go to and fro.
        """
        middle, unsure = (asked + answered) / 2, (answered - asked) / 2 + CLOSE
        with self._lock:
            if self._known is not None:
                expected = self._known[0] + timedelta(seconds=middle - self._known[1])
                if abs((at - expected).total_seconds()) <= unsure:
                    return
            self._known = at, middle
