"""Whatever Slack answers to what only makes things nicer, or tells that it holds events back."""

from __future__ import annotations

import pytest

from bot.demo.model_server import Turn
from storage.models import Delivery
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent, arrived, ask, now_at, showing

LONG = "That is all. " + "It was written down with care. " * 20  # long enough to be streamed
METHODS = (
    "chat.startStream",
    "chat.appendStream",
    "chat.stopStream",
    "assistant.threads.setStatus",
    "agents.sessions.setStatus",
    "views.publish",
    "reactions.add",
)
CODES = ("internal_error", "fatal_error", "a_code_of_next_year", "request_timeout")
STATUSES = (200, 302, 404, 500, 503)  # with no JSON


def told(harness: Harness, fakes: FakeTools, text: str) -> None:
    """A story with a streamed answer, told to its end: each thing once."""
    harness.planner.script(Turn(calls=[("note", {"text": text})]), Turn(text=LONG))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").open_home()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    all_sent(harness)
    assert fakes.did("note", text) == 1
    assert len(showing(harness, SUPPORT, thread, "That is all.")) == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_an_odd_answer_to_a_comfort(harness: Harness, fakes: FakeTools, method: str) -> None:
    """Nothing is lost, stuck or said twice, whether or not Slack has done it."""
    for code in CODES:
        harness.slack.faults.fail(method, code, times=2)
        told(harness, fakes, f"{method}: {code}")
        harness.slack.faults.clear()
    for status in STATUSES:
        for when in ("before", "after"):
            harness.slack.faults.status(method, status, when=when)
            told(harness, fakes, f"{method}: {status} {when}")
            harness.slack.faults.clear()
            harness.clock.advance(61)
    harness.restart()  # what was taken for a feature that Slack does not have is tried again


def test_slack_holds_events_back(
    harness: Harness, fakes: FakeTools, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once a minute: that is acknowledged at once and logged, and all goes on."""
    thread = ask(harness, ("note", {"text": "held back"}))
    card = harness.card(SUPPORT, thread)
    stored = len(harness.all(Delivery))
    for _ in range(3):
        sent = harness.slack.rate_limit()
        assert (sent.wait(), sent.attempts) == ("acked", 1)
        harness.clock.advance(60)
    assert caplog.text.count("Slack holds events back") == 3
    assert len(harness.all(Delivery)) == stored
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "held back") == 1
