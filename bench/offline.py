"""Runs Countersign without Slack and without a model.

The store, policy, worker, executor and decisions are real. The model is a stub at the planner's
interface, people are a fixed list, and messages to Slack stay in the outbox.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bench.fakes import (
    APPROVER,
    BOT,
    CHANNEL,
    REQUEST,
    TEAM,
    AcceptingSlack,
    EmptySlack,
    FixedDirectory,
    SilentThread,
    StubModel,
    choose_requester,
)
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.core import Core
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy, parse
from bot.runs.worker import RunWorker
from bot.slack.listeners import parse_delivery
from bot.slack.outbox_memory import OutboxMemory
from bot.slack.pace import BotTokenStatus, ChannelOwnership, ChannelPacer
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from bot.slack.sender import MessageSender
from bot.slack.thread import SlackThreadReader
from bot.tools import Effect, Registry, ToolContext, tool
from storage import inbox, moves, outbox, runs
from storage.models import Delivery, Run
from storage.states import DeliveryKind
from storage.store import Store

POLICY = (
    f'[defaults]\napprovers = ["{APPROVER}"]\n[[rule]]\ntool = ["note_freely"]\nverdict = "allow"\n'
)


KEY = b"of-the-benchmark-and-of-nobody-else"  # used if the record is on a server


class Note(BaseModel):
    """The tool's arguments."""

    order_id: int = Field(title="Order")
    text: str = Field(title="Text", max_length=500)


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_asked(args: Note, context: ToolContext) -> str:
    """Do nothing."""
    return "noted"


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_freely(args: Note, context: ToolContext) -> str:
    """Do nothing, under a rule that allows it."""
    return "noted"


class Bench:
    """The product on the database in `folder`; `reopen` restarts it."""

    def __init__(
        self, folder: Path, database: str = "", *, policy: str = POLICY, url: str = ""
    ) -> None:
        """Open or create the database and everything on top of it.

        `database` is the address of a server's, whose files are also in `folder`. `url` is the
        address where people sign.
        """
        self.folder, self._database = folder, database
        self._policy, self._url = policy, url
        (folder / "policy.toml").write_text(policy)
        address = database or f"sqlite:///{folder / 'countersign.db'}"
        self.store = Store(address, key=KEY if database else None).open()
        self.clock = SystemClock()
        self._pool = ThreadPoolExecutor(8)
        self._people = FixedDirectory()
        self.core = self._core()
        thread = SlackThreadReader(
            self.store, self.clock, self._people, self.core.identity.user, EmptySlack()
        )
        self.worker = self.make_worker(StubModel())
        self.reader = self.make_worker(StubModel(), thread=thread)  # reads the inbox's messages
        self.intake = self.core.build_intake(lambda _event: False, lambda _channel: None)
        self.clicks = self.core.build_click_dispatcher()
        self.permissions = self.core.build_permission_checker()
        self._sender = self._make_sender()

    def _core(self) -> Core:
        settings = Settings.load(
            {
                "SLACK_BOT_TOKEN": "xoxb-bench-bench",
                "SLACK_APP_TOKEN": "xapp-1-bench-bench",
                "OPENAI_API_KEY": "offline",
                "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
                **({"COUNTERSIGN_URL": self._url} if self._url else {}),
            }
        )
        registry = Registry()
        registry.add(note_asked, note_freely)
        return Core(
            settings=settings,
            store=self.store,
            clock=self.clock,
            policy=CurrentPolicy(parse(self._policy)),
            tools=registry,
            key=self.store.signing_key,
            identity=Identity(TEAM, BOT, "B0BOT00001"),
            authority=Authority(self._people, TEAM),
            directory=self._people,
        )

    def _make_sender(self) -> MessageSender:
        store, client, people = self.store, AcceptingSlack(), self._people
        return MessageSender(
            store,
            self.clock,
            self.core.signals,
            OutboxMemory(self.clock),
            BotTokenStatus(self.clock, client.auth_test),
            ChannelPacer(self.clock, client.base_url),
            renderer=MessageRenderer(store, self.clock, self.core.tools, people),
            posting=OutboxSlackCalls(store, client, TEAM),
            search=UnconfirmedPostSearch(store, self.clock, BOT, client),
            channels=ChannelOwnership(),
        )

    def deliver_messages(self) -> None:
        """Draw due messages and post them, as the outbox does; Slack accepts at once."""
        now = self.clock.now()
        with self.store.read() as tx:
            channels = outbox.list_channels_with_due_messages(tx, now)
            outbox.find_next_message_retry_time(tx, now)
        for channel in channels:
            with self.store.read() as tx:
                due = outbox.list_due_messages(tx, now, channel)
            for row in due:
                assert self._sender.send(row)

    def make_worker(self, model: StubModel, executor: Any = None, thread: Any = None) -> RunWorker:
        """Create a worker; its thread has no new messages unless `thread` has some."""
        executor = executor or self.core.build_executor(self._pool, _no_portal)
        return self.core.build_worker(
            model, executor, thread or SilentThread(), SilentThread, SilentThread()
        )

    def reopen(self) -> Bench:
        """Close everything and open it again from the files."""
        self.close()
        return Bench(self.folder, self._database, policy=self._policy, url=self._url)

    def close(self) -> None:
        """Close the database and the pool."""
        self._pool.shutdown()
        self.store.close()

    def ask(self, thread: str) -> Run:
        """Store a request in that thread, READY for a worker."""
        now = self.clock.now()
        run = Run(
            team=TEAM,
            channel=CHANNEL,
            thread_ts=thread,
            requester=choose_requester(thread),
            created_at=now,
            updated_at=now,
        )
        with self.store.write() as tx:
            moves.insert_run(tx, run, at=now)
            runs.append_transcript_item(tx, run, {"role": "user", "content": REQUEST}, at=now)
        return run

    def store_delivery(self, body: dict[str, Any]) -> None:
        """Store a payload as the listener does before it acknowledges it."""
        delivery = parse_delivery(body, TEAM)
        assert delivery is not None
        self.insert_delivery(delivery)

    def insert_delivery(self, delivery: Delivery) -> None:
        """Store a delivery with the current time."""
        with self.store.write() as tx:
            delivery.received_at = self.clock.now()
            inbox.insert_delivery(tx, delivery)

    def add_messages_to_transcript(self) -> None:
        """Handle new deliveries, as a tick of the loop does."""
        with self.store.read() as tx:
            arrived = inbox.list_new_deliveries(tx)
        for each in arrived:
            decides = each.kind in (DeliveryKind.ACTION, DeliveryKind.SIGNATURE)
            (self.clicks if decides else self.intake).handle_delivery(each)

    def advance_ready(self) -> str:
        """Advance the one ready run, found as the loop finds it; return its id."""
        with self.store.read() as tx:
            [run_id] = (each.run_id for each in runs.list_ready_runs(tx))
        self.reader.advance_run(run_id)
        return run_id


def _no_portal() -> Any:
    raise AssertionError("no tool here is asynchronous")
