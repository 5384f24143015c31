"""The real bot with a local Slack, a scripted model and the shop.

All stories share one connection to Slack. With STORIES_OVER=http in the environment Slack sends
signed HTTP requests instead; with MODEL_OVER=chat the model is asked with Chat Completions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import col

from bot.app import App, build
from bot.config.connection_settings import ModelApi, Transport
from bot.config.settings import Settings
from bot.policy.evaluation import parse
from bot.tools import Tool
from bot.tools.web_shop import Shop
from slack_sandbox.workspace.clock import ShiftedClock
from storage import endings
from storage.examination import examine_audit_and_rows
from storage.models import Audit, Call, Delivery, Run
from storage.states import RUN_OPEN_STATUSES, DeliveryStatus
from storage.transaction import fetch_rows
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.records import ON_A_SERVER, settings_of
from tests.stories.messages import action_ids, words
from tests.stories.over_http import asked_at
from tests.stories.statements import StatementsOfProduct

POLICY = Path(__file__).with_name("rules.toml")
OVER = Transport(os.environ.get("STORIES_OVER", Transport.SOCKET))
ASKED_BY = ModelApi(os.environ.get("MODEL_OVER", ModelApi.AUTO))
AGES = ("seq", "created_at", "position")  # columns that order rows by age
CALLS_IN = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Run.thread_ts) == bindparam("thread"))
    .order_by(col(Call.created_at), col(Call.position))
)
SUPPORT, FINANCE, GENERAL, PARTNERS = "C0SUPPORT", "C0FINANCE", "C0GENERAL", "C0PARTNER"


class Machine:
    """The clock of the bot's machine: the story's clock, unless it is set back."""

    def __init__(self, clock: ShiftedClock) -> None:
        self._clock = clock
        self.behind = timedelta()
        self.on_shift = clock.on_shift

    @property
    def shift(self) -> timedelta:
        """How far the story has moved the clock."""
        return self._clock.shift

    def now(self) -> datetime:
        """The story's time, less the time by which the machine's clock was set back."""
        return self._clock.now() - self.behind


class Harness:
    """The bot with everything around it, and short ways to ask for what a story checks."""

    def __init__(
        self,
        folder: Path,
        tools: Iterable[Tool[Any]] = (),
        policy: str | None = None,
        transport: Transport = OVER,
        begin: datetime | None = None,
        **settings: str,
    ) -> None:
        self.folder = folder
        self.transport = transport
        self.port = 0  # where the bot listens for HTTP, once it was started
        self.tools = list(tools)
        self.policy = policy or POLICY.read_text("utf-8")
        self._open_slack(begin)
        self.planner = StrictPlanner()
        self.planner.start()
        self.shop = Shop(folder / "shop.db")
        self.shop.create_database()
        self.extra = settings
        self.limits: dict[str, int] = {}  # limits lower than the settings may have
        self.since = 0  # number of deliveries before this story
        self.began: datetime | None = (
            None  # the time at which this story began, if others were before
        )
        self.statements = StatementsOfProduct()
        self.was_tampered_with = False  # a story has altered rows directly in the database
        self.start()

    def _open_slack(self, begin: datetime | None) -> None:
        self.clock = ShiftedClock(begin)
        self.machine = Machine(self.clock)
        self.slack = build_local_slack(clock=self.clock, shares_clock=True)
        self.slack.start()
        for person in self.slack.world.people.values():
            person.tz = ""  # else reminders would wait if a story runs at night

    def settings(self) -> Settings:
        policy = self.folder / "policy.toml"
        policy.write_text(self.policy, "utf-8")
        return Settings.load(
            {
                "SLACK_BOT_TOKEN": self.slack.bot_token,
                "SLACK_APP_TOKEN": self.slack.app_token,
                "SLACK_SIGNING_SECRET": self.slack.world.app.signing_secret,
                "SLACK_API_URL": self.slack.api_url,
                "OPENAI_API_KEY": "sk-offline-offline-offline",
                "OPENAI_BASE_URL": self.planner.url,
                "OPENAI_API": ASKED_BY,
                **settings_of(self.folder / "countersign.db"),
                "COUNTERSIGN_POLICY": str(policy),
                "COUNTERSIGN_SHOP": str(self.folder / "shop.db"),
                "COUNTERSIGN_MODEL_BACKOFF": "0.05",
                "COUNTERSIGN_MAX_ASKED_PER_HOUR": "10000",  # one person asks in all stories
                **self.extra,
                **self._address(),
            },
            transport=self.transport,
        )

    def _address(self) -> dict[str, str]:
        over_http = self.transport is Transport.HTTP
        return {"COUNTERSIGN_HTTP": f"127.0.0.1:{self.port}"} if over_http else {}

    def _build(self, **options: Any) -> App:
        settings = self.settings().model_copy(update=self.limits)
        app = build(settings, self.machine, parse(self.policy), self.tools, **options)
        if not ON_A_SERVER:  # whose query plans depend on the tables' contents
            app.core.store.trace = self.statements
        return app

    def restart(self, **options: Any) -> None:
        """Stop the bot and start it again on the same database."""
        self.app.stop()
        self.start(**options)

    def start(self, **options: Any) -> None:
        """Start the bot on the existing database."""
        self.app = self._build(**options)
        self.app.start()
        if self.transport is Transport.HTTP:
            self._connect_slack()

    def _connect_slack(self) -> None:
        """Tell Slack the bot's address, and have it send again what nobody received."""
        web = self.app.endpoints.web
        assert web is not None
        if not self.port:
            self.port = int(web.url.rpartition(":")[2])
            asked_at(self.slack.world.app.manifest, web.url)
        self.slack.wait(self._has_received_all)
        if any(each.outcome == "pending" for each in self.slack.deliveries):
            self.clock.advance(61)
            self.slack.wait(self._has_received_all)

    def close(self) -> None:
        self.app.stop()
        self.planner.stop()
        self.slack.stop()

    def reset(self) -> None:
        """Remove what a story has left: faults, scripts, dialogs and open requests."""
        self.slack.faults.clear()
        self.planner.clear_script()
        with self.slack.world.lock:
            self.slack.world.stacks.clear()  # open dialogs
        with self.app.core.store.read() as tx:
            waiting = fetch_rows(
                tx, Run, select(Run).where(Run.status.in_(list(RUN_OPEN_STATUSES)))
            )
        for run in waiting:
            with self.app.core.store.write() as tx:
                endings.cancel_run(tx, run, at=self.clock.now(), actor="reset")
        self.app.loop.wake()
        self.settle()
        self.slack.wait(self._has_received_all)
        # each is handled, once; a process that starts would handle what is left again
        self.slack.wait(lambda: not self.all(Delivery, Delivery.status == DeliveryStatus.NEW))
        self.since = len(self.slack.deliveries)
        self.began = self.machine.now()

    def _has_received_all(self) -> bool:
        """Whether no delivery of this story is on its way to the bot."""
        return not any(
            each.outcome == "pending" and each.next_at is None
            for each in self.slack.deliveries[self.since :]
        )

    def check_at_end(self) -> None:
        """Assert that the audit is intact, and that no statement scanned a growing table."""
        self.settle()
        store = self.app.core.store
        store.trace = None
        slow = self.statements.describe_slow(store)
        assert not slow, "\n".join(slow)
        if self.was_tampered_with:
            return
        with store.read() as tx:
            problems = examine_audit_and_rows(tx, tx.chain, None, has_note=False).problems
        assert not problems, problems

    def settle(self) -> None:
        """Wait until the bot is idle."""
        self.app.wait_until_idle()

    def person(self, name: str) -> Any:
        return self.slack.person(name)

    def all(self, model: type[Any], *where: Any) -> list[Any]:
        """Return this story's rows of a table, oldest first."""
        order = [getattr(model, name) for name in AGES if hasattr(model, name)]
        if self.began is not None and hasattr(model, "created_at"):
            where = (*where, model.created_at >= self.began)
        with self.app.core.store.read() as tx:
            return fetch_rows(tx, model, select(model).where(*where).order_by(*order))

    def run_in(self, thread: str) -> Run:
        [*_, run] = self.all(Run, Run.thread_ts == thread)
        return run

    def run_of(self, run_id: str) -> Run:
        [run] = self.all(Run, Run.id == run_id)
        return run

    def calls_in(self, thread: str) -> list[Call]:
        with self.app.core.store.read() as tx:
            return fetch_rows(tx, Call, CALLS_IN, thread=thread)

    def audit_of(self, call: Call) -> list[str]:
        return [row.event for row in self.all(Audit, Audit.call_id == call.id)]

    def outputs(self) -> list[dict[str, Any]]:
        """Return the `function_call_output` items of the last model request."""
        return [
            i for i in self.planner.requests[-1]["input"] if i.get("type") == "function_call_output"
        ]

    def thread(self, channel: str, ts: str, who: str = "ben") -> list[dict[str, Any]]:
        return self.person(who).messages(channel, ts)

    def card(
        self, channel: str, ts: str | None, who: str = "ana", having: str = "approve"
    ) -> dict[str, Any]:
        """Wait for the first message with a button of this action id."""

        def look() -> dict[str, Any] | None:
            return next(
                (m for m in self.person(who).messages(channel, ts) if having in action_ids(m)), None
            )

        return self.slack.wait(look)

    def said(self, channel: str, ts: str, text: str, who: str = "ben") -> dict[str, Any]:
        """Wait for the first message of the thread that has this text anywhere."""
        return self.slack.wait(
            lambda: next((m for m in self.thread(channel, ts, who) if text in words(m)), None)
        )
