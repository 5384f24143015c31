"""The composition root: `build(settings, clock, policy)` puts everything together and starts
nothing.

The only file that imports all the parts. `App.start` connects, `App.stop` ends in an orderly way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from slack_bolt import App as BoltApp

import bot
from bot import version
from bot.agent.late_planner import LatePlanner
from bot.approvals.delegation.delegations import StandIns
from bot.approvals.forms.templates import insist
from bot.checks.inspection import Inspection
from bot.clock import Clock
from bot.config.settings import Settings
from bot.config.startup import StartupError, fitted
from bot.core import Core
from bot.edges.model import make_planner
from bot.edges.slack import make_commands, make_listeners
from bot.edges.watchers import make_lookout
from bot.edges.ways_in import WaysIn
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.current import CurrentPolicy
from bot.policy.directory import Directory
from bot.policy.evaluate import Policy, PolicyError
from bot.replicas.alone import Alone
from bot.replicas.joining import for_replicas, go_on_from, joined
from bot.runs.hearing.files import WithFiles
from bot.runs.loop import Loop
from bot.signals import Signals
from bot.signing_key import open_store
from bot.slack.bolt import make_bolt
from bot.slack.client import SlackClient, make_clients
from bot.slack.home import PATIENCE, SlackHome
from bot.slack.listeners import LOOK_UP, Listeners
from bot.slack.lookups.directory import SlackDirectory, look_ahead
from bot.slack.lookups.mentions import with_names
from bot.slack.outbox.channels import Channels
from bot.slack.outbox.lanes import Outbox
from bot.slack.outbox.posting import Posting
from bot.slack.outbox.search import PostSearch
from bot.slack.presence import PROMPTS, SlackPresence
from bot.slack.render import Renderer
from bot.slack.streaming.answers import SlackAnswers
from bot.slack.thread import SlackThread
from bot.toolbox import toolbox
from bot.tools import Tool
from bot.upkeep.upkeep import Upkeep
from bot.watch.logs import mask_logs
from bot.watch.passages import Incident
from storage import audit

if TYPE_CHECKING:  # it imports what is not always there
    from bot.replicas.replicas import Replicas

log = logging.getLogger("countersign")
NAMING = 2.0  # seconds that a text waits for the names of the people it mentions
HANGING = 256  # calls that may go on after their time without others finding no thread
GRACE = 4.0  # seconds that runs, then loop and outbox, have to end their step at a stop


@dataclass(slots=True)
class App:
    """Everything, put together. `start` once, `stop` once."""

    core: Core
    bolt: BoltApp
    loop: Loop
    outbox: Outbox
    listeners: Listeners
    replicas: Replicas | Alone
    upkeep: Upkeep
    presence: SlackPresence
    home: SlackHome
    directory: SlackDirectory
    slack: tuple[SlackClient, ...]
    planner: LatePlanner
    tool_pool: ThreadPoolExecutor
    ways_in: WaysIn
    inspection: Inspection | None = None
    _threads: list[threading.Thread] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self, *, connect: bool = True) -> None:
        """Start the loop and the outbox, pick up what an earlier life left, connect to Slack."""
        # a clock that can be moved says so
        on_shift = getattr(self.core.clock, "on_shift", [])
        on_shift += [self.core.signals.work.give, self.core.signals.post.give]
        self._record()
        self.core.restored(self.presence.done).take_up()
        self.replicas.start()
        if connect:
            self.ways_in.open(self._ended)
        self.loop.adopt()
        bodies = {"loop": self.loop.run, "outbox": self.outbox.run, "home": self.home.run}
        for name, body in bodies.items():
            thread = threading.Thread(target=body, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        self.upkeep.start()
        # after the connection: the model's library is imported while people begin to write
        threading.Thread(target=self.planner.prepare, name="planner", daemon=True).start()
        log.info("Countersign is at work in %s: %s", self.core.identity.team, version.described())

    def _record(self) -> None:
        """Have the audit say which program writes from now on."""
        core = self.core
        data = {
            "version": bot.__version__,
            "commit": version.commit(),
            "policy": core.policy.digest,
        }
        with core.store.write() as tx:
            audit.record(tx, "bot.started", at=core.clock.now(), actor="system", data=data)

    def inspect(self) -> None:
        """From now on say in the log and the metrics what is wrong with the setup."""
        core = self.core
        parts = (core.settings, core.policy, core.tools, core.store, core.clock, core.signals)
        self.inspection = Inspection(*parts)
        self.inspection.start()

    def wait(self) -> None:
        """Block until `stop` or an interrupt."""
        self._ended.wait()

    def stop(self) -> None:
        """Stop taking in, let what runs come to the end of its step, close everything."""
        self._ended.set()
        if self.inspection is not None:
            self.inspection.stop()
        self.ways_in.shut()
        self.upkeep.stop()
        self.core.signals.stopping.set()
        self.replicas.rest()
        self.loop.stop(GRACE)
        self.planner.close()
        self.outbox.stop()
        self.home.stop()
        until = time.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self.listeners.close()
        self.presence.close()
        self.directory.close()
        self.tool_pool.shutdown(wait=False, cancel_futures=True)
        self.core.previews.close()
        self.core.previews.portal.close()
        for client in self.slack:
            client.close()
        self.ways_in.close()
        self.replicas.stop()
        self.core.store.close()
        self.core.signals.watch.close()

    def is_quiet(self) -> bool:
        """Return whether all that is under way waits for people, time or the network."""
        is_idle = self.loop.is_idle() and self.outbox.is_idle() and self.directory.is_idle()
        return self.replicas.is_idle() and is_idle and self.loop.is_idle()

    def settle(self, timeout: float = 30.0) -> None:
        """Wait until nothing is under way; TimeoutError after `timeout` seconds."""
        if not self.core.signals.rest.wait_for(self.is_quiet, timeout):
            raise TimeoutError("Countersign did not come to rest")


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
    StartupError for a key or a policy that cannot be used, and ValueError for tools that cannot be
    registered.
    """
    mask_logs()
    settings, clock = for_replicas(settings, clock)
    signals = Signals(watch=make_lookout(settings, clock))
    posting, reading = make_clients(settings, clock, signals.watch)
    identity = Identity.told(reading.auth_test().get)
    directory = SlackDirectory(reading, clock, signals)
    registry = toolbox(settings, posting, directory, tools)
    try:
        policy = fitted(policy, registry)
    except PolicyError as error:
        raise StartupError((), error.problems) from None
    insist(policy, registry)
    current = CurrentPolicy(policy)
    told = signals.watch.heard
    store = open_store(settings, clock.now(), lambda: current.digest, told, exclusive=exclusive)
    go_on_from(store, clock)
    store.count_unstored(partial(signals.watch.happened, Incident.UNSTORED))
    signals.watch.opened(store)
    core = Core(
        settings=settings,
        store=store,
        clock=clock,
        policy=current,
        tools=registry,
        key=store.key,
        identity=identity,
        authority=Authority(directory, identity.team, StandIns(store, clock, identity.team).of),
        directory=directory,
        signals=signals,
    )
    return _assemble(core, directory, posting, reading)


def _assemble(
    core: Core, directory: SlackDirectory, posting: SlackClient, reading: SlackClient
) -> App:
    """Put the edges to Slack and the model around the core."""
    settings, signals, portal = core.settings, core.signals, core.previews.portal
    naming, hurried = directory.within(NAMING), directory.within(LOOK_UP)
    store, clock, me = core.store, core.clock, core.identity
    tool_pool = ThreadPoolExecutor(settings.workers + HANGING, thread_name_prefix="tool")
    presence = SlackPresence(posting, PROMPTS if settings.shop_path else [], signals)
    homes = core.over(directory.within(PATIENCE)).desk().homes()
    home = SlackHome(posting, homes.of, signals, me.team)
    planner = LatePlanner(lambda: make_planner(settings, signals))
    worker = core.worker(
        WithFiles(planner, store, clock),
        core.executor(tool_pool, portal),
        _thread_of(core, directory, reading),
        SlackAnswers(store, naming, signals, posting, clock).of,
        presence,
    )
    commands = make_commands(core, posting, hurried)
    deciding = core.over(directory.within(0))
    replicas = joined(core, worker.advance, directory.heard, posting.pauses)
    loop = deciding.loop(
        deciding.intake(
            directory, presence.suggest, presence.done, home.opened, commands.asked_in_words
        ),
        replicas.workers,
        lambda arrived: look_ahead(directory, core.policy.policy, me.user, arrived),
        presence.done,
        replicas,
    )
    bolt = make_bolt(me, posting)
    home.listen(bolt)
    listeners = make_listeners(core, bolt, commands, posting, hurried)
    return App(
        core=core,
        bolt=bolt,
        loop=loop,
        outbox=_outbox(core, posting, naming, replicas.channels),
        listeners=listeners,
        replicas=replicas,
        upkeep=core.upkeep(listeners.keep, partial(with_names, naming)),
        directory=directory,
        presence=presence,
        home=home,
        slack=(posting, reading),
        planner=planner,
        tool_pool=tool_pool,
        ways_in=WaysIn(core, bolt, reading),
    )


def _thread_of(core: Core, directory: SlackDirectory, reading: SlackClient) -> SlackThread:
    """Make what reads a run's thread, and the files in it."""
    me, files, stopping = core.identity.user, core.settings.attached_files, core.signals.stopping
    known = (core.store, core.clock, directory, me, reading)
    return SlackThread(*known, files=files, stopping=stopping)


def _outbox(core: Core, posting: SlackClient, naming: Directory, channels: Channels) -> Outbox:
    """Make what tells Slack, in those `channels` that are this process's; `naming` knows names."""
    store, clock = core.store, core.clock
    renderer = Renderer(store, clock, core.tools, naming)
    search = PostSearch(store, clock, core.identity.user, posting)
    return Outbox(store, clock, core.signals, renderer, Posting(store, posting), search, channels)
