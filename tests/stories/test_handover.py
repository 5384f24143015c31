"""Who comes to decide for somebody is shown what waits already, once."""

from __future__ import annotations

import json

from bot.demo.model_server import Turn
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    cards_of,
    chat,
    forget_people,
    showing,
    statuses,
    vote,
    waiting,
)
from tests.stories.test_delegation import CLEO, POLICY, delegate, fill, form, none_left

__all__ = ["POLICY", "none_left"]


def test_what_waits_already_comes_to_them(harness: Harness) -> None:
    """Who comes in is named once under a card that they see, and gets one of their own elsewhere;
    nothing comes that the giver has voted on, nor what the delegate asked for.
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


def test_it_waits_until_slack_has_said_who_is_where(harness: Harness) -> None:
    """While a channel's members are being looked up nothing else waits; then it is shown, once."""
    thread = waiting(harness, ("note", {"text": "patient hedge"}))
    harness.card(SUPPORT, thread)
    form(harness, "ana")
    forget_people(harness)
    hold = harness.slack.faults.hold("conversations.members")
    assert harness.person("ana").submit(fill(harness, CLEO, 2))["outcome"] == "closed"
    assert hold.arrived.wait(30)
    other = chat(harness, "the hedge is patient")
    harness.said(SUPPORT, other, "the hedge is patient")
    assert not showing(harness, SUPPORT, thread, "this is waiting for a decision")
    hold.release()
    harness.said(SUPPORT, thread, "this is waiting for a decision")
    harness.settle()
    assert len(showing(harness, SUPPORT, thread, "this is waiting for a decision")) == 1
