"""A channel stops accepting posts during a request: its requester is told in direct messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.models import Message
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, arrived, ask, chat, later, now_at, statuses

CloseChannel = Callable[[str], None]
WAYS = ("archived", "without the bot")
POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "1h"

[[rule]]
name = "notes"
tool = "note"
verdict = "ask"
reminders = ["30m"]
"""


@pytest.fixture(params=WAYS)
def close_channel(request: pytest.FixtureRequest, harness: Harness) -> Iterator[CloseChannel]:
    """Archives a channel or removes the bot from it, and undoes that afterwards."""
    closed: list[str] = []

    def close_one(channel: str) -> None:
        closed.append(channel)
        if request.param == WAYS[0]:
            harness.slack.archive(channel)
        else:
            harness.slack.kick_bot(channel)

    yield close_one
    for channel in closed:
        if request.param == WAYS[0]:
            with harness.slack.world.lock:
                harness.slack.world.channel(channel).is_archived = False
        else:
            harness.slack.invite_bot(channel)


def read_direct_messages(harness: Harness, who: str, since: str) -> list[str]:
    """The bot's direct messages to this person since then, without a greeting that an opened app
    may bring.
    """
    person = harness.person(who)
    found = [words(m) for m in person.messages(person.dm_channel) if m["ts"] > since]
    return [text for text in found if "👋 Hello" not in text]


def test_an_answer_is_sent_in_a_direct_message_instead(
    harness: Harness, close_channel: CloseChannel
) -> None:
    """It stands below what the requester asked, and where."""
    hold = harness.planner.hold_next_request()
    asked = chat(harness, "We owe them 40 EUR.", FINANCE, "ana")
    assert hold.arrived.wait(20)
    close_channel(FINANCE)
    hold.release()
    arrived(harness)
    all_sent(harness)
    begin, answer = read_direct_messages(harness, "ana", asked)
    assert f'"{FINANCE}"' in begin
    assert "tell me" in begin
    assert "We owe them 40 EUR." in answer


def test_a_call_that_ran_is_not_said_to_be_lost(
    harness: Harness, fakes: FakeTools, close_channel: CloseChannel
) -> None:
    """A click on its way decides, although the card can no longer be updated."""
    thread = ask(harness, ("note", {"text": "paid"}), who="ana", channel=FINANCE)
    card = harness.card(FINANCE, thread, "cleo")
    harness.settle()
    close_channel(FINANCE)
    harness.person("cleo").click(FINANCE, card["ts"], "approve", seen=card)
    arrived(harness)
    all_sent(harness)
    assert (fakes.did("note", "paid"), statuses(harness, thread)) == (1, [CallStatus.SUCCEEDED])
    told = read_direct_messages(harness, "ana", thread)
    assert not [text for text in told if "will not happen" in text]
    assert "✅ Done: Write “paid”." in told[-1]


def test_a_bot_that_returns_to_a_channel_updates_its_cards(harness: Harness) -> None:
    """What was decided meanwhile is on them as soon as the bot is in the channel again."""
    thread = ask(harness, ("note", {"text": "come back"}), who="ana", channel=FINANCE)
    card = harness.card(FINANCE, thread, "cleo")
    harness.settle()
    harness.slack.kick_bot(FINANCE)
    harness.person("cleo").click(FINANCE, card["ts"], "approve", seen=card)
    arrived(harness)
    all_sent(harness)
    assert "approve" in action_ids(now_at(harness, FINANCE, card["ts"]))
    harness.slack.invite_bot(FINANCE)
    arrived(harness)
    drawn = now_at(harness, FINANCE, card["ts"])
    assert "approve" not in action_ids(drawn)
    assert "Approved by <@UCLEO0001>" in words(drawn)


def test_an_expiry_is_told_in_a_direct_message(harness: Harness) -> None:
    """The reminders, which are for approvers, are not."""
    thread = ask(harness, ("note", {"text": "too late"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.slack.archive(SUPPORT)
    try:
        later(harness, 1900)
        all_sent(harness)
        assert "is_archived" in {row.error for row in harness.all(Message)}  # the reminder
        assert not read_direct_messages(harness, "ben", thread)
        later(harness, 1900)
        all_sent(harness)
        begin, end, _ = read_direct_messages(harness, "ben", thread)
    finally:
        with harness.slack.world.lock:
            harness.slack.world.channel(SUPPORT).is_archived = False
    assert "I could not post there" in begin
    assert "so this will not happen: Write “too late”" in end
    assert harness.run_in(thread).status is RunStatus.COMPLETED
