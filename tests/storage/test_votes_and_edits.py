"""Votes on a call that takes several, edits, and what is asked again, as the rows keep them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.agent import outputs
from bot.approvals.call_state import build_vote_counter
from bot.policy.gates import Approvers, Ask, Stage, dump_gate
from storage import calls, decisions
from storage.decisions import AppliedDecision, DecisionOutcome, RepeatedVote, StaleRevision
from storage.models import Call
from storage.states import Surface
from storage.store import Store
from tests.storage.builders import ASKED, AT, HOUR, C, R, Seeded, seed
from tests.storage.steps import ANA, CLEO, edit, vote

DAN, EVA = "UDAN00001", "UEVA00001"
ALL = Approvers(users=(ANA, CLEO, DAN, EVA))
TWO = Ask(rule="r", stages=(Stage(approvers=ALL, quorum=2),), veto=2)
STEPS = Ask(rule="r", stages=(Stage(approvers=ALL), Stage(approvers=ALL)))
SIDES = STEPS.model_copy(update={"any_order": True})


def asked(store: Store, gate: Ask, *statuses: C) -> Seeded:
    """A call that waits under that gate."""
    return seed(store, *statuses, gate=dump_gate(gate))


def cast(made: Seeded, gate: Ask, verb: str, person: str, **how: Any) -> DecisionOutcome:
    """Vote on the first revision."""
    with made.store.write() as tx:
        return decisions.apply_vote(
            tx,
            made.ids[0],
            1,
            verb,
            person,
            at=AT,
            count_votes=build_vote_counter(gate),
            words=outputs,
            **how,
        )


def said(made: Seeded) -> dict[str, Any]:
    """What the audit's last row but those of the run holds."""
    [*_, last] = [each for each in made.audit() if each.call_id]
    found: dict[str, Any] = json.loads(last.data) | json.loads(last.payload or "{}")
    found.pop("payload", None)  # the seal over what a purge may empty
    return found


def test_the_first_of_two_changes_nothing_but_the_card(store: Store) -> None:
    """It is recorded with what it is of; the call and its run wait on."""
    made = asked(store, TWO)
    outcome = cast(made, TWO, "approve", ANA, reason="fine")
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
    assert said(made) == expected
    assert made.call().next_at is None
    assert isinstance(cast(made, TWO, "approve", CLEO), AppliedDecision)
    assert (made.call().status, made.call().output, made.run().status) == (C.APPROVED, "", R.READY)


def test_nobody_counts_twice(store: Store) -> None:
    """The same word again is told as that; who has said yes may still say no, and not back."""
    made = asked(store, TWO)
    cast(made, TWO, "approve", ANA)
    assert cast(made, TWO, "approve", ANA) == RepeatedVote(made.call(), "approve", ANA)
    assert isinstance(cast(made, TWO, "reject", ANA), AppliedDecision)
    for verb in ("reject", "approve"):
        assert cast(made, TWO, verb, ANA) == RepeatedVote(made.call(), "reject", ANA)
    assert len(made.votes()) == 2


def test_a_stand_in_and_their_giver_are_one(store: Store) -> None:
    """Whoever of the two was first has said it for both, also where the other rejects."""
    made = asked(store, TWO)
    assert isinstance(cast(made, TWO, "approve", DAN, delegator=ANA), AppliedDecision)
    assert said(made)["for"] == ANA
    assert cast(made, TWO, "approve", ANA) == RepeatedVote(made.call(), "approve", DAN)
    assert isinstance(cast(made, TWO, "approve", CLEO, counts_as="named"), AppliedDecision)
    assert said(made)["counts_as"] == "named"
    assert "for" not in said(made)
    other = asked(store, TWO)
    cast(other, TWO, "approve", ANA)
    assert cast(other, TWO, "reject", DAN, delegator=ANA) == RepeatedVote(
        other.call(), "approve", ANA
    )
    assert isinstance(cast(other, TWO, "reject", ANA), AppliedDecision)
    assert isinstance(cast(other, TWO, "reject", DAN, delegator=CLEO), AppliedDecision)
    assert other.call().status is C.REJECTED


def test_who_stood_in_has_said_it(store: Store) -> None:
    """They cannot say it once more for themselves or for somebody else, but may reject."""
    made = asked(store, TWO)
    cast(made, TWO, "approve", DAN, delegator=ANA)
    assert cast(made, TWO, "approve", DAN, delegator=CLEO) == RepeatedVote(
        made.call(), "approve", DAN
    )
    assert cast(made, TWO, "approve", DAN) == RepeatedVote(made.call(), "approve", DAN)
    assert isinstance(cast(made, TWO, "reject", DAN, delegator=ANA), AppliedDecision)


def test_a_step_that_is_closed_takes_no_approval(store: Store) -> None:
    """Neither before nor after its turn; a rejection counts at any time."""
    made = asked(store, STEPS)
    assert isinstance(cast(made, STEPS, "approve", ANA, stage=1), StaleRevision)
    assert made.votes() == []
    assert isinstance(cast(made, STEPS, "approve", ANA, stage=0), AppliedDecision)
    assert made.call().next_at == AT  # its people are to be told
    assert isinstance(cast(made, STEPS, "approve", CLEO, stage=0), StaleRevision)
    assert isinstance(cast(made, STEPS, "reject", CLEO, stage=0), AppliedDecision)
    assert made.call().status is C.REJECTED


def test_a_vote_that_may_count_in_several(store: Store) -> None:
    """Where the steps have no order it counts where one of them is open, and says where."""
    made = asked(store, SIDES)
    assert isinstance(cast(made, SIDES, "approve", ANA, stage=0), AppliedDecision)
    assert "also" not in said(made)
    assert isinstance(cast(made, SIDES, "approve", CLEO, stage=0, also=(1,)), AppliedDecision)
    assert (said(made)["also"], made.votes()[1].also) == ("1", "1")
    assert made.call().status is C.APPROVED


def test_who_rejected_is_told_to_the_model(store: Store) -> None:
    """With the words of each who did, and of nobody who did not."""
    made = asked(store, TWO)
    for verb, person, why in (
        ("reject", ANA, "too dear"),
        ("approve", CLEO, "fine by me"),
        ("reject", DAN, "not now"),
    ):
        cast(made, TWO, verb, person, reason=why)
    call = made.call()
    assert call.output == outputs.rejected_output([(ANA, "too dear"), (DAN, "not now")])
    assert (call.status, call.note, call.decided_at) == (C.REJECTED, "not now", AT)


def test_where_it_was_said_is_kept(store: Store) -> None:
    """Elsewhere than in Slack is written down; Slack is not."""
    made = asked(store, TWO)
    cast(made, TWO, "approve", ANA, surface=Surface.TERMINAL)
    assert said(made)["surface"] == "terminal"
    cast(made, TWO, "reject", CLEO)
    assert "surface" not in said(made)


def test_the_next_step_is_told_once(store: Store) -> None:
    """A vote that opens no further step leaves when people are told as it was."""
    gate = Ask(rule="r", stages=(Stage(approvers=ALL, quorum=2), Stage(approvers=ALL)))
    made = asked(store, gate, C.PENDING, C.PENDING)
    cast(made, gate, "approve", ANA)
    assert made.call().next_at is None
    cast(made, gate, "approve", CLEO)
    assert (made.call().next_at, made.call(1).next_at) == (AT, None)


def test_an_edit_tells_its_people_only_if_they_are_others(store: Store) -> None:
    """Under the same gate nothing is told again; under another, it begins anew."""
    made = asked(store, TWO)
    before = {"told_stage": 1, "told_moments": 2, "next_at": AT + HOUR}
    with store.write() as tx:
        calls.revise_call(tx, made.call(), revision_of(made, 2), **before)
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


def revision_of(made: Seeded, number: int) -> Any:
    """A row of the call's arguments."""
    with made.store.read() as tx:
        found = calls.find_revision(tx, made.ids[0], 1)
    assert found is not None
    found.seq, found.number = None, number
    return found


def ask(tx: Any, call: Call, **how: Any) -> bool:
    """Have people asked again."""
    given = {"at": AT, "actor": "policy", "why": "stricter", "deadline": AT + HOUR, "digest": "d2"}
    return decisions.return_call_to_pending(tx, call, **{**given, **how})


@pytest.mark.parametrize("status", [C.PENDING, C.APPROVED])
def test_what_is_asked_again_begins_anew(store: Store, status: C) -> None:
    """Its reminders and its approval are forgotten; what waited goes on waiting, and says why."""
    made = seed(store, status)
    with store.write() as tx:
        told = {"told_stage": 1, "told_moments": 2, "grant_id": "g"}
        calls.revise_call(tx, made.call(), revision_of(made, 2), **told)
    with store.write() as tx:
        assert ask(tx, made.call(), next_at=AT + HOUR, preview="new") is True
    call = made.call()
    assert (call.status, call.revision, call.note, call.digest) == (C.PENDING, 3, "stricter", "d2")
    assert (call.told_stage, call.told_moments, call.grant_id) == (0, 0, "")
    assert (call.asked_at, call.next_at, call.preview) == (AT, AT + HOUR, "new")
    event = "call.asked_again" if status is C.PENDING else "call.pending"
    assert (made.events(), made.card().wanted) == ([event], 2)
    assert {"why": "stricter", "revision": 3, "digest": "d2"}.items() <= said(made).items()


def test_what_is_of_no_revision_is_not_asked_again(store: Store) -> None:
    """Without arguments there is nothing to ask about."""
    made = seed(store)
    call = made.call()
    call.revision = 7
    with store.write() as tx:
        assert ask(tx, call) is False
    assert made.events() == []


def test_a_card_shows_its_own_calls(store: Store) -> None:
    """Only while just these wait there, at the revisions that it shows."""
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
