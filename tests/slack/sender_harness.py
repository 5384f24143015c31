"""A sender without its channel queues, at a local Slack: a test says when a message is sent."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Any

from sqlalchemy import select, update
from sqlmodel import col

from bot.slack.client import SlackClient
from bot.slack.outbox_memory import OutboxMemory
from bot.slack.pace import BotTokenStatus, ChannelOwnership, ChannelPacer
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from bot.slack.sender import MessageSender
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import ApiCall
from storage import outbox
from storage.models import Call, Message, Run
from storage.store import Store
from storage.transaction import fetch_rows
from tests.runs.fakes import FakeDirectory, StillClock, make_core, make_tools
from tests.storage.builders import TEAM, Seeded, set_message

SUPPORT = "C0SUPPORT"
NUMBERS = count(1)
ALONE = {"groups": {}, "part": 1, "parts": 1}  # in the body of a card that is not split


class SenderHarness:
    """One sender, its requests to Slack, and its rows."""

    def __init__(
        self, store: Store, slack: Sandbox, channels: ChannelOwnership | None = None
    ) -> None:
        self.store, self.slack, self.clock = store, slack, StillClock()
        tools = make_tools(lambda *_: "done")
        core = make_core(store, self.clock, FakeDirectory(), tools)
        self.signals = core.signals
        self.client = SlackClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        self.memory = OutboxMemory(self.clock)
        self.pace = ChannelPacer(self.clock, slack.api_url)
        self.access = BotTokenStatus(self.clock, self.client.auth_test)
        bot_user = str(self.client.auth_test()["user_id"])
        self.search = UnconfirmedPostSearch(store, self.clock, bot_user, self.client)
        self.posting = OutboxSlackCalls(store, self.client, TEAM)
        self.renderer = MessageRenderer(store, self.clock, core.tools, core.directory)
        self.sender = MessageSender(
            store,
            self.clock,
            self.signals,
            self.memory,
            self.access,
            self.pace,
            renderer=self.renderer,
            posting=self.posting,
            search=self.search,
            channels=channels or ChannelOwnership(),
        )
        self._seen = len(slack.requests)

    def queue(self, kind: str = "notice", **columns: Any) -> Message:
        """Queue a message and return its row; `body` is a mapping."""
        key = f"key {next(NUMBERS)}"
        body = outbox.dump_message_body(columns.pop("body", {"text": f"words of {key}"}))
        with self.store.write() as tx:
            channel = columns.pop("channel", SUPPORT)
            outbox.queue_message(tx, Message(key=key, kind=kind, channel=channel, body=body))
            row = outbox.find_message_by_key(tx, key)
            assert row is not None
            if columns:
                set_message(tx, row, **columns)
        return self.read(row)

    def queue_card(self, made: Seeded) -> Message:
        """Return the card of a plan, with what it needs to be drawn."""
        row = made.card()
        with self.store.write() as tx:
            outbox.update_message(
                tx, row, body=outbox.dump_message_body({**outbox.parse_message_body(row), **ALONE})
            )
        return self.read(row)

    def read(self, row: Message) -> Message:
        """Return the row as it is now."""
        with self.store.read() as tx:
            found = outbox.find_message_by_key(tx, row.key)
        assert found is not None
        return found

    def send(self, row: Message) -> bool:
        """Send the message as its row is now."""
        return self.sender.send(self.read(row))

    def take_requests(self) -> list[ApiCall]:
        """Return the requests to Slack since this was last called."""
        found = self.slack.requests[self._seen :]
        self._seen += len(found)
        return found

    def take_methods(self) -> list[str]:
        """Return the methods of those requests."""
        return [each.method for each in self.take_requests()]

    def read_texts(self, ts: str, person: str = "ana", channel: str = SUPPORT) -> list[str]:
        """Return the texts of the messages at this time in the channel."""
        everything = self.slack.person(person).everything(channel)
        return [str(each["text"]) for each in everything if each["ts"] == ts]

    def change_call(self, made: Seeded, **columns: Any) -> None:
        """Write columns of the first call."""
        with self.store.write() as tx:
            tx.execute(update(Call).where(col(Call.id) == made.ids[0]).values(**columns))

    def change_run(self, made: Seeded, **columns: Any) -> None:
        """Write columns of the run."""
        with self.store.write() as tx:
            tx.execute(update(Run).where(col(Run.id) == made.run_id).values(**columns))

    def list_messages(self, run_id: str, kind: str) -> list[Message]:
        """Return the run's messages of that kind, in order."""
        where = (col(Message.run_id) == run_id, col(Message.kind) == kind)
        with self.store.read() as tx:
            return fetch_rows(tx, Message, select(Message).where(*where).order_by(col(Message.seq)))

    def get_delay(self, row: Message) -> float | None:
        """Return the seconds until it is tried again."""
        due: datetime | None = self.read(row).due_at
        return (due - self.clock.now()).total_seconds() if due else None
