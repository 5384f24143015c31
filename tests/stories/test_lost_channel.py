"""A channel takes no posts any more while a request is under way: its requester is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.models import Message
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, arrived, ask, chat, later, now_at, statuses

Close = Callable[[str], None]
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
def close(request: pytest.FixtureRequest, harness: Harness) -> Iterator[Close]:
    """Archives a channel, or takes the bot out of it; afterwards all is as before."""
    closed: list[str] = []

    def act(channel: str) -> None:
        closed.append(channel)
        if request.param == WAYS[0]:
            harness.slack.archive(channel)
        else:
            harness.slack.kick_bot(channel)

    yield act
    for channel in closed:
        if request.param == WAYS[0]:
            with harness.slack.world.lock:
                harness.slack.world.channel(channel).is_archived = False
        else:
            harness.slack.invite_bot(channel)


def in_private(harness: Harness, who: str, since: str) -> list[str]:
    """What the bot has written to this person in their direct messages since then.

    Without its greeting, which a look at the app before may bring.
    """
    person = harness.person(who)
    found = [words(m) for m in person.messages(person.dm_channel) if m["ts"] > since]
    return [text for text in found if "👋 Hello" not in text]


def test_the_answer_comes_in_private(harness: Harness, close: Close) -> None:
    """The requester reads it in their direct messages, below what they asked and where."""
    hold = harness.planner.hold_next_request()
    asked = chat(harness, "We owe them 40 EUR.", FINANCE, "ana")
    assert hold.arrived.wait(20)
    close(FINANCE)
    hold.release()
    arrived(harness)
    all_sent(harness)
    begin, answer = in_private(harness, "ana", asked)
    assert f'"{FINANCE}"' in begin
    assert "tell me" in begin
    assert "We owe them 40 EUR." in answer


def test_what_was_done_is_not_said_to_be_lost(
    harness: Harness, fakes: FakeTools, close: Close
) -> None:
    """A click on its way decides; that the card cannot be redrawn then changes nothing of it."""
    thread = ask(harness, ("note", {"text": "paid"}), who="ana", channel=FINANCE)
    card = harness.card(FINANCE, thread, "cleo")
    harness.settle()
    close(FINANCE)
    harness.person("cleo").click(FINANCE, card["ts"], "approve", seen=card)
    arrived(harness)
    all_sent(harness)
    assert (fakes.did("note", "paid"), statuses(harness, thread)) == (1, [CallStatus.SUCCEEDED])
    told = in_private(harness, "ana", thread)
    assert not [text for text in told if "will not happen" in text]
    assert "✅ Done: Write “paid”." in told[-1]


def test_a_bot_that_is_back_redraws_its_cards(harness: Harness) -> None:
    """What was decided while it was not in the channel is on the card as soon as it is again."""
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


def test_that_nobody_decided_is_said_in_private(harness: Harness) -> None:
    """Who asked hears of the end, and not of the reminders, which are for others."""
    thread = ask(harness, ("note", {"text": "too late"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.slack.archive(SUPPORT)
    try:
        later(harness, 1900)
        all_sent(harness)
        assert "is_archived" in {row.error for row in harness.all(Message)}  # the reminder
        assert not in_private(harness, "ben", thread)
        later(harness, 1900)
        all_sent(harness)
        begin, end, _ = in_private(harness, "ben", thread)
    finally:
        with harness.slack.world.lock:
            harness.slack.world.channel(SUPPORT).is_archived = False
    assert "I could not post there" in begin
    assert "so this will not happen: Write “too late”" in end
    assert harness.run_in(thread).status is RunStatus.COMPLETED
