"""Editing a call before it is approved: errors at the fields, a new revision, old buttons."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from sqlalchemy import update
from sqlmodel import col

from bot.policy.gates import load_gate
from bot.tools import Effect, ToolContext, tool
from storage.models import Call, Revision, Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids, value_of, words
from tests.stories.steps import ask, now_at, on_top, open_modal, reject, told, typed

REFUND = ("refund_order", {"order_id": 1031, "amount": "40.00", "reason": "damaged"})
EDITOR_COUNTS_POLICY = """
[defaults]
approvers = ["@shop-leads"]
editor_counts = true

[[rule]]
tool = "put"
verdict = "ask"
reasons = "approve"
"""
FINANCE_POLICY = """
[defaults]
approvers = ["@finance"]
post_to = "C0FINANCE"
"""

DENYING_POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "note"
when = 'args.text == "all of it"'
verdict = "deny"
reason = "nobody may delete all of it"
"""


def list_revisions(harness: Harness, thread: str) -> list[dict[str, Any]]:
    [call] = harness.calls_in(thread)
    found = sorted(harness.all(Revision, Revision.call_id == call.id), key=lambda row: row.number)
    return [json.loads(row.arguments) for row in found]


def test_edit_with_errors_then_save_then_a_stale_button_then_approve(harness: Harness) -> None:
    """Errors stand at their fields and store nothing; a saved edit is a new revision, for which
    older buttons do not count.
    """
    before = harness.shop.get_order(1031).refunded
    thread = ask(harness, REFUND)
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    outcome = harness.person("ana").submit(typed(amount="25.001"))
    assert outcome["outcome"] == "errors"
    assert list(outcome["errors"]) == ["f:amount"]
    assert "2" in outcome["errors"]["f:amount"]
    assert len(list_revisions(harness, thread)) == 1

    assert harness.person("ana").submit(typed(amount="25"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    edited = now_at(harness, SUPPORT, card["ts"])
    assert '"40.00"' in words(edited)
    assert '"25.00"' in words(edited)
    assert "Edited by <@UANA00001>" in words(edited)
    assert value_of(edited, "approve").endswith(":2")
    assert [r["amount"] for r in list_revisions(harness, thread)] == ["40", "25"]

    harness.person("cleo").click(SUPPORT, card["ts"], "approve", seen=card)
    told(harness, "cleo", SUPPORT, thread, "This was out of date")
    assert harness.shop.get_order(1031).refunded == before

    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert harness.shop.get_order(1031).refunded - before == 25
    [output] = harness.outputs()
    assert "It was edited by <@UANA00001> and ran with: " in output["output"]
    assert '"amount":"25' in output["output"]
    assert "Approved by <@UCLEO0001>" in output["output"]


def test_a_call_asked_by_an_earlier_build_can_be_edited(harness: Harness) -> None:
    """A gate stored with all its defaults counts as the same gate, so nobody is notified again."""
    before = harness.shop.get_order(1031).refunded
    thread = ask(harness, REFUND)
    card = harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    full = json.dumps(load_gate(call.gate).model_dump(mode="json"))
    assert len(full) > 2 * len(call.gate)
    with harness.app.core.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == call.id).values(gate=full, told_moments=1))
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(amount="24"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    [edited] = harness.calls_in(thread)
    assert (edited.revision, edited.gate, edited.told_moments) == (2, full, 1)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert harness.shop.get_order(1031).refunded - before == 24


def test_the_model_is_not_told_of_an_invalid_edit(harness: Harness) -> None:
    """Wrong types, values out of range and missing values are errors of the dialog only."""
    thread = ask(harness, REFUND)
    card = harness.card(SUPPORT, thread)
    asked = len(harness.planner.requests)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    person = harness.person("ana")
    for amount in ("0.00", "-3", "forty", "9999999999", ""):
        outcome = person.submit(typed(amount=amount))
        assert outcome["outcome"] == "errors"
        assert list(outcome["errors"]) == ["f:amount"], outcome
    assert "f:note" in person.submit(typed(amount="40.00", note="n" * 600))["errors"]
    person.close_view()
    harness.settle()
    assert list_revisions(harness, thread) == [
        {"amount": "40", "note": None, "order_id": 1031, "reason": "damaged"}
    ]
    assert len(harness.planner.requests) == asked
    assert now_at(harness, SUPPORT, card["ts"])["blocks"] == card["blocks"]


def test_an_edit_that_changes_nothing_is_no_edit(harness: Harness, fakes: FakeTools) -> None:
    """There is no new revision, and the editor may still approve."""
    thread = ask(harness, ("note", {"text": "as it is"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.settle()
    assert len(list_revisions(harness, thread)) == 1
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "as it is") == 1
    assert "edited" not in harness.outputs()[-1]["output"]


def test_nobody_approves_their_own_edit(harness: Harness, fakes: FakeTools) -> None:
    """The editor is refused; another approver has to decide."""
    thread = ask(harness, ("note", {"text": "mine"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert not [b for b in harness.person("ana").view()["blocks"] if b.get("block_id") == "then"]
    harness.person("ana").submit(typed(text="mine, edited"))
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, "You edited this, so somebody else has to approve it.")
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.PENDING]
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "mine, edited") == 1


def test_the_requester_may_edit_but_not_approve(harness: Harness, fakes: FakeTools) -> None:
    """Other people may not edit at all."""
    thread = ask(harness, ("note", {"text": "tpyo"}))
    card = harness.card(SUPPORT, thread)
    harness.person("dan").click(SUPPORT, card["ts"], "edit")
    told(harness, "dan", SUPPORT, thread, "You cannot edit this one.")
    assert harness.person("dan").view() is None
    open_modal(harness, "ben", SUPPORT, card, "edit")
    assert harness.person("ben").submit(typed(text="typo"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "typo") == 1


def test_an_edit_after_an_approval_changes_nothing(harness: Harness, fakes: FakeTools) -> None:
    """The dialog was open while somebody else approved."""
    thread = ask(harness, ("note", {"text": "first"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.person("ana").submit(typed(text="second"))
    assert "already approved this" in on_top(harness, "ana")
    harness.person("ana").close_view()
    harness.settle()
    assert (fakes.did("note", "first"), fakes.did("note", "second")) == (1, 0)
    assert len(list_revisions(harness, thread)) == 1


def test_the_second_of_two_edits_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """The two are not merged."""
    thread = ask(harness, ("note", {"text": "both edit"}))
    card = harness.card(SUPPORT, thread)
    for name in ("ana", "cleo"):
        open_modal(harness, name, SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text="by ana"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.person("cleo").submit(typed(text="by cleo"))
    assert "out of date" in on_top(harness, "cleo")
    harness.person("cleo").close_view()
    harness.settle()
    assert [r["text"] for r in list_revisions(harness, thread)] == ["both edit", "by ana"]


def test_an_editor_who_counts_can_save_and_approve(own_harness: Callable[..., Harness]) -> None:
    """With editor_counts the dialog offers it: one revision, one vote on it, one effect. The
    requester cannot approve that way.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, EDITOR_COUNTS_POLICY)
    thread = ask(harness, ("note", {"text": "draft"}))
    card = harness.card(SUPPORT, thread)
    view = open_modal(harness, "ana", SUPPORT, card, "edit")
    [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
    harness.person("ana").submit(
        typed(text="final") | {"then": {"v": {"selected_options": box["options"]}}}
    )
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [call] = harness.calls_in(thread)
    [vote] = harness.all(Vote, Vote.call_id == call.id)
    assert (vote.person, vote.revision, vote.digest) == ("UANA00001", 2, call.digest)
    assert (fakes.did("note", "draft"), fakes.did("note", "final")) == (0, 1)

    thread = ask(harness, ("note", {"text": "of ben"}))
    open_modal(harness, "ben", SUPPORT, harness.card(SUPPORT, thread), "edit")
    outcome = harness.person("ben").submit(
        typed(text="x") | {"then": {"v": {"selected_options": box["options"]}}}
    )
    assert "You cannot decide this one" in outcome["errors"]["then"]
    assert len(list_revisions(harness, thread)) == 1


def test_an_editor_approves_only_what_they_have_seen(own_harness: Callable[..., Harness]) -> None:
    """Saving approves neither a call whose preview is new nor one that needs Review or words."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, EDITOR_COUNTS_POLICY)

    def edited(tool: str, text: str) -> tuple[str, dict[str, Any]]:
        thread = ask(harness, (tool, {"text": "history"}))
        card = harness.card(SUPPORT, thread)
        view = open_modal(harness, "ana", SUPPORT, card, "edit")
        [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
        chosen = {"then": {"v": {"selected_options": box["options"]}}}
        assert harness.person("ana").submit(typed(text=text) | chosen)["outcome"] == "closed"
        return thread, card

    thread, _ = edited("luck", "poetry")  # its preview has not changed
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("luck", "poetry") == 1

    thread, card = edited("empty", "poetry")
    told(harness, "ana", SUPPORT, thread, "not approved yet: check the new preview on the card")
    harness.settle()
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.PENDING]
    assert "3 books stand on poetry" in words(now_at(harness, SUPPORT, card["ts"]))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("empty", "poetry") == 1

    for name in ("look_up", "put"):
        harness.planner.clear_script()
        card = harness.card(SUPPORT, ask(harness, (name, {"text": "more"})), having="review")
        view = open_modal(harness, "ana", SUPPORT, card, "edit")
        assert "then" not in [block.get("block_id") for block in view["blocks"]]
        harness.person("ana").close_view()


def test_an_edit_under_another_rule_needs_both_groups_of_approvers(
    own_harness: Callable[..., Harness],
) -> None:
    """The card moves to the channel of the new rule."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    thread = ask(harness, ("note", {"text": "small"}))
    card = harness.card(SUPPORT, thread)
    harness.policy = FINANCE_POLICY
    harness.restart()
    open_modal(harness, "ben", SUPPORT, card, "edit")
    assert harness.person("ben").submit(typed(text="large"))["outcome"] == "closed"
    elsewhere = harness.card(FINANCE, None, "cleo")
    harness.settle()
    assert "S0LEADS" in words(elsewhere)
    assert "Step 1 of 2" in words(elsewhere)

    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "S0LEADS" not in words(drawn)
    assert "approve" not in action_ids(drawn)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    told(harness, "ana", SUPPORT, thread, "This was out of date")
    harness.person("ana").click(FINANCE, elsewhere["ts"], "approve")
    harness.said(FINANCE, elsewhere["ts"], "your approval is needed next", "cleo")
    harness.settle()
    assert "S0FINANCE" in words(now_at(harness, FINANCE, elsewhere["ts"], "cleo"))
    assert fakes.did("note", "large") == 0
    harness.person("cleo").click(FINANCE, elsewhere["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "large") == 1


def test_an_edit_that_policy_forbids_is_refused(own_harness: Callable[..., Harness]) -> None:
    """The dialog gives the rule's reason. The call can still be approved as it was."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, DENYING_POLICY)
    thread = ask(harness, ("note", {"text": "some of it"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="all of it"))
    assert "not allow this: nobody may delete all of it" in on_top(harness, "ana")
    harness.person("ana").close_view()
    assert [each["text"] for each in list_revisions(harness, thread)] == ["some of it"]
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "some of it"), fakes.did("note", "all of it")) == (1, 0)


def test_an_edited_and_rejected_call_does_not_run(harness: Harness, fakes: FakeTools) -> None:
    """Neither the old nor the new arguments have run."""
    thread = ask(harness, ("note", {"text": "old"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="new"))
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    reject(harness, "ana", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "neither")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert harness.outputs()[-1]["output"].startswith("REJECTED")
    assert (fakes.did("note", "old"), fakes.did("note", "new")) == (0, 0)


class Nothing(BaseModel):
    """The arguments of a tool that takes none."""


@tool(title="Ring the bell", effect="Ring the bell", does=Effect.WRITE)
def ring(args: Nothing, context: ToolContext) -> str:
    """Ring the bell."""
    return "It rang."


def test_a_call_without_arguments_has_no_edit_button(own_harness: Callable[..., Harness]) -> None:
    """It can be approved or rejected."""
    harness = own_harness([ring], EDITOR_COUNTS_POLICY)
    card = harness.card(SUPPORT, ask(harness, ("ring", {})))
    assert {"approve", "reject_now"} <= set(action_ids(card))
    assert "edit" not in action_ids(card)
