"""The composition root: `build(settings, clock, policy)` creates all parts and starts none.

The only file that imports all the parts. `App.start` connects to Slack, `App.stop` ends in an
orderly way.
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
from slack_sdk import WebClient

import bot
from bot import version
from bot.agent.late_planner import LatePlanner, make_planner
from bot.approvals.channel_mode import Modes
from bot.approvals.delegation import StandIns
from bot.approvals.form_requests import insist
from bot.approvals.question_answers import QuestionAnswers
from bot.checks.inspection import Inspection
from bot.clock import Clock
from bot.config.connection_settings import USUAL, Transport
from bot.config.settings import Settings
from bot.config.startup import StartupError, fit_policy
from bot.core import Core
from bot.explain.explanation import ExplanationSources
from bot.identity import Identity
from bot.monitoring.exporters import MissingExtraError, make_exporters
from bot.monitoring.logs import mask_logs
from bot.monitoring.spans import Incident, Tracer
from bot.policy.authority import Authority, Directory
from bot.policy.evaluation import CurrentPolicy, Policy, PolicyError
from bot.replicas.membership import SingleProcess, advance_clock, join_replicas, settings_and_clock
from bot.runs.loop import Loop
from bot.runs.program_requests import ProgramRequests
from bot.runs.transcript_files import PlannerWithFiles
from bot.signals import Signals
from bot.signing_key import open_store
from bot.slack.answer_streams import StreamedAnswers
from bot.slack.channel_queues import Outbox
from bot.slack.client import SlackClient, app_of, make_clients
from bot.slack.command_answers import Answerer
from bot.slack.dialogs import Dialogs
from bot.slack.directory import SlackDirectory, look_ahead, with_names
from bot.slack.home import PATIENCE, SlackHome
from bot.slack.listeners import LOOK_UP, Listeners, make_bolt
from bot.slack.pace import Channels
from bot.slack.posting import Posting, PostSearch, Renderer
from bot.slack.presence import PROMPTS, SlackPresence
from bot.slack.request_dialogs import (
    AnswerDialogs,
    DelegationDialogs,
    RequestDialogs,
    RequestOpeners,
)
from bot.slack.slash_commands import Commands
from bot.slack.socket import SocketMode, connect_alone
from bot.slack.socket_client import ACKNOWLEDGED
from bot.slack.thread import SlackThread
from bot.toolbox import make_tools
from bot.tools import Tool
from bot.upkeep import Upkeep
from storage import trail

if TYPE_CHECKING:
    from bot.http.http_side import Web
    from bot.replicas.replicas import Replicas


log = logging.getLogger("countersign")
NAMING = 2.0  # seconds that a text waits for the names of the people it mentions
HANGING = 256  # calls that may go on after their time without others finding no thread
GRACE = 4.0  # seconds that runs, then loop and outbox, have to end their step at a stop


@dataclass(slots=True)
class App:
    """All parts of a running bot. Call `start` once, then `stop` once."""

    core: Core
    bolt: BoltApp
    loop: Loop
    outbox: Outbox
    listeners: Listeners
    replicas: Replicas | SingleProcess
    upkeep: Upkeep
    presence: SlackPresence
    home: SlackHome
    directory: SlackDirectory
    slack: tuple[SlackClient, ...]
    planner: LatePlanner
    tool_pool: ThreadPoolExecutor
    endpoints: Endpoints
    inspection: Inspection | None = None
    _threads: list[threading.Thread] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self, *, connect: bool = True) -> None:
        """Start the threads, take up what the last process left open, and connect to Slack."""
        # a clock that can be moved says so
        on_shift = getattr(self.core.clock, "on_shift", [])
        on_shift += [self.core.signals.work.give, self.core.signals.post.give]
        self._record()
        self.core.restored(self.presence.done).take_up()
        self.replicas.start()
        if connect:
            self.endpoints.open(self._ended)
        self.loop.adopt()
        bodies = {"loop": self.loop.run, "outbox": self.outbox.run, "home": self.home.run}
        for name, body in bodies.items():
            thread = threading.Thread(target=body, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        self.upkeep.start()
        # after the connection: the model's library is imported while people begin to write
        threading.Thread(target=self.planner.prepare, name="planner", daemon=True).start()
        log.info(
            "Countersign is at work in %s: %s", self.core.identity.team, version.describe_version()
        )

    def _record(self) -> None:
        """Record in the audit which version, commit and policy are at work from now on."""
        core = self.core
        data = {
            "version": bot.__version__,
            "commit": version.commit_id(),
            "policy": core.policy.digest,
        }
        with core.store.write() as tx:
            trail.record(tx, "bot.started", at=core.clock.now(), actor="system", data=data)

    def inspect(self) -> None:
        """Begin to report in the log and the metrics what is wrong with the setup."""
        core = self.core
        parts = (core.settings, core.policy, core.tools, core.store, core.clock, core.signals)
        self.inspection = Inspection(*parts)
        self.inspection.start()

    def wait(self) -> None:
        """Block until `stop` or an interrupt."""
        self._ended.wait()

    def stop(self) -> None:
        """Refuse new input, let running work finish its current step, and close everything."""
        self._ended.set()
        if self.inspection is not None:
            self.inspection.stop()
        self.endpoints.shut()
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
        self.endpoints.close()
        self.replicas.stop()
        self.core.store.close()
        self.core.signals.tracer.close()

    def is_quiet(self) -> bool:
        """Return whether no work is under way, except waits for people, time or the network."""
        is_idle = self.loop.is_idle() and self.outbox.is_idle() and self.directory.is_idle()
        return self.replicas.is_idle() and is_idle and self.loop.is_idle()

    def settle(self, timeout: float = 30.0) -> None:
        """Wait until nothing is under way; raise TimeoutError after `timeout` seconds."""
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
    """Create all parts and return the app. `tools` are added to those the settings name.

    Raises SlackApiError when the bot token is not accepted, AlreadyRunningError, SchemaError,
    StartupError for a key or a policy that cannot be used, and ValueError for tools that cannot be
    registered.
    """
    mask_logs()
    settings, clock = settings_and_clock(settings, clock)
    signals = Signals(tracer=make_tracer(settings, clock))
    posting, reading = make_clients(settings, clock, signals.tracer)
    identity = Identity.told(reading.auth_test().get)
    directory = SlackDirectory(reading, clock, signals)
    registry = make_tools(settings, posting, directory, tools)
    try:
        policy = fit_policy(policy, registry)
    except PolicyError as error:
        raise StartupError((), error.problems) from None
    insist(policy, registry)
    current = CurrentPolicy(policy)
    told = signals.tracer.audited
    store = open_store(settings, clock.now(), lambda: current.digest, told, exclusive=exclusive)
    advance_clock(store, clock)
    store.count_unstored(partial(signals.tracer.happened, Incident.UNSTORED))
    signals.tracer.opened(store)
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
    """Build the parts that talk to Slack and the model around the core, and return the app."""
    settings, signals, portal = core.settings, core.signals, core.previews.portal
    naming, hurried = directory.within(NAMING), directory.within(LOOK_UP)
    store, clock, me = core.store, core.clock, core.identity
    tool_pool = ThreadPoolExecutor(settings.workers + HANGING, thread_name_prefix="tool")
    presence = SlackPresence(posting, PROMPTS if settings.shop_path else [], signals)
    homes = core.over(directory.within(PATIENCE)).desk().homes()
    home = SlackHome(posting, homes.of, signals, me.team)
    planner = LatePlanner(lambda: make_planner(settings, signals))
    worker = core.worker(
        PlannerWithFiles(planner, store, clock),
        core.executor(tool_pool, portal),
        _thread_of(core, directory, reading),
        StreamedAnswers(store, naming, signals, posting, clock).of,
        presence,
    )
    commands = make_commands(core, posting, hurried)
    deciding = core.over(directory.within(0))
    replicas = join_replicas(core, worker.advance, directory.heard, posting.pauses)
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
        endpoints=Endpoints(core, bolt, reading),
    )


def _thread_of(core: Core, directory: SlackDirectory, reading: SlackClient) -> SlackThread:
    """Return the reader of a run's Slack thread and of the files in it."""
    me, files, stopping = core.identity.user, core.settings.attached_files, core.signals.stopping
    known = (core.store, core.clock, directory, me, reading)
    return SlackThread(*known, files=files, stopping=stopping)


def _outbox(core: Core, posting: SlackClient, naming: Directory, channels: Channels) -> Outbox:
    """Return the outbox for `channels`, those this process sends to; `naming` looks names up."""
    store, clock = core.store, core.clock
    renderer = Renderer(store, clock, core.tools, naming)
    search = PostSearch(store, clock, core.identity.user, posting)
    return Outbox(store, clock, core.signals, renderer, Posting(store, posting), search, channels)


# The tracer, with the exporters that the settings name.


def make_tracer(settings: Settings, clock: Clock) -> Tracer:
    """Return the tracer; raise StartupError if an exporter that is wanted is not installed."""
    counts = settings.http is not None or settings.transport is Transport.HTTP
    try:
        made = make_exporters(clock.now, counts=counts, traces=settings.traces)
    except MissingExtraError as error:
        raise StartupError([f"COUNTERSIGN_TRACES: {error}"], ()) from None
    return Tracer(made, clock.now)


# The edge to Slack: the listeners, and the answers to questions about approvals.


def make_commands(core: Core, posting: SlackClient, hurried: Directory) -> Commands:
    """Return the handler of slash commands and typed questions about approvals."""
    grounds = ExplanationSources(core.sources(), core.authority, core.limits())
    forms = RequestDialogs(core.store, core.over(hurried).forms())
    doors = RequestOpeners(forms, posting, core.identity.team)
    modes = Modes(core.store, core.clock, core.policy, core.authority, core.signals.post)
    answerer = Answerer(grounds, core.grants(), core.tools, doors, modes, core.desk())
    return Commands(answerer, posting, core.identity.team)


def make_listeners(
    core: Core, bolt: BoltApp, commands: Commands, client: WebClient, hurried: Directory
) -> Listeners:
    """Register the listeners on the Bolt app; `hurried` looks people up for dialogs."""
    store, clock, signals, team = core.store, core.clock, core.signals, core.identity.team
    asking = core.over(hurried)
    may, edits = asking.permissions(), asking.edits()
    answers = AnswerDialogs(QuestionAnswers(store, asking.authority), clock, hurried)
    families = (
        RequestDialogs(asking.store, asking.forms()),
        answers,
        DelegationDialogs(asking.desk().delegations()),
    )
    dialogs = Dialogs(store, clock, core.tools, hurried, signals.post, may, edits, families)
    return Listeners(
        store,
        clock,
        team,
        signals,
        app=bolt,
        client=client,
        dialogs=dialogs,
        commands=commands,
        hears=asking.authority.hears,
    )


# How Slack's deliveries and programs' requests come in: by Socket Mode, by HTTP, or by both.

NOT_INSTALLED = (
    "COUNTERSIGN_HTTP and `countersign serve` need {0}: pip install 'countersign-bot[serve]'"
)


class Endpoints:
    """The ways in for deliveries and requests; one per process: `open`, `shut`, then `close`."""

    def __init__(self, core: Core, bolt: BoltApp, slack: SlackClient) -> None:
        """`bolt` has the listeners; `slack` is asked whether the bot's token is still good."""
        self._core, self._bolt, self._slack = core, bolt, slack
        self.socket: SocketMode | None = None
        self.web: Web | None = None

    def open(self, ended: threading.Event) -> None:
        """Begin to receive deliveries and requests; `ended` is set when the process is to stop.

        Raises StartupError if Slack cannot be connected to as the settings say, or the address
        cannot be listened to.
        """
        core, settings = self._core, self._core.settings
        own = {core.identity.user, core.identity.bot} - {""}
        over_http = settings.transport is Transport.HTTP
        if settings.http is not None or over_http:
            self.web = self._listening()
            if over_http:
                self.web.let_slack_in(self._bolt, own)
        if not over_http:
            own_app = app_of(self._slack, core.identity.bot)
            arrivals = core.signals.arrivals
            self.socket = connect_alone(self._bolt, settings, arrivals, ended, own, own_app)
        if self.web is not None:
            self.web.start()

    def _listening(self) -> Web:
        """Return the HTTP side, which listens already; raise StartupError if it cannot."""
        try:
            from bot.http.http_side import Web
            from bot.http.server import NotListeningError
        except ModuleNotFoundError as error:
            raise StartupError([NOT_INSTALLED.format(error.name)], ()) from None
        try:
            core = self._core
            programs = ProgramRequests(core.forms(), core.signals)
            return Web(core, self._slack, core.settings.http or USUAL, programs)
        except NotListeningError as error:
            remedy = "name another address, or stop who has it"
            raise StartupError([f"COUNTERSIGN_HTTP: {error}; {remedy}"], ()) from None

    def shut(self) -> None:
        """Refuse new input, and wait for a limited time until deliveries are acknowledged."""
        if self.web is not None:
            self.web.shut()
            self._core.signals.arrivals.wait(ACKNOWLEDGED)
        if self.socket is not None:
            self.socket.close()

    def close(self) -> None:
        """Close the HTTP side, which answers nothing from then on."""
        if self.web is not None:
            self.web.close()
