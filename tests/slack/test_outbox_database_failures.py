"""While the database cannot be written, posted messages are not sent again, nor hurried."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bot.clock import SystemClock
from bot.slack.channel_queues import Outbox
from bot.slack.client import SlackClient
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from slack_sandbox.server import Sandbox
from storage import outbox
from storage.models import Message
from storage.states import MessageStatus
from storage.store import Store, compute_retry_delay
from tests.local_slack import build_local_slack
from tests.runs.fakes import FakeDirectory, StillClock, make_core
from tests.runs.test_disk import read_only
from tests.storage.builders import TEAM

SUPPORT = "C0SUPPORT"
SAID = ("chat.postMessage", "chat.postEphemeral")


class FailureCounter(logging.Handler):
    """Notes when the log said that a queue failed."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.many = list[float](), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Count the line; a database changed while it is opened logs other lines."""
        if "queue of the outbox failed" not in record.getMessage():
            return
        self.at.append(record.created)
        if len(self.at) == 3:
            self.many.set()


class RunningOutbox:
    """An outbox at work on a database, with a local Slack."""

    def __init__(self, store: Store, slack: Sandbox) -> None:
        self.store, self.slack, self.tries = store, slack, FailureCounter()
        core = make_core(store, StillClock(), FakeDirectory(), [])
        client = SlackClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        clock = SystemClock()
        renderer = MessageRenderer(store, clock, core.tools, core.directory)
        posting, search = (
            OutboxSlackCalls(store, client, TEAM),
            UnconfirmedPostSearch(store, core.clock, core.identity.user, client),
        )
        self.outbox = Outbox(store, clock, core.signals, renderer, posting, search)
        self.thread = threading.Thread(target=self.outbox.run)
        logging.getLogger("countersign.outbox").addHandler(self.tries)

    def queue(self, **columns: Any) -> None:
        """Queue one message."""
        with self.store.write() as tx:
            outbox.queue_message(
                tx, Message(key="k", channel=SUPPORT, body='{"text": "once"}', **columns)
            )

    def read_status(self) -> str:
        """The status of the message."""
        with self.store.read() as tx:
            row = outbox.find_message_by_key(tx, "k")
        assert row is not None
        return row.status

    def count_sent(self) -> int:
        """How often Slack was sent something."""
        return len([each for each in self.slack.requests if each.method in SAID])

    def close(self) -> None:
        """Stop the outbox."""
        self.outbox.stop()
        self.thread.join(30)
        logging.getLogger("countersign.outbox").removeHandler(self.tries)


@pytest.fixture
def running(store: Store) -> Iterator[RunningOutbox]:
    """An outbox that is not started yet."""
    with build_local_slack() as slack:
        made = RunningOutbox(store, slack)
        yield made
        made.close()


def test_a_private_line_is_sent_once_when_storing_works_again(running: RunningOutbox) -> None:
    """It waits until "being sent" can be stored, and is shown once."""
    ana = running.slack.person("ana")
    running.queue(kind="private", recipient=ana.id)
    with read_only(running.store):
        running.thread.start()
        assert running.tries.many.wait(20)
        assert (running.count_sent(), running.read_status()) == (0, MessageStatus.PENDING)
    running.slack.wait(lambda: running.read_status() == MessageStatus.SENT)
    assert running.count_sent() == 1
    first, _, third, *_ = running.tries.at
    assert third - first >= compute_retry_delay(2), "it did not rest between its tries"


def test_a_post_waits_until_the_database_can_be_written(running: RunningOutbox) -> None:
    """It waits for SENDING to be stored, then is posted once."""
    running.queue(kind="notice")
    with read_only(running.store):
        running.thread.start()
        assert running.tries.many.wait(20)
        assert running.count_sent() == 0
    running.slack.wait(lambda: running.read_status() == MessageStatus.SENT)
    assert running.count_sent() == 1


def test_a_post_whose_success_cannot_be_stored_is_not_repeated(running: RunningOutbox) -> None:
    """The database fails while Slack is posting; the message is not looked up either."""
    running.queue(kind="notice")
    hold = running.slack.faults.hold("chat.postMessage", when="after")
    running.thread.start()
    assert hold.arrived.wait(30)
    with read_only(running.store):
        hold.release()
        assert running.tries.many.wait(20)
        assert running.read_status() == MessageStatus.SENDING
    running.slack.wait(lambda: running.read_status() == MessageStatus.SENT)
    assert [each.method for each in running.slack.requests] == ["chat.postMessage"]
