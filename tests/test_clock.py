"""The clocks: in UTC, and only ever forward."""

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
    """A fresh clock tells the machine's time, aware, in UTC."""
    before = datetime.now(UTC)
    now = clock.now()
    assert before <= now <= datetime.now(UTC)
    assert now.tzinfo is UTC


def test_advance_moves_now_and_returns_it() -> None:
    """Moving forward shows in what advance returns and in what now says after it; moves add up."""
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
def test_it_never_goes_back(seconds: float) -> None:
    """A move back, or by what is no number, raises and leaves the clock alone."""
    clock = ShiftedClock()
    called: list[bool] = []
    clock.on_shift.append(lambda: called.append(True))
    with pytest.raises(ValueError, match="forward"):
        clock.advance(seconds)
    assert clock.now() <= datetime.now(UTC)
    assert called == []


def test_an_endless_move_changes_nothing() -> None:
    """A move too long for a date raises and leaves the clock telling the time."""
    clock = ShiftedClock()
    with pytest.raises(OverflowError):
        clock.advance(float("inf"))
    assert clock.now() <= datetime.now(UTC)


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=20))
def test_moves_add_up(moves: list[float]) -> None:
    """Whatever the moves, the clock is ahead by their sum, and no reading is before the last."""
    clock = ShiftedClock()
    readings = [clock.now(), *(clock.advance(each) for each in moves), clock.now()]
    assert readings == sorted(readings)
    ahead = sum((timedelta(seconds=each) for each in moves), timedelta())
    assert readings[0] + ahead <= clock.now() <= datetime.now(UTC) + ahead


def test_callbacks_run_after_each_move_on_the_callers_thread() -> None:
    """Who waits for time is woken after the move, and sees the new time.

    They may themselves ask the clock or sign off.
    """
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
    """Eight threads that move the clock at once move it by all they asked for."""
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
    """A machine's clock that is set."""

    def __init__(self) -> None:
        self.off = timedelta()

    def now(self) -> datetime:
        """The true time, as far off as it was set."""
        return datetime.now(UTC) + self.off


def test_the_records_time_does_not_go_back() -> None:
    """Set back by an hour it goes on as time passes; set right again it does not leap."""
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
def test_however_the_machine_is_set(steps: list[int]) -> None:
    """No reading is before the last, and none is behind what the machine says."""
    machine = Machine()
    clock, last = ForwardOnlyClock(machine), datetime.min.replace(tzinfo=UTC)
    for step in steps:
        machine.off += timedelta(seconds=step)
        now = clock.now()
        assert now >= last
        assert now >= machine.now() - NEAR
        last = now


def test_time_goes_on_from_the_newest_on_record() -> None:
    """What the record holds has been, whatever the machine says; what it held before is nothing."""
    clock = ForwardOnlyClock(Machine())
    now = clock.now()
    clock.advance_past(now - HOUR)
    assert clock.now() < now + NEAR
    clock.advance_past(now + HOUR)
    assert now + HOUR <= clock.now() < now + HOUR + NEAR


def test_a_test_may_move_it_while_it_is_ahead() -> None:
    """What a test moves its clock by passes, whether or not the machine was set back."""
    own = ShiftedClock()
    clock = ForwardOnlyClock(own)
    clock.advance_past(own.now() + HOUR)
    before = clock.now()
    own.advance(60)
    assert before + timedelta(seconds=60) <= clock.now() < before + timedelta(seconds=61)


def test_one_goes_on_from_another() -> None:
    """One that is made after the machine was set back has the time of the one before it; what it
    learns of its record after that is its own.
    """
    machine = Machine()
    first = ForwardOnlyClock(machine)
    before = first.now()
    machine.off -= HOUR
    second = ForwardOnlyClock(first)
    assert before <= second.now() < before + NEAR
    assert second.read_source_clock() < before - HOUR + NEAR
    second.advance_past(before + HOUR)
    assert first.now() < before + NEAR
