"""Votes on calls that need several, edits, and calls asked about again, as the rows keep them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.approvals.call_state import build_vote_counter
from bot.policy.gates import Approvers, Ask, Stage, dump_gate
from storage import call_outputs, calls, decisions
from storage.decisions import AppliedDecision, DecisionOutcome, RepeatedVote, StaleRevision
from storage.models import Call, Vote
from storage.states import Surface
from storage.store import Store
from tests.storage.builders import ASKED, AT, HOUR, C, R, Seeded, build_vote, seed
from tests.storage.steps import ANA, CLEO, edit, vote

DAN, EVA = "UDAN00001", "UEVA00001"
ALL = Approvers(users=(ANA, CLEO, DAN, EVA))
TWO = Ask(rule="r", stages=(Stage(approvers=ALL, quorum=2),), veto=2)
STEPS = Ask(rule="r", stages=(Stage(approvers=ALL), Stage(approvers=ALL)))
SIDES = STEPS.model_copy(update={"any_order": True})


def add_calls(store: Store, gate: Ask, *statuses: C) -> Seeded:
    """Calls that wait under that gate."""
    return seed(store, *statuses, gate=dump_gate(gate))


def cast_vote(made: Seeded, gate: Ask, verb: str, person: str, **how: Any) -> DecisionOutcome:
    """Vote on the first revision; `how`: columns of the vote, else what `apply_vote` takes."""
    columns = {name: how.pop(name) for name in list(how) if name in Vote.model_fields}
    with made.store.write() as tx:
        vote = build_vote(made.ids[0], 1, verb, person, **columns)
        return decisions.apply_vote(tx, vote, build_vote_counter(gate), **how)


def get_audit_data(made: Seeded) -> dict[str, Any]:
    """The data of the last audit row about a call."""
    [*_, last] = [each for each in made.audit() if each.call_id]
    found: dict[str, Any] = json.loads(last.data) | json.loads(last.payload or "{}")
    found.pop("payload", None)  # the seal over the payload, which a purge may empty
    return found


def test_the_first_of_two_approvals_changes_only_the_card(store: Store) -> None:
    """The vote is recorded; the call and its run still wait."""
    made = add_calls(store, TWO)
    outcome = cast_vote(made, TWO, "approve", ANA, reason="fine")
    assert isinstance(outcome, AppliedDecision)
    assert (outcome.call.status, outcome.call.id) == (C.PENDING, made.ids[0])
    assert (made.call().status, made.run().status, made.card().wanted) == (C.PENDING, R.WAITING, 2)
    assert made.events() == ["call.vote.approve"]
    expected = {
        "tool": "note",
        "vote": "approve",
        "revision": 1,
        "stage": 0,
        "digest": "digest-0",
        "reason": "fine",
        "counts_as": "",
    }
    assert get_audit_data(made) == expected
    assert made.call().next_at is None
    assert isinstance(cast_vote(made, TWO, "approve", CLEO), AppliedDecision)
    assert (made.call().status, made.call().output, made.run().status) == (C.APPROVED, "", R.READY)


def test_a_persons_repeated_vote_does_not_count(store: Store) -> None:
    """An approver may still reject, and not go back."""
    made = add_calls(store, TWO)
    cast_vote(made, TWO, "approve", ANA)
    assert cast_vote(made, TWO, "approve", ANA) == RepeatedVote(made.call(), "approve", ANA)
    assert isinstance(cast_vote(made, TWO, "reject", ANA), AppliedDecision)
    for verb in ("reject", "approve"):
        assert cast_vote(made, TWO, verb, ANA) == RepeatedVote(made.call(), "reject", ANA)
    assert len(made.votes()) == 2


def test_a_delegate_and_the_giver_count_as_one(store: Store) -> None:
    """The first vote is for both, also if the other rejects."""
    made = add_calls(store, TWO)
    assert isinstance(cast_vote(made, TWO, "approve", DAN, for_person=ANA), AppliedDecision)
    assert get_audit_data(made)["for"] == ANA
    assert cast_vote(made, TWO, "approve", ANA) == RepeatedVote(made.call(), "approve", DAN)
    assert isinstance(cast_vote(made, TWO, "approve", CLEO, counts_as="named"), AppliedDecision)
    assert get_audit_data(made)["counts_as"] == "named"
    assert "for" not in get_audit_data(made)
    other = add_calls(store, TWO)
    cast_vote(other, TWO, "approve", ANA)
    assert cast_vote(other, TWO, "reject", DAN, for_person=ANA) == RepeatedVote(
        other.call(), "approve", ANA
    )
    assert isinstance(cast_vote(other, TWO, "reject", ANA), AppliedDecision)
    assert isinstance(cast_vote(other, TWO, "reject", DAN, for_person=CLEO), AppliedDecision)
    assert other.call().status is C.REJECTED


def test_a_delegate_who_voted_cannot_approve_again_for_themselves(store: Store) -> None:
    """They cannot for another giver either, but may reject."""
    made = add_calls(store, TWO)
    cast_vote(made, TWO, "approve", DAN, for_person=ANA)
    assert cast_vote(made, TWO, "approve", DAN, for_person=CLEO) == RepeatedVote(
        made.call(), "approve", DAN
    )
    assert cast_vote(made, TWO, "approve", DAN) == RepeatedVote(made.call(), "approve", DAN)
    assert isinstance(cast_vote(made, TWO, "reject", DAN, for_person=ANA), AppliedDecision)


def test_a_delegate_has_no_word_that_their_giver_has_had(store: Store) -> None:
    """Whatever they have said for themselves, they do not reject for somebody who approved."""
    gate = Ask(rule="r", stages=(Stage(approvers=ALL, quorum=3),), veto=2)
    made = add_calls(store, gate)
    cast_vote(made, gate, "approve", DAN)
    cast_vote(made, gate, "approve", ANA)
    assert cast_vote(made, gate, "reject", DAN, for_person=ANA) == RepeatedVote(
        made.call(), "approve", ANA
    )
    assert isinstance(cast_vote(made, gate, "reject", DAN), AppliedDecision)


def test_a_closed_stage_accepts_no_approval(store: Store) -> None:
    """That is before and after its turn; a rejection counts at any time."""
    made = add_calls(store, STEPS)
    assert isinstance(cast_vote(made, STEPS, "approve", ANA, stage=1), StaleRevision)
    assert made.votes() == []
    assert isinstance(cast_vote(made, STEPS, "approve", ANA, stage=0), AppliedDecision)
    assert made.call().next_at == AT  # the next stage's people are to be notified
    assert isinstance(cast_vote(made, STEPS, "approve", CLEO, stage=0), StaleRevision)
    assert isinstance(cast_vote(made, STEPS, "reject", CLEO, stage=0), AppliedDecision)
    assert made.call().status is C.REJECTED


def test_a_vote_for_unordered_stages_counts_in_an_open_one(store: Store) -> None:
    """The audit says where it may count."""
    made = add_calls(store, SIDES)
    assert isinstance(cast_vote(made, SIDES, "approve", ANA, stage=0), AppliedDecision)
    assert "also" not in get_audit_data(made)
    assert isinstance(cast_vote(made, SIDES, "approve", CLEO, stage=0, also="1"), AppliedDecision)
    assert (get_audit_data(made)["also"], made.votes()[1].also) == ("1", "1")
    assert made.call().status is C.APPROVED


def test_the_model_is_told_who_rejected_and_why(store: Store) -> None:
    """Approvers are not named."""
    made = add_calls(store, TWO)
    for verb, person, why in (
        ("reject", ANA, "too dear"),
        ("approve", CLEO, "fine by me"),
        ("reject", DAN, "not now"),
    ):
        cast_vote(made, TWO, verb, person, reason=why)
    call = made.call()
    assert call.output == call_outputs.rejected_output([(ANA, "too dear"), (DAN, "not now")])
    assert (call.status, call.note, call.decided_at) == (C.REJECTED, "not now", AT)


def test_votes_outside_of_slack_record_their_surface(store: Store) -> None:
    """Votes in Slack have none."""
    made = add_calls(store, TWO)
    cast_vote(made, TWO, "approve", ANA, surface=Surface.TERMINAL)
    assert get_audit_data(made)["surface"] == "terminal"
    cast_vote(made, TWO, "reject", CLEO)
    assert "surface" not in get_audit_data(made)


def test_a_look_at_an_earlier_revision_does_not_count(store: Store) -> None:
    """Others are asked to look at the revision that ran."""
    made = add_calls(store, TWO, C.SUCCEEDED)
    with store.write() as tx:
        calls.revise_call(tx, made.call(), make_revision(made, 2), look_due_at=AT)
    for verb in ("look", "object"):
        assert cast_vote(made, TWO, verb, ANA) == StaleRevision(made.call())
    assert (made.call().look_due_at, made.votes(), made.events()) == (AT, [], [])


def test_what_waits_for_its_time_waits_for_nobody(store: Store) -> None:
    """Once it is approved nobody has it in hand or is reminded of it; it is due when it starts."""
    made = add_calls(store, STEPS)
    with store.write() as tx:
        before = {"assignee": CLEO, "assigned_by": ANA, "next_at": AT}
        tx.update_rows(Call, {"id": made.ids[0]}, **before)
    one = Ask(rule="r", stages=STEPS.stages[:1])
    assert isinstance(cast_vote(made, one, "approve", ANA, starts_at=AT + HOUR), AppliedDecision)
    call = made.call()
    assert (call.status, call.starts_at, call.deadline) == (C.PENDING, AT + HOUR, AT + HOUR)
    assert (call.assignee, call.assigned_by, call.next_at) == ("", "", None)


@pytest.mark.parametrize("rejector", [ANA, DAN])
def test_a_call_is_scheduled_by_its_last_approval(store: Store, rejector: str) -> None:
    """No other one is needed then; one rejection stops it, although two would be needed before.

    It may be that of somebody who had approved it.
    """
    made = add_calls(store, TWO, C.PENDING)
    for person, starts_at in ((ANA, None), (CLEO, AT + HOUR)):
        assert isinstance(
            cast_vote(made, TWO, "approve", person, starts_at=AT + HOUR), AppliedDecision
        )
        assert made.call().starts_at == starts_at
    late = cast_vote(made, TWO, "approve", DAN, starts_at=AT + HOUR)
    assert isinstance(late, decisions.EarlierDecision)
    assert isinstance(cast_vote(made, TWO, "reject", rejector), AppliedDecision)
    assert made.call().status is C.REJECTED


def test_only_opening_a_stage_changes_when_people_are_notified(store: Store) -> None:
    """Other votes leave the time."""
    gate = Ask(rule="r", stages=(Stage(approvers=ALL, quorum=2), Stage(approvers=ALL)))
    made = add_calls(store, gate, C.PENDING, C.PENDING)
    cast_vote(made, gate, "approve", ANA)
    assert made.call().next_at is None
    cast_vote(made, gate, "approve", CLEO)
    assert (made.call().next_at, made.call(1).next_at) == (AT, None)


def test_an_edit_notifies_people_again_only_under_another_gate(store: Store) -> None:
    """Under the same gate the notifications go on."""
    made = add_calls(store, TWO)
    before = {"told_stage": 1, "told_moments": 2, "next_at": AT + HOUR}
    with store.write() as tx:
        calls.revise_call(tx, made.call(), make_revision(made, 2), **before)
        common: dict[str, Any] = {"at": AT, "arguments": "{}", "deadline": None, "next_at": AT}
        gate = made.call().gate
        decisions.apply_edit(tx, made.ids[0], 2, ANA, digest="d3", gate=gate, **common)
    call = made.call()
    assert (call.told_stage, call.told_moments, call.next_at) == (0, 2, AT + HOUR)
    with store.write() as tx:
        decisions.apply_edit(tx, made.ids[0], 3, ANA, digest="d4", gate=ASKED, **common)
    call = made.call()
    assert (call.revision, call.told_moments, call.next_at) == (4, 0, AT)
    assert isinstance(edit(made, revision=3), StaleRevision)


def make_revision(made: Seeded, number: int) -> Any:
    """A revision of the call with that number."""
    with made.store.read() as tx:
        found = calls.find_revision(tx, made.ids[0], 1)
    assert found is not None
    found.seq, found.number = None, number
    return found


def ask_again(tx: Any, call: Call, **how: Any) -> bool:
    """Return the call to pending."""
    given = {"at": AT, "actor": "policy", "why": "stricter", "deadline": AT + HOUR, "digest": "d2"}
    return decisions.return_call_to_pending(tx, call, **{**given, **how})


@pytest.mark.parametrize("status", [C.PENDING, C.APPROVED])
def test_a_call_asked_again_forgets_reminders_and_its_grant(store: Store, status: C) -> None:
    """It waits and says why."""
    made = seed(store, status)
    with store.write() as tx:
        told = {"told_stage": 1, "told_moments": 2, "grant_id": "g"}
        calls.revise_call(tx, made.call(), make_revision(made, 2), **told)
    with store.write() as tx:
        assert ask_again(tx, made.call(), next_at=AT + HOUR, preview="new") is True
    call = made.call()
    assert (call.status, call.revision, call.note, call.digest) == (C.PENDING, 3, "stricter", "d2")
    assert (call.told_stage, call.told_moments, call.grant_id) == (0, 0, "")
    assert (call.asked_at, call.next_at, call.preview) == (AT, AT + HOUR, "new")
    event = "call.asked_again" if status is C.PENDING else "call.pending"
    assert (made.events(), made.card().wanted) == ([event], 2)
    assert {"why": "stricter", "revision": 3, "digest": "d2"}.items() <= get_audit_data(
        made
    ).items()


def test_a_call_without_arguments_is_not_asked_again(store: Store) -> None:
    """Its revision does not exist."""
    made = seed(store)
    call = made.call()
    call.revision = 7
    with store.write() as tx:
        assert ask_again(tx, call) is False
    assert made.events() == []


def test_a_cards_calls_are_valid_only_at_the_revisions_it_shows(store: Store) -> None:
    """It must show exactly the calls that wait."""
    made = seed(store, C.PENDING, C.APPROVED, C.PENDING)
    seq = made.card().seq
    assert seq is not None
    shown = calls.compute_card_revision([made.call(0), made.call(2)])
    assert shown not in (
        calls.compute_card_revision([made.call(0)]),
        calls.compute_card_revision([]),
    )
    with store.read() as tx:
        found = decisions.list_pending_calls_on_card(tx, made.plan_id, shown, seq)
        assert [each.id for each in found] == [made.ids[0], made.ids[2]]
        assert decisions.list_pending_calls_on_card(tx, made.plan_id, shown + 1, seq) == []
        assert decisions.list_pending_calls_on_card(tx, "nothing", shown, seq) == []
        assert decisions.list_pending_calls_on_card(tx, made.plan_id, shown, seq + 99) == []
    vote(made, "reject", CLEO, index=2)
    left = calls.compute_card_revision([made.call(0)])
    with store.read() as tx:
        assert decisions.list_pending_calls_on_card(tx, made.plan_id, shown, seq) == []
        assert [
            each.id for each in decisions.list_pending_calls_on_card(tx, made.plan_id, left, seq)
        ] == [made.ids[0]]
