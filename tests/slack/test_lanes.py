"""The lanes of the outbox: in order within a channel, side by side over channels, and in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from bot.clock import SystemClock
from bot.slack.channel_queues import Outbox
from bot.slack.pace import ChannelOwnership
from storage.models import Message
from storage.states import MessageStatus
from tests.slack.post_office import SUPPORT, PostOffice

M = MessageStatus
POST, FINANCE = "chat.postMessage", "C0FINANCE"
Begin = Callable[..., tuple[Outbox, threading.Thread]]


@pytest.fixture
def begin(office: PostOffice, caplog: pytest.LogCaptureFixture) -> Iterator[Begin]:
    """Begins an outbox on a thread of its own."""
    made: list[tuple[Outbox, threading.Thread]] = []

    def begun(channels: ChannelOwnership | None = None) -> tuple[Outbox, threading.Thread]:
        office.signals.outbox.clear()
        outbox = Outbox(
            office.store,
            SystemClock(),
            office.signals,
            office.renderer,
            office.posting,
            office.search,
            channels,
        )
        assert outbox.is_idle()
        made.append((outbox, threading.Thread(target=outbox.run)))
        made[-1][1].start()
        return made[-1]

    yield begun
    for outbox, thread in made:
        outbox.stop()
        thread.join(30)
    said = [each.getMessage() for each in caplog.get_records("call")]
    assert "the outbox failed" not in said


def sent(office: PostOffice, row: Message) -> Callable[[], bool]:
    """Whether that message has been sent."""
    return lambda: office.now(row).status is M.SENT


def test_channels_do_not_wait_for_one_another(office: PostOffice, begin: Begin) -> None:
    """Behind a slow message the later ones of its channel wait, and it is not idle; others go."""
    hold = office.slack.faults.hold(POST, match=lambda args: args["channel"] == SUPPORT)
    slow, behind, beside = office.put(), office.put(), office.put(channel=FINANCE)
    outbox, _ = begin()
    assert hold.arrived.wait(30)
    office.slack.wait(sent(office, beside))
    general = office.put(channel="C0GENERAL")
    office.signals.outbox.notify()
    office.slack.wait(sent(office, general))
    assert office.now(behind).status is M.PENDING
    assert not outbox.is_idle()
    hold.release()
    office.slack.wait(sent(office, behind))
    assert float(office.now(slow).ts) < float(office.now(behind).ts)
    office.slack.wait(outbox.is_idle)
    assert len(office.seen(office.now(slow).ts)) == 1
    texts = [each["text"] for each in office.slack.person("ana").everything(SUPPORT)]
    assert len(texts) == len(set(texts))  # nothing was posted by two lanes
    again = office.put()
    office.signals.outbox.notify()
    office.slack.wait(sent(office, again))


@pytest.mark.long  # it waits a second
def test_nothing_overtakes_what_has_to_wait(office: PostOffice, begin: Begin) -> None:
    """Where Slack asks for a moment the channel waits it out, and goes on by itself in order."""
    office.slack.faults.rate_limit(POST, retry_after=1)
    first, second = office.put(), office.put()
    outbox, _ = begin()
    office.slack.wait(lambda: office.now(first).due_at is not None)
    office.slack.wait(outbox.is_idle)
    assert [office.now(each).status for each in (first, second)] == [M.PENDING] * 2
    office.slack.wait(sent(office, second))
    assert float(office.now(first).ts) < float(office.now(second).ts)


class Lent(ChannelOwnership):
    """Another process sends to some of the channels, or takes them just before."""

    def __init__(self, others: set[str], taken: set[str]) -> None:
        self.others, self.taken = others, taken

    def claim_channels(self, channels: set[str]) -> set[str]:
        """All but those of the other one."""
        return channels - self.others

    def is_channel_owned(self, channel: str) -> bool:
        """Not what it has taken."""
        return channel not in self.taken


@pytest.mark.long  # it waits a second
def test_what_another_process_sends_is_looked_at_again(office: PostOffice, begin: Begin) -> None:
    """It may be no more, and nobody says so."""
    theirs, own = office.put(), office.put(channel="C0GENERAL")
    lent = Lent({SUPPORT}, set())
    outbox, _ = begin(lent)
    office.slack.wait(sent(office, own))
    office.slack.wait(outbox.is_idle)
    assert office.now(theirs).status is M.PENDING
    lent.others.clear()
    office.slack.wait(sent(office, theirs))


def test_what_another_process_has_taken_is_left_to_it(office: PostOffice, begin: Begin) -> None:
    """At the last moment before it is sent."""
    taken, own = office.put(channel=FINANCE), office.put(channel="C0GENERAL")
    lent = Lent(set(), {FINANCE})
    begin(lent)
    office.slack.wait(sent(office, own))
    assert office.now(taken).status is M.PENDING
    lent.taken.clear()
    office.slack.wait(sent(office, taken))


def test_an_outbox_that_stops_begins_nothing(office: PostOffice, begin: Begin) -> None:
    """What it is sending is sent, and what is behind that waits for the next start."""
    hold = office.slack.faults.hold(POST)
    last, behind = office.put(), office.put()
    outbox, thread = begin()
    assert hold.arrived.wait(30)
    outbox.stop()
    hold.release()
    thread.join(30)
    assert (thread.is_alive(), office.now(last).status) == (False, M.SENT)
    assert office.now(behind).status is M.PENDING
    assert office.now(behind).due_at is None
    begin()
    office.slack.wait(sent(office, behind))
