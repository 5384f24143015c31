"""Decisions of people and the clock: each counts once, by the time at which it was stored."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from storage import call_outputs, calls, decisions, endings, schedule
from storage.decisions import (
    AppliedDecision,
    DeadlinePassed,
    EarlierDecision,
    MissingCall,
    StaleRevision,
)
from storage.models import Call, Vote
from storage.store import Store
from tests.storage.builders import (
    ALLOWED,
    ASKED,
    AT,
    HOUR,
    ONE,
    C,
    R,
    build_vote,
    seed,
    set_message,
)
from tests.storage.steps import ANA, CLEO, edit, get_status, resolve, vote

TICK = timedelta(microseconds=1)


def test_the_first_approval_is_recorded_and_makes_the_run_ready(store: Store) -> None:
    """Its digest is in the vote and in the audit."""
    seeded = seed(store)
    won = vote(seeded)
    assert isinstance(won, AppliedDecision)
    assert (won.call.status, won.call.decided_at, won.call.note) == (C.APPROVED, AT, "too dear")
    assert [(v.person, v.verb, v.digest, v.revision) for v in seeded.votes()] == [
        (ANA, "approve", "digest-0", 1)
    ]
    assert seeded.events() == ["call.approved", "run.ready"]
    assert json.loads(seeded.audit()[0].data)["digest"] == "digest-0"
    assert get_status(vote(seeded)) is C.APPROVED  # a double click
    assert isinstance(vote(seeded, "reject", CLEO), EarlierDecision)
    assert (len(seeded.votes()), seeded.events()) == (1, ["call.approved", "run.ready"])


def test_a_rejection_ends_the_call_and_quotes_its_reason_to_the_model(store: Store) -> None:
    """The quotation has at most 500 characters."""
    seeded = seed(store)
    assert get_status(vote(seeded, "reject")) is C.REJECTED
    assert seeded.call().output.startswith(f"REJECTED by <@{ANA}>; it was not run.")
    assert '"too dear"' in seeded.call().output
    assert call_outputs.rejected_output([(ANA, "x" * 600)]).count("x") == 500
    assert "no reason" in call_outputs.rejected_output([(ANA, "")])
    assert isinstance(vote(seeded), EarlierDecision)


def test_a_vote_with_a_verb_that_is_no_vote_is_refused(store: Store) -> None:
    """It writes nothing."""
    seeded = seed(store)
    with pytest.raises(ValueError, match="no vote"):
        vote(seeded, "withdraw")
    assert (seeded.votes(), seeded.events(), seeded.call().status) == ([], [], C.PENDING)


def test_a_run_goes_on_once_the_last_call_of_its_plan_is_decided(store: Store) -> None:
    """It becomes ready once, and not before."""
    seeded = seed(store, C.PENDING, C.PENDING, C.APPROVED)
    vote(seeded, index=1)
    assert seeded.run().status is R.WAITING
    vote(seeded, "reject", CLEO, index=0)
    assert seeded.run().status is R.READY
    assert seeded.events().count("run.ready") == 1
    assert [seeded.call(i).status for i in range(3)] == [C.REJECTED, C.APPROVED, C.APPROVED]


@pytest.mark.parametrize(("early", "won"), [(TICK, True), (timedelta(), False), (-TICK, False)])
def test_a_click_counts_only_if_stored_before_the_deadline(
    store: Store, early: timedelta, won: bool
) -> None:
    """A microsecond decides, and a click at the deadline is late."""
    for verb in ("approve", "reject", "edit"):
        seeded = seed(store, deadline=AT + early)
        outcome = edit(seeded) if verb == "edit" else vote(seeded, verb)
        assert isinstance(outcome, AppliedDecision) == won
        assert isinstance(outcome, DeadlinePassed) != won
        with store.write() as tx:
            fell = endings.expire_call_if_overdue(tx, seeded.call(), at=AT)
        assert fell != won
    seeded = seed(store, C.UNKNOWN, deadline=AT + early)
    assert isinstance(resolve(seeded, "done"), AppliedDecision) == won


def test_an_edit_drops_the_votes_and_makes_older_buttons_stale(store: Store) -> None:
    """It makes a new revision, whose buttons work."""
    seeded = seed(store)
    done = edit(seeded)
    assert isinstance(done, AppliedDecision)
    assert (done.call.revision, done.call.digest, done.call.status) == (2, "digest new", C.PENDING)
    assert (done.call.gate, done.call.deadline, done.call.preview) == (
        ALLOWED,
        AT + 2 * HOUR,
        "as new",
    )
    assert (seeded.plan().revision, seeded.card().wanted, seeded.run().status) == (2, 2, R.WAITING)
    with store.read() as tx:
        shown = calls.find_call_with_revision(tx, seeded.ids[0])
        assert shown is not None
        assert (shown.arguments, shown.revision.author) == ({"text": "new"}, ANA)
        first = calls.find_revision(tx, seeded.ids[0], 1)
        assert first is not None
        assert first.arguments == '{"text": "note 0"}'
        assert calls.list_editors(tx, seeded.ids[0]) == {ANA}
    for outcome in (
        vote(seeded, revision=1),
        edit(seeded, "other"),
        vote(seeded, "reject", revision=3),
    ):
        assert isinstance(outcome, StaleRevision)
    assert isinstance(vote(seeded, revision=2), AppliedDecision)
    assert [(v.revision, v.digest) for v in seeded.votes()] == [(2, "digest new")]
    assert isinstance(edit(seeded, revision=2), EarlierDecision)
    assert seeded.events() == ["call.edited", "call.approved", "run.ready"]


def test_a_button_of_a_missing_call_is_answered_as_such(store: Store) -> None:
    """The answer is the same for every verb."""
    with store.write() as tx:
        assert isinstance(
            decisions.apply_vote(tx, build_vote("nothing", 1, "approve", ANA), ONE),
            MissingCall,
        )
        assert isinstance(
            decisions.resolve_unknown_call(tx, "nothing", 1, ANA, "done", at=AT),
            MissingCall,
        )
        assert isinstance(decisions.check_revision_is_decidable(tx, "nothing", 1, AT), MissingCall)


def test_the_deadline_expires_a_call_once(store: Store) -> None:
    """The clock did it, not a rejection, and the run goes on."""
    seeded = seed(store, deadline=AT)
    first, second = seeded.call(), seeded.call()
    with store.write() as tx:
        assert endings.expire_call_if_overdue(tx, first, at=AT)
        assert not endings.expire_call_if_overdue(tx, second, at=AT)
    assert (seeded.call().status, seeded.run().status, seeded.votes()) == (C.EXPIRED, R.READY, [])
    assert [(a.event, a.actor) for a in seeded.audit()] == [
        ("call.expired", "clock"),
        ("run.ready", "clock"),
    ]
    assert "not a person's rejection" in seeded.call().output
    assert isinstance(vote(seeded), EarlierDecision)
    with store.write() as tx:  # another reader had seen that it was due
        assert not endings.expire_call_if_overdue(tx, seeded.call(), at=AT)


def test_a_call_approved_for_later_starts_at_its_time(store: Store) -> None:
    """Not a microsecond before, also if another reader took it for due."""
    seeded = seed(store)
    row = Vote(call_id=seeded.ids[0], person=ANA, verb="approve", created_at=AT, reason="at night")
    for now, started in ((AT, False), (AT + TICK, True)):
        with store.write() as tx:
            tx.update_rows(Call, {"id": seeded.ids[0]}, starts_at=AT + TICK)
            call = calls.get_call(tx, seeded.ids[0])
            assert endings.approve_scheduled_call(tx, call, [row], now) == started
        assert seeded.call().status is (C.APPROVED if started else C.PENDING)
    assert (seeded.call().decided_at, seeded.call().note) == (AT + TICK, "at night")
    assert seeded.events() == ["call.approved", "run.ready"]
    lost = seed(store, C.UNKNOWN)  # it has started then, and must not start again by itself
    with store.write() as tx:
        tx.update_rows(Call, {"id": lost.ids[0]}, starts_at=AT)
        call = calls.get_call(tx, lost.ids[0])
        assert not endings.approve_scheduled_call(tx, call, [row], AT + HOUR)
    assert lost.call().status is C.UNKNOWN


def test_calls_without_a_deadline_or_before_it_do_not_expire(store: Store) -> None:
    """They are not listed as due either."""
    seeded, later = seed(store, deadline=None), seed(store, deadline=AT + TICK)
    with store.write() as tx:
        assert not endings.expire_call_if_overdue(tx, seeded.call(), at=AT + HOUR)
        assert not endings.expire_call_if_overdue(tx, later.call(), at=AT)
        assert schedule.list_call_and_plan_ids_due_by(tx, AT) == []
        assert schedule.find_next_deadline(tx) == AT + TICK


def test_due_calls_are_listed_oldest_first(store: Store) -> None:
    """Decided calls are not among them; the process may have been stopped for long."""
    deadlines = [AT + 3 * TICK, AT, AT + TICK]
    pending = [seed(store, deadline=each) for each in deadlines]
    seed(store, C.APPROVED, deadline=AT)
    unknown = seed(store, C.UNKNOWN, deadline=AT + 2 * TICK)
    with store.read() as tx:
        found = schedule.list_call_and_plan_ids_due_by(tx, AT + HOUR)
    assert [call for call, _ in found] == [
        s.ids[0] for s in (pending[1], pending[2], unknown, pending[0])
    ]


def test_asking_again_makes_a_new_revision_without_votes(store: Store) -> None:
    """The arguments are the same; the gate is stricter."""
    seeded = seed(store)
    vote(seeded)
    stale = seeded.call()
    with store.write() as tx:
        won, lost = (
            decisions.return_call_to_pending(
                tx,
                stale,
                at=AT,
                actor="policy",
                gate=ASKED,
                digest="d2",
                deadline=AT + HOUR,
                why="stricter",
            )
            for _ in range(2)
        )
    assert (won, lost) == (True, False)
    now = seeded.call()
    assert (now.status, now.revision, now.digest, now.deadline) == (C.PENDING, 2, "d2", AT + HOUR)
    with store.read() as tx:
        shown = calls.find_call_with_revision(tx, now.id)
        assert shown is not None
        assert (shown.arguments, calls.list_votes_on_revision(tx, now.id, 2)) == (
            {"text": "note 0"},
            [],
        )
    assert isinstance(vote(seeded, revision=1), StaleRevision)
    # the same person may approve the new one
    assert isinstance(vote(seeded, revision=2), AppliedDecision)


def test_approve_all_means_the_pending_calls_on_its_card(store: Store) -> None:
    """They come in the model's order."""
    seeded = seed(store, C.PENDING, C.PENDING, C.APPROVED, C.PENDING)
    shown = calls.compute_card_revision([seeded.call(0), seeded.call(3)])
    card = seeded.card()
    with store.write() as tx:
        set_message(tx, card, body=json.dumps({"calls": [seeded.ids[at] for at in (3, 2, 0)]}))
        found = decisions.list_pending_calls_on_card(tx, seeded.plan_id, shown, card.seq or 0)
        assert [call.id for call in found] == [seeded.ids[0], seeded.ids[3]]
