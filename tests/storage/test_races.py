"""Threads and processes that want the same row: one wins, and the rows agree with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from bot.agent import outputs
from storage import calls, decisions, endings, moves
from storage.decisions import AppliedDecision
from storage.models import Vote
from storage.store import Store
from tests.record_checks import find_first_broken_row
from tests.storage.builders import ALLOWED, AT, HOUR, ONE, C, R, Seeded, seed

ROUNDS = 20
TICK = timedelta(microseconds=1)


def together(*actions: Callable[[], bool]) -> list[bool]:
    """Do all of it at once, each on its own thread; whether each of them won."""
    start = threading.Barrier(len(actions))

    def one(action: Callable[[], bool]) -> bool:
        start.wait(10)
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(20) for future in [pool.submit(one, action) for action in actions]]


def voter(seeded: Seeded, person: str, verb: str = "approve") -> Callable[[], bool]:
    """A click stored at AT."""

    def click() -> bool:
        with seeded.store.write() as tx:
            return isinstance(
                decisions.apply_vote(
                    tx, seeded.ids[0], 1, verb, person, at=AT, count_votes=ONE, words=outputs
                ),
                AppliedDecision,
            )

    return click


def editor(seeded: Seeded) -> Callable[[], bool]:
    """An edit stored at AT."""

    def submit() -> bool:
        with seeded.store.write() as tx:
            outcome = decisions.apply_edit(
                tx,
                seeded.ids[0],
                1,
                "UCLEO0001",
                at=AT,
                arguments="{}",
                digest="d2",
                gate=ALLOWED,
                deadline=AT + HOUR,
                preview="",
            )
            return isinstance(outcome, AppliedDecision)

    return submit


def sweeper(seeded: Seeded) -> Callable[[], bool]:
    """A sweep at AT that read the call before anything happened to it."""
    found = seeded.call()

    def sweep() -> bool:
        with seeded.store.write() as tx:
            return endings.expire_call_if_overdue(tx, found, at=AT, words=outputs)

    return sweep


def test_two_people_approve_at_once(store: Store) -> None:
    """In each of 20 races one of two approvals counts, and only its vote is there."""
    for _ in range(ROUNDS):
        seeded = seed(store)
        won = together(voter(seeded, "UANA00001"), voter(seeded, "UCLEO0001"))
        assert sorted(won) == [False, True]
        assert [v.person for v in seeded.votes()] == [["UANA00001", "UCLEO0001"][won.index(True)]]
        assert seeded.events() == ["call.approved", "run.ready"]


def test_approve_and_reject_at_once(store: Store) -> None:
    """A yes and a no at once: the status is the winner's word."""
    for _ in range(ROUNDS):
        seeded = seed(store)
        won = together(voter(seeded, "UANA00001"), voter(seeded, "UCLEO0001", "reject"))
        assert sorted(won) == [False, True]
        assert seeded.call().status is [C.APPROVED, C.REJECTED][won.index(True)]


def test_click_against_edit(store: Store) -> None:
    """An approval never counts for arguments that an edit has just replaced.

    Nor does an edit for what is decided.
    """
    for _ in range(ROUNDS):
        seeded = seed(store)
        approved, edited = together(voter(seeded, "UANA00001"), editor(seeded))
        assert approved != edited
        call = seeded.call()
        assert (call.status, call.revision) == ((C.APPROVED, 1) if approved else (C.PENDING, 2))
        assert len(seeded.votes()) == approved


@pytest.mark.parametrize("deadline", [AT, AT + TICK], ids=["at the deadline", "just before it"])
def test_click_against_the_clock(store: Store, deadline: object) -> None:
    """Click and sweep at once, at the deadline and before it: one of the two, as the times say."""
    for _ in range(ROUNDS):
        seeded = seed(store, deadline=AT if deadline == AT else AT + TICK)
        approved, expired = together(voter(seeded, "UANA00001"), sweeper(seeded))
        assert (approved, expired) == (deadline != AT, deadline == AT)
        assert seeded.call().status is (C.EXPIRED if deadline == AT else C.APPROVED)


def test_two_sweepers_expire_a_call_once(store: Store) -> None:
    """Two sweeps at once expire a call once and free its run once."""
    for status in [C.PENDING, C.UNKNOWN] * (ROUNDS // 2):
        seeded = seed(store, status, deadline=AT)
        assert sorted(together(sweeper(seeded), sweeper(seeded))) == [False, True]
        assert seeded.events() == [
            "call.expired" if status is C.PENDING else "call.given_up",
            "run.ready",
        ]


def test_two_decide_the_last_two_calls(store: Store) -> None:
    """Two people decide two calls of one plan at once: both count, and the run is freed once."""
    for _ in range(ROUNDS):
        seeded = seed(store, C.PENDING, C.PENDING)
        other = Seeded(store, seeded.run_id, seeded.plan_id, seeded.ids[::-1])
        assert together(voter(seeded, "UANA00001"), voter(other, "UCLEO0001")) == [True, True]
        assert (
            seeded.run().status,
            seeded.events().count("run.ready"),
            seeded.plan().revision,
        ) == (R.READY, 1, 3)


def test_two_workers_claim(store: Store) -> None:
    """Of four workers one gets the run, with a fence of its own."""
    for _ in range(ROUNDS):
        seeded = seed(store, run=R.READY)

        def claim(seeded: Seeded = seeded) -> bool:
            with store.write() as tx:
                return moves.claim_run(tx, seeded.run_id, at=AT, lease_until=AT + HOUR) is not None

        assert sorted(together(claim, claim, claim, claim)) == [False, False, False, True]
        assert (seeded.run().fence, seeded.events()) == (2, ["run.running"])


def test_many_writers_keep_one_chain(store: Store) -> None:
    """24 decisions at once leave an audit whose chain holds, with a row for each."""
    many = [seed(store) for _ in range(24)]
    assert all(together(*(voter(each, "UANA00001") for each in many)))
    with store.read() as tx:
        assert find_first_broken_row(tx) is None
    assert all(each.events() == ["call.approved", "run.ready"] for each in many)


def test_one_vote_per_person_and_revision(store: Store) -> None:
    """The database itself refuses a person's second vote of one kind on a revision.

    Who approved may still reject; on the next revision they may vote again.
    """
    seeded = seed(store)

    def add(revision: int, verb: str) -> None:
        row = Vote(
            call_id=seeded.ids[0],
            revision=revision,
            person="U1",
            verb=verb,
            digest="d",
            created_at=AT,
        )
        with store.write() as tx:
            calls.insert_vote(tx, row)

    add(1, "approve")
    add(1, "reject")
    for verb in ("approve", "reject"):
        with pytest.raises(IntegrityError):
            add(1, verb)
    add(2, "reject")
    votes = [(vote.revision, vote.verb) for vote in seeded.votes()]
    assert votes == [(1, "approve"), (1, "reject"), (2, "reject")]
