"""Without a model the bot says so, and people ask with forms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, told, typed, vote


class LogLines(logging.Handler):
    """Log messages from before the bot's start: pytest's caplog misses those between two phases."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """The bot's log messages of level warning and above."""
    logger, kept = logging.getLogger("countersign"), LogLines()
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


@pytest.fixture
def harness(own_harness: Callable[..., Harness], log_lines: LogLines) -> Harness:
    """A bot without a key for a model."""
    return own_harness(FakeTools().tools, OPENAI_API_KEY="")


def test_a_mention_is_answered_with_the_forms_button(harness: Harness, log_lines: LogLines) -> None:
    """The start is logged once. The button leads to a request, and no model is ever asked."""
    harness.slack.wait(lambda: sum("people ask with forms" in each for each in log_lines.said) == 1)
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "@bot please write a note")
    answer = harness.said(SUPPORT, thread, "there is no agent here")
    ben.click(SUPPORT, answer["ts"], "request")
    view = harness.slack.wait(ben.view)
    assert view["callback_id"] == "pick_request"
    ben.click_view("pick", selected="tool:note")
    harness.slack.wait(lambda: ben.view()["callback_id"] == "new_request")
    assert ben.submit(typed(text="without a model"))["outcome"] == "closed"
    root = harness.slack.wait(
        lambda: next((m for m in ben.messages(SUPPORT) if "asks: " in words(m)), None)
    )
    vote(harness, "ana", harness.card(SUPPORT, root["ts"]))
    harness.said(SUPPORT, root["ts"], "noted without a model")
    arrived(harness)
    assert harness.planner.requests == []
    assert len(harness.thread(SUPPORT, thread)) == 2


def test_a_mention_in_a_shared_channel_is_answered_privately(
    own_harness: Callable[..., Harness],
) -> None:
    """The button leads to the same form."""
    policy = '[defaults]\napprovers = ["@shop-leads"]\n'
    harness = own_harness(FakeTools().tools, policy, OPENAI_API_KEY="")
    ben = harness.person("ben")
    asked = ben.say(PARTNERS, "@bot refund our best customer")
    told(harness, "ben", PARTNERS, asked, "there is no agent here")
    assert not any(m.get("bot_id") for m in harness.person("eve").everything(PARTNERS))
    answer = next(m for m in ben.everything(PARTNERS) if "there is no agent here" in words(m))
    ben.click(PARTNERS, answer["ts"], "request", seen=answer)
    harness.slack.wait(ben.view)


def test_help_and_greeting_explain_the_form(harness: Harness) -> None:
    """They do not mention an agent."""
    thread = harness.person("ben").say(SUPPORT, "@bot help")
    told = words(harness.said(SUPPORT, thread, "Write a note"))
    assert "Ask with a form" in told
    assert "AI assistant" not in told
    dan = harness.person("dan")
    dan.open_dm()
    harness.slack.wait(
        lambda: [m for m in dan.messages(dan.dm_channel) if "with a form" in words(m)]
    )
