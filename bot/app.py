"""The composition root: `build(settings, clock, policy)` puts everything together and starts
nothing.

The only file that imports all the parts. `App.start` connects, `App.stop` ends in an orderly way.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from slack_bolt import App as BoltApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
    ServerErrorRetryHandler,
)

from bot.agent.late_planner import LatePlanner
from bot.agent.turn import ModelTurns
from bot.approvals.clicks import Deciding
from bot.approvals.permissions import Judge
from bot.clock import Clock
from bot.core import Core
from bot.identity import Identity
from bot.logs import mask_logs
from bot.policy.authority import Authority
from bot.policy.evaluate import Policy
from bot.runs.executor import CallExecutor
from bot.runs.intake import Intake
from bot.runs.loop import Loop
from bot.runs.worker import Worker
from bot.settings import Settings
from bot.signing_key import key_for
from bot.slack.client import SlackClient
from bot.slack.dialogs import Dialogs
from bot.slack.directory import SlackDirectory, look_ahead
from bot.slack.listeners import Listeners
from bot.slack.outbox import Outbox
from bot.slack.presence import PROMPTS, SlackPresence
from bot.slack.socket import SocketMode
from bot.slack.stream import SlackAnswer
from bot.slack.thread import SlackThread
from bot.toolbox import toolbox
from bot.tools import Tool
from storage.store import Store

log = logging.getLogger("countersign")
GRACE = 5.0  # seconds that runs have to come to the end of their step when the process stops


@dataclass(slots=True)
class App:
    """Everything, put together. `start` once, `stop` once."""

    core: Core
    bolt: BoltApp
    loop: Loop
    outbox: Outbox
    listeners: Listeners
    presence: SlackPresence
    slack: tuple[SlackClient, ...]
    planner: LatePlanner
    tool_pool: ThreadPoolExecutor
    portal: Portal
    handler: SocketMode | None = None
    _threads: list[threading.Thread] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _quiet: threading.Condition = field(default_factory=threading.Condition)

    def start(self, *, connect: bool = True) -> None:
        """Start the loop and the outbox, pick up what an earlier life left, connect to Slack."""
        self.core.wake, self.core.post = self.loop.wake, self.outbox.wake
        self.loop.on_idle = self.outbox.on_idle = self._maybe_quiet
        for callback in (self.loop.wake, self.outbox.wake):
            getattr(self.core.clock, "on_shift", []).append(callback)
        self.loop.adopt()
        for name, body in (("loop", self.loop.run), ("outbox", self.outbox.run)):
            thread = threading.Thread(target=body, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        if connect:
            token = self.core.settings.slack_app_token.get_secret_value()
            self.handler = SocketMode(self.bolt, token)
            self.core.calm = self.handler.wait_calm
            self.handler.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
        # after the connection: the model's library is imported while people begin to write
        threading.Thread(target=self.planner.prepare, name="planner", daemon=True).start()
        log.info("Countersign is at work in %s", self.core.identity.team)

    def wait(self) -> None:
        """Block until `stop` or an interrupt."""
        self._ended.wait()

    def stop(self) -> None:
        """Stop taking in, let what runs come to the end of its step, close everything."""
        self._ended.set()
        if self.handler is not None:
            self.handler.close()
        self.core.stopping.set()
        self.loop.stop(GRACE)
        self.planner.close()
        self.outbox.stop()
        for thread in self._threads:
            thread.join(timeout=10)
        self.listeners.close()
        self.presence.close()
        self.tool_pool.shutdown(wait=False, cancel_futures=True)
        self.portal.close()
        for client in self.slack:
            client.close()
        self.core.store.close()

    def is_quiet(self) -> bool:
        """Whether nothing is under way that does not wait for people, time or the network."""
        return self.loop.is_idle() and self.outbox.is_idle() and self.loop.is_idle()

    def settle(self, timeout: float = 10.0) -> None:
        """Wait until nothing is under way; TimeoutError after `timeout` seconds."""
        with self._quiet:
            if not self._quiet.wait_for(self.is_quiet, timeout):
                raise TimeoutError("Countersign did not come to rest")

    def _maybe_quiet(self) -> None:
        with self._quiet:
            self._quiet.notify_all()


class Portal:
    """The one thread on which async tools run, started when the first of them is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._manager: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None

    def __call__(self) -> BlockingPortal:
        """The portal."""
        with self._lock:
            if self._portal is None:
                self._manager = start_blocking_portal()
                self._portal = self._manager.__enter__()
            return self._portal

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            if self._manager is not None:
                self._manager.__exit__(None, None, None)
                self._manager = self._portal = None


def build(
    settings: Settings,
    clock: Clock,
    policy: Policy,
    tools: Iterable[Tool[Any]] = (),
    *,
    exclusive: bool = True,
) -> App:
    """Put everything together. `tools` come beside those the settings name.

    Raises SlackApiError when the bot token is not accepted, AlreadyRunningError, SchemaError,
    StartupError for a key that cannot be used, and ValueError for tools that cannot be registered.
    """
    mask_logs()
    token = settings.slack_bot_token.get_secret_value()
    posting = SlackClient(token, base_url=settings.slack_api_url, retry_handlers=[], timeout=15)
    reading = SlackClient(
        token,
        base_url=settings.slack_api_url,
        timeout=5,
        retry_handlers=[
            ConnectionErrorRetryHandler(max_retry_count=2),
            ServerErrorRetryHandler(max_retry_count=2),
            RateLimitErrorRetryHandler(max_retry_count=2),
        ],
    )
    me = reading.auth_test()
    identity = Identity(str(me["team_id"]), str(me["user_id"]), str(me.get("bot_id") or ""))
    directory = SlackDirectory(reading, clock)
    registry = toolbox(settings, posting, directory, tools)
    policy = policy.model_copy(
        update={"asking": frozenset(each.name for each in registry if each.asks)}
    )
    store = Store(settings.database_url).open(exclusive=exclusive)
    try:
        key = key_for(settings, store, clock.now())
    except BaseException:
        store.close()
        raise
    core = Core(
        settings=settings,
        store=store,
        clock=clock,
        policy=policy,
        tools=registry,
        key=key,
        identity=identity,
        authority=Authority(directory, identity.team),
        directory=directory,
    )
    return _assemble(core, directory, posting, reading)


def make_planner(settings: Settings, stopping: threading.Event) -> ModelTurns:
    """Make the planner that the settings name."""
    # here: the library takes a third of the start, and only a turn needs it
    import openai

    from bot.agent.planner import Planner

    client = openai.OpenAI(
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
    )
    return Planner(
        client,
        model=settings.openai_model,
        reasoning_effort=settings.reasoning_effort,
        retries=settings.model_retries,
        backoff=settings.model_backoff,
        stopping=stopping,
    )


def _assemble(
    core: Core, directory: SlackDirectory, posting: SlackClient, reading: SlackClient
) -> App:
    settings, portal = core.settings, Portal()
    tool_pool = ThreadPoolExecutor(settings.workers * 2, thread_name_prefix="tool")
    presence = SlackPresence(posting, PROMPTS if settings.shop_path else [])
    planner = LatePlanner(lambda: make_planner(settings, core.stopping))
    worker = Worker(
        core,
        planner,
        CallExecutor(core, tool_pool, portal),
        SlackThread(core, reading),
        lambda run: SlackAnswer(core, posting, run),
        presence,
    )
    judge = Judge(core)
    deciding = Deciding(core, judge)
    loop = Loop(
        core,
        Intake(core, directory, presence.suggest),
        deciding,
        worker.advance,
        lambda arrived: look_ahead(directory, core.policy, core.identity.user, arrived),
    )
    bolt = BoltApp(
        # the token comes from authorize; Bolt only takes its settings from it, and never calls
        client=WebClient(base_url=settings.slack_api_url, retry_handlers=[]),
        authorize=lambda **_: AuthorizeResult(
            enterprise_id=None,
            team_id=core.identity.team,
            bot_token=posting.token,
            bot_id=core.identity.bot,
            bot_user_id=core.identity.user,
        ),
        token_verification_enabled=False,
        listener_executor=ThreadPoolExecutor(20, thread_name_prefix="listener"),
    )
    listeners = Listeners(core, bolt, posting, Dialogs(core, judge))
    return App(
        core=core,
        bolt=bolt,
        loop=loop,
        outbox=Outbox(core, posting),
        listeners=listeners,
        presence=presence,
        slack=(posting, reading),
        planner=planner,
        tool_pool=tool_pool,
        portal=portal,
    )
