"""While Slack refuses the bot's token nothing is lost: all is said and drawn afterwards."""

from __future__ import annotations

import pytest

from bot.slack_codes import TOKEN_ERROR_CODES
from storage.models import Message
from storage.states import CallStatus, MessageStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent, ask, now_at, showing


def refused(harness: Harness, code: str) -> None:
    """Slack lets the bot in no more, whatever it asks, until the faults are cleared."""
    for method in ("chat.postMessage", "chat.update", "chat.stopStream", "chat.startStream"):
        harness.slack.faults.fail(method, code, times=10_000)
    harness.slack.faults.fail("auth.test", code, times=10_000)


def good_again(harness: Harness) -> None:
    harness.slack.faults.clear()
    harness.clock.advance(61)
    all_sent(harness)


@pytest.mark.parametrize("code", sorted(TOKEN_ERROR_CODES))
def test_a_token_refused_while_a_card_is_decided(
    harness: Harness, fakes: FakeTools, code: str
) -> None:
    """What was approved runs, its card tells so afterwards, and the answer comes."""
    text = f"decided during {code}"
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    refused(harness, code)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: fakes.did("note", text) == 1)
    harness.settle()
    run = harness.run_in(thread)
    failed = Message.status == MessageStatus.FAILED
    assert not harness.all(Message, failed, Message.run_id == run.id)
    good_again(harness)
    assert len(showing(harness, SUPPORT, thread, "That is all.")) == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert fakes.did("note", text) == 1


def test_a_token_refused_over_a_restart_of_the_outbox(harness: Harness) -> None:
    """A card asked for meanwhile is shown afterwards, once, and still asks."""
    refused(harness, "account_inactive")
    thread = ask(harness, ("note", {"text": "asked while refused"}))
    harness.slack.wait(lambda: harness.calls_in(thread))
    harness.settle()
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.PENDING
    harness.slack.faults.clear()  # a bot does not start without a good token
    harness.restart()
    harness.clock.advance(61)
    all_sent(harness)
    cards = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    assert len(cards) == 1


def test_a_card_that_could_not_be_drawn_is_drawn_at_the_start(
    harness: Harness, fakes: FakeTools
) -> None:
    """A card given up in an earlier life has no buttons any more after the next start."""
    thread = ask(harness, ("note", {"text": "drawn late"}))
    card = harness.card(SUPPORT, thread)
    harness.slack.faults.fail("chat.update", "is_inactive", times=10)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert "approve" in action_ids(now_at(harness, SUPPORT, card["ts"]))
    harness.slack.faults.clear()
    harness.restart()
    all_sent(harness)
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert fakes.did("note", "drawn late") == 1
