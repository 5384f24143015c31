"""Whose run is worked on next, over random arrivals: in turns, nobody forgotten, approved first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.runs.worker_pool import MAX_APPROVED_RUNS_AHEAD, FairQueue
from storage.runs import ReadyRun, Requester


def who(name: str) -> Requester:
    """A requester."""
    return "T1", name, ""


def run(name: str, number: int, *, decided: bool = False) -> ReadyRun:
    """A run of somebody."""
    return ReadyRun(f"{name}{number}{'!' * decided}", who(name), decided)


def flood(queue: FairQueue, name: str, count: int, *, decided: bool = False) -> None:
    """So many runs of one person arrive at once."""
    for number in range(count):
        assert queue.put_run(run(name, number, decided=decided))


def begin(queue: FairQueue) -> list[str]:
    """All that may begin now."""
    begun = []
    while (ready := queue.take_next_run()) is not None:
        begun.append(ready.run_id)
    return begun


@pytest.mark.parametrize("workers", range(2, 17))
@pytest.mark.parametrize("decided", [True, False])
def test_an_approved_call_begins_at_once_beside_a_flood(workers: int, decided: bool) -> None:
    """However much one person has asked, another's approved call has a worker; with three workers
    or more also where that was approved.
    """
    queue = FairQueue(workers)
    flood(queue, "ana", 64)
    if decided and workers > 2:
        flood(queue, "ana", 64, decided=True)
    assert begin(queue)
    queue.put_run(run("ben", 0, decided=True))
    assert begin(queue) == ["ben0!"]


@pytest.mark.parametrize("workers", range(3, 17))
@pytest.mark.parametrize("decided", [True, False])
def test_a_new_request_begins_at_once_beside_a_flood(workers: int, decided: bool) -> None:
    """With three workers or more, another's new request has one at once, too."""
    queue = FairQueue(workers)
    flood(queue, "ana", 64, decided=decided)
    begin(queue)
    queue.put_run(run("ben", 0))
    assert begin(queue) == ["ben0"]


@pytest.mark.parametrize("workers", range(1, 10))
def test_a_flood_of_many_leaves_workers_for_what_is_approved(workers: int) -> None:
    """Where many ask at once, no worker that is kept for approved calls goes to anything else."""
    queue = FairQueue(workers)
    for name in "abcdefghijklmnop":
        flood(queue, name, 4)
    kept = max(1, workers // 4) if workers > 1 else 0
    assert len(begin(queue)) == workers - kept
    flood(queue, "z", 1, decided=True)
    assert len(begin(queue)) == min(1, kept)


def test_with_two_workers_nobody_waits_for_themselves() -> None:
    """Who has one approved call at work may have something else worked on beside it."""
    queue = FairQueue(2)
    flood(queue, "ana", 1, decided=True)
    flood(queue, "ana", 1)
    assert begin(queue) == ["ana0!", "ana0"]


def test_one_worker_takes_what_is_approved_first() -> None:
    """With one worker what is approved goes first, and everybody has a turn all the same."""
    queue = FairQueue(1)
    flood(queue, "ana", 9)
    flood(queue, "ben", 9, decided=True)
    order = []
    while (ready := queue.take_next_run()) is not None:
        order.append(ready.run_id)
        queue.release_run(ready.run_id)
    begun = [each.endswith("!") for each in order[:12]]
    assert begun == [True, True, True, False] * 3
    assert len(order) == 18


class Watched:
    """A queue of which all is known: what waits in which order, and what is worked on."""

    def __init__(self, workers: int) -> None:
        self.queue, self.workers = FairQueue(workers), workers
        self.held: dict[str, ReadyRun] = {}
        self.lines: dict[tuple[Requester, bool], list[str]] = {}

    def put(self, ready: ReadyRun) -> None:
        """It arrives, once."""
        assert self.queue.put_run(ready)
        assert not self.queue.put_run(ready)
        self.lines.setdefault((ready.requester, ready.has_approved_call), []).append(ready.run_id)

    def fill(self) -> None:
        """All that may begin does: none twice at once, each in its requester's order."""
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
        """Nobody works on it any more."""
        self.queue.release_run(run_id)
        del self.held[run_id]

    def step(self, run_id: str, *, decided: bool) -> None:
        """It goes on with its next step, or is put back."""
        now = replace(self.held[run_id], has_approved_call=decided)
        if self.queue.may_keep_worker(run_id, decided=decided):
            self.held[run_id] = now
            return
        self.end(run_id)
        self.fill()
        self.put(now)


@given(st.data(), st.integers(1, 6), st.integers(2, 6))
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_or_worked_on_twice(data: st.DataObject, workers: int, people: int) -> None:
    """Of random arrivals, steps and ends: each run begins once for each time that it arrives, in
    its requester's order, and never twice at once.
    """
    watched, number = Watched(workers), Counter[str]()
    for _ in range(data.draw(st.integers(5, 60))):
        name = f"p{data.draw(st.integers(1, people))}-"
        what = data.draw(st.sampled_from(["arrives", "arrives", "ends", "goes on"]))
        if what == "arrives" or not watched.held:
            number[name] += 1
            watched.put(run(name, number[name], decided=data.draw(st.booleans())))
        elif what == "ends":
            watched.end(data.draw(st.sampled_from(sorted(watched.held))))
        else:
            one = data.draw(st.sampled_from(sorted(watched.held)))
            watched.step(one, decided=data.draw(st.booleans()))
        watched.fill()
    while watched.held:  # all come to their end, the oldest first
        watched.end(next(iter(watched.held)))
        watched.fill()
    assert len(watched.queue) == 0


@given(st.integers(1, 6), st.integers(1, 5), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_waiting_is_bounded_in_turns(
    workers: int, floods: int, decided: bool, data: st.DataObject
) -> None:
    """However many flood without an end, approved or not: whoever comes has a turn within so many
    that give up a worker which they may have: with a run that is not approved, not the one that is
    kept for approved calls.
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
                queue.put_run(run(name, number, decided=kind))

    for _ in range(5):
        more()
    held += begin(queue)
    queue.put_run(run("late", 0, decided=decided))
    turns = (MAX_APPROVED_RUNS_AHEAD + 1) * (floods + 1) * workers
    for _ in range(10 * turns):
        held += begin(queue)
        if any(each.startswith("late") for each in held):
            return
        more()
        one = held.pop(data.draw(st.integers(0, len(held) - 1)))
        queue.release_run(one)
        turns -= decided or not one.endswith("!")
        assert turns > 0, "it never had a turn"


def test_a_long_run_makes_room_between_two_steps() -> None:
    """Whoever works on many steps gives way between two of them to somebody without a worker, and
    is gone on with before what else the same person has asked.
    """
    queue = FairQueue(1)
    queue.put_run(run("ana", 1))
    assert begin(queue) == ["ana1"]
    queue.put_run(run("ana", 2))
    assert queue.may_keep_worker("ana1", decided=False)
    queue.put_run(run("ben", 1))
    assert not queue.may_keep_worker("ana1", decided=False)
    queue.release_run("ana1")
    assert begin(queue) == ["ana2"]
    queue.put_run(ReadyRun("ana1", who("ana"), has_approved_call=False, was_worked_on=True))
    order = []
    for _ in range(3):
        queue.release_run(next(iter(queue.list_held_run_ids())))
        order += begin(queue)
    assert order == ["ben1", "ana1"]


def test_an_approved_call_of_ones_own_goes_before_a_model_turn_of_ones_own() -> None:
    """Between two steps a run without an approved call gives way to one with such a call."""
    queue = FairQueue(1)
    queue.put_run(run("ana", 1))
    begin(queue)
    queue.put_run(run("ana", 2, decided=True))
    assert not queue.may_keep_worker("ana1", decided=False)


def test_the_worker_of_an_approved_call_goes_on_to_the_model_where_there_is_room() -> None:
    """After the call the run keeps its worker for the model's turn, unless only workers are left
    that are kept for what is approved.
    """
    queue = FairQueue(4)
    queue.put_run(run("ana", 1, decided=True))
    begin(queue)
    assert queue.may_keep_worker("ana1!", decided=False)
    for name in ("ben", "cleo", "dan"):
        flood(queue, name, 2)
    assert begin(queue) == ["ben0", "cleo0"]
    flood(queue, "eve", 1, decided=True)
    assert begin(queue) == ["eve0!"]
    assert not queue.may_keep_worker("eve0!", decided=False)
    assert queue.may_keep_worker("eve0!", decided=True)
