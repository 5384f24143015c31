"""The report in Slack: lines that fit a phone, in blocks that Slack accepts."""

from __future__ import annotations

from datetime import timedelta

from bot.explain.report import MAX_LISTED_ITEMS, compute_report, render_report_blocks
from storage.states import CallStatus
from tests.explain.test_report import ANA, APPROVE, AT, CALLS, UNTIL, build_call
from tests.messages.cards_support import accept_message, read

TITLES = {"refund": "Refund an order", "wipe": "Wipe a disk"}


def test_the_report_in_slack_is_made_of_lines() -> None:
    """Tools by title, people by mention, days with a bar; no columns."""
    blocks = render_report_blocks(compute_report(CALLS, AT, UNTIL), TITLES, "Come again.")
    accept_message(blocks)
    text = read(blocks)
    assert text.startswith("How people decided\nFrom 2026-03-02 to 2026-04-01 (UTC). Half of")
    assert "Refund an order: 3 approved, 1 unanswered, 1 taken back, 1 waiting, 1 edited" in text
    assert "All: 3 approved, 1 rejected" in text
    assert "in 10 s" in text  # with one decision the median is the only time
    assert f"{{{ANA}}} approved 3, edited 1, 1 in under 3 s; half within 5.0 s" in text
    assert "02 Mar  🟩🟩🟥  2 approved, 1 rejected" in text
    assert text.endswith("Come again.")


def test_a_report_of_nothing_in_slack_is_one_sentence() -> None:
    """Nothing is listed."""
    blocks = render_report_blocks(compute_report([], AT, UNTIL), TITLES)
    accept_message(blocks)
    assert read(blocks).endswith("(UTC). Nobody was asked about anything.")


def test_long_lists_in_slack_say_how_many_are_left_out() -> None:
    """Slack accepts it."""
    many = [
        build_call(CallStatus.SUCCEEDED, (f"U{n:09}", APPROVE, 9), tool=f"{'long ' * 30}{n}", day=n)
        for n in range(MAX_LISTED_ITEMS + 8)
    ]
    blocks = render_report_blocks(compute_report(many, AT, AT + timedelta(days=60)), {})
    accept_message(blocks)
    assert "… and 8 more tools" in read(blocks)
    assert "… and 8 more people" in read(blocks)
    assert "more days before" in read(blocks)
