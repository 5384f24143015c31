"""What wakes a thread when time has passed: at an interval, and at moments that it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_RUNNING
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.clock import SystemClock

LONGEST = timedelta(days=1)


class Alarm:
    """One per loop; silent until it is started, and after it was stopped."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called on a thread of the alarm's own."""
        self._wake = wake
        self._lock = threading.Lock()
        self._is_over = False
        self._scheduler = BackgroundScheduler(
            job_defaults={"misfire_grace_time": None, "coalesce": True}, timezone="UTC"
        )

    def start(self, interval: float) -> None:
        """Wake every so many seconds from now on, unless it was stopped by then."""
        with self._lock:
            if not self._is_over:
                self._scheduler.start()
                self._scheduler.add_job(self._wake, IntervalTrigger(seconds=interval))

    def after(self, wait: timedelta, name: str) -> None:
        """Wake once after `wait`, in place of what was told under that name before."""
        at = SystemClock().now() + min(wait, LONGEST)
        with self._lock:
            if self._scheduler.state == STATE_RUNNING:
                self._scheduler.add_job(self._wake, DateTrigger(at), id=name, replace_existing=True)

    def stop(self) -> None:
        """Wake no more."""
        with self._lock:
            self._is_over = True
            if self._scheduler.running:
                # What is due in this very moment is dealt with first: while it shuts down, the
                # scheduler looks for its job where it is not (APScheduler 3.11, `remove_job`).
                self._scheduler.pause()
                self._scheduler.remove_all_jobs()
                self._scheduler.shutdown(wait=False)
