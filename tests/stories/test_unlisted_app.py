"""Slack's limits for apps outside its Marketplace: fifteen messages once a minute are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlmodel import col

from storage.models import Message
from storage.states import MessageStatus
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import having
from tests.stories.steps import all_sent, ask, showing
from tests.stories.test_looked_up import cards_in
from tests.stories.test_outbox import with_card
from tests.stories.test_read_threads import ask_in_thread


@pytest.fixture(autouse=True)
def _limited_reading(harness: Harness) -> Iterator[None]:
    """Have Slack limit the app's reading as it does for such apps."""
    harness.slack.world.app.is_unlisted = True
    yield
    harness.slack.world.app.is_unlisted = False


def test_the_model_is_told_which_part_of_a_long_thread_was_read(harness: Harness) -> None:
    """It is asked without waiting for more."""
    ana = harness.person("ana")
    thread = ana.say(SUPPORT, "the beginning of it all")
    for number in range(40):
        ana.say(SUPPORT, f"remark {number:02}.", thread)
    given = ask_in_thread(harness, thread, "I have read a part.")
    assert "the beginning of it all" in given
    assert "remark 14." in given
    assert "remark 15." not in given
    assert "could not be read" in given
    again = ask_in_thread(harness, thread, "I cannot read more yet.")
    assert again.count("could not be read") == 2


def test_a_lost_post_in_a_busy_thread_is_not_repeated(harness: Harness) -> None:
    """Slack's response was lost, so the bot looks for the message, a page a minute."""
    thread = ask(harness, ("note", {"text": "busy"}), answer="The one answer.")
    card = harness.card(SUPPORT, thread)
    for number in range(40):
        harness.person("cleo").say(SUPPORT, f"aside {number:02}.", thread)
    harness.slack.faults.drop("chat.postMessage", "after", match=having("The one answer."))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: showing(harness, SUPPORT, thread, "The one answer."))
    harness.slack.wait(lambda: harness.all(Message, col(Message.status) == MessageStatus.SENDING))
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "The one answer.")) == 1


def test_a_lost_card_in_a_busy_channel_is_not_repeated(harness: Harness) -> None:
    """Forty messages have been posted in the channel since."""
    shown = len(cards_in(harness, FINANCE))
    harness.slack.faults.drop("chat.postMessage", "after", match=with_card)
    ask(harness, ("cancel_order", {"order_id": 1043, "reason": "far down"}))
    harness.slack.wait(lambda: harness.all(Message, col(Message.status) == MessageStatus.SENDING))
    for number in range(40):
        harness.person("cleo").say(FINANCE, f"something else {number}")
    all_sent(harness)
    assert len(cards_in(harness, FINANCE)) == shown + 1
