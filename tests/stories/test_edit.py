"""Editing a call before it is approved: errors at the fields, a new revision, dead buttons."""

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
COUNTS = """
[defaults]
approvers = ["@shop-leads"]
editor_counts = true

[[rule]]
tool = "put"
verdict = "ask"
reasons = "approve"
"""
FINANCE_ONLY = """
[defaults]
approvers = ["@finance"]
post_to = "C0FINANCE"
"""


def revisions(harness: Harness, thread: str) -> list[dict[str, Any]]:
    [call] = harness.calls_in(thread)
    found = sorted(harness.all(Revision, Revision.call_id == call.id), key=lambda row: row.number)
    return [json.loads(row.arguments) for row in found]


def test_edit_with_errors_then_save_then_a_stale_button_then_approve(harness: Harness) -> None:
    """Errors stand at their fields and store nothing.

    Saving makes a revision that kills older buttons.
    """
    before = harness.shop.get_order(1031).refunded
    thread = ask(harness, REFUND)
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    outcome = harness.person("ana").submit(typed(amount="25.001"))
    assert outcome["outcome"] == "errors"
    assert list(outcome["errors"]) == ["f:amount"]
    assert "2" in outcome["errors"]["f:amount"]
    assert len(revisions(harness, thread)) == 1

    assert harness.person("ana").submit(typed(amount="25"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    edited = now_at(harness, SUPPORT, card["ts"])
    assert '"40.00"' in words(edited)
    assert '"25.00"' in words(edited)
    assert "Edited by <@UANA00001>" in words(edited)
    assert value_of(edited, "approve").endswith(":2")
    assert [r["amount"] for r in revisions(harness, thread)] == ["40", "25"]

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


def test_an_edit_of_what_an_earlier_build_asked(harness: Harness) -> None:
    """A gate that was written with all of its defaults is the same gate: nobody is told again."""
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


def test_the_model_never_hears_of_an_invalid_edit(harness: Harness) -> None:
    """Type, range and a missing value are told in the modal only."""
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
    assert revisions(harness, thread) == [
        {"amount": "40", "note": None, "order_id": 1031, "reason": "damaged"}
    ]
    assert len(harness.planner.requests) == asked
    assert now_at(harness, SUPPORT, card["ts"])["blocks"] == card["blocks"]


def test_an_edit_that_changes_nothing_is_no_edit(harness: Harness, fakes: FakeTools) -> None:
    """Saving the dialog untouched leaves the revision, the buttons and the editor's right."""
    thread = ask(harness, ("note", {"text": "as it is"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.settle()
    assert len(revisions(harness, thread)) == 1
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "as it is") == 1
    assert "edited" not in harness.outputs()[-1]["output"]


def test_nobody_approves_their_own_edit(harness: Harness, fakes: FakeTools) -> None:
    """Who edited counts as a requester: another approver has to say yes."""
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
    """By default the requester corrects their own request and an approver decides.

    Others may not edit.
    """
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


def test_editing_while_another_approves(harness: Harness, fakes: FakeTools) -> None:
    """The edit of a call approved meanwhile is refused in the modal and changes nothing."""
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
    assert len(revisions(harness, thread)) == 1


def test_two_editors_at_once(harness: Harness, fakes: FakeTools) -> None:
    """The second of two edits of the same revision is told that the request has changed.

    Nothing is merged.
    """
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
    assert [r["text"] for r in revisions(harness, thread)] == ["both edit", "by ana"]


def test_save_and_approve_where_the_editor_counts(own_harness: Callable[..., Harness]) -> None:
    """With editor_counts the dialog offers to approve what is saved.

    There is one revision, one vote on it, one effect.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTS)
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
    assert len(revisions(harness, thread)) == 1


def test_an_editor_approves_only_what_they_have_seen(own_harness: Callable[..., Harness]) -> None:
    """A new preview has to be looked at; what is approved in Review only is not approved in Edit.

    So it is with what wants words.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTS)

    def edited(tool: str, text: str) -> tuple[str, dict[str, Any]]:
        thread = ask(harness, (tool, {"text": "history"}))
        card = harness.card(SUPPORT, thread)
        view = open_modal(harness, "ana", SUPPORT, card, "edit")
        [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
        chosen = {"then": {"v": {"selected_options": box["options"]}}}
        assert harness.person("ana").submit(typed(text=text) | chosen)["outcome"] == "closed"
        return thread, card

    thread, _ = edited("luck", "poetry")  # its preview says the same as before
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


def test_an_edit_under_another_rule_needs_both_rules_people(
    own_harness: Callable[..., Harness],
) -> None:
    """Policy is asked anew for the edited call: its place, and its approvers too."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    thread = ask(harness, ("note", {"text": "small"}))
    card = harness.card(SUPPORT, thread)
    harness.policy = FINANCE_ONLY
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


def test_a_rejected_edit_reads_as_edited_and_rejected(harness: Harness, fakes: FakeTools) -> None:
    """After an edit and a rejection nothing has run, neither the old nor the new arguments."""
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


def test_where_there_is_nothing_to_edit_there_is_no_button(
    own_harness: Callable[..., Harness],
) -> None:
    """A call without arguments is approved or rejected as it is."""
    harness = own_harness([ring], COUNTS)
    card = harness.card(SUPPORT, ask(harness, ("ring", {})))
    assert {"approve", "reject_now"} <= set(action_ids(card))
    assert "edit" not in action_ids(card)
