"""Calls whose outcome is unknown: given up once, or resolved by a person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from storage import call_outputs, endings, moves
from storage.decisions import EarlierDecision, StaleRevision
from storage.models import Run
from storage.store import Store
from storage.transaction import Transaction
from tests.storage.builders import AT, HOUR, C, R, seed
from tests.storage.steps import ANA, get_status, resolve, vote

TICK = timedelta(microseconds=1)


def test_an_unknown_call_is_given_up_once_at_its_deadline(store: Store) -> None:
    """It stays unknown, nobody is asked any more, and the model is told."""
    seeded = seed(store, C.UNKNOWN, deadline=AT)
    first, second = seeded.call(), seeded.call()
    with store.write() as tx:
        assert endings.expire_call_if_overdue(tx, first, at=AT)
        assert not endings.expire_call_if_overdue(tx, second, at=AT)
    assert (seeded.call().status, seeded.call().deadline, seeded.run().status) == (
        C.UNKNOWN,
        None,
        R.READY,
    )
    assert seeded.events() == ["call.given_up", "run.ready"]
    assert isinstance(resolve(seeded, "done"), EarlierDecision)


def test_a_resolved_call_is_not_given_up(store: Store) -> None:
    """The person resolved it after the sweep had read it."""
    seeded = seed(store, C.UNKNOWN, deadline=AT + TICK)
    before = seeded.call()
    resolve(seeded, "done")
    with store.write() as tx:
        assert not endings.expire_call_if_overdue(tx, before, at=AT + HOUR)
    assert (seeded.call().status, seeded.events()) == (C.SUCCEEDED, ["call.succeeded", "run.ready"])


def test_an_old_approval_does_not_run_an_unknown_call_again(store: Store) -> None:
    """A vote for a call whose outcome is unknown, on the revision that ran, comes too late."""
    seeded = seed(store, C.UNKNOWN, deadline=AT + HOUR)
    for verb in ("approve", "reject", "break_glass"):
        assert get_status(vote(seeded, verb)) is C.UNKNOWN
    assert (seeded.call().status, seeded.votes(), seeded.events()) == (C.UNKNOWN, [], [])


@pytest.mark.parametrize(
    ("verb", "end"), [("done", C.SUCCEEDED), ("not_done", C.FAILED), ("again", C.APPROVED)]
)
def test_a_person_resolves_an_unknown_call_once(store: Store, verb: str, end: object) -> None:
    """They say how it ended, or that it should run again."""
    seeded = seed(store, C.UNKNOWN)
    assert isinstance(resolve(seeded, verb, revision=2), StaleRevision)
    assert get_status(resolve(seeded, verb)) is end
    assert (seeded.run().status, seeded.call().deadline) == (R.READY, None)
    assert isinstance(resolve(seeded, "done"), EarlierDecision)
    assert [vote.revision for vote in seeded.votes()] == [2] * (verb == "again")
    told = {
        "done": "says that it DID happen",
        "not_done": "says that it did NOT happen",
        "again": "",
    }[verb]
    assert told in seeded.call().output


def test_only_unknown_calls_can_be_resolved(store: Store) -> None:
    """Pending, approved, running and succeeded calls stay as they are."""
    for status in (C.PENDING, C.APPROVED, C.RUNNING, C.SUCCEEDED):
        seeded = seed(store, status)
        assert get_status(resolve(seeded, "again")) is status
        assert seeded.call().status is status


WAYS_TO_END_A_RUN: dict[str, Callable[[Transaction, Run], object]] = {
    "cancelled": lambda tx, run: endings.cancel_run(tx, run, at=AT, actor=ANA),
    "abandoned": lambda tx, run: endings.supersede_calls_of_ended_run(tx, run, at=AT),
    "sub-agent failed": lambda tx, run: endings.cancel_calls_of_failed_sub_agent(tx, run, at=AT),
    "superseded": lambda tx, run: endings.supersede_unstarted_calls_of_run(tx, run, at=AT),
    "sent back": lambda tx, run: endings.send_back_plan(tx, run, ANA, "smaller", at=AT),
}


@pytest.mark.parametrize("way", WAYS_TO_END_A_RUN)
def test_a_call_that_was_to_run_again_stays_unknown_when_its_run_ends(
    store: Store, way: str
) -> None:
    """Its first start may have had its effect, so "it was not run" would not be true."""
    seeded = seed(store, C.RUNNING, C.APPROVED)
    with store.write() as tx:
        moves.change_call_status(tx, seeded.call(), C.UNKNOWN, at=AT, actor="worker")
    resolve(seeded, "again")
    with store.write() as tx:
        WAYS_TO_END_A_RUN[way](tx, seeded.run())
    again, other = seeded.call(), seeded.call(1)
    assert (again.status, again.deadline, again.note) == (C.UNKNOWN, None, "it was not run again")
    assert again.output == call_outputs.WORKER_LOST
    assert other.status in (C.CANCELLED, C.SUPERSEDED)
