"""The first message of a thread is deleted before anybody has replied.

Slack posts replies to it in the channel, outside of any thread, and reports no error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import having, words
from tests.stories.steps import all_sent, arrived, ask, chat, statuses

ASKED = "You asked in <#C0SUPPORT>: “tell me”"


def list_bot_messages(harness: Harness, channel: str, since: str) -> list[dict[str, Any]]:
    """The bot's messages outside of threads in a channel or direct message of Ben's since then."""
    found = (each for each in harness.person("ben").messages(channel) if each["ts"] > since)
    return [each for each in found if each.get("bot_id") and not each.get("is_ephemeral")]


def list_direct_messages(harness: Harness, since: str) -> list[str]:
    """What the bot has told Ben in direct messages since then."""
    found = list_bot_messages(harness, harness.person("ben").dm_channel, since)
    return [words(each) for each in found if "👋 Hello" not in words(each)]


def delete_without_event(harness: Harness, channel: str, ts: str) -> None:
    """Delete a message; Slack's event about it is late."""
    with harness.slack.world.lock:
        del harness.slack.world.messages[channel][ts]


def begin_thread_and_lose_it(
    harness: Harness, begin: Callable[[], str], channel: str = SUPPORT
) -> str:
    """Begin a thread whose first message is deleted, unseen, while the model thinks; return it."""
    hold = harness.planner.hold_next_request()
    thread = begin()
    assert hold.arrived.wait(20)
    delete_without_event(harness, channel, thread)
    hold.release()
    arrived(harness)
    all_sent(harness)
    return thread


def test_a_request_deleted_at_once_is_withdrawn_in_private(harness: Harness) -> None:
    """Ben deletes it while the model thinks. Not even for a moment is it in the channel."""
    before = len(harness.slack.requests)
    hold = harness.planner.hold_next_request()
    thread = chat(harness, "a private matter")
    assert hold.arrived.wait(20)
    harness.person("ben").delete(SUPPORT, thread)
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.CANCELLED)
    hold.release()
    arrived(harness)
    all_sent(harness)
    assert not list_bot_messages(harness, SUPPORT, thread)
    assert "chat.delete" not in [each.method for each in harness.slack.requests[before:]]
    begin, said = list_direct_messages(harness, thread)
    assert ASKED in begin
    assert "The message was deleted, so the request is withdrawn" in said


def test_an_answer_to_a_deleted_message_is_sent_in_a_direct_message(harness: Harness) -> None:
    """Others in the channel do not read it."""
    thread = begin_thread_and_lose_it(harness, lambda: chat(harness, "another private matter"))
    assert not list_bot_messages(harness, SUPPORT, thread)
    begin, said = list_direct_messages(harness, thread)
    assert ASKED in begin
    assert "another private matter" in said


def test_a_card_for_a_deleted_message_fails_closed(harness: Harness, fakes: FakeTools) -> None:
    """Its call is cancelled, and the requester is told in a direct message."""
    thread = begin_thread_and_lose_it(harness, lambda: ask(harness, ("note", {"text": "nowhere"})))
    assert not list_bot_messages(harness, SUPPORT, thread)
    assert statuses(harness, thread) == [CallStatus.CANCELLED]
    assert any("I could not show this" in each for each in list_direct_messages(harness, thread))
    assert fakes.did("note", "nowhere") == 0


def test_in_a_direct_message_the_answer_stays(harness: Harness) -> None:
    """Nobody else reads it there."""
    mine = harness.person("ben").dm_channel
    thread = begin_thread_and_lose_it(harness, lambda: chat(harness, "only for Ben", mine), mine)
    [said] = list_direct_messages(harness, thread)
    assert "only for Ben" in said


@pytest.mark.parametrize("code", ["cant_delete_message", "internal_error"])
def test_a_reply_that_cannot_be_deleted_counts_as_posted(harness: Harness, code: str) -> None:
    """It is there, so it is not sent again."""
    harness.slack.faults.fail("chat.delete", code)
    thread = begin_thread_and_lose_it(harness, lambda: chat(harness, f"stays, {code}"))
    [said] = list_bot_messages(harness, SUPPORT, thread)
    assert having("stays")(said)
    assert not list_direct_messages(harness, thread)
