"""The alarm wakes the loop when it is due, and can be stopped at any moment."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta

import pytest

from bot.signals import Alarm


@pytest.mark.parametrize("zone", ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "Mars/Olympus"])
def test_the_alarm_does_not_need_a_time_zone_with_a_name(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """`TZ` may be a POSIX rule, or a zone that the machine does not have."""
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setattr("tzlocal.unix._cache_tz", None)
    woken = threading.Event()
    alarm = Alarm(woken.set)
    alarm.start(3600)
    alarm.schedule_wake(timedelta(), "deadline")
    assert woken.wait(30)
    alarm.stop()


def test_the_alarm_wakes_when_the_newest_time_of_a_name_is_due() -> None:
    """A time that has come wakes at once; a new time under a name replaces the old one."""
    woken = threading.Event()
    alarm = Alarm(woken.set)
    alarm.start(3600)
    alarm.schedule_wake(timedelta(hours=1), "deadline")
    assert not woken.is_set()
    alarm.schedule_wake(timedelta(), "deadline")
    assert woken.wait(30)
    alarm.stop()
    alarm.schedule_wake(timedelta(), "deadline")  # stopped: wakes nobody


def test_an_alarm_stopped_while_it_starts_does_not_run() -> None:
    """Start and stop race three hundred times, with threads switched as often as possible."""
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            alarm = Alarm(lambda: None)
            starting = threading.Thread(target=alarm.start, args=(3600,))
            starting.start()
            alarm.stop()
            starting.join(30)
            assert not alarm._scheduler.running
    finally:
        sys.setswitchinterval(often)


def test_an_alarm_can_be_stopped_while_something_is_due() -> None:
    """Its threads end, and without an exception, which pytest would report."""
    for _ in range(20):
        alarm = Alarm(lambda: None)
        alarm.start(3600)
        stopping = threading.Thread(target=alarm.stop)
        with alarm._scheduler._jobstores_lock:  # makes stop and wake collide
            alarm.schedule_wake(timedelta(), "deadline")
            stopping.start()
            stopping.join(0.02)
        stopping.join(30)
        assert not stopping.is_alive()
