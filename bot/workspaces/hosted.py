"""One workspace among several in a process: its app, which is built when it is needed.

While a workspace has nothing to do, its app is stopped, and only this entry of it is in memory.
What is waiting, and until when, is in the workspace's record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.clock import Clock
from bot.config.settings import Settings
from bot.config.startup import read_settings_and_policy
from bot.http.slack_endpoint import ServedElsewhereError
from bot.identity import HostedApp, Identity
from bot.monitoring.spans import work_for_workspace
from bot.start_errors import describe_start_error
from bot.tools import Tool
from bot.workspaces.tokens import TokenCipher, TokenKeyError
from storage import delegations, programs, schedule, webhooks
from storage.installations import MAX_SLEEP, Installation, InstallationRecord
from storage.states import RunStatus
from storage.transaction import StoreClosedError

if TYPE_CHECKING:
    from bot.app import App
    from bot.workspaces.metrics import WorkspacesMetrics

log = logging.getLogger("countersign.workspaces")
QUIET_TIMEOUT_SECONDS = 300.0  # after this, an app without work is stopped
LOCK_TIMEOUT_SECONDS = 1.5  # while an app is being started or stopped; Slack waits three
START_RETRY_INTERVAL = timedelta(seconds=15)  # between attempts to start an app


class NotServedError(Exception):
    """Raised for a workspace that this process does not serve at the moment; says why."""


class NotSettledError(NotServedError):
    """Raised while a workspace's app starts or stops; soon it is known which process serves it."""


class StoppingError(NotServedError):
    """Raised while this process stops: another one may serve the workspace."""


class NotInstalledError(NotServedError):
    """Raised for a workspace in which the bot is not installed."""


@dataclass(eq=False)
class HostedWorkspace:
    """A workspace and, while it runs, its app. Any thread."""

    workspace: str
    _clock: Clock  # never goes back
    # makes and starts the workspace's app; raises StartupError and what the database raises
    _build: Callable[[str], App]
    # called once the workspace's app has stopped, before it is started again, with the time when it
    # has to run again (None: at once)
    _on_stopped: Callable[[str, datetime | None], None]
    token_revision: int = 0  # revision of the token that the app uses
    scopes: str = ""  # scopes that the app was started with
    due_at: datetime | None = None  # while it is asleep: when it has to be awake

    def __post_init__(self) -> None:
        self._start_lock = threading.Lock()  # held while the app is started or stopped
        self._unused = threading.Condition()
        self._app: App | None = None
        self._user_count = 0
        self._used_at = time.monotonic()
        self._problem = ""  # why the app could not be started
        self._retry_at: datetime | None = None  # when to try again; None if it did not fail

    @property
    def is_awake(self) -> bool:
        """Return whether its app is running."""
        return self._app is not None

    def require_able_to_work(self) -> None:
        """Raise what keeps its app, if it is running, from working until the next start."""
        if app := self._app:
            app.require_able_to_work()

    @property
    def starts_at(self) -> datetime | None:
        """Return when the app is to be started; None if it is running, or no time is set."""
        if self.is_awake or self.due_at is None:
            return None
        return max(self.due_at, self._get_retry_time() or self.due_at)

    def _get_retry_time(self) -> datetime | None:
        """Return the time before which a failed start is not tried again; None if it may be now."""
        return self._retry_at if self._retry_at and self._retry_at > self._clock.now() else None

    @contextmanager
    def use_app(self) -> Iterator[App]:
        """Yield the app, started if it was not; it is not stopped before the block ends.

        Raises NotServedError if it cannot be started, or not soon, and ServedElsewhereError.
        """
        if not self._start_lock.acquire(timeout=LOCK_TIMEOUT_SECONDS):
            raise NotSettledError("its app is being started or stopped")
        try:
            app = self._app or self._start_app()
            with self._unused:
                self._user_count += 1
        finally:
            self._start_lock.release()
        try:
            yield app
        finally:
            with self._unused:
                self._user_count -= 1
                self._used_at = time.monotonic()
                self._unused.notify_all()

    def _start_app(self) -> App:
        if self._get_retry_time():
            raise NotServedError(self._problem)
        try:
            with work_for_workspace(self.workspace):
                self._app = self._build(self.workspace)
        except (NotServedError, ServedElsewhereError):
            raise
        except StoreClosedError as error:  # this process stalled, and another took the workspace
            raise NotSettledError(str(error)) from None
        except TokenKeyError as error:
            problem = str(error)
        except Exception as error:  # one workspace's failure must not affect the others
            if (start_error := describe_start_error(error)) is None:
                log.exception("the workspace %s could not be started", self.workspace)
            problem = start_error or type(error).__name__
        else:
            self._problem, self._retry_at, self.due_at = "", None, None
            self._used_at = time.monotonic()
            return self._app
        if problem != self._problem:
            log.error("the workspace %s cannot be served: %s", self.workspace, problem)
        self._problem, self._retry_at = problem, self._clock.now() + START_RETRY_INTERVAL
        raise NotServedError(problem)

    def forget_problem(self) -> None:
        """Forget why the app could not be started: the next use tries again at once."""
        with self._start_lock:
            self._problem, self._retry_at = "", None

    def replace_token(self, token: str, revision: int) -> None:
        """Have the app use this token from now on, if it is running or just being started."""
        with self._start_lock:
            if self._app is not None:
                self._app.replace_bot_token(token)
                self.token_revision = revision

    def stop_if_quiet(self, quiet: float) -> None:
        """Stop the app if it was not used, and will have nothing to do, for `quiet` seconds."""
        with self._start_lock:
            app = self._app
            if app is None or self._user_count or time.monotonic() - self._used_at < quiet:
                return
            now = app.core.clock.now()  # the app's clock may be ahead of the host's
            due_at = find_next_due_time(app, now)
            if due_at is None or (due_at - now).total_seconds() < quiet:
                return
            self._stop_app(self._clock.now() + (due_at - now))
        log.info("the workspace %s sleeps until %s", self.workspace, due_at.isoformat())

    def stop(self, grace: float = 5.0) -> None:
        """Stop the app once nobody uses it, or after `grace` seconds; no new user gets it."""
        with self._start_lock:
            with self._unused:
                self._unused.wait_for(lambda: not self._user_count, grace)
            self._stop_app(None)

    def _stop_app(self, due_at: datetime | None) -> None:
        app, self._app = self._app, None
        if app is None:
            return
        try:
            with work_for_workspace(self.workspace):
                app.stop()
        finally:
            self.due_at = due_at
            self._on_stopped(self.workspace, due_at)


def find_next_due_time(app: App, now: datetime) -> datetime | None:
    """Return when a quiet app next has something to do, within a day; None if it has now."""
    if app.core.settings.operator is not None or not app.is_idle():
        return None  # the operator's terminal uses a socket that exists only while the app runs
    with app.core.store.read() as tx:
        backlog, team = schedule.count_backlog(tx), app.core.identity.team
        if delegations.list_delegations_awaiting_call_list(tx, team, now):
            return None
        if backlog.unsent or backlog.unread or set(backlog.runs) - {RunStatus.WAITING}:
            return None
        moments = (
            schedule.find_next_deadline(tx),
            schedule.find_next_notification_time(tx),
            programs.find_next_claim_lapse(tx),
            webhooks.find_next_webhook_time(tx),
        )
    return min(each for each in (*moments, now + MAX_SLEEP) if each is not None)


@dataclass(frozen=True)
class AppSource:
    """What the apps of workspaces are built from."""

    build: Callable[..., App]  # `bot.app.build`
    environ: Mapping[str, str]  # this and the .env file: what each workspace's settings come from
    dotenv_path: Path | None = None
    tools: Iterable[Tool[Any]] = ()


@dataclass(frozen=True)
class AppStarter:
    """Starts workspaces' apps; each has a record and settings of its own. Any thread."""

    _source: AppSource
    _settings: Settings  # of the process
    _clock: Clock
    _record: InstallationRecord
    _cipher: TokenCipher
    _metrics: WorkspacesMetrics | None

    def start_app(self, installation: Installation, url: str, claimant: str | None) -> App:
        """Build and start the app of an installation, which is reached at `url`.

        `claimant`: the id of the process that has claimed the workspace, without which the app may
        not write; None if a lock on a file keeps others away. Raises TokenKeyError, StartupError,
        OSError and what the database raises.
        """
        settings, policy = self._read_settings_and_policy(installation, claimant)
        hosted = self._describe_hosted_app(installation, url)
        if installation.due_at is not None:  # before the start, as from then on it may have work
            self._record.set_due(installation.workspace, None)
        build, tools = self._source.build, self._source.tools
        app = build(settings, self._clock, policy, tools, hosted=hosted)
        try:
            app.start()
        except BaseException:
            app.stop()
            raise
        return app

    def _read_settings_and_policy(
        self, installation: Installation, claimant: str | None
    ) -> tuple[Settings, Any]:
        workspace, shared = installation.workspace, self._settings
        token = self._cipher.open(installation).bot.get_secret_value()
        own_environment = {"COUNTERSIGN_WORKSPACE": workspace, "SLACK_BOT_TOKEN": token}
        if not shared.is_shared:  # with a shared database, nothing is written there
            (shared.workspaces / workspace).mkdir(parents=True, exist_ok=True)
        settings, policy = read_settings_and_policy(
            {**self._source.environ, **own_environment},
            self._source.dotenv_path,
            shared.transport,
        )
        if claimant is not None:
            mine = f"&workspace={workspace}&process={claimant}"
            settings = settings.model_copy(update={"database_url": settings.database_url + mine})
        return settings, policy

    def _describe_hosted_app(self, installation: Installation, url: str) -> HostedApp:
        workspace = installation.workspace
        return HostedApp(
            Identity(workspace, installation.bot_user, installation.bot_id, installation.url),
            frozenset(installation.scopes.split(",")),
            url,
            (self._metrics.build_exporter(workspace),) if self._metrics else (),
            partial(self._record.list_granted_workspaces, workspace)
            if installation.is_org_wide
            else None,
        )
