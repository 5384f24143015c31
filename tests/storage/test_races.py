"""Threads that want the same row at once: one wins, and the rows agree with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from storage import calls, decisions, endings, moves
from storage.decisions import AppliedDecision
from storage.models import Vote
from storage.store import Store
from tests.record_checks import find_first_broken_row
from tests.storage.builders import ALLOWED, AT, HOUR, ONE, C, R, Seeded, build_vote, seed

ROUNDS = 20
TICK = timedelta(microseconds=1)


def run_together(*actions: Callable[[], bool]) -> list[bool]:
    """Run all actions at once, each on its own thread; returns whether each won."""
    start = threading.Barrier(len(actions))

    def one(action: Callable[[], bool]) -> bool:
        start.wait(10)
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(20) for future in [pool.submit(one, action) for action in actions]]


def make_voter(seeded: Seeded, person: str, verb: str = "approve") -> Callable[[], bool]:
    """A vote stored at AT."""

    def click() -> bool:
        with seeded.store.write() as tx:
            return isinstance(
                decisions.apply_vote(tx, build_vote(seeded.ids[0], 1, verb, person), ONE),
                AppliedDecision,
            )

    return click


def make_editor(seeded: Seeded) -> Callable[[], bool]:
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


def make_sweeper(seeded: Seeded) -> Callable[[], bool]:
    """A sweep at AT that read the call before anything happened to it."""
    found = seeded.call()

    def sweep() -> bool:
        with seeded.store.write() as tx:
            return endings.expire_call_if_overdue(tx, found, at=AT)

    return sweep


def make_answerer(seeded: Seeded, person: str) -> Callable[[], bool]:
    """An answer stored at AT, as if the call were a question."""

    def answer() -> bool:
        with seeded.store.write() as tx:
            outcome = endings.store_person_answer(
                tx, seeded.ids[0], 1, person, at=AT, given="{}", declined=False, output=person
            )
            return isinstance(outcome, AppliedDecision)

    return answer


def test_one_of_two_approvals_at_once_counts(store: Store) -> None:
    """Its vote is the only one stored, in each of 20 races."""
    for _ in range(ROUNDS):
        seeded = seed(store)
        won = run_together(make_voter(seeded, "UANA00001"), make_voter(seeded, "UCLEO0001"))
        assert sorted(won) == [False, True]
        assert [v.person for v in seeded.votes()] == [["UANA00001", "UCLEO0001"][won.index(True)]]
        assert seeded.events() == ["call.approved", "run.ready"]


def test_one_of_two_answers_at_once_counts(store: Store) -> None:
    """The model gets that one, and the other person is told of it."""
    for _ in range(ROUNDS):
        seeded = seed(store)
        won = run_together(*(make_answerer(seeded, each) for each in ("UANA00001", "UCLEO0001")))
        assert sorted(won) == [False, True]
        assert seeded.call().output == ["UANA00001", "UCLEO0001"][won.index(True)]
        assert seeded.events() == ["question.answered", "run.ready"]


def test_an_approval_and_a_rejection_at_once_decide_once(store: Store) -> None:
    """The status is the winner's."""
    for _ in range(ROUNDS):
        seeded = seed(store)
        won = run_together(
            make_voter(seeded, "UANA00001"), make_voter(seeded, "UCLEO0001", "reject")
        )
        assert sorted(won) == [False, True]
        assert seeded.call().status is [C.APPROVED, C.REJECTED][won.index(True)]


def test_an_approval_and_an_edit_at_once_exclude_each_other(store: Store) -> None:
    """An approval never counts for arguments that were just replaced, nor an edit of a decided
    call.
    """
    for _ in range(ROUNDS):
        seeded = seed(store)
        approved, edited = run_together(make_voter(seeded, "UANA00001"), make_editor(seeded))
        assert approved != edited
        call = seeded.call()
        assert (call.status, call.revision) == ((C.APPROVED, 1) if approved else (C.PENDING, 2))
        assert len(seeded.votes()) == approved


@pytest.mark.parametrize("deadline", [AT, AT + TICK], ids=["at the deadline", "just before it"])
def test_a_click_and_an_expiry_at_once_go_by_the_deadline(store: Store, deadline: object) -> None:
    """The click is at the deadline, or just before it."""
    for _ in range(ROUNDS):
        seeded = seed(store, deadline=AT if deadline == AT else AT + TICK)
        approved, expired = run_together(make_voter(seeded, "UANA00001"), make_sweeper(seeded))
        assert (approved, expired) == (deadline != AT, deadline == AT)
        assert seeded.call().status is (C.EXPIRED if deadline == AT else C.APPROVED)


def test_two_sweeps_at_once_expire_a_call_once(store: Store) -> None:
    """Its run becomes ready once."""
    for status in [C.PENDING, C.UNKNOWN] * (ROUNDS // 2):
        seeded = seed(store, status, deadline=AT)
        assert sorted(run_together(make_sweeper(seeded), make_sweeper(seeded))) == [False, True]
        assert seeded.events() == [
            "call.expired" if status is C.PENDING else "call.given_up",
            "run.ready",
        ]


def test_two_calls_of_a_plan_decided_at_once_make_the_run_ready_once(store: Store) -> None:
    """Both decisions count."""
    for _ in range(ROUNDS):
        seeded = seed(store, C.PENDING, C.PENDING)
        other = Seeded(store, seeded.run_id, seeded.plan_id, seeded.ids[::-1])
        assert run_together(make_voter(seeded, "UANA00001"), make_voter(other, "UCLEO0001")) == [
            True,
            True,
        ]
        assert (
            seeded.run().status,
            seeded.events().count("run.ready"),
            seeded.plan().revision,
        ) == (R.READY, 1, 3)


def test_one_of_four_workers_claims_a_run(store: Store) -> None:
    """It gets a fence of its own."""
    for _ in range(ROUNDS):
        seeded = seed(store, run=R.READY)

        def claim(seeded: Seeded = seeded) -> bool:
            with store.write() as tx:
                return moves.claim_run(tx, seeded.run_id, at=AT, lease_until=AT + HOUR) is not None

        assert sorted(run_together(claim, claim, claim, claim)) == [False, False, False, True]
        assert (seeded.run().fence, seeded.events()) == (2, ["run.running"])


def test_24_decisions_at_once_keep_the_audits_chain(store: Store) -> None:
    """Each has its rows."""
    many = [seed(store) for _ in range(24)]
    assert all(run_together(*(make_voter(each, "UANA00001") for each in many)))
    with store.read() as tx:
        assert find_first_broken_row(tx) is None
    assert all(each.events() == ["call.approved", "run.ready"] for each in many)


def test_the_database_refuses_a_persons_second_vote_of_one_kind(store: Store) -> None:
    """An approver may still reject, and vote again on the next revision."""
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
