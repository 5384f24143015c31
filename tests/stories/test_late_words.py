"""What comes late or is refused by Slack gets a sentence of its own."""

from __future__ import annotations

import pytest
from sqlmodel import col

from bot.slack_codes import PERMANENT_ERROR_CODES
from storage.models import Run
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask_for, press, told

TRIGGER = {"expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id"}


def test_a_mention_of_two_days_ago_is_not_begun(harness: Harness) -> None:
    """Its thread says so, and nothing else happens."""
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
def test_each_refusal_of_a_dialog_says_what_it_is(harness: Harness, code: str, words: str) -> None:
    """Who clicks is told what Slack said, and that nothing was changed."""
    _, card = ask_for(harness, f"refused {code}")
    harness.slack.faults.fail("views.open", code)
    press(harness, "ana", SUPPORT, card, "edit")
    said = told(harness, "ana", SUPPORT, card["thread_ts"], words)
    assert "Nothing was changed" in said
    assert ("in time" in said) is (code in TRIGGER & PERMANENT_ERROR_CODES)
