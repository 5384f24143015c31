"""The database's clock: all replicas decide by the same time, whatever their machines say.

It is asked at every beat, and between two of them it goes on as time passes here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from bot.clock import Clock
from bot.replicas.elapsed import elapsed
from storage.store import Store

CLOSE = 0.001  # seconds that what is known may be off beyond what an answer's way explains


class SharedClock:
    """One per process; any thread."""

    def __init__(self, own: Clock) -> None:
        """`own`: this machine's, which counts until `measure`, and as far as a test moves it."""
        self._own = own
        self._lock = threading.Lock()
        self._known: tuple[datetime, float] | None = None  # the database's time, and when it was so

    @property
    def on_shift(self) -> list[Callable[[], None]]:
        """What is called where a test moves the clock."""
        found: list[Callable[[], None]] = getattr(self._own, "on_shift", [])
        return found

    def now(self) -> datetime:
        """The database's time, in UTC."""
        known = self._known
        if known is None:
            return self._own.now()
        shift: timedelta = getattr(self._own, "shift", timedelta())
        return known[0] + timedelta(seconds=elapsed() - known[1]) + shift

    def measure(self, store: Store) -> None:
        """Ask the database what time it is; raises what that raises."""
        with store.read() as tx:
            tx.exec_driver_sql("SELECT 1")  # its own way is not the question's
            asked = elapsed()
            found: Any = tx.exec_driver_sql("SELECT clock_timestamp()").scalar()
            answered = elapsed()
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
