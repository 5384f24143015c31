"""The daily purge of the texts in old requests, which also frees disk space."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from bot.clock import Clock
from bot.signals import Alarm
from countersign.durations import DAY
from storage import inbox, purge
from storage.record import Store
from storage.store import STEP_PAUSE_SECONDS

log = logging.getLogger("countersign.purge")
FIRST_UPKEEP_DELAY = timedelta(minutes=1)  # leaves time for other work at a start
MAX_FREE_FILE_SHARE = 0.1  # the share of a database file that may stay free, for the next requests


class DailyPurge:
    """A daily job that empties the texts of requests older than a number of days."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keep_days: int | None,
        *,
        soon: timedelta = FIRST_UPKEEP_DELAY,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """`keep_days`: the age in days after which requests are purged; None purges nothing.

        `soon`: how long after the start the first purge begins. `done` is called after each purge.
        """
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self._soon = soon
        self._done = done
        self._stopping = threading.Event()
        self._alarm = Alarm(self._purge_and_log_failure)

    def start(self) -> None:
        """Have a purge begin soon and then every day, unless `keep_days` is None."""
        if self._keep_days is not None:
            self._alarm.start(DAY)
            self._alarm.schedule_wake(self._soon, "purge")

    def stop(self) -> None:
        """Begin no further purge; one that is under way ends after its current transaction."""
        self._stopping.set()
        self._alarm.stop()

    def purge(self) -> int:
        """Purge all requests that are due, free disk space, and return how many there were."""
        if self._keep_days is None:
            return 0
        older_than = timedelta(days=self._keep_days)
        done = purge_old_requests(self._store, self._clock, older_than, self._stopping.is_set)
        if done:
            log.info("purged what was said in %s requests", done)
        self._store.release_all_free_pages(MAX_FREE_FILE_SHARE, self._stopping.is_set)
        self._done()
        return done

    def _purge_and_log_failure(self) -> None:
        try:
            self.purge()
        except Exception:
            log.exception("the purge was cut short; it continues tomorrow")


def purge_old_requests(
    store: Store,
    clock: Clock,
    older_than: timedelta,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Purge every request older than `older_than`, and return how many there were.

    A hundred at a time, each time in a transaction of its own, until `should_stop` returns true.
    """
    now, purged_count, after = clock.now(), 0, ""
    before = now - older_than
    _purge_delegations_and_clicks(store, before, should_stop)
    while not should_stop():
        with store.read() as tx:
            due = purge.list_requests_to_purge(tx, before, after)
        if not due:
            break
        with store.write() as tx:
            purged_count += len(purge.purge_requests(tx, due, before, at=now, actor="clock"))
        after = due[-1]
        time.sleep(STEP_PAUSE_SECONDS)
    return purged_count


def _purge_delegations_and_clicks(
    store: Store, before: datetime, should_stop: Callable[[], bool]
) -> None:
    """Purge old delegations, then clicks and other deliveries, some thousands at a time."""
    with store.read() as tx:
        last = inbox.get_newest_delivery_seq(tx)
    with store.write() as tx:
        purge.erase_old_delegation_notes_and_links(tx, before)
    for after in range(0, last, purge.DELIVERIES_PER_TRANSACTION):
        if should_stop():
            return
        with store.write() as tx:
            purge.purge_old_deliveries(tx, before, after)
        time.sleep(STEP_PAUSE_SECONDS)
