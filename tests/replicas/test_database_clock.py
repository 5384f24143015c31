"""The database's clock, as a replica knows it between two readings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.clock import monotonic_seconds
from bot.replicas.shared_clock import DatabaseClock
from slack_sandbox.workspace.clock import ShiftedClock

THERE = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
NEAR = timedelta(seconds=1)


class WrongClock:
    """A machine's clock that is years off."""

    def now(self) -> datetime:
        return datetime(2001, 1, 1, tzinfo=UTC)


def test_a_replicas_clock_follows_the_database() -> None:
    """It advances as time passes."""
    clock, now = DatabaseClock(WrongClock()), monotonic_seconds()
    clock.follow_database_time(THERE, now - 0.002, now)
    assert timedelta() < clock.now() - THERE < NEAR
    assert clock.now() <= clock.now()


def test_a_slow_answer_of_the_database_is_ignored() -> None:
    """A slow answer is imprecise; one that is far off is believed."""
    clock, now = DatabaseClock(WrongClock()), monotonic_seconds()
    clock.follow_database_time(THERE, now, now)
    clock.follow_database_time(THERE + timedelta(seconds=0.4), now - 0.5, now + 0.5)
    assert clock.now() - THERE < timedelta(seconds=0.3)
    clock.follow_database_time(THERE + HOUR, now, now)
    assert clock.now() - THERE >= HOUR


def test_a_tests_clock_can_move_it() -> None:
    """Its shift is added."""
    own = ShiftedClock()
    clock, now = DatabaseClock(own), monotonic_seconds()
    clock.follow_database_time(THERE, now, now)
    own.advance(3600)
    assert HOUR <= clock.now() - THERE < HOUR + NEAR
    assert clock.on_shift is own.on_shift


def test_a_database_clock_set_back_does_not_move_it_back() -> None:
    """It goes on as time passes, at later readings too."""
    clock, now = DatabaseClock(WrongClock()), monotonic_seconds()
    clock.follow_database_time(THERE, now, now)
    before = clock.now()
    for _ in range(3):
        clock.follow_database_time(THERE - HOUR, now, now)
        assert before <= clock.now() < before + NEAR
