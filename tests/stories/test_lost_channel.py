"""A channel stops accepting posts during a request: its requester is told in direct messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.models import Message
from storage.states import CallStatus, MessageStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids, having, words
from tests.stories.steps import all_sent, arrived, ask, chat, later, now_at, statuses
from tests.stories.test_programs import BEN, request_call

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

[[rule]]
name = "cancellations"
tool = "cancel_order"
verdict = "ask"
post_to = "C0FINANCE"
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


def test_a_line_lost_in_another_channel_is_not_sent_to_the_requester(harness: Harness) -> None:
    """They have it in their own thread."""
    thread = ask(harness, ("cancel_order", {"order_id": 1043, "reason": "lost line"}))
    card = harness.card(FINANCE, None)
    harness.settle()
    harness.slack.faults.fail(
        "chat.postMessage", "restricted_action", match=lambda a: a.get("thread_ts") == card["ts"]
    )
    harness.person("ben").edit(SUPPORT, thread, "@bot cancel 1044")
    harness.said(SUPPORT, thread, "It now reads: “cancel 1044”")
    all_sent(harness)
    assert "restricted_action" in {row.error for row in harness.all(Message)}
    assert not read_direct_messages(harness, "ben", thread)


def test_help_that_cannot_be_posted_holds_up_nothing(harness: Harness) -> None:
    """It belongs to no request, so nobody gets it elsewhere."""
    harness.slack.faults.fail(
        "chat.postMessage", "restricted_action", match=having("Ask in your own words")
    )
    asked = harness.person("ben").say(SUPPORT, "@bot help")
    arrived(harness)
    all_sent(harness)
    [row] = harness.all(Message, Message.key.startswith("help:"))  # type: ignore[attr-defined] # a column
    assert (row.run_id, row.status, row.attempts) == ("", MessageStatus.FAILED, 0)
    assert not read_direct_messages(harness, "ben", asked)


def test_a_request_that_can_be_posted_nowhere_is_cancelled(harness: Harness) -> None:
    """Slack does not open its requester's direct messages, and is asked once."""
    harness.slack.faults.fail(
        "conversations.open", "user_disabled", match=lambda a: BEN in str(a.get("users"))
    )
    found = request_call(harness, "nowhere", channel="")
    harness.slack.wait(lambda: found.load_status().status == CallStatus.CANCELLED)
    all_sent(harness)
    answers = [each.response or {} for each in harness.slack.requests]
    assert [each.get("error") for each in answers].count("user_disabled") == 1


def test_an_answer_lost_in_a_direct_message_is_not_sent_there_again(harness: Harness) -> None:
    """Slack would refuse that as well."""
    ben = harness.person("ben")
    harness.slack.faults.fail("chat.postMessage", "restricted_action", match=having("one euro"))
    thread = chat(harness, "They owe us one euro.", ben.dm_channel)
    arrived(harness)
    all_sent(harness)
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    assert not read_direct_messages(harness, "ben", thread)
