"""Editing a call before it is approved: errors at the fields, a new revision, dead buttons, new
rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from storage.models import Revision, Vote
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    FINANCE,
    SUPPORT,
    World,
    action_ids,
    ask,
    now_at,
    open_modal,
    reject,
    told,
    typed,
    value_of,
    words,
)

REFUND = ("refund_order", {"order_id": 1031, "amount": "40.00", "reason": "damaged"})
COUNTS = """
[defaults]
approvers = ["@shop-leads"]
editor_counts = true
"""
FINANCE_ONLY = """
[defaults]
approvers = ["@finance"]
post_to = "C0FINANCE"
"""


def revisions(world: World, thread: str) -> list[dict[str, Any]]:
    [call] = world.calls_in(thread)
    found = sorted(world.all(Revision, Revision.call_id == call.id), key=lambda row: row.number)
    return [json.loads(row.arguments) for row in found]


def test_edit_with_errors_then_save_then_a_stale_button_then_approve(world: World) -> None:
    """Errors stand at their fields and store nothing.

    Saving makes a revision that kills older buttons (L04, B13).
    """
    before = world.shop.order(1031).refunded
    thread = ask(world, REFUND)
    card = world.card(SUPPORT, thread)
    open_modal(world, "ana", SUPPORT, card, "edit")
    outcome = world.person("ana").submit(typed(amount="25.001"))
    assert outcome["outcome"] == "errors"
    assert list(outcome["errors"]) == ["f:amount"]
    assert "2" in outcome["errors"]["f:amount"]
    assert len(revisions(world, thread)) == 1

    assert world.person("ana").submit(typed(amount="25"))["outcome"] == "closed"
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    edited = now_at(world, SUPPORT, card["ts"])
    assert '"40.00"' in words(edited)
    assert '"25.00"' in words(edited)
    assert "Edited by <@UANA00001>" in words(edited)
    assert value_of(edited, "approve").endswith(":2")
    assert [r["amount"] for r in revisions(world, thread)] == ["40", "25"]

    world.person("cleo").click(SUPPORT, card["ts"], "approve", seen=card)
    told(world, "cleo", SUPPORT, thread, "This card was out of date")
    assert world.shop.order(1031).refunded == before

    world.person("cleo").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert world.shop.order(1031).refunded - before == 25
    [output] = world.outputs()
    assert "It was edited by <@UANA00001> and ran with: " in output["output"]
    assert '"amount":"25' in output["output"]
    assert "Approved by <@UCLEO0001>" in output["output"]


def test_the_model_never_hears_of_an_invalid_edit(world: World) -> None:
    """Type, range and a missing value are told in the modal only (B13)."""
    thread = ask(world, REFUND)
    card = world.card(SUPPORT, thread)
    asked = len(world.planner.requests)
    open_modal(world, "ana", SUPPORT, card, "edit")
    person = world.person("ana")
    for amount in ("0.00", "-3", "forty", "9999999999", ""):
        outcome = person.submit(typed(amount=amount))
        assert outcome["outcome"] == "errors"
        assert list(outcome["errors"]) == ["f:amount"], outcome
    assert "f:note" in person.submit(typed(amount="40.00", note="n" * 600))["errors"]
    person.close_view()
    world.settle()
    assert revisions(world, thread) == [
        {"amount": "40", "note": None, "order_id": 1031, "reason": "damaged"}
    ]
    assert len(world.planner.requests) == asked
    assert now_at(world, SUPPORT, card["ts"])["blocks"] == card["blocks"]


def test_an_edit_that_changes_nothing_is_no_edit(world: World, kit: Kit) -> None:
    """Saving the dialog untouched leaves the revision, the buttons and the editor's right to
    approve (B14).
    """
    thread = ask(world, ("note", {"text": "as it is"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ana", SUPPORT, card, "edit")
    assert world.person("ana").submit()["outcome"] == "closed"
    world.settle()
    assert len(revisions(world, thread)) == 1
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", "as it is") == 1
    assert "edited" not in world.outputs()[-1]["output"]


def test_nobody_approves_their_own_edit(world: World, kit: Kit) -> None:
    """Who edited counts as a requester: another approver has to say yes (A10)."""
    thread = ask(world, ("note", {"text": "mine"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ana", SUPPORT, card, "edit")
    assert not [b for b in world.person("ana").view()["blocks"] if b.get("block_id") == "then"]
    world.person("ana").submit(typed(text="mine, edited"))
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    told(world, "ana", SUPPORT, thread, "You edited this, so somebody else has to approve it.")
    assert [c.status for c in world.calls_in(thread)] == [CallStatus.PENDING]
    world.person("cleo").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "mine, edited") == 1


def test_the_requester_may_edit_but_not_approve(world: World, kit: Kit) -> None:
    """By default the requester corrects their own request and an approver decides.

    Others may not edit (A01, A10).
    """
    thread = ask(world, ("note", {"text": "tpyo"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "dan", SUPPORT, card, "edit")
    outcome = world.person("dan").submit(typed(text="dan was here"))
    assert outcome["errors"] == {"f:text": "You cannot edit this one."}
    world.person("dan").close_view()
    open_modal(world, "ben", SUPPORT, card, "edit")
    assert world.person("ben").submit(typed(text="typo"))["outcome"] == "closed"
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", "typo") == 1
    assert kit.did("note", "dan was here") == 0


def test_editing_while_another_approves(world: World, kit: Kit) -> None:
    """The edit of a call that was approved meanwhile is refused in the modal and changes nothing
    (B10, S10).
    """
    thread = ask(world, ("note", {"text": "first"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ana", SUPPORT, card, "edit")
    world.person("cleo").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    outcome = world.person("ana").submit(typed(text="second"))
    assert "already approved this" in outcome["errors"]["f:text"]
    world.person("ana").close_view()
    world.settle()
    assert (kit.did("note", "first"), kit.did("note", "second")) == (1, 0)
    assert len(revisions(world, thread)) == 1


def test_two_editors_at_once(world: World, kit: Kit) -> None:
    """The second of two edits of the same revision is told that the request has changed.

    Nothing is merged (B10).
    """
    thread = ask(world, ("note", {"text": "both edit"}))
    card = world.card(SUPPORT, thread)
    for name in ("ana", "cleo"):
        open_modal(world, name, SUPPORT, card, "edit")
    assert world.person("ana").submit(typed(text="by ana"))["outcome"] == "closed"
    world.said(SUPPORT, thread, "✏️")
    assert "out of date" in world.person("cleo").submit(typed(text="by cleo"))["errors"]["f:text"]
    world.person("cleo").close_view()
    world.settle()
    assert [r["text"] for r in revisions(world, thread)] == ["both edit", "by ana"]


def test_save_and_approve_where_the_editor_counts(own_world: Callable[..., World]) -> None:
    """With editor_counts the dialog offers to approve what is saved: one revision, one vote on it,
    one effect.
    """
    kit = Kit()
    world = own_world(kit.tools, COUNTS)
    thread = ask(world, ("note", {"text": "draft"}))
    card = world.card(SUPPORT, thread)
    view = open_modal(world, "ana", SUPPORT, card, "edit")
    [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
    world.person("ana").submit(
        typed(text="final") | {"then": {"v": {"selected_options": box["options"]}}}
    )
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    [call] = world.calls_in(thread)
    [vote] = world.all(Vote, Vote.call_id == call.id)
    assert (vote.person, vote.revision, vote.digest) == ("UANA00001", 2, call.digest)
    assert (kit.did("note", "draft"), kit.did("note", "final")) == (0, 1)

    thread = ask(world, ("note", {"text": "of ben"}))
    open_modal(world, "ben", SUPPORT, world.card(SUPPORT, thread), "edit")
    outcome = world.person("ben").submit(
        typed(text="x") | {"then": {"v": {"selected_options": box["options"]}}}
    )
    assert "You cannot decide this one" in outcome["errors"]["then"]
    assert len(revisions(world, thread)) == 1


def test_an_edit_under_another_rule_needs_both_rules_people(
    own_world: Callable[..., World],
) -> None:
    """Policy is asked anew for the edited call: its place, and its approvers after those of before
    (B09, B12).
    """
    kit = Kit()
    world = own_world(kit.tools)
    thread = ask(world, ("note", {"text": "small"}))
    card = world.card(SUPPORT, thread)
    world.policy = FINANCE_ONLY
    world.restart()
    open_modal(world, "ben", SUPPORT, card, "edit")
    assert world.person("ben").submit(typed(text="large"))["outcome"] == "closed"
    elsewhere = world.card(FINANCE, None, "cleo")
    world.settle()
    assert "S0LEADS" in words(elsewhere)
    assert "Step 1 of 2" in words(elsewhere)

    drawn = now_at(world, SUPPORT, card["ts"])
    assert "S0LEADS" not in words(drawn)
    assert "approve" not in action_ids(drawn)
    world.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    told(world, "ana", SUPPORT, thread, "This card was out of date")
    world.person("ana").click(FINANCE, elsewhere["ts"], "approve")
    world.said(FINANCE, elsewhere["ts"], "your approval comes next", "cleo")
    world.settle()
    assert "S0FINANCE" in words(now_at(world, FINANCE, elsewhere["ts"], "cleo"))
    assert kit.did("note", "large") == 0
    world.person("cleo").click(FINANCE, elsewhere["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", "large") == 1


def test_a_rejected_edit_reads_as_edited_and_rejected(world: World, kit: Kit) -> None:
    """After an edit and a rejection nothing has run, neither the old nor the new arguments (B09)."""
    thread = ask(world, ("note", {"text": "old"}))
    card = world.card(SUPPORT, thread)
    open_modal(world, "ana", SUPPORT, card, "edit")
    world.person("ana").submit(typed(text="new"))
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    reject(world, "ana", SUPPORT, now_at(world, SUPPORT, card["ts"]), "neither")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert world.outputs()[-1]["output"].startswith("REJECTED")
    assert (kit.did("note", "old"), kit.did("note", "new")) == (0, 0)
