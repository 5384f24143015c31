"""The database's clock, as a replica has it in between two looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.clock import monotonic_seconds
from bot.replicas.shared_clock import DatabaseClock
from slack_sandbox.workspace.clock import ShiftedClock

THERE = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
NEAR = timedelta(seconds=1)


class Wrong:
    """A machine's clock that is years off."""

    def now(self) -> datetime:
        return datetime(2001, 1, 1, tzinfo=UTC)


def test_it_is_the_databases_time_whatever_the_machine_says() -> None:
    """And it goes on from there as time passes."""
    clock, now = DatabaseClock(Wrong()), monotonic_seconds()
    clock.follow_database_time(THERE, now - 0.002, now)
    assert timedelta() < clock.now() - THERE < NEAR
    assert clock.now() <= clock.now()


def test_an_answer_that_may_be_as_wrong_changes_nothing() -> None:
    """A slow answer says little; one that is far off says that something has happened."""
    clock, now = DatabaseClock(Wrong()), monotonic_seconds()
    clock.follow_database_time(THERE, now, now)
    clock.follow_database_time(THERE + timedelta(seconds=0.4), now - 0.5, now + 0.5)
    assert clock.now() - THERE < timedelta(seconds=0.3)
    clock.follow_database_time(THERE + HOUR, now, now)
    assert clock.now() - THERE >= HOUR


def test_tests_may_move_it() -> None:
    """What a test moves its clock by counts on top."""
    own = ShiftedClock()
    clock, now = DatabaseClock(own), monotonic_seconds()
    clock.follow_database_time(THERE, now, now)
    own.advance(3600)
    assert HOUR <= clock.now() - THERE < HOUR + NEAR
    assert clock.on_shift is own.on_shift


def test_it_does_not_go_back_with_the_database() -> None:
    """Where the database's clock is set back, time goes on as it passes, at later looks too."""
    clock, now = DatabaseClock(Wrong()), monotonic_seconds()
    clock.follow_database_time(THERE, now, now)
    before = clock.now()
    for _ in range(3):
        clock.follow_database_time(THERE - HOUR, now, now)
        assert before <= clock.now() < before + NEAR
