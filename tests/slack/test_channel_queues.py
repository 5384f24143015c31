"""The outbox's queue of each channel: in order within it, side by side with others, in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from bot.clock import Clock, SystemClock
from bot.slack.channel_queues import Outbox
from bot.slack.pace import ChannelOwnership
from storage.models import Message
from storage.states import MessageStatus
from tests.slack.sender_harness import SUPPORT, SenderHarness

M = MessageStatus
POST, FINANCE = "chat.postMessage", "C0FINANCE"
StartOutbox = Callable[..., tuple[Outbox, threading.Thread]]


@pytest.fixture
def start_outbox(harness: SenderHarness, caplog: pytest.LogCaptureFixture) -> Iterator[StartOutbox]:
    """Starts an outbox on a thread of its own."""
    made: list[tuple[Outbox, threading.Thread]] = []

    def start(
        channels: ChannelOwnership | None = None, clock: Clock | None = None
    ) -> tuple[Outbox, threading.Thread]:
        harness.signals.outbox.clear()
        outbox = Outbox(
            harness.store,
            clock or SystemClock(),
            harness.signals,
            harness.renderer,
            harness.posting,
            harness.search,
            channels,
        )
        assert outbox.is_idle()
        made.append((outbox, threading.Thread(target=outbox.run)))
        made[-1][1].start()
        return made[-1]

    yield start
    for outbox, thread in made:
        outbox.stop()
        thread.join(30)
    said = [each.getMessage() for each in caplog.get_records("call")]
    assert "the outbox failed" not in said


def is_sent(harness: SenderHarness, row: Message) -> Callable[[], bool]:
    """A function that says whether that message has been sent."""
    return lambda: harness.read(row).status is M.SENT


def test_channels_do_not_wait_for_one_another(
    harness: SenderHarness, start_outbox: StartOutbox
) -> None:
    """Behind a slow message only later ones of its channel wait, and the outbox is not idle."""
    hold = harness.slack.faults.hold(POST, match=lambda args: args["channel"] == SUPPORT)
    slow, behind, beside = harness.queue(), harness.queue(), harness.queue(channel=FINANCE)
    outbox, _ = start_outbox()
    assert hold.arrived.wait(30)
    harness.slack.wait(is_sent(harness, beside))
    general = harness.queue(channel="C0GENERAL")
    harness.signals.outbox.notify()
    harness.slack.wait(is_sent(harness, general))
    assert harness.read(behind).status is M.PENDING
    assert not outbox.is_idle()
    hold.release()
    harness.slack.wait(is_sent(harness, behind))
    assert float(harness.read(slow).ts) < float(harness.read(behind).ts)
    harness.slack.wait(outbox.is_idle)
    assert len(harness.read_texts(harness.read(slow).ts)) == 1
    texts = [each["text"] for each in harness.slack.person("ana").everything(SUPPORT)]
    assert len(texts) == len(set(texts))  # no queue posted what another did
    again = harness.queue()
    harness.signals.outbox.notify()
    harness.slack.wait(is_sent(harness, again))


@pytest.mark.long  # it waits a second
def test_no_message_overtakes_one_that_failed(
    harness: SenderHarness, start_outbox: StartOutbox
) -> None:
    """The channel waits until it is tried again, and goes on by itself in order."""
    harness.slack.faults.status(POST, 500)
    first, second = harness.queue(), harness.queue()
    outbox, _ = start_outbox()
    harness.slack.wait(lambda: harness.read(first).due_at is not None)
    harness.slack.wait(outbox.is_idle)
    assert [harness.read(each).status for each in (first, second)] == [M.SENDING, M.PENDING]
    harness.slack.wait(is_sent(harness, second))
    assert float(harness.read(first).ts) < float(harness.read(second).ts)


def test_a_message_that_was_posted_twice_is_removed_once(
    harness: SenderHarness, start_outbox: StartOutbox
) -> None:
    """Its answer was lost, and Slack let nobody look for it; later, at a second try, it does."""
    outbox, _ = start_outbox(clock=harness.clock)
    harness.slack.faults.drop(POST, "after")
    harness.slack.faults.fail("conversations.history", "missing_scope")
    row = harness.queue()
    harness.signals.outbox.notify()

    def count_posts_after(seconds: int) -> int:
        harness.clock.at += timedelta(seconds=seconds)
        harness.signals.outbox.notify()
        everything = harness.slack.person("ana").everything(SUPPORT)
        return [each["text"] for each in everything].count(f"words of {row.key}")

    harness.slack.wait(lambda: harness.read(row).due_at)
    harness.slack.wait(lambda: count_posts_after(1) == 2)
    harness.slack.wait(is_sent(harness, row))
    harness.slack.faults.fail("conversations.history", "internal_error")
    harness.slack.wait(lambda: count_posts_after(31) == 1)
    harness.slack.wait(outbox.is_idle)
    assert harness.read_texts(harness.read(row).ts) == [f"words of {row.key}"]


class SharedChannels(ChannelOwnership):
    """Another process owns some of the channels, or takes them at the last moment."""

    def __init__(self, others: set[str], taken: set[str]) -> None:
        self.others, self.taken = others, taken

    def claim_channels(self, channels: set[str]) -> set[str]:
        """Claim all but those of the other process."""
        return channels - self.others

    def is_channel_owned(self, channel: str) -> bool:
        """Whether the other process has not taken it."""
        return channel not in self.taken


@pytest.mark.long  # it waits a second
def test_a_channel_that_another_process_gave_up_is_sent_to(
    harness: SenderHarness, start_outbox: StartOutbox
) -> None:
    """The process may have ended, and nothing tells of it."""
    theirs, own = harness.queue(), harness.queue(channel="C0GENERAL")
    shared = SharedChannels({SUPPORT}, set())
    outbox, _ = start_outbox(shared)
    harness.slack.wait(is_sent(harness, own))
    harness.slack.wait(outbox.is_idle)
    assert harness.read(theirs).status is M.PENDING
    shared.others.clear()
    harness.slack.wait(is_sent(harness, theirs), 15.0)


def test_a_channel_taken_by_another_process_is_left_to_it(
    harness: SenderHarness, start_outbox: StartOutbox
) -> None:
    """Even at the last moment before it is sent."""
    taken, own = harness.queue(channel=FINANCE), harness.queue(channel="C0GENERAL")
    shared = SharedChannels(set(), {FINANCE})
    start_outbox(shared)
    harness.slack.wait(is_sent(harness, own))
    assert harness.read(taken).status is M.PENDING
    shared.taken.clear()
    harness.slack.wait(is_sent(harness, taken))


def test_a_stopping_outbox_begins_no_other_message(
    harness: SenderHarness, start_outbox: StartOutbox
) -> None:
    """The message being sent is sent; the ones behind it wait for the next start."""
    hold = harness.slack.faults.hold(POST)
    last, behind = harness.queue(), harness.queue()
    outbox, thread = start_outbox()
    assert hold.arrived.wait(30)
    outbox.stop()
    hold.release()
    thread.join(30)
    assert (thread.is_alive(), harness.read(last).status) == (False, M.SENT)
    assert harness.read(behind).status is M.PENDING
    assert harness.read(behind).due_at is None
    start_outbox()
    harness.slack.wait(is_sent(harness, behind))
