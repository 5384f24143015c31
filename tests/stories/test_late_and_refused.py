"""Messages that come too late, and dialogs that Slack refuses, are answered with a sentence."""

from __future__ import annotations

import pytest
from sqlmodel import col

from bot.slack_codes import PERMANENT_ERROR_CODES
from storage.models import Run
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask_for, press, told

TRIGGER_CODES = {"expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id"}


def test_a_mention_of_two_days_ago_begins_no_request(harness: Harness) -> None:
    """The bot was down meanwhile. Its answer in the thread says why."""
    harness.app.stop()
    thread = harness.person("ben").say(SUPPORT, "@bot write it down, will you")
    harness.clock.advance(2 * 24 * 3600)
    harness.start()
    harness.said(SUPPORT, thread, "more than a day after it was written")
    harness.settle()
    assert not harness.all(Run, col(Run.thread_ts) == thread)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("expired_trigger_id", "in time"),
        ("ratelimited", "slow down"),
        ("view_too_large", "fits into a Slack dialog"),
        ("internal_error", "internal_error"),
        ("missing_scope", "missing_scope"),
        ("", "did not answer"),
    ],
)
def test_a_refused_dialog_says_what_slack_said(harness: Harness, code: str, words: str) -> None:
    """The person also reads that nothing was changed."""
    _, card = ask_for(harness, f"refused {code}")
    harness.slack.faults.fail("views.open", code)
    press(harness, "ana", SUPPORT, card, "edit")
    said = told(harness, "ana", SUPPORT, card["thread_ts"], words)
    assert "Nothing was changed" in said
    assert ("in time" in said) is (code in TRIGGER_CODES & PERMANENT_ERROR_CODES)
