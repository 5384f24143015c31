"""Cards and questions that somebody deletes in Slack while people still have to decide."""

from __future__ import annotations

from typing import Any

import pytest

from storage.models import Message
from storage.states import CallStatus
from tests.stories.asked_people import outcome, question
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, arrived, ask, later, statuses

POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "1d"

[[rule]]
name = "notes"
tool = "note"
verdict = "ask"

[[rule]]
name = "orders"
tool = "cancel_order"
verdict = "ask"
approvers = ["@finance"]
post_to = "C0FINANCE"
"""


def find_cards(harness: Harness, channel: str, thread: str | None, who: str = "ana") -> list[Any]:
    """The messages with an Approve button."""
    found = harness.person(who).messages(channel, thread)
    return [each for each in found if "approve" in action_ids(each)]


def delete_card(harness: Harness, channel: str, ts: str) -> None:
    """Delete a message, and wait until the bot has done what it does about it."""
    harness.slack.delete_message(channel, ts)
    arrived(harness)
    all_sent(harness)


def test_a_deleted_card_is_posted_again_at_once(harness: Harness, fakes: FakeTools) -> None:
    """Votes that were given count; nobody has to do anything first."""
    thread = ask(harness, ("note", {"text": "again"}), ("note", {"text": "and again"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    delete_card(harness, SUPPORT, card["ts"])
    [new] = find_cards(harness, SUPPORT, thread)
    assert new["ts"] > card["ts"]
    assert "runs once the rest is decided" in words(new)
    harness.person("ana").click(SUPPORT, new["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "again") == fakes.did("note", "and again") == 1


def test_a_deleted_question_is_asked_again(harness: Harness) -> None:
    """The answer to the new one counts."""
    thread = ask(harness, question(question="Which gate?"))
    card = harness.card(SUPPORT, thread, "ben", "answer")
    arrived(harness)
    delete_card(harness, SUPPORT, card["ts"])
    new = harness.card(SUPPORT, thread, "ben", "answer")
    assert new["ts"] > card["ts"]
    harness.person("ben").say(SUPPORT, "the north gate", thread)
    assert '"the north gate"' in outcome(harness, "ANSWERED")


@pytest.mark.parametrize("channel", [FINANCE, "direct messages"])
def test_a_card_elsewhere_is_posted_again(harness: Harness, fakes: FakeTools, channel: str) -> None:
    """Also one with replies, of which Slack keeps a tombstone."""
    if channel == FINANCE:
        thread = ask(harness, ("cancel_order", {"order_id": 1044, "reason": "twice"}))
        at, who = FINANCE, "cleo"
    else:
        thread = ask(harness, ("note", {"text": "dm"}), channel=harness.person("ben").dm_channel)
        at, who = harness.person("ana").dm_channel, "ana"
    card = harness.card(at, None, who)
    harness.person(who).say(at, "what is this?", thread_ts=card["ts"])
    arrived(harness)
    delete_card(harness, at, card["ts"])
    [new] = [each for each in find_cards(harness, at, None, who) if each["ts"] > card["ts"]]
    harness.person(who).click(at, new["ts"], "approve")
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.SUCCEEDED])


def test_a_card_deleted_twice_is_not_posted_again(harness: Harness, fakes: FakeTools) -> None:
    """Its calls are cancelled, and the requester and the model are told."""
    thread = ask(harness, ("note", {"text": "unwanted"}))
    card = harness.card(SUPPORT, thread)
    arrived(harness)
    delete_card(harness, SUPPORT, card["ts"])
    delete_card(harness, SUPPORT, harness.card(SUPPORT, thread)["ts"])
    harness.said(SUPPORT, thread, "deleted in Slack twice")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == [CallStatus.CANCELLED]
    assert "deleted twice" in harness.outputs()[-1]["output"]
    assert not find_cards(harness, SUPPORT, thread)
    assert fakes.did("note", "unwanted") == 0


def test_a_card_that_a_retention_rule_deletes_is_posted_each_time(harness: Harness) -> None:
    """It stood for more than an hour."""
    thread = ask(harness, ("note", {"text": "kept for an hour"}))
    harness.card(SUPPORT, thread)
    for _ in range(3):
        arrived(harness)
        delete_card(harness, SUPPORT, harness.card(SUPPORT, thread)["ts"])
        later(harness, 3700)
    assert len(find_cards(harness, SUPPORT, thread)) == 1
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_a_deleted_card_without_anything_to_decide_stays_deleted(harness: Harness) -> None:
    """Nobody needs it."""
    thread = ask(harness, ("note", {"text": "decided"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    delete_card(harness, SUPPORT, card["ts"])
    [row] = harness.all(Message, Message.ts == card["ts"])
    assert row.status == "sent"
    assert "Approved by" not in words({"all": harness.thread(SUPPORT, thread)})
