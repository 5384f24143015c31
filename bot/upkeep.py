"""Background work beside the requests: purging old ones and watching the surfaces."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.clock import Clock
from bot.signals import Alarm
from bot.surfaces.registry import NamedSurface, start, stop
from countersign.durations import DAY
from storage import purge
from storage.store import BREATH, Store

# The daily purge of what was said in old requests, and the disk that it gives back.

log = logging.getLogger("countersign.purge")
SOON = timedelta(minutes=1)  # after the start, which has other things to do
SPARE = 0.1  # the part of a file that may lie free: the next requests fill it


class DailyPurge:
    """Once a day empties what was said in requests older than so many days."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keep_days: int | None,
        *,
        soon: timedelta = SOON,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """`keep_days` None: nothing ever.

        `soon`: how long after the start it begins. `done` is called after each purge.
        """
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self._soon = soon
        self._done = done
        self._stopping = False
        self._alarm = Alarm(self._purge_quietly)

    def start(self) -> None:
        """Begin soon, and go on every day."""
        if self._keep_days is not None:
            self._alarm.start(DAY)
            self._alarm.after(self._soon, "purge")

    def stop(self) -> None:
        """Begin no other purge; one that goes on ends with its next transaction."""
        self._stopping = True
        self._alarm.stop()

    def purge(self) -> int:
        """Purge all that is due now, and give back the disk; returns how many requests."""
        if self._keep_days is None:
            return 0
        older_than = timedelta(days=self._keep_days)
        done = purge_all(self._store, self._clock, older_than, self._is_over)
        if done:
            log.info("purged what was said in %s requests", done)
        self._store.shrink(SPARE, self._is_over)
        self._done()
        return done

    def _is_over(self) -> bool:
        return self._stopping

    def _purge_quietly(self) -> None:
        try:
            self.purge()
        except Exception:
            log.exception("the purge was cut short; it goes on tomorrow")


def purge_all(
    store: Store,
    clock: Clock,
    older_than: timedelta,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Purge every request older than that; returns how many.

    A hundred at a time, each time in a transaction of its own, until `is_over`.
    """
    now, done, after = clock.now(), 0, ""
    before = now - older_than
    _purge_clicks(store, before, is_over)
    while not is_over():
        with store.read() as tx:
            due = purge.due_requests(tx, before, after)
        if not due:
            break
        with store.write() as tx:
            done += len(purge.purge_requests(tx, due, before, at=now, actor="clock"))
        after = due[-1]
        time.sleep(BREATH)
    return done


def _purge_clicks(store: Store, before: datetime, is_over: Callable[[], bool]) -> None:
    """Empty what began no request, some thousands of deliveries at a time."""
    with store.read() as tx:
        last = purge.last_delivery(tx)
    with store.write() as tx:
        purge.purge_delegations(tx, before)
    for after in range(0, last, purge.MANY):
        if is_over():
            return
        with store.write() as tx:
            purge.purge_clicks(tx, before, after)
        time.sleep(BREATH)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """All of it. `start` once, `stop` once."""

    surfaces: tuple[NamedSurface, ...]
    purging: DailyPurge

    def start(self) -> None:
        """Hear people at every surface beside Slack, and purge every day, as the settings want it.

        Raises SurfacesError for a surface that does not start.
        """
        start(self.surfaces)
        self.purging.start()

    def stop(self) -> None:
        """End both."""
        stop(self.surfaces)
        self.purging.stop()
