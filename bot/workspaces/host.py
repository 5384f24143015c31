"""Serves many workspaces in one process, with one connection to Slack and one HTTP server.

Each workspace has an app of its own (`bot.workspaces.hosted`) on a record of its own, so that
nothing of one can be read in another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from slack_sdk import WebClient
from sqlalchemy.exc import DBAPIError

from bot.clock import Clock
from bot.config.connection_settings import DEFAULT_ADDRESS, Transport, parse_page_address
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.http.http_side import build_web_app
from bot.http.server import WebServer
from bot.http.slack_endpoint import ServedElsewhereError, SignatureChecker, SlackEndpoint
from bot.monitoring.logs import mask_root_log_handlers
from bot.replicas.shared_clock import DatabaseClock, open_installations_clock
from bot.signals import UnacknowledgedDeliveries, wait_for_end
from bot.slack.socket import SocketModeConnection, open_sole_slack_connection
from bot.slack.socket_client import ACKNOWLEDGE_TIMEOUT_SECONDS
from bot.workspaces.dispatcher import WorkspaceDispatcher
from bot.workspaces.hosted import (
    QUIET_TIMEOUT_SECONDS,
    AppSource,
    AppStarter,
    HostedWorkspace,
    NotInstalledError,
    NotServedError,
    StoppingError,
)
from bot.workspaces.install_pages import InstallPages
from bot.workspaces.oauth_client import OAuthClient, TokenRotation
from bot.workspaces.removals import (
    InstallationChanges,
    delete_workspace_data,
    empty_removed_workspaces,
)
from bot.workspaces.tokens import TokenKeyError, open_installation_record, open_token_cipher
from bot.workspaces.web import ProcessPages, WorkspacePaths, create_metrics
from storage.installations import MAX_SLEEP, Installation, InstallationRecord
from storage.states import InstallationState
from storage.workspace_owners import WorkspaceOwners

if TYPE_CHECKING:
    from bot.app import App

log = logging.getLogger("countersign.workspaces")
NO_PEER_ADDRESS_ERROR = (
    "COUNTERSIGN_HTTP: give an address at which other processes reach this one: 10.0.0.7:8080"
)
HEARTBEAT_INTERVAL_SECONDS = 1.0  # if several processes share the workspaces
# between checks for expiring tokens and for what commands have changed
CHECK_INTERVAL_SECONDS = 15.0
START_LEAD_TIME = timedelta(seconds=1)


def create_owners(
    settings: Settings, record: InstallationRecord, url: str
) -> WorkspaceOwners | None:
    """Return the object by which processes claim workspaces; None if file locks do that.

    Raises StartupError if other processes could not reach this one at its address.
    """
    if not settings.is_shared:
        return None
    forwards = settings.transport is Transport.HTTP
    if forwards and urlsplit(url).hostname in ("0.0.0.0", "::"):  # noqa: S104  # it is refused
        raise StartupError([NO_PEER_ADDRESS_ERROR], ())
    return WorkspaceOwners(record, url)


class WorkspaceHost:
    """The process that serves many workspaces. Call `start` once, then `stop` once."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        source: AppSource,
        quiet: float = QUIET_TIMEOUT_SECONDS,
    ) -> None:
        """`source`: what each workspace's app is built from.

        `quiet`: seconds after which the app of a workspace with nothing to do is stopped. Raises
        StartupError, SchemaError and what the database raises.
        """
        mask_root_log_handlers()
        self.settings, self._quiet = settings, quiet
        self.record = open_installation_record(settings)
        self._clock = clock = open_installations_clock(self.record, clock)
        self._cipher = open_token_cipher(settings, self.record)
        self._lock = threading.Lock()
        self._hosted: dict[str, HostedWorkspace] = {}
        self._stopping, self._ended, self._check_now = (threading.Event() for _ in range(3))
        client = WebClient(base_url=settings.slack_api_url, retry_handlers=[], timeout=15)
        handle_event = self._handle_lifecycle_event
        self.dispatcher = WorkspaceDispatcher(self.record, self.use_app, handle_event, client)
        secret = settings.client_secret
        self.oauth = OAuthClient(str(settings.client_id), secret, settings.slack_api_url)
        parts = (self.record, self._cipher, self.oauth, self._clock)
        self._changes = InstallationChanges(*parts)
        self._rotation = TokenRotation(*parts, self._replace_token)
        self._arrivals = UnacknowledgedDeliveries()
        self._metrics = create_metrics(self._clock.now)
        given = (source, settings, self._clock, self.record, self._cipher)
        self._starter = AppStarter(*given, self._metrics)
        self._endpoint: SlackEndpoint | None = None
        if settings.transport is Transport.HTTP:
            signatures = SignatureChecker(settings.slack_signing_secret.get_secret_value(), clock)
            self._endpoint = SlackEndpoint(self.dispatcher, signatures, self._arrivals)
        self._thread = threading.Thread(target=self._run, name="workspaces", daemon=True)
        self._web = self._build_web_app()
        self.server = WebServer.create_listening_server(settings.http or DEFAULT_ADDRESS)
        self._owners = create_owners(settings, self.record, self.server.url)
        self._socket: SocketModeConnection | None = None
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
        pages = ProcessPages(self.record, self._thread, self._stopping, self._metrics)
        rest = build_web_app(pages.get_pages(), self._endpoint, signing=install_routes)
        return WorkspacePaths(rest, self.use_app)

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
        claimant = self._owners.process if self._owners is not None else None
        url = f"{self.server.url}/w/{workspace}"
        app = self._starter.start_app(installation, url, claimant)
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
            self._changes.end_replaced_installations(installation.workspace)
        if installation.state is InstallationState.ACTIVE:
            self._replace_token(installation)
        self._check_now.set()

    def _handle_lifecycle_event(self, payload: dict[str, Any]) -> None:
        """Take in that an installation ended, or which workspaces one of an organisation serves."""
        self._changes.handle_event(payload)
        self._check_now.set()

    def _send_heartbeats(self) -> None:
        """Store heartbeats until `stop`; stop the apps of workspaces that others have taken."""
        assert self._owners is not None
        while not self._ended.wait(HEARTBEAT_INTERVAL_SECONDS):
            awake = [each for each in self.list_hosted() if each.is_awake]
            try:
                if isinstance(self._clock, DatabaseClock):
                    self._clock.synchronize_with_database(self.record)
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
                    empty_removed_workspaces(
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
