"""Votes that are taken back, lost by an edit, or judged again under another policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.policy.evaluation import parse
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import value_of, words
from tests.stories.steps import (
    arrived,
    ask,
    later,
    now_at,
    on_top,
    open_modal,
    reject,
    statuses,
    typed,
)

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "4h"

[[rule]]
tool = "note"
verdict = "ask"
quorum = 2

[[rule]]
tool = "slow"
verdict = "ask"
approvers = ["UANA00001", "UCLEO0001", "UDAN00001"]
quorum = 2
veto = 2
"""
LATER = """
[defaults]
approvers = ["UDAN00001"]
deadline = "4h"
escalation = [{after = "2h", approvers = ["UANA00001"]}]
"""


@pytest.fixture
def harness(world: tuple[Harness, FakeTools]) -> Iterator[Harness]:
    """The module's harness, whose `slow` tool ends at once; restores the policy at the end."""
    harness, fakes = world
    fakes.go_on.set()
    yield harness
    harness.reset()
    harness.app.core.policy.policy = parse(POLICY)


def approve_call(harness: Harness, who: str, card: dict[str, object], nth: int = 0) -> None:
    """Approve one call of a card, and wait until that is decided."""
    value = value_of(card, "approve", nth)
    harness.person(who).click(SUPPORT, str(card["ts"]), "approve", value=value, seen=card)
    arrived(harness)


def test_a_person_who_approved_may_still_reject(harness: Harness) -> None:
    """One of two needed approvals is given; a later rejection by that person ends the call."""
    thread = ask(harness, ("note", {"text": "second thoughts"}))
    card = harness.card(SUPPORT, thread)
    approve_call(harness, "ana", card)
    reject(harness, "ana", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "wrong order")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REJECTED]


def test_a_rejection_replaces_the_persons_earlier_approval(
    harness: Harness, world: tuple[Harness, FakeTools]
) -> None:
    """Two rejections would be needed to end the call, so it stays open."""
    thread = ask(harness, ("slow", {"text": "taken back"}))
    card = harness.card(SUPPORT, thread)
    approve_call(harness, "ana", card)
    reject(harness, "ana", SUPPORT, card, "not this one")
    approve_call(harness, "cleo", card)
    assert statuses(harness, thread) == [C.PENDING]
    drawn = words(now_at(harness, SUPPORT, card["ts"]))
    assert "✅ <@UCLEO0001>  ·  🚫 <@UANA00001>  ·  1 more approval needed" in drawn
    approve_call(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert world[1].did("slow", "taken back") == 1
    assert "Approved by <@UCLEO0001>, <@UDAN00001>" in harness.outputs()[0]["output"]


def test_an_edit_is_refused_if_it_leaves_too_few_approvers(harness: Harness) -> None:
    """Both approvers have to approve, so neither can edit; the requester can."""
    thread = ask(harness, ("note", {"text": "for two"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="edited"))
    assert "it takes 2 people who have not edited it" in on_top(harness, "ana")
    harness.person("ana").close_view()
    open_modal(harness, "ben", SUPPORT, card, "edit")
    assert harness.person("ben").submit(typed(text="edited"))["outcome"] == "closed"


def test_a_vote_given_too_early_for_a_new_policy_does_not_count(harness: Harness) -> None:
    """Ana voted after five minutes; under the new policy she may decide only after two hours."""
    thread = ask(harness, ("put", {"text": "early"}), ("put", {"text": "sibling"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 300)
    approve_call(harness, "ana", card)
    harness.app.core.policy.policy = parse(LATER)
    approve_call(harness, "ana", card, 1)
    harness.said(SUPPORT, thread, "what the policy says about this has changed since")
    harness.settle()
    assert statuses(harness, thread) == [C.PENDING, C.APPROVED]


def test_a_call_ends_if_only_its_editor_could_approve(harness: Harness) -> None:
    """Under the new policy the editor is the only approver, so nobody could decide a new card."""
    thread = ask(harness, ("put", {"text": "first"}), ("put", {"text": "sibling"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text="by ana"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "edited")
    harness.settle()
    card = now_at(harness, SUPPORT, card["ts"])
    approve_call(harness, "cleo", card)
    harness.app.core.policy.policy = parse('[defaults]\napprovers = ["UANA00001"]\n')
    approve_call(harness, "ana", card, 1)
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread)[0] is C.INVALIDATED
