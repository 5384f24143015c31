"""Serves many workspaces in one process, with one connection to Slack and one HTTP server.

Each workspace has an app of its own (`bot.workspaces.hosted`) on a record of its own, so that
nothing of one can be read in another.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from slack_sdk import WebClient
from sqlalchemy.exc import DBAPIError
from starlette.responses import PlainTextResponse

from bot.clock import Clock, ForwardOnlyClock, get_machine_time
from bot.config.connection_settings import DEFAULT_ADDRESS, Transport, parse_page_address
from bot.config.settings import Settings
from bot.config.startup import StartupError, read_settings_and_policy
from bot.config.workspace_settings import get_schema_name
from bot.http.http_side import RenderPage, build_web_app, render_findings, render_metrics
from bot.http.server import WebServer
from bot.http.slack_endpoint import ServedElsewhereError, SignatureChecker, SlackEndpoint
from bot.identity import HostedApp, Identity
from bot.monitoring.exporters import METRICS_EXTRA, is_extra_installed
from bot.monitoring.health_checks import OK
from bot.monitoring.logs import mask_root_log_handlers
from bot.monitoring.spans import Exporter
from bot.signals import UnacknowledgedDeliveries, wait_for_end
from bot.slack.socket import SocketModeConnection, open_sole_slack_connection
from bot.slack.socket_client import ACKNOWLEDGE_TIMEOUT_SECONDS
from bot.slack_codes import TOKEN_ERROR_CODES
from bot.tools import Tool
from bot.workspaces import removals
from bot.workspaces.dispatcher import WorkspaceDispatcher
from bot.workspaces.hosted import (
    QUIET_TIMEOUT_SECONDS,
    HostedWorkspace,
    NotInstalledError,
    NotServedError,
    StoppingError,
)
from bot.workspaces.install_pages import InstallPages
from bot.workspaces.oauth_client import OAuthClient, OAuthError
from bot.workspaces.rotation import TokenRotation
from bot.workspaces.tokens import TokenKeyError, open_installation_record, open_token_cipher
from bot.workspaces.web import WorkspacePaths
from storage.backend import drop_schema
from storage.database_errors import error_text
from storage.installations import MAX_SLEEP, Installation, InstallationRecord
from storage.record import new_id
from storage.states import InstallationState
from storage.workspace_owners import WorkspaceOwners

if TYPE_CHECKING:
    from bot.app import App
    from bot.workspaces.metrics import WorkspacesMetrics

log = logging.getLogger("countersign.workspaces")
NO_PEER_ADDRESS_ERROR = (
    "COUNTERSIGN_HTTP: give an address at which other processes reach this one: 10.0.0.7:8080"
)
HEARTBEAT_INTERVAL_SECONDS = 1.0  # if several processes share the workspaces
# between checks for expiring tokens and for what commands have changed
CHECK_INTERVAL_SECONDS = 15.0
START_LEAD_TIME = timedelta(seconds=1)


def create_metrics(now: Callable[[], datetime]) -> WorkspacesMetrics | None:
    """Return the metrics of all workspaces; None if the extra for metrics is not installed."""
    if not is_extra_installed(METRICS_EXTRA):
        return None
    from bot.workspaces.metrics import WorkspacesMetrics

    return WorkspacesMetrics(now)


def create_owners(
    settings: Settings, record: InstallationRecord, process: str, url: str
) -> WorkspaceOwners | None:
    """Return the object by which processes claim workspaces; None if file locks do that.

    Raises StartupError if other processes could not reach this one at its address.
    """
    if not settings.is_shared:
        return None
    forwards = settings.transport is Transport.HTTP
    if forwards and urlsplit(url).hostname in ("0.0.0.0", "::"):  # noqa: S104  # it is refused
        raise StartupError([NO_PEER_ADDRESS_ERROR], ())
    return WorkspaceOwners(record, process, url)


class WorkspaceHost:
    """The process that serves many workspaces. Call `start` once, then `stop` once."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        build: Callable[..., App],
        environ: Mapping[str, str],
        dotenv_path: Path | None = None,
        tools: Iterable[Tool[Any]] = (),
        *,
        quiet: float = QUIET_TIMEOUT_SECONDS,
    ) -> None:
        """`build` makes a workspace's app (`bot.app.build`).

        `environ` and the .env file: what each workspace's settings are read from. `quiet`: seconds
        after which the app of a workspace with nothing to do is stopped. Raises StartupError,
        SchemaError and what the database raises.
        """
        mask_root_log_handlers()
        self.settings, self._clock, self._tools = settings, ForwardOnlyClock(clock), tuple(tools)
        self._build = build
        self._environ, self._dotenv_path, self._quiet = dict(environ), dotenv_path, quiet
        self.record = open_installation_record(settings)
        self._cipher = open_token_cipher(settings, self.record)
        self._lock = threading.Lock()
        self._hosted: dict[str, HostedWorkspace] = {}
        self._stopping, self._ended, self._check_now = (threading.Event() for _ in range(3))
        client = WebClient(base_url=settings.slack_api_url, retry_handlers=[], timeout=15)
        self.dispatcher = WorkspaceDispatcher(
            self.record, self.use_app, self._handle_lifecycle_event, client
        )
        secret = settings.client_secret
        self.oauth = OAuthClient(str(settings.client_id), secret, settings.slack_api_url)
        self._rotation = TokenRotation(
            self.record, self._cipher, self.oauth, self._clock, self._replace_token
        )
        self._arrivals = UnacknowledgedDeliveries()
        self._metrics = create_metrics(self._clock.now)
        self._endpoint: SlackEndpoint | None = None
        if settings.transport is Transport.HTTP:
            signatures = SignatureChecker(settings.slack_signing_secret.get_secret_value(), clock)
            self._endpoint = SlackEndpoint(self.dispatcher, signatures, self._arrivals)
        self._web = self._build_web_app()
        self.server = WebServer.create_listening_server(settings.http or DEFAULT_ADDRESS)
        self._process = new_id()
        self._owners = create_owners(settings, self.record, self._process, self.server.url)
        self._socket: SocketModeConnection | None = None
        self._thread = threading.Thread(target=self._run, name="workspaces", daemon=True)
        self._heartbeats = threading.Thread(
            target=self._send_heartbeats, name="heartbeats", daemon=True
        )

    def start(self) -> None:
        """Begin to serve; raises StartupError if Slack or the address cannot be used as set."""
        # only a clock that can be moved has this
        getattr(self._clock, "on_shift", []).append(self._check_now.set)
        active = self._follow_record()
        self.server.start(self._web)
        if self.settings.transport is Transport.SOCKET:
            self._socket = open_sole_slack_connection(
                self.dispatcher, self.settings, self._arrivals, self._stopping
            )
        self._thread.start()
        if self._owners is not None:
            self._heartbeats.start()
        log.info("Countersign is at work for %d workspaces", active)

    def start_inspection(self) -> None:
        """Do nothing: `countersign workspaces doctor` inspects a workspace's setup on demand."""

    def wait(self) -> None:
        """Block until `stop` or an interrupt; raise DBAPIError once a record may be too old."""
        wait_for_end(self._stopping, self._require_able_to_work)

    def _require_able_to_work(self) -> None:
        for each in self.list_hosted():
            each.require_able_to_work()

    def stop(self) -> None:
        """Refuse new input, let running work finish its current step, and close everything."""
        self._stopping.set()
        self._check_now.set()
        if self._endpoint is not None:
            self._endpoint.close()  # Slack sends its requests elsewhere, or again
            self._arrivals.wait_until_acknowledged(ACKNOWLEDGE_TIMEOUT_SECONDS)
        if self._socket is not None:
            self._socket.close()
        if self._thread.is_alive():
            self._thread.join()
        # also those that are just starting
        enders = [threading.Thread(target=each.stop) for each in self.list_hosted()]
        for each in enders:
            each.start()
        for each in enders:
            each.join()
        self._ended.set()
        if self._heartbeats.is_alive():
            self._heartbeats.join()
        self.server.close()
        self.record.close()

    @contextmanager
    def use_app(self, workspace: str) -> Iterator[App]:
        """Yield a workspace's app, starting it if need be; raises NotServedError."""
        if self._stopping.is_set():
            raise StoppingError("this process is stopping")
        with self._get_hosted(self._get_installation(workspace).workspace).use_app() as app:
            yield app

    def _build_web_app(self) -> WorkspacePaths:
        """Return the app for all requests to this process; raises StartupError."""
        try:
            address = parse_page_address(str(self.settings.url))
        except ValueError as error:
            raise StartupError([f"COUNTERSIGN_URL: {error}"], ()) from None
        parts = (self.record, self._cipher, self.oauth, self._clock)
        install_routes = InstallPages(*parts, address, self._handle_installation).list_routes()
        rest = build_web_app(self._get_pages(), self._endpoint, signing=install_routes)
        return WorkspacePaths(rest, self.use_app)

    def _get_pages(self) -> dict[str, RenderPage]:
        counts = self._metrics.all if self._metrics else Exporter()
        return {
            "/healthz": lambda: render_findings("alive", self._check_health()),
            "/readyz": self._render_readiness_page,
            "/metrics": lambda: render_metrics(counts.render_metrics_page()),
        }

    def _check_health(self) -> dict[str, str]:
        """Return OK or what is wrong, for each thing that this process needs to serve."""
        try:
            self.record.list()
        except Exception as error:  # noqa: BLE001  # whatever it is
            record = f"cannot be read: {error_text(error)}"
        else:
            record = OK
        loop = OK if self._thread.is_alive() else "has not started, or has ended"
        return {"loop": loop, "record of installations": record}

    def _render_readiness_page(self) -> PlainTextResponse:
        stopping = {"process": "is stopping"} if self._stopping.is_set() else None
        return render_findings("ready", stopping or self._check_health())

    def list_hosted(self) -> list[HostedWorkspace]:
        """Return the workspaces that this process knows of, by id."""
        with self._lock:
            return sorted(self._hosted.values(), key=lambda each: each.workspace)

    def _get_installation(self, workspace: str) -> Installation:
        """Return the installation with that id; raises NotServedError if it is not active."""
        found = self.record.get(workspace)
        if found is None or found.state is InstallationState.REMOVED:
            raise NotInstalledError("the bot is not installed there")
        if found.state is InstallationState.PAUSED:
            raise NotServedError("the bot is paused there")
        return found

    def _get_hosted(self, workspace: str) -> HostedWorkspace:
        with self._lock:
            if workspace not in self._hosted:
                self._hosted[workspace] = HostedWorkspace(
                    workspace, self._clock, self._claim_and_start_app, self._note_stop
                )
            return self._hosted[workspace]

    def _claim_and_start_app(self, workspace: str) -> App:
        """Claim a workspace for this process, and build and start its app.

        Raises ServedElsewhereError, and what `_start_app` raises.
        """
        if self._stopping.is_set():
            raise StoppingError("this process is stopping")
        if self._owners is not None and (url := self._owners.claim(workspace)):
            if self.settings.transport is Transport.SOCKET:  # its deliveries are not forwarded
                raise NotServedError("another process serves it")
            raise ServedElsewhereError(url)
        try:
            return self._start_app(workspace)
        except BaseException:
            if self._owners is not None:
                self._owners.release(workspace, timedelta(seconds=CHECK_INTERVAL_SECONDS))
            raise

    def _start_app(self, workspace: str) -> App:
        """Build and start a workspace's app; raises NotServedError, StartupError and others."""
        installation = self._get_installation(workspace)
        token = self._cipher.open(installation).bot.get_secret_value()
        own_environment = {"COUNTERSIGN_WORKSPACE": workspace, "SLACK_BOT_TOKEN": token}
        if not self.settings.is_shared:  # with a shared database, nothing is written there
            (self.settings.workspaces / workspace).mkdir(parents=True, exist_ok=True)
        settings, policy = read_settings_and_policy(
            self._environ | own_environment, self._dotenv_path, self.settings.transport
        )
        if self._owners is not None:  # it may write only while it holds the workspace
            mine = f"&workspace={workspace}&process={self._process}"
            settings = settings.model_copy(update={"database_url": settings.database_url + mine})
        hosted = HostedApp(
            Identity(workspace, installation.bot_user, installation.bot_id, installation.url),
            frozenset(installation.scopes.split(",")),
            f"{self.server.url}/w/{workspace}",
            (self._metrics.build_exporter(workspace),) if self._metrics else (),
            partial(self.record.list_granted_workspaces, workspace)
            if installation.is_org_wide
            else None,
        )
        if installation.due_at is not None:  # before the start, as from then on it may have work
            self.record.set_due(workspace, None)
        app = self._build(settings, self._clock, policy, self._tools, hosted=hosted)
        try:
            app.start()
        except BaseException:
            app.stop()
            raise
        entry = self._get_hosted(workspace)
        entry.token_revision, entry.scopes = installation.token_revision, installation.scopes
        return app

    def _note_stop(self, workspace: str, due_at: datetime | None) -> None:
        """Note when a stopped app has to run again, and let other processes take its workspace."""
        if self._owners is not None:
            self._owners.release(workspace, due_at - self._clock.now() if due_at else None)
        elif due_at is not None:
            self.record.set_due(workspace, due_at)

    def _replace_token(self, row: Installation) -> None:
        """Have the app that is running in a workspace use the token of this row."""
        token = self._cipher.open(row).bot.get_secret_value()
        self._get_hosted(row.workspace).replace_token(token, row.token_revision)

    def _handle_installation(self, installation: Installation) -> None:
        """Take in that the bot was installed, or installed again, in a workspace."""
        self._get_hosted(installation.workspace).forget_problem()
        if installation.is_org_wide:
            self._end_replaced_installations(installation.workspace)
        if installation.state is InstallationState.ACTIVE:
            self._replace_token(installation)
        self._check_now.set()

    def _end_replaced_installations(self, enterprise: str) -> None:
        """Remove single workspaces' installations that an organisation-wide one has replaced.

        Their tokens are void.
        """
        for each in self.record.list_granted_workspaces(enterprise):
            row = self.record.get(each)
            if row is None or row.state is InstallationState.REMOVED:
                continue
            if self._is_token_void(row):
                log.error(
                    "%s: its own token is no longer valid, %s serves it now", each, enterprise
                )
                self.record.set_state(each, InstallationState.REMOVED, self._clock.now())

    def _is_token_void(self, row: Installation) -> bool:
        """Return whether Slack refuses an installation's token; False if that is not known."""
        try:
            self.oauth.find_bot_id_and_url(self._cipher.open(row).bot)
        except TokenKeyError as error:
            log.error("workspace %s: %s", row.workspace, error)
        except OAuthError as error:
            return error.code in TOKEN_ERROR_CODES
        return False

    def _handle_lifecycle_event(self, payload: dict[str, Any]) -> None:
        """Take in that an installation ended, or which workspaces one of an organisation serves."""
        now = get_machine_time(self._clock)
        changed = removals.apply_installation_event(self.record, payload, now, self._is_token_void)
        row = changed and self.record.get(changed)
        if row and removals.is_late_access_event(payload, now):
            with suppress(TokenKeyError):  # then the event's content counts; the log says why
                token = self._cipher.open(row).bot
                removals.follow_granted_workspaces(self.record, self.oauth, row.workspace, token)
        if changed is not None and payload["event"]["type"] == "team_access_granted":
            self._end_replaced_installations(changed)
        self._check_now.set()

    def _send_heartbeats(self) -> None:
        """Store heartbeats until `stop`; stop the apps of workspaces that others have taken."""
        assert self._owners is not None
        while not self._ended.wait(HEARTBEAT_INTERVAL_SECONDS):
            awake = [each for each in self.list_hosted() if each.is_awake]
            try:
                owned = self._owners.extend()
            except DBAPIError:
                log.warning("no sign of life", exc_info=True)
                continue
            for each in awake:
                if each.workspace not in owned and each.is_awake:
                    log.warning("another process serves %s now", each.workspace)
                    # on another thread: stopping may take longer than claims on the others last
                    threading.Thread(target=each.stop, daemon=True).start()

    def _run(self) -> None:
        """Start apps that are due, stop quiet ones, renew tokens, until `stop`; a thread's body."""
        followed_at, is_asked = 0.0, True
        while not self._stopping.is_set():
            self._check_now.clear()
            try:
                late = time.monotonic() - followed_at >= CHECK_INTERVAL_SECONDS
                if is_asked or late or self._owners is None:
                    self._follow_record()
                    self._rotation.renew_due_tokens()
                    removals.empty_removed_workspaces(
                        self.record,
                        self._clock.now(),
                        self.settings.keep_removed_days,
                        partial(delete_workspace_data, self.settings),
                    )
                    followed_at = time.monotonic()
                self._stop_quiet()
                self._start_due()
            except Exception:
                log.exception("the workspaces could not be checked; trying again soon")
            is_asked = self._check_now.wait(self._compute_pause())

    def _follow_record(self) -> int:
        """Take in changes of the installations on record; return how many of them are active.

        Stops the apps of paused or removed installations, and notes when stopped apps have to run
        again.
        """
        active, now = 0, self._clock.now()
        for row in self.record.list():
            hosted = self._get_hosted(row.workspace)
            if row.state is not InstallationState.ACTIVE:
                hosted.stop()
                hosted.due_at = None
                if self._metrics is not None:
                    self._metrics.forget_workspace(row.workspace)
                continue
            active += 1
            if not hosted.is_awake:
                # if no time is stored, it was awake when the last process ended
                known = row.due_at and row.due_at <= now + MAX_SLEEP
                hosted.due_at = row.due_at if known else now
            elif hosted.scopes != row.scopes:  # an app keeps the scopes that it was started with
                hosted.stop()
                hosted.due_at = now
            elif hosted.token_revision != row.token_revision:
                try:
                    self._replace_token(row)
                except TokenKeyError as error:
                    log.error("workspace %s: %s", row.workspace, error)
        return active

    def _compute_pause(self) -> float:
        """Return the seconds to wait before looking again which apps are to be started."""
        if self._owners is not None:  # what another process releases may be due at any time
            return HEARTBEAT_INTERVAL_SECONDS
        moments = [each.starts_at for each in self.list_hosted()]
        now = self._clock.now()
        waits = [(each - now).total_seconds() for each in moments if each is not None]
        return max(0.05, min([CHECK_INTERVAL_SECONDS, *waits]))

    def _stop_quiet(self) -> None:
        for each in self.list_hosted():
            if each.is_awake and not self._stopping.is_set():
                each.stop_if_quiet(self._quiet)

    def _list_due(self) -> list[HostedWorkspace]:
        """Return the workspaces whose apps have to be started here now."""
        asleep = [each for each in self.list_hosted() if not each.is_awake]
        if self._owners is not None:
            free = self._owners.list_free_and_due()
            known = {each.workspace: each for each in asleep}
            return [known[each] for each in free if each in known]
        soon = self._clock.now() + START_LEAD_TIME
        return [each for each in asleep if each.starts_at is not None and each.starts_at <= soon]

    def _start_due(self) -> None:
        """Start the apps that are due; of several processes each takes what is still free."""
        for each in self._list_due():
            with suppress(NotServedError, ServedElsewhereError), each.use_app():
                pass


def delete_workspace_data(settings: Settings, workspace: str) -> None:
    """Delete all that is kept of a workspace: its folder, and its schema on a server.

    Raises OSError and the database's errors; does nothing if they are gone already.
    """
    if settings.is_shared:
        drop_schema(settings.database_url, get_schema_name(workspace))
    folder = settings.workspaces / workspace
    if folder.exists():
        # with a server, it holds only settings, and may be on a read-only file system
        shutil.rmtree(folder, ignore_errors=settings.is_shared)
