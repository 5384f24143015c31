"""The clocks tell UTC and only go forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread, get_ident

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.clock import Clock, ForwardOnlyClock, SystemClock
from slack_sandbox.workspace.clock import ShiftedClock

HOUR, NEAR = timedelta(hours=1), timedelta(seconds=0.4)


@pytest.mark.parametrize("clock", [SystemClock(), ShiftedClock()], ids=["system", "shifted"])
def test_now_is_the_machines_time_in_utc(clock: Clock) -> None:
    """A new clock returns an aware time."""
    before = datetime.now(UTC)
    now = clock.now()
    assert before <= now <= datetime.now(UTC)
    assert now.tzinfo is UTC


def test_advance_moves_now_and_returns_it() -> None:
    """Two moves add up, in what `advance` returns and in `now`."""
    clock = ShiftedClock()
    start = datetime.now(UTC)
    assert clock.advance(3600) >= start + timedelta(hours=1)
    assert clock.advance(0.5) >= start + timedelta(hours=1, seconds=0.5)
    assert (
        start + timedelta(hours=1, seconds=0.5)
        <= clock.now()
        <= datetime.now(UTC) + timedelta(hours=1, seconds=0.5)
    )


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("-inf")])
def test_advance_refuses_to_go_back(seconds: float) -> None:
    """A step back, or one that is no number, raises and runs no callback."""
    clock = ShiftedClock()
    called: list[bool] = []
    clock.on_shift.append(lambda: called.append(True))
    with pytest.raises(ValueError, match="forward"):
        clock.advance(seconds)
    assert clock.now() <= datetime.now(UTC)
    assert called == []


def test_an_infinite_move_leaves_the_clock_alone() -> None:
    """It raises, as no date is that late."""
    clock = ShiftedClock()
    with pytest.raises(OverflowError):
        clock.advance(float("inf"))
    assert clock.now() <= datetime.now(UTC)


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=20))
def test_any_moves_put_the_clock_ahead_by_their_sum(moves: list[float]) -> None:
    """No reading is before the last one."""
    clock = ShiftedClock()
    readings = [clock.now(), *(clock.advance(each) for each in moves), clock.now()]
    assert readings == sorted(readings)
    ahead = sum((timedelta(seconds=each) for each in moves), timedelta())
    assert readings[0] + ahead <= clock.now() <= datetime.now(UTC) + ahead


def test_callbacks_run_after_each_move_on_the_callers_thread() -> None:
    """They see the new time, and may read the clock or remove themselves."""
    clock = ShiftedClock()
    seen: list[tuple[int, datetime]] = []

    def woken() -> None:
        seen.append((get_ident(), clock.now()))
        clock.on_shift.remove(woken)

    later: list[str] = []
    clock.on_shift.extend([woken, lambda: later.append("woken")])
    start = datetime.now(UTC)
    clock.advance(60)
    clock.advance(60)
    assert [thread for thread, _ in seen] == [get_ident()]
    assert seen[0][1] >= start + timedelta(seconds=60)
    assert later == ["woken", "woken"]


def test_no_move_is_lost_between_threads() -> None:
    """Eight threads advance the clock at once, 200 times each."""
    clock = ShiftedClock()
    barrier = Barrier(8)

    def work() -> None:
        barrier.wait(5)
        for _ in range(200):
            clock.advance(10)

    start = datetime.now(UTC)
    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert clock.now() >= start + timedelta(seconds=16_000)


class Machine:
    """A machine's clock that can be set wrong."""

    def __init__(self) -> None:
        self.off = timedelta()

    def now(self) -> datetime:
        """The true time plus the error that was set."""
        return datetime.now(UTC) + self.off


def test_a_machine_set_back_does_not_set_back_the_record() -> None:
    """Setting the machine right again makes no jump; setting it ahead does."""
    machine = Machine()
    clock = ForwardOnlyClock(machine)
    before = clock.now()
    machine.off -= HOUR
    assert before <= clock.now() < before + NEAR
    assert clock.read_source_clock() < before - HOUR + NEAR
    machine.off += HOUR
    assert before <= clock.now() < before + NEAR
    machine.off += HOUR
    assert clock.now() - before >= HOUR


@given(st.lists(st.integers(-7200, 7200), max_size=30))
def test_readings_never_go_back_however_the_machine_is_set(steps: list[int]) -> None:
    """Nor is any reading behind what the machine says."""
    machine = Machine()
    clock, last = ForwardOnlyClock(machine), datetime.min.replace(tzinfo=UTC)
    for step in steps:
        machine.off += timedelta(seconds=step)
        now = clock.now()
        assert now >= last
        assert now >= machine.now() - NEAR
        last = now


def test_time_continues_from_the_newest_time_on_record() -> None:
    """A time on record that is over changes nothing."""
    clock = ForwardOnlyClock(Machine())
    now = clock.now()
    clock.advance_past(now - HOUR)
    assert clock.now() < now + NEAR
    clock.advance_past(now + HOUR)
    assert now + HOUR <= clock.now() < now + HOUR + NEAR


def test_advancing_a_test_clock_counts_while_the_record_is_ahead() -> None:
    """The record's time moves by as much, though it is ahead of the test's clock."""
    own = ShiftedClock()
    clock = ForwardOnlyClock(own)
    clock.advance_past(own.now() + HOUR)
    before = clock.now()
    own.advance(60)
    assert before + timedelta(seconds=60) <= clock.now() < before + timedelta(seconds=61)


def test_a_forward_clock_continues_from_an_earlier_one() -> None:
    """Made after the machine was set back, it has the first one's time. What it learns from its own
    record afterwards does not change the first."""
    machine = Machine()
    first = ForwardOnlyClock(machine)
    before = first.now()
    machine.off -= HOUR
    second = ForwardOnlyClock(first)
    assert before <= second.now() < before + NEAR
    assert second.read_source_clock() < before - HOUR + NEAR
    second.advance_past(before + HOUR)
    assert first.now() < before + NEAR
