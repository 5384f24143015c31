"""The alarm wakes when it was told to, and ends without a word."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta

from bot.signals import Alarm


def test_it_wakes_at_its_moment() -> None:
    """A moment that has come wakes at once; what was told under a name replaces what was before."""
    woken = threading.Event()
    alarm = Alarm(woken.set)
    alarm.start(3600)
    alarm.schedule_wake(timedelta(hours=1), "deadline")
    assert not woken.is_set()
    alarm.schedule_wake(timedelta(), "deadline")
    assert woken.wait(30)
    alarm.stop()
    alarm.schedule_wake(timedelta(), "deadline")  # nobody is there to wake any more


def test_it_is_stopped_before_it_has_begun() -> None:
    """A bot that is ended in the moment of its start ends, and nothing of it goes on."""
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


def test_it_ends_while_something_is_due() -> None:
    """Whatever is due in the moment it is stopped, no thread of it ends with an exception."""
    for _ in range(20):
        alarm = Alarm(lambda: None)
        alarm.start(3600)
        stopping = threading.Thread(target=alarm.stop)
        with alarm._scheduler._jobstores_lock:  # so that both meet
            alarm.schedule_wake(timedelta(), "deadline")
            stopping.start()
            stopping.join(0.02)
        stopping.join(30)
        assert not stopping.is_alive()
