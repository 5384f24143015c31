"""What wakes a thread when time has passed: at an interval, and at moments that it is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.clock import SystemClock

LONGEST = timedelta(days=1)


class Alarm:
    """One per loop; silent until it is started, and after it was stopped."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called on a thread of the alarm's own."""
        self._wake = wake
        self._scheduler = BackgroundScheduler(
            job_defaults={"misfire_grace_time": None, "coalesce": True}, timezone="UTC"
        )

    def start(self, interval: float) -> None:
        """Wake every so many seconds from now on."""
        self._scheduler.start()
        self._scheduler.add_job(self._wake, IntervalTrigger(seconds=interval))

    def after(self, wait: timedelta, name: str) -> None:
        """Wake once after `wait`, in place of what was told under that name before."""
        if self._scheduler.running:
            at = SystemClock().now() + min(wait, LONGEST)
            self._scheduler.add_job(self._wake, DateTrigger(at), id=name, replace_existing=True)

    def stop(self) -> None:
        """Wake no more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
