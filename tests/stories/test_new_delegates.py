"""A new delegate is shown once what already waits."""

from __future__ import annotations

import json

from bot.demo.model_server import Turn
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import cards_of, chat, forget_people, showing, statuses, vote, waiting
from tests.stories.test_delegation import (
    CLEO,
    POLICY,
    delegate,
    fill_delegation_dialog,
    no_delegations_left,
    open_delegation_dialog,
)

__all__ = ["POLICY", "no_delegations_left"]


def test_a_new_delegate_is_shown_the_calls_that_wait(harness: Harness) -> None:
    """They are mentioned once below a card that they can see, and otherwise get a card of their
    own. Calls that the delegator has voted on, and the delegate's own, are left out.
    """
    both = [("note", {"text": "waits in the thread"}), ("note", {"text": "and this"})]
    seen = waiting(harness, *both)
    harness.card(SUPPORT, seen)
    mine = waiting(harness, ("note", {"text": "asked by Cleo"}), who="cleo")
    harness.card(SUPPORT, mine)
    voted = waiting(harness, ("wipe", {"text": "Ana has said yes"}))
    vote(harness, "ana", harness.card(SUPPORT, voted))
    private = waiting(harness, ("put", {"text": "waits in a message"}))
    harness.slack.wait(lambda: cards_of(harness, "ana", "waits in a message"))
    harness.settle()
    assert not cards_of(harness, "cleo", "waits in a message")
    row = delegate(harness)
    line = words(harness.said(SUPPORT, seen, "this is waiting for a decision"))
    assert f"<@{CLEO}>, for Ana Ruiz" in line
    assert "waits in the thread" in line
    assert "and this" in line
    [card] = harness.slack.wait(lambda: cards_of(harness, "cleo", "waits in a message"))
    harness.restart()
    harness.settle()
    assert len(showing(harness, SUPPORT, seen, "this is waiting for a decision")) == 1
    for other in (mine, voted):
        assert not showing(harness, SUPPORT, other, "this is waiting for a decision")
    [fact] = harness.all(Audit, Audit.event == "delegation.shown")
    assert json.loads(fact.data)["delegation"] == row.id
    harness.planner.script(Turn(text="That is all."))
    vote(harness, "cleo", card, harness.person("cleo").dm_channel, seen=card)
    assert statuses(harness, private) == [CallStatus.SUCCEEDED]


def test_calls_are_shown_once_members_have_been_looked_up(harness: Harness) -> None:
    """Nothing else waits for the look-up, and the call is shown once."""
    thread = waiting(harness, ("note", {"text": "patient hedge"}))
    harness.card(SUPPORT, thread)
    open_delegation_dialog(harness, "ana")
    forget_people(harness)
    hold = harness.slack.faults.hold("conversations.members")
    assert (
        harness.person("ana").submit(fill_delegation_dialog(harness, CLEO, 2))["outcome"]
        == "closed"
    )
    assert hold.arrived.wait(30)
    other = chat(harness, "the hedge is patient")
    harness.said(SUPPORT, other, "the hedge is patient")
    assert not showing(harness, SUPPORT, thread, "this is waiting for a decision")
    hold.release()
    harness.said(SUPPORT, thread, "this is waiting for a decision")
    harness.settle()
    assert len(showing(harness, SUPPORT, thread, "this is waiting for a decision")) == 1
