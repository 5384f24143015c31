"""The database cannot be written: what stands in Slack is not sent again; nothing is hurried."""

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
from storage.store import Store
from tests.local_slack import build_local_slack
from tests.runs.fakes import FakeDirectory, StillClock, make_core
from tests.runs.test_disk import read_only
from tests.storage.builders import TEAM

SUPPORT = "C0SUPPORT"
SAID = ("chat.postMessage", "chat.postEphemeral")


class Tries(logging.Handler):
    """Counts what the log says of queues that failed."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.many = 0, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """One line; it may also be that the database was changed while it was being opened."""
        if "queue of the outbox failed" not in record.getMessage():
            return
        self.count += 1
        if self.count == 3:
            self.many.set()


class Running:
    """An outbox at work on a database, with a local Slack."""

    def __init__(self, store: Store, slack: Sandbox) -> None:
        self.store, self.slack, self.tries = store, slack, Tries()
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

    def put(self, **columns: Any) -> None:
        """One message."""
        with self.store.write() as tx:
            outbox.queue_message(
                tx, Message(key="k", channel=SUPPORT, body='{"text": "once"}', **columns)
            )

    def status(self) -> str:
        """Where the message stands."""
        with self.store.read() as tx:
            row = outbox.find_message_by_key(tx, "k")
        assert row is not None
        return row.status

    def said(self) -> int:
        """How often Slack was told something."""
        return len([each for each in self.slack.requests if each.method in SAID])

    def close(self) -> None:
        """Stop."""
        self.outbox.stop()
        self.thread.join(30)
        logging.getLogger("countersign.outbox").removeHandler(self.tries)


@pytest.fixture
def running(store: Store) -> Iterator[Running]:
    """An outbox that has not begun yet."""
    with build_local_slack() as slack:
        made = Running(store, slack)
        yield made
        made.close()


def test_what_stands_in_slack_is_not_sent_again(running: Running) -> None:
    """A line for one person waits until it can be stored that it is said, and is shown once."""
    ana = running.slack.person("ana")
    running.put(kind="private", recipient=ana.id)
    with read_only(running.store):
        running.thread.start()
        assert running.tries.many.wait(20)
        assert (running.said(), running.status()) == (0, MessageStatus.PENDING)
    running.slack.wait(lambda: running.status() == MessageStatus.SENT)
    assert running.said() == 1
    assert running.tries.count <= 6, "it did not rest between its tries"


def test_what_cannot_be_written_down_first_is_not_sent(running: Running) -> None:
    """A post waits for SENDING to be stored; then it is made, once."""
    running.put(kind="notice")
    with read_only(running.store):
        running.thread.start()
        assert running.tries.many.wait(20)
        assert running.said() == 0
    running.slack.wait(lambda: running.status() == MessageStatus.SENT)
    assert running.said() == 1


def test_a_post_whose_receipt_cannot_be_stored(running: Running) -> None:
    """The database fails while Slack is posting: the message is neither looked up nor repeated."""
    running.put(kind="notice")
    hold = running.slack.faults.hold("chat.postMessage", when="after")
    running.thread.start()
    assert hold.arrived.wait(30)
    with read_only(running.store):
        hold.release()
        assert running.tries.many.wait(20)
        assert running.status() == MessageStatus.SENDING
    running.slack.wait(lambda: running.status() == MessageStatus.SENT)
    assert [each.method for each in running.slack.requests] == ["chat.postMessage"]
