"""One life of the product on the database: the real core, loop and outbox, on simulated threads.

It ends between any two of their turns; only the file and the messages in Slack remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.config.settings import Settings
from bot.config.startup import adapt_policy_to_tools
from bot.core import Core
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy, parse
from bot.runs.worker_pool import WorkerPool
from bot.slack.answer_streams import StreamedAnswerRegistry
from bot.slack.channel_queues import Outbox
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from bot.slack.thread import SlackThreadReader
from bot.tools import Registry, Tool
from storage import inbox, passkeys
from storage.models import Delivery, Run
from storage.passkeys import Passkey
from storage.store import Store
from storage.transaction import Transaction
from tests.proof.simulation.directory import SimDirectory
from tests.proof.simulation.fibers import Scheduler
from tests.proof.simulation.model import SimModel
from tests.proof.simulation.people import PASSKEYS
from tests.proof.simulation.waiting import SimPool, make_signals
from tests.proof.simulation.wire import SimClient, Slack
from tests.records import new_record
from tests.runs.fakes import BOT, LIMITS

KEY = b"k" * 32
WORKERS = 4


class SimClock:
    """The scheduler's time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now(self) -> Any:
        """See bot.clock.Clock."""
        return self._scheduler.now


class SimStore(Store):
    """The product's store; others have turns before each transaction and after each commit."""

    def __init__(self, path: Path, scheduler: Scheduler, committed: Callable[[], None]) -> None:
        super().__init__(new_record(path), key=KEY)
        self._scheduler, self._committed = scheduler, committed
        self.writing = False

    @contextmanager
    def write(
        self, *, durable: bool = True, needs_sync: bool = True, counted: bool = True
    ) -> Iterator[Transaction]:
        """As in the product."""
        self._scheduler.pause("writes")
        with super().write(durable=durable, needs_sync=needs_sync, counted=counted) as tx:
            self.writing = True
            try:
                yield tx
            finally:
                self.writing = False
        self._committed()
        self._scheduler.pause("has written")

    def read(self) -> Transaction:
        """As in the product."""
        if not self.writing:
            self._scheduler.pause("reads")
        return super().read()

    def crash(self) -> None:
        """The process is gone; nothing of a proper end is done."""
        if self._head_file is not None:
            self._head_file.close()
            self._head_file = None
        self.close()


class SilentPresence:
    """A presence that nobody sees."""

    def show_working(self, run: Run) -> None:
        """Does nothing."""

    show_waiting = show_done = show_working


class Process:
    """Loop, workers and, in the first process, the outbox."""

    def __init__(
        self,
        path: Path,
        scheduler: Scheduler,
        slack: Slack,
        directory: SimDirectory,
        model: SimModel,
        tools: list[Tool[Any]],
        committed: Callable[[Process], None],
        *,
        alone: bool,
        first: bool,
    ) -> None:
        """Build it; `alone`: no other process writes the same database."""
        self.scheduler, self.first = scheduler, first
        scheduler.building = self
        policy = path.with_name("policy.toml")
        registry = Registry()
        registry.add(*tools)
        current = CurrentPolicy(
            adapt_policy_to_tools(parse(policy.read_text("utf-8"), str(policy)), registry)
        )
        self.policy = current
        self.store = SimStore(path, scheduler, lambda: committed(self))
        self.signals, self.clock = make_signals(scheduler), SimClock(scheduler)
        directory = directory.copy_for(self, self.signals.work.notify)
        authority: Any = Authority(directory, slack.workspace.team)
        settings = Settings(
            slack_bot_token="xoxb-1",
            slack_app_token="xapp-1",
            openai_api_key="k",
            policy_path=policy,
            workers=WORKERS,
            url="https://approve.example.com",
            **dict.fromkeys(LIMITS, 1000),
        )
        self.store.open(exclusive=alone)
        self.core = Core(
            settings=settings,
            store=self.store,
            clock=self.clock,
            policy=current,
            tools=registry,
            authority=authority,
            directory=directory,
            identity=Identity(slack.workspace.team, BOT, slack.workspace.bot),
            key=KEY,
            signals=self.signals,
        )
        self._assemble(slack, directory, model)

    def _assemble(self, slack: Slack, directory: SimDirectory, model: SimModel) -> None:
        posting, reading = SimClient(slack, clock=self.clock), SimClient(slack)
        self.clients, store, clock, core = (posting, reading), self.store, self.clock, self.core
        quiet, no_portal = SilentPresence(), lambda: None
        pool = SimPool(self.scheduler, WORKERS * 2, "tool")
        worker = core.build_worker(
            model,
            core.build_executor(pool, no_portal),  # type: ignore[arg-type]  # no tool is asynchronous
            SlackThreadReader(store, clock, directory, BOT, reading),
            StreamedAnswerRegistry(
                store, directory, self.signals, posting, clock
            ).get_or_create_answer,
            quiet,
        )
        deciding = core.copy_with_directory(directory.copy_without_waiting())
        known: Any = directory
        intake = deciding.build_intake(known, lambda _: None)
        workers = WorkerPool(worker.advance_run, core.settings.workers, self.signals)
        self.loop = deciding.build_loop(intake, workers, lambda _: None)
        self.renderer = MessageRenderer(store, clock, core.tools, directory)
        post, search = (
            OutboxSlackCalls(store, posting, core.identity.team),
            UnconfirmedPostSearch(store, clock, BOT, posting),
        )
        self.outbox = Outbox(store, clock, self.signals, self.renderer, post, search)

    @property
    def team(self) -> str:
        """The id of the workspace that it works for."""
        return self.core.identity.team

    def start(self) -> None:
        """Recover from an earlier life, and start."""
        self.scheduler.building = self
        self._add_passkeys()
        self.core.build_restored_record_settler().settle_work_if_restored()
        self.loop.reclaim_orphaned_runs()
        self.scheduler.spawn(self, "loop", self.loop.run)
        if self.first:
            self.scheduler.spawn(self, "outbox", self.outbox.run)

    def _add_passkeys(self) -> None:
        """Give everybody a passkey, in the first life."""
        with self.store.write() as tx:
            for person, key in PASSKEYS.items():
                if passkeys.find_passkey_by_credential(tx, key.credential_id) is None:
                    row = Passkey(team=self.team, person=person, credential_id=key.credential_id)
                    row.public_key, row.rp_id = key.public_key, key.rp_id
                    row.created_at = row.counts_from = self.clock.now() - timedelta(hours=1)
                    row.sign_count = key.count
                    passkeys.add_passkey(tx, row)

    def end(self, *, orderly: bool) -> None:
        """All threads end where they are; the next life has the file."""
        self.scheduler.kill(self)
        if orderly:
            self.store.close()
        else:
            self.store.crash()
        for client in self.clients:
            client.close()

    def keep(self, delivery: Delivery) -> None:
        """Store a delivery and wake the loop, as the listeners do."""
        with self.store.write() as tx:
            delivery.received_at = self.clock.now()
            fresh = inbox.insert_delivery(tx, delivery)
        if fresh:
            if delivery.kind in inbox.CLICK_KINDS:
                self.signals.decisions.hold_other_work()
            self.signals.work.notify()
