"""The composition root: `build(settings, clock, policy)` creates all parts and starts none.

The only file that imports all the parts. `App.start` connects to Slack, `App.stop` ends in an
orderly way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from slack_bolt import App as BoltApp
from slack_sdk import WebClient

import bot
from bot import version
from bot.agent.late_planner import LazyPlanner, create_planner
from bot.approvals.call_checks import UsageLimits
from bot.approvals.channel_mode import ChannelModeSwitcher
from bot.approvals.delegation import DelegateFinder
from bot.approvals.dialog_access import DialogAccessChecker
from bot.approvals.form_catalog import require_fitting_templates
from bot.approvals.hand_overs import HandOverHandler
from bot.approvals.permissions import DeliverySettler
from bot.approvals.question_answers import AnswerHandler
from bot.checks.inspection import SetupInspector
from bot.clock import Clock
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.config.startup import StartupError, adapt_policy_to_tools
from bot.core import Core
from bot.explain.explanation import ExplanationSources
from bot.identity import HostedApp, Identity
from bot.inbound_connections import InboundConnections
from bot.monitoring.exporters import MissingExtraError, create_exporters
from bot.monitoring.logs import mask_root_log_handlers
from bot.monitoring.spans import Incident, Tracer, work_for_workspace
from bot.policy.authority import Authority, Directory
from bot.policy.evaluation import CurrentPolicy, Policy, PolicyError
from bot.replicas import membership
from bot.runs.loop import MainLoop
from bot.runs.surfaces import NamedSurface, start_surfaces, stop_surfaces
from bot.runs.transcript_files import FileInsertingPlanner
from bot.signals import Signals, wait_for_end
from bot.signing_key import open_store
from bot.slack import request_dialogs
from bot.slack.answer_streams import StreamedAnswerRegistry
from bot.slack.call_dialogs import CallDialogFamily
from bot.slack.channel_queues import Outbox
from bot.slack.client import SlackClient
from bot.slack.command_answers import SlashCommandServices
from bot.slack.dialogs import DialogHandler
from bot.slack.directory import SlackDirectory, add_names_to_mentions, start_click_lookups
from bot.slack.home import (
    HOME_LOOKUP_TIMEOUT_SECONDS,
    HomeTabPublisher,
    PasskeyDialogFamily,
    ReportingHomeBuilder,
)
from bot.slack.listeners import SUBMIT_TIMEOUT_SECONDS, SlackListeners, build_bolt_app
from bot.slack.lookups import build_read_only_slack_client
from bot.slack.pace import ChannelOwnership
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from bot.slack.presence import SUGGESTED_PROMPTS, SlackStatusSender
from bot.slack.slash_commands import SlashCommandHandler
from bot.slack.thread import SlackThreadReader
from bot.slack_codes import list_granted_scopes
from bot.toolbox import build_tool_registry, require_limited_database_roles
from bot.tools import Registry, Tool
from bot.upkeep import DailyPurge
from storage import trail

if TYPE_CHECKING:
    from bot.replicas.replicas import ReplicaMembership


log = logging.getLogger("countersign")
NAME_LOOKUP_TIMEOUT_SECONDS = 2.0  # to put names into a text that mentions people
SPARE_TOOL_THREADS = 256  # so that calls running past their time limit leave threads for others
STOP_GRACE_SECONDS = 4.0  # first for runs, then for loop and outbox, to finish their step


@dataclass(slots=True)
class App:
    """All parts of a running bot. Call `start` once, then `stop` once."""

    core: Core
    bolt: BoltApp
    loop: MainLoop
    outbox: Outbox
    listeners: SlackListeners
    replicas: ReplicaMembership | membership.SingleProcess
    surfaces: tuple[NamedSurface, ...]
    daily_purge: DailyPurge
    presence: SlackStatusSender
    home: HomeTabPublisher
    directory: SlackDirectory
    slack_clients: tuple[SlackClient, ...]
    planner: LazyPlanner
    tool_pool: ThreadPoolExecutor
    endpoints: InboundConnections
    inspection: SetupInspector | None = None
    _threads: list[threading.Thread] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread_error: BaseException | None = None  # what one of the threads has ended with

    def start(self, *, connect: bool = True) -> None:
        """Start the threads, take up what the last process left open, and connect to Slack."""
        # a test's or demo's clock reports its shifts
        on_shift = getattr(self.core.clock, "on_shift", [])
        on_shift += [self.core.signals.work.notify, self.core.signals.outbox.notify]
        self._record_start()
        self.core.build_restored_record_settler(self.presence.show_done).settle_work_if_restored()
        self.replicas.start()
        if connect:
            self.endpoints.start_receiving(self._ended)
        self.loop.reclaim_orphaned_runs()
        bodies = {"loop": self.loop.run, "outbox": self.outbox.run, "home": self.home.run}
        for name, body in bodies.items():
            thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        start_surfaces(self.surfaces)
        self.daily_purge.start()
        # after connecting to Slack, since importing the model's library takes a while
        if self.core.settings.has_model:
            threading.Thread(target=self.planner.prepare, name="planner", daemon=True).start()
        else:
            log.warning("there is no model (OPENAI_API_KEY is not set): people ask with forms")
        log.info(
            "Countersign is at work in %s: %s", self.core.identity.team, version.describe_version()
        )

    def _run(self, body: Callable[[], None]) -> None:
        """Run the body of one of the threads; if it ends with an error, so does the process."""
        with work_for_workspace(self.core.signals.tracer.workspace):
            try:
                body()
            except BaseException as error:
                self._thread_error = error
                raise

    def _record_start(self) -> None:
        """Record in the audit which version, commit and policy are at work from now on."""
        core = self.core
        data = {
            "version": bot.__version__,
            "commit": version.commit_id(),
            "policy": core.policy.digest,
        }
        with core.store.write() as tx:
            trail.record_event(tx, "bot.started", at=core.clock.now(), actor="system", data=data)

    def start_inspection(self) -> None:
        """Begin to report in the log and the metrics what is wrong with the setup."""
        core = self.core
        parts = (core.settings, core.policy, core.tools, core.store, core.clock, core.signals)
        self.inspection = SetupInspector(*parts)
        self.inspection.start()

    def wait(self) -> None:
        """Block until `stop`, an interrupt, or what `require_able_to_work` raises."""
        wait_for_end(self._ended, self.require_able_to_work)

    def require_able_to_work(self) -> None:
        """Raise what has ended one of the threads, or DBAPIError if the record may be too old."""
        if self._thread_error is not None:
            raise self._thread_error
        self.core.store.require_newest_rows()

    def stop(self) -> None:
        """Refuse new input, let running work finish its current step, and close everything."""
        self._ended.set()
        if self.inspection is not None:
            self.inspection.stop()
        self.endpoints.stop_receiving()
        stop_surfaces(self.surfaces)
        self.daily_purge.stop()
        self.core.signals.stopping.set()
        self.replicas.stop_taking_jobs()
        self.loop.stop(STOP_GRACE_SECONDS)
        self.planner.close()
        self.outbox.stop()
        self.home.stop()
        until = time.monotonic() + STOP_GRACE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self.listeners.close()
        self.presence.close()
        self.directory.close()
        self.tool_pool.shutdown(wait=False, cancel_futures=True)
        self.core.previews.close()
        self.core.previews.portal.close()
        for client in self.slack_clients:
            client.close()
        self.endpoints.close()
        self.replicas.stop()
        self.core.signals.tracer.close()  # before the store, since it may still read the record
        self.core.store.close()

    def replace_bot_token(self, token: str) -> None:
        """Call Slack with this token from now on."""
        for client in self.slack_clients:
            client.token = token

    def is_idle(self) -> bool:
        """Return whether no work is under way, except waits for people, time or the network."""
        is_idle = self.loop.is_idle() and self.outbox.is_idle() and self.directory.is_idle()
        return self.replicas.is_idle() and is_idle and self.loop.is_idle()

    def wait_until_idle(self, timeout: float = 30.0) -> None:
        """Wait until nothing is under way; raise TimeoutError after `timeout` seconds."""
        if not self.core.signals.rest.wait_for(self.is_idle, timeout):
            raise TimeoutError("Countersign did not become idle")


def build(
    settings: Settings,
    clock: Clock,
    policy: Policy,
    tools: Iterable[Tool[Any]] = (),
    *,
    exclusive: bool = True,
    hosted: HostedApp | None = None,
) -> App:
    """Create all parts and return the app. `tools` are added to those the settings name.

    `hosted`: given by a process that serves several workspaces; this app then has no connection of
    its own, and does not ask Slack for the bot's ids.

    Raises SlackApiError when the bot token is not accepted, AlreadyRunningError, SchemaError,
    StartupError for a key or a policy that cannot be used, and ValueError for tools that cannot be
    registered.
    """
    mask_root_log_handlers()
    require_limited_database_roles(settings)
    alone = hosted is not None
    settings, clock = membership.adapt_settings_and_clock(settings, clock, hosted=alone)
    signals = Signals(tracer=build_tracer(settings, clock, hosted))
    posting, reading = build_slack_clients(settings, clock, signals.tracer, hosted)
    identity, scopes = (
        ask_slack_for_identity(reading) if hosted is None else (hosted.identity, hosted.scopes)
    )
    directory = SlackDirectory(reading, clock, signals, scopes, reading.list_granted)
    registry = build_tool_registry(settings, posting, directory, tools)
    current = CurrentPolicy(_fit_policy_to_tools(policy, registry))
    on_audit = signals.tracer.log_and_export_audit_lines
    store = open_store(settings, clock.now(), lambda: current.digest, on_audit, exclusive=exclusive)
    membership.advance_clock_past_stored_times(store, clock)
    store.set_failed_commit_handler(partial(signals.tracer.report_incident, Incident.UNSTORED))
    signals.tracer.attach_store(store)
    core = Core(
        settings=settings,
        store=store,
        clock=clock,
        policy=current,
        tools=registry,
        key=store.signing_key,
        identity=identity,
        authority=Authority(
            directory, identity.team, DelegateFinder(store, clock, identity.team).list_delegates
        ),
        directory=directory,
        signals=signals,
    )
    return _assemble_app(core, directory, posting, reading, hosted)


def build_slack_clients(
    settings: Settings, clock: Clock, tracer: Tracer, hosted: HostedApp | None
) -> tuple[SlackClient, SlackClient]:
    """Return the client that posts, and the client for calls that only read."""
    token, url = settings.slack_bot_token.get_secret_value(), settings.slack_api_url
    options: dict[str, Any] = {"base_url": url, "retry_handlers": [], "timeout": 15}
    posting = SlackClient(token, clock=clock, tracer=tracer, **options)
    reading = build_read_only_slack_client(token, url, tracer)
    posting.list_granted = reading.list_granted = hosted.list_granted_workspaces if hosted else None
    return posting, reading


def ask_slack_for_identity(reading: SlackClient) -> tuple[Identity, frozenset[str]]:
    """Return who the bot is in its workspace, and the scopes that it was granted."""
    me = reading.auth_test()
    return Identity.from_auth_test(me.get), frozenset(list_granted_scopes(me.headers) or ())


def _fit_policy_to_tools(policy: Policy, registry: Registry) -> Policy:
    try:
        policy = adapt_policy_to_tools(policy, registry)
    except PolicyError as error:
        raise StartupError((), error.problems) from None
    require_fitting_templates(policy, registry)
    return policy


def _assemble_app(
    core: Core,
    directory: SlackDirectory,
    posting: SlackClient,
    reading: SlackClient,
    hosted: HostedApp | None,
) -> App:
    """Build the parts that talk to Slack and the model around the core, and return the app."""
    settings, signals, portal = core.settings, core.signals, core.previews.portal
    naming = directory.with_timeout(NAME_LOOKUP_TIMEOUT_SECONDS)
    people = directory.with_timeout(SUBMIT_TIMEOUT_SECONDS)
    store, clock = core.store, core.clock
    tool_pool = ThreadPoolExecutor(settings.workers + SPARE_TOOL_THREADS, thread_name_prefix="tool")
    presence = SlackStatusSender(posting, SUGGESTED_PROMPTS if settings.shop_path else [], signals)
    home = _build_home_publisher(core, directory, posting)
    planner = LazyPlanner(lambda: create_planner(settings, signals))
    worker = core.build_worker(
        FileInsertingPlanner(planner, store, clock),
        core.build_executor(tool_pool, portal),
        _build_thread_reader(core, directory, reading),
        StreamedAnswerRegistry(store, naming, signals, posting, clock).get_or_create_answer,
        presence,
    )
    commands = build_command_handler(core, posting, people)
    shared = (settings, store, clock, signals)
    replicas = membership.create_replica_or_single_process(
        *shared, worker.advance_run, directory.update_cache_from_event, posting.pauses
    )
    bolt = build_bolt_app(core.identity, posting)
    home.register_listeners(bolt)
    listeners = build_listeners(core, bolt, commands, posting, people)
    return App(
        core=core,
        bolt=bolt,
        loop=_build_loop(core, directory, presence, home, commands, replicas),
        outbox=_build_outbox(core, posting, naming, replicas.channels),
        listeners=listeners,
        replicas=replicas,
        surfaces=core.build_surfaces(
            listeners.store_delivery, partial(add_names_to_mentions, naming)
        ),
        daily_purge=DailyPurge(store, clock, settings.keep_days),
        directory=directory,
        presence=presence,
        home=home,
        slack_clients=(posting, reading),
        planner=planner,
        tool_pool=tool_pool,
        endpoints=InboundConnections(core, bolt, reading, listeners, naming, hosted),
    )


def _build_home_publisher(
    core: Core, directory: SlackDirectory, posting: SlackClient
) -> HomeTabPublisher:
    """Return the object that draws people's Home tabs; it waits for look-ups in Slack."""
    views = core.copy_with_directory(
        directory.with_timeout(HOME_LOOKUP_TIMEOUT_SECONDS)
    ).build_person_view_factory()
    build_home_view = ReportingHomeBuilder(views, directory).build_home_view
    return HomeTabPublisher(posting, build_home_view, core.signals, core.identity.team)


def _build_thread_reader(
    core: Core, directory: SlackDirectory, reading: SlackClient
) -> SlackThreadReader:
    """Return the reader of a run's Slack thread and of the files in it."""
    me, files, stopping = core.identity.user, core.settings.attached_files, core.signals.stopping
    known = (core.store, core.clock, directory, me, reading)
    return SlackThreadReader(*known, files=files, stopping=stopping)


def _build_loop(
    core: Core,
    directory: SlackDirectory,
    presence: SlackStatusSender,
    home: HomeTabPublisher,
    commands: SlashCommandHandler,
    replicas: ReplicaMembership | membership.SingleProcess,
) -> MainLoop:
    """Return the main loop, which decides without waiting for look-ups in Slack."""
    deciding, me = core.copy_with_directory(directory.with_timeout(0)), core.identity.user
    intake = deciding.build_intake(
        directory.update_cache_from_event,
        presence.show_suggested_prompts,
        presence.show_done,
        home.schedule_publishing,
        commands.answer_if_text_is_subcommand,
    )
    return deciding.build_loop(
        intake,
        replicas.workers,
        lambda arrived: start_click_lookups(directory, core.policy.policy, me, arrived),
        presence.show_done,
        replicas,
    )


def _build_outbox(
    core: Core, posting: SlackClient, naming: Directory, channels: ChannelOwnership
) -> Outbox:
    """Return the outbox for the `channels` this process sends to; `naming` looks names up."""
    store, clock = core.store, core.clock
    links = core.build_signing_links()
    renderer = MessageRenderer(store, clock, core.tools, naming, core.viewers, links)
    search = UnconfirmedPostSearch(store, clock, core.identity.user, posting)
    return Outbox(
        store,
        clock,
        core.signals,
        renderer,
        OutboxSlackCalls(store, posting, core.identity.team),
        search,
        channels,
    )


# The tracer, with the exporters that the settings name.


def build_tracer(settings: Settings, clock: Clock, hosted: HostedApp | None = None) -> Tracer:
    """Return the tracer; raise StartupError if an exporter that is wanted is not installed."""
    counts = settings.http is not None or settings.transport is Transport.HTTP
    try:
        made = create_exporters(clock.now, counts=counts and not hosted, traces=settings.traces)
    except MissingExtraError as error:
        raise StartupError([f"COUNTERSIGN_TRACES: {error}"], ()) from None
    if hosted is None:
        return Tracer(made, clock.now)
    return Tracer((*made, *hosted.exporters), clock.now, hosted.identity.team)


# The edge to Slack: its listeners, and the answers to questions about approvals.


def build_command_handler(
    core: Core, posting: SlackClient, people: Directory
) -> SlashCommandHandler:
    """Return the handler of slash commands and typed questions about approvals."""
    limits = UsageLimits(core.settings, core.clock)
    grounds = ExplanationSources(core.build_policy_fact_sources(), core.authority, limits)
    forms = request_dialogs.RequestDialogFamily(
        core.store, core.copy_with_directory(people).forms()
    )
    dialog_opener = request_dialogs.RequestDialogOpener(forms, posting, core.identity.team)
    modes = ChannelModeSwitcher(
        core.store, core.clock, core.policy, core.authority, core.signals.outbox
    )
    answerer = SlashCommandServices(
        grounds,
        core.build_grant_manager(),
        core.tools,
        dialog_opener,
        modes,
        core.build_person_view_factory(),
    )
    return SlashCommandHandler(answerer, posting, core.identity.team)


def build_listeners(
    core: Core, bolt: BoltApp, commands: SlashCommandHandler, client: WebClient, people: Directory
) -> SlackListeners:
    """Register the listeners on the Bolt app; `people` looks people up for dialogs."""
    store, clock, signals, team = core.store, core.clock, core.signals, core.identity.team
    asking = core.copy_with_directory(people)
    may, edits = asking.build_permission_checker(), asking.build_edit_handler()
    delegations = asking.build_person_view_factory().build_delegation_manager()
    answers = request_dialogs.AnswerDialogFamily(
        AnswerHandler(store, asking.authority), clock, people
    )
    access = DialogAccessChecker(store, clock, may)
    hand_overs = HandOverHandler(DeliverySettler(store), core.tools, asking.authority, may)
    families = (
        CallDialogFamily(store, clock, core.tools, people, may, edits, access, hand_overs),
        request_dialogs.RequestDialogFamily(asking.store, asking.forms()),
        answers,
        request_dialogs.DelegationDialogFamily(delegations),
        PasskeyDialogFamily(asking.build_passkey_manager()),
    )
    return SlackListeners(
        store,
        clock,
        team,
        signals,
        bot_user=core.identity.user,
        app=bolt,
        client=client,
        dialogs=DialogHandler(store, signals.outbox, access, families, core.viewers, clock),
        commands=commands,
        may_act=asking.authority.may_act_from_workspace,
    )
