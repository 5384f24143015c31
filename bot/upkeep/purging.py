"""The daily purge of what was said in old requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from bot.alarm import Alarm
from bot.clock import Clock
from bot.durations import DAY
from storage import purge, runs
from storage.models import Run
from storage.store import Store

log = logging.getLogger("countersign.purge")
SOON = timedelta(minutes=1)  # after the start, which has other things to do


class Purging:
    """Once a day empties what was said in requests older than so many days."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keep_days: int | None,
        forget: Callable[[Run], None],
        *,
        soon: timedelta = SOON,
        forget_all: Callable[[], None] = lambda: None,
    ) -> None:
        """`keep_days` None: nothing ever; `forget` drops what is in memory of a run's thread.

        `soon`: how long after the start it begins. `forget_all` drops all, where other processes
        purge as well.
        """
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self._forget = forget
        self._soon = soon
        self._forget_all = forget_all
        self._alarm = Alarm(self._purge_quietly)

    def start(self) -> None:
        """Begin soon, and go on every day."""
        if self._keep_days is not None:
            self._alarm.start(DAY)
            self._alarm.after(self._soon, "purge")

    def stop(self) -> None:
        """Begin no other purge."""
        self._alarm.stop()

    def purge(self) -> int:
        """Purge all that is due now, a request at a time; returns how many."""
        if self._keep_days is None:
            return 0
        older_than = timedelta(days=self._keep_days)
        done = purge_all(self._store, self._clock, older_than, self._forget)
        if self._store.shared:
            self._forget_all()
        if done:
            log.info("purged what was said in %s requests", done)
        return done

    def _purge_quietly(self) -> None:
        try:
            self.purge()
        except Exception:
            log.exception("the purge was cut short; it goes on tomorrow")


def purge_all(
    store: Store, clock: Clock, older_than: timedelta, forget: Callable[[Run], None]
) -> int:
    """Purge every request older than that, each in a transaction of its own; returns how many."""
    now, done = clock.now(), 0
    before = now - older_than
    with store.write() as tx:
        purge.purge_clicks(tx, before)
    while True:
        with store.read() as tx:
            due = purge.due(tx, before)
        emptied = [run for run in map(partial(_purged, store, before, now), due) if run]
        for run in emptied:
            forget(run)
        done += len(emptied)
        if not emptied:
            return done


def _purged(store: Store, before: datetime, now: datetime, run_id: str) -> Run | None:
    """Purge one request and return it; None where it is not due any more."""
    with store.write() as tx:
        done = purge.purge(tx, run_id, before, at=now, actor="clock")
        return runs.get(tx, run_id) if done else None
