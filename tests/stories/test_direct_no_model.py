"""Without a model the bot is of use: it says so, and people ask with forms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, told, typed, vote


class Lines(logging.Handler):
    """What was logged, from before the bot began: pytest's own hears nothing between two phases."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a line says."""
        self.said.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What the bot logs as warning or worse."""
    logger, kept = logging.getLogger("countersign"), Lines()
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


@pytest.fixture
def harness(own_harness: Callable[..., Harness], lines: Lines) -> Harness:
    """A bot that has no key of a model."""
    return own_harness(FakeTools().tools, OPENAI_API_KEY="")


def test_a_mention_is_answered_with_the_form(harness: Harness, lines: Lines) -> None:
    """The start says it once; a mention gets one sentence and a button, which leads to a request.

    No model is ever asked.
    """
    harness.slack.wait(lambda: sum("people ask with forms" in each for each in lines.said) == 1)
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


def test_where_another_company_reads_it_is_answered_in_private(
    own_harness: Callable[..., Harness],
) -> None:
    """In a shared channel only who wrote sees how to ask, and the button leads to the same form."""
    policy = '[defaults]\napprovers = ["@shop-leads"]\n'
    harness = own_harness(FakeTools().tools, policy, OPENAI_API_KEY="")
    ben = harness.person("ben")
    asked = ben.say(PARTNERS, "@bot refund our best customer")
    told(harness, "ben", PARTNERS, asked, "there is no agent here")
    assert not any(m.get("bot_id") for m in harness.person("eve").everything(PARTNERS))
    answer = next(m for m in ben.everything(PARTNERS) if "there is no agent here" in words(m))
    ben.click(PARTNERS, answer["ts"], "request", seen=answer)
    harness.slack.wait(ben.view)


def test_help_says_how_to_ask(harness: Harness) -> None:
    """Help, and the greeting of who opens the bot's messages, name the form, and no agent."""
    thread = harness.person("ben").say(SUPPORT, "@bot help")
    told = words(harness.said(SUPPORT, thread, "Write a note"))
    assert "Ask with a form" in told
    assert "AI assistant" not in told
    dan = harness.person("dan")
    dan.open_dm()
    harness.slack.wait(
        lambda: [m for m in dan.messages(dan.dm_channel) if "with a form" in words(m)]
    )
