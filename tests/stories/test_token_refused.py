"""Slack refuses the bot's token for a while: messages and cards follow afterwards."""

from __future__ import annotations

import pytest

from bot.slack_codes import TOKEN_ERROR_CODES
from storage.models import Message
from storage.states import CallStatus, MessageStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent, ask, now_at, showing


def refuse_token(harness: Harness, code: str) -> None:
    """Have Slack refuse the token at every post and update until the faults are cleared."""
    for method in ("chat.postMessage", "chat.update", "chat.stopStream", "chat.startStream"):
        harness.slack.faults.fail(method, code, times=10_000)
    harness.slack.faults.fail("auth.test", code, times=10_000)


def accept_token(harness: Harness) -> None:
    harness.slack.faults.clear()
    harness.clock.advance(61)
    all_sent(harness)


@pytest.mark.parametrize("code", sorted(TOKEN_ERROR_CODES))
def test_an_approval_counts_while_slack_refuses_the_token(
    harness: Harness, fakes: FakeTools, code: str
) -> None:
    """The call runs; its card is updated and the answer posted afterwards."""
    text = f"decided during {code}"
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    refuse_token(harness, code)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: fakes.did("note", text) == 1)
    harness.settle()
    run = harness.run_in(thread)
    failed = Message.status == MessageStatus.FAILED
    assert not harness.all(Message, failed, Message.run_id == run.id)
    accept_token(harness)
    assert len(showing(harness, SUPPORT, thread, "That is all.")) == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert fakes.did("note", text) == 1


def test_a_card_is_posted_once_after_a_refused_token_and_a_restart(harness: Harness) -> None:
    """Its call was proposed while the token was refused."""
    refuse_token(harness, "account_inactive")
    thread = ask(harness, ("note", {"text": "asked while refused"}))
    harness.slack.wait(lambda: harness.calls_in(thread))
    harness.settle()
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.PENDING
    harness.slack.faults.clear()  # the bot does not start with a refused token
    harness.restart()
    harness.clock.advance(61)
    all_sent(harness)
    cards = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    assert len(cards) == 1


def test_a_card_whose_update_was_given_up_is_updated_at_the_next_start(
    harness: Harness, fakes: FakeTools
) -> None:
    """After the start it has no buttons any more."""
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
