"""Votes that are taken back, edited away, or judged again by other rules."""

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
    """It, at rest."""
    harness, fakes = world
    fakes.go_on.set()
    yield harness
    harness.reset()
    harness.app.core.policy.policy = parse(POLICY)


def press(harness: Harness, who: str, card: dict[str, object], nth: int = 0) -> None:
    """Approve one call of a card, until that has been dealt with."""
    value = value_of(card, "approve", nth)
    harness.person(who).click(SUPPORT, str(card["ts"]), "approve", value=value, seen=card)
    arrived(harness)


def test_who_approved_may_still_reject(harness: Harness) -> None:
    """One of two has approved and then sees what is wrong: that no ends it."""
    thread = ask(harness, ("note", {"text": "second thoughts"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "ana", card)
    reject(harness, "ana", SUPPORT, now_at(harness, SUPPORT, card["ts"]), "wrong order")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.REJECTED]


def test_a_no_takes_the_yes_back(harness: Harness, world: tuple[Harness, FakeTools]) -> None:
    """Where it takes two rejections, the approval of the first who rejects counts no more."""
    thread = ask(harness, ("slow", {"text": "taken back"}))
    card = harness.card(SUPPORT, thread)
    press(harness, "ana", card)
    reject(harness, "ana", SUPPORT, card, "not this one")
    press(harness, "cleo", card)
    assert statuses(harness, thread) == [C.PENDING]
    drawn = words(now_at(harness, SUPPORT, card["ts"]))
    assert "✅ <@UCLEO0001>  ·  🚫 <@UANA00001>  ·  1 more approval needed" in drawn
    press(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert world[1].did("slow", "taken back") == 1
    assert "Approved by <@UCLEO0001>, <@UDAN00001>" in harness.outputs()[0]["output"]


def test_an_edit_leaves_enough_people(harness: Harness) -> None:
    """Both have to approve, so neither can edit: the dialog says so, and what to do instead."""
    thread = ask(harness, ("note", {"text": "for two"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="edited"))
    assert "it takes 2 people who have not edited it" in on_top(harness, "ana")
    harness.person("ana").close_view()
    open_modal(harness, "ben", SUPPORT, card, "edit")
    assert harness.person("ben").submit(typed(text="edited"))["outcome"] == "closed"


def test_a_vote_counts_as_of_when_it_was_given(harness: Harness) -> None:
    """Approved after minutes by somebody who, by the policy of now, may decide after two hours: it
    is asked again.
    """
    thread = ask(harness, ("put", {"text": "early"}), ("put", {"text": "sibling"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 300)
    press(harness, "ana", card)
    harness.app.core.policy.policy = parse(LATER)
    press(harness, "ana", card, 1)
    harness.said(SUPPORT, thread, "what the policy says about this has changed since")
    harness.settle()
    assert statuses(harness, thread) == [C.PENDING, C.APPROVED]


def test_nobody_is_left_who_has_not_edited(harness: Harness) -> None:
    """Who alone decides by the policy of now has edited it: it ends at once, and waits for nobody.

    Without that the new card would have hung until its deadline.
    """
    thread = ask(harness, ("put", {"text": "first"}), ("put", {"text": "sibling"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text="by ana"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "edited")
    harness.settle()
    card = now_at(harness, SUPPORT, card["ts"])
    press(harness, "cleo", card)
    harness.app.core.policy.policy = parse('[defaults]\napprovers = ["UANA00001"]\n')
    press(harness, "ana", card, 1)
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread)[0] is C.INVALIDATED
