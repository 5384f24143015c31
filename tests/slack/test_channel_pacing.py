"""How fast a channel is posted to, and in which order if several messages are due."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.slack.pace import MAX_BURST_MESSAGES, ChannelPacer, order_due_messages
from storage.models import Message
from storage.states import MessageKind, MessageStatus
from tests.runs.fakes import StillClock

SLACK, LOCAL = "https://slack.com/api/", "http://127.0.0.1:8765/api/"


def count_burst(pace: ChannelPacer, channel: str = "C1") -> int:
    """How many posts may go at once."""
    for number in range(100):
        if pace.compute_wait_before_post(channel):
            return number
        pace.count_channel_post(channel)
    return 100


def test_a_channel_gets_one_post_a_second_after_a_burst() -> None:
    """A quiet channel takes a few at once. Channels do not affect one another."""
    clock = StillClock()
    pace = ChannelPacer(clock, SLACK)
    assert count_burst(pace) == MAX_BURST_MESSAGES
    assert pace.compute_wait_before_post("C1") == timedelta(seconds=1)
    assert count_burst(pace, "C2") == MAX_BURST_MESSAGES
    clock.at += timedelta(seconds=1)
    assert count_burst(pace) == 1
    clock.at += timedelta(hours=1)
    assert count_burst(pace) == MAX_BURST_MESSAGES


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [(SLACK, True), ("https://acme.slack.com/api/", True), (LOCAL, False), ("http://x/", False)],
)
def test_pacing_applies_at_slack_or_after_a_refusal(url: str, is_kept: bool) -> None:
    """At Slack from the first post on; at another server for a minute after it has refused one."""
    clock = StillClock()
    pace = ChannelPacer(clock, url)
    assert (count_burst(pace) == MAX_BURST_MESSAGES) is is_kept
    pace.note_refusal("C1")
    assert count_burst(pace) == 0
    assert (count_burst(pace, "C2") == MAX_BURST_MESSAGES) is is_kept
    clock.at += timedelta(seconds=60)
    assert (count_burst(pace) == MAX_BURST_MESSAGES) is is_kept


def build_row(seq: int, kind: MessageKind, run: str, ts: str = "") -> Message:
    """A row of the outbox."""
    status = MessageStatus.STALE if ts else MessageStatus.PENDING
    return Message(seq=seq, key=str(seq), kind=kind, run_id=run, channel="C1", ts=ts, status=status)


def test_lines_about_decided_cards_go_before_new_cards() -> None:
    """Redraws first, then lines of requests whose card is shown; cards in the order of asking, and
    nothing of a request before its earlier messages."""
    kind = MessageKind
    rows = [
        build_row(1, kind.CARD, "new"),
        build_row(2, kind.NOTICE, "new"),
        build_row(3, kind.CARD, "newer"),
        build_row(4, kind.NOTICE, "decided"),
        build_row(5, kind.CARD, "decided"),
        build_row(6, kind.ANSWER, "decided"),
        build_row(7, kind.CARD, "shown", ts="1.1"),
        build_row(8, kind.MARK, "newer"),
    ]
    order = [each.seq for each in order_due_messages(rows, {"decided", "shown"})]
    assert order == [7, 8, 4, 1, 2, 3, 5, 6]
