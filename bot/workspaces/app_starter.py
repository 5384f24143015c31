"""Builds and starts the app of one workspace, from its installation and the process's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.clock import Clock
from bot.config.settings import Settings
from bot.config.startup import read_settings_and_policy
from bot.identity import HostedApp, Identity
from bot.tools import Tool
from storage.installations import Installation, InstallationRecord

if TYPE_CHECKING:
    from bot.app import App
    from bot.workspaces.metrics import WorkspacesMetrics
    from bot.workspaces.tokens import TokenCipher


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
