"""Slack fails calls the bot can do without (streams, statuses, Home), or limits its events."""

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
STATUSES = (200, 302, 404, 500, 503)  # answered without JSON


def run_story(harness: Harness, fakes: FakeTools, text: str) -> None:
    """Run a story with a streamed answer to its end: one effect, one answer, a finished card."""
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
def test_an_unexpected_answer_to_an_optional_call_does_no_harm(
    harness: Harness, fakes: FakeTools, method: str
) -> None:
    """Nothing is lost, stuck or said twice, whether or not Slack carried the call out."""
    for code in CODES:
        harness.slack.faults.fail(method, code, times=2)
        run_story(harness, fakes, f"{method}: {code}")
        harness.slack.faults.clear()
    for status in STATUSES:
        for when in ("before", "after"):
            harness.slack.faults.status(method, status, when=when)
            run_story(harness, fakes, f"{method}: {status} {when}")
            harness.slack.faults.clear()
            harness.clock.advance(61)
    harness.restart()  # features taken for missing in Slack are tried again


def test_events_limited_by_slack_are_logged_and_work_goes_on(
    harness: Harness, fakes: FakeTools, caplog: pytest.LogCaptureFixture
) -> None:
    """Slack's notice comes once a minute; each is acknowledged at once and not stored."""
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
