"""Whose run is next, over random arrivals: in turns, nobody forgotten, approved calls first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.runs.worker_pool import MAX_APPROVED_RUNS_AHEAD, FairQueue
from storage.runs import ReadyRun, Requester


def make_requester(name: str) -> Requester:
    """A requester."""
    return "T1", name, ""


def make_run(name: str, number: int, *, decided: bool = False) -> ReadyRun:
    """A run of somebody."""
    return ReadyRun(f"{name}{number}{'!' * decided}", make_requester(name), decided)


def add_runs(queue: FairQueue, name: str, count: int, *, decided: bool = False) -> None:
    """So many runs of one person arrive at once."""
    for number in range(count):
        assert queue.put_run(make_run(name, number, decided=decided))


def take_all_runs(queue: FairQueue) -> list[str]:
    """Take all runs that may begin now."""
    begun = []
    while (ready := queue.take_next_run()) is not None:
        begun.append(ready.run_id)
    return begun


@pytest.mark.parametrize("workers", range(2, 17))
@pytest.mark.parametrize("decided", [True, False])
def test_an_approved_call_begins_at_once_beside_many_runs_of_another(
    workers: int, decided: bool
) -> None:
    """With three workers or more it does even if those are approved, too."""
    queue = FairQueue(workers)
    add_runs(queue, "ana", 64)
    if decided and workers > 2:
        add_runs(queue, "ana", 64, decided=True)
    assert take_all_runs(queue)
    queue.put_run(make_run("ben", 0, decided=True))
    assert take_all_runs(queue) == ["ben0!"]


@pytest.mark.parametrize("workers", range(3, 17))
@pytest.mark.parametrize("decided", [True, False])
def test_a_new_request_begins_at_once_beside_many_runs_of_another(
    workers: int, decided: bool
) -> None:
    """That needs three workers or more."""
    queue = FairQueue(workers)
    add_runs(queue, "ana", 64, decided=decided)
    take_all_runs(queue)
    queue.put_run(make_run("ben", 0))
    assert take_all_runs(queue) == ["ben0"]


@pytest.mark.parametrize("workers", range(1, 10))
def test_workers_kept_for_approved_calls_do_nothing_else(workers: int) -> None:
    """Many people ask at once here."""
    queue = FairQueue(workers)
    for name in "abcdefghijklmnop":
        add_runs(queue, name, 4)
    kept = max(1, workers // 4) if workers > 1 else 0
    assert len(take_all_runs(queue)) == workers - kept
    add_runs(queue, "z", 1, decided=True)
    assert len(take_all_runs(queue)) == min(1, kept)


def test_with_two_workers_nobody_waits_for_their_own_call() -> None:
    """Their other request has the second worker."""
    queue = FairQueue(2)
    add_runs(queue, "ana", 1, decided=True)
    add_runs(queue, "ana", 1)
    assert take_all_runs(queue) == ["ana0!", "ana0"]


def test_a_single_worker_takes_approved_calls_first() -> None:
    """Everybody still has a turn."""
    queue = FairQueue(1)
    add_runs(queue, "ana", 9)
    add_runs(queue, "ben", 9, decided=True)
    order = []
    while (ready := queue.take_next_run()) is not None:
        order.append(ready.run_id)
        queue.release_run(ready.run_id)
    begun = [each.endswith("!") for each in order[:12]]
    assert begun == [True, True, True, False] * 3
    assert len(order) == 18


class WatchedQueue:
    """A queue with a record of all runs that wait, in their order, and that are worked on."""

    def __init__(self, workers: int) -> None:
        self.queue, self.workers = FairQueue(workers), workers
        self.held: dict[str, ReadyRun] = {}
        self.lines: dict[tuple[Requester, bool], list[str]] = {}

    def put(self, ready: ReadyRun) -> None:
        """A run arrives, once."""
        assert self.queue.put_run(ready)
        assert not self.queue.put_run(ready)
        self.lines.setdefault((ready.requester, ready.has_approved_call), []).append(ready.run_id)

    def fill(self) -> None:
        """All runs that may begin do so: none twice at once, each in its requester's order."""
        while (ready := self.queue.take_next_run()) is not None:
            assert ready.run_id not in self.held
            assert len(self.held) < self.workers
            assert self.lines[ready.requester, ready.has_approved_call].pop(0) == ready.run_id
            self.held[ready.run_id] = ready
        assert self.queue.list_held_run_ids() == set(self.held)
        assert sorted(self.queue.list_waiting_run_ids()) == sorted(
            chain.from_iterable(self.lines.values())
        )

    def end(self, run_id: str) -> None:
        """A worker has finished a run."""
        self.queue.release_run(run_id)
        del self.held[run_id]

    def step(self, run_id: str, *, decided: bool) -> None:
        """A run goes on with its next step, or is put back."""
        now = replace(self.held[run_id], has_approved_call=decided)
        if self.queue.may_keep_worker(run_id, decided=decided):
            self.held[run_id] = now
            return
        self.end(run_id)
        self.fill()
        self.put(now)


@given(st.data(), st.integers(1, 6), st.integers(2, 6))
@settings(max_examples=150, deadline=None)
def test_no_run_is_lost_or_worked_on_twice_at_once(
    data: st.DataObject, workers: int, people: int
) -> None:
    """Each begins once for each arrival, in its requester's order, with random steps and ends."""
    watched, number = WatchedQueue(workers), Counter[str]()
    for _ in range(data.draw(st.integers(5, 60))):
        name = f"p{data.draw(st.integers(1, people))}-"
        what = data.draw(st.sampled_from(["arrives", "arrives", "ends", "goes on"]))
        if what == "arrives" or not watched.held:
            number[name] += 1
            watched.put(make_run(name, number[name], decided=data.draw(st.booleans())))
        elif what == "ends":
            watched.end(data.draw(st.sampled_from(sorted(watched.held))))
        else:
            one = data.draw(st.sampled_from(sorted(watched.held)))
            watched.step(one, decided=data.draw(st.booleans()))
        watched.fill()
    while watched.held:  # all end, the oldest first
        watched.end(next(iter(watched.held)))
        watched.fill()
    assert len(watched.queue) == 0


@given(st.integers(1, 6), st.integers(1, 5), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_every_run_has_a_turn_within_a_bounded_number(
    workers: int, floods: int, decided: bool, data: st.DataObject
) -> None:
    """Others flood the queue without end; a run without approval cannot have the worker kept for
    approved calls.
    """
    queue = FairQueue(workers)
    names = [f"p{each}-" for each in range(floods)]
    number = 0
    held: list[str] = []

    def more() -> None:
        nonlocal number
        for name in names:
            for kind in (True, False):
                number += 1
                queue.put_run(make_run(name, number, decided=kind))

    for _ in range(5):
        more()
    held += take_all_runs(queue)
    queue.put_run(make_run("late", 0, decided=decided))
    turns = (MAX_APPROVED_RUNS_AHEAD + 1) * (floods + 1) * workers
    for _ in range(10 * turns):
        held += take_all_runs(queue)
        if any(each.startswith("late") for each in held):
            return
        more()
        one = held.pop(data.draw(st.integers(0, len(held) - 1)))
        queue.release_run(one)
        turns -= decided or not one.endswith("!")
        assert turns > 0, "it never had a turn"


def test_a_long_run_gives_way_between_two_steps() -> None:
    """It goes on before other requests of the same person."""
    queue = FairQueue(1)
    queue.put_run(make_run("ana", 1))
    assert take_all_runs(queue) == ["ana1"]
    queue.put_run(make_run("ana", 2))
    assert queue.may_keep_worker("ana1", decided=False)
    queue.put_run(make_run("ben", 1))
    assert not queue.may_keep_worker("ana1", decided=False)
    queue.release_run("ana1")
    assert take_all_runs(queue) == ["ana2"]
    queue.put_run(
        ReadyRun("ana1", make_requester("ana"), has_approved_call=False, was_worked_on=True)
    )
    order = []
    for _ in range(3):
        queue.release_run(next(iter(queue.list_held_run_ids())))
        order += take_all_runs(queue)
    assert order == ["ben1", "ana1"]


def test_a_persons_approved_call_goes_before_their_own_model_turn() -> None:
    """The run gives way between two steps."""
    queue = FairQueue(1)
    queue.put_run(make_run("ana", 1))
    take_all_runs(queue)
    queue.put_run(make_run("ana", 2, decided=True))
    assert not queue.may_keep_worker("ana1", decided=False)


def test_the_worker_of_an_approved_call_goes_on_to_the_model() -> None:
    """It does unless only workers kept for approved calls are left."""
    queue = FairQueue(4)
    queue.put_run(make_run("ana", 1, decided=True))
    take_all_runs(queue)
    assert queue.may_keep_worker("ana1!", decided=False)
    for name in ("ben", "cleo", "dan"):
        add_runs(queue, name, 2)
    assert take_all_runs(queue) == ["ben0", "cleo0"]
    add_runs(queue, "eve", 1, decided=True)
    assert take_all_runs(queue) == ["eve0!"]
    assert not queue.may_keep_worker("eve0!", decided=False)
    assert queue.may_keep_worker("eve0!", decided=True)
