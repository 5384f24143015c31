"""Harnesses for two workspaces of one process, used with STORIES_HOSTED in the environment.

Both have the same ids of channels, people and messages. After each story the record of the other
workspace has to be what it was before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import text

from bot.app import App, build
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.config.workspace_settings import SHARED_VARIABLES_PATTERN
from bot.tools import Tool
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource
from bot.workspaces.tokens import Tokens, open_installation_record, open_token_cipher
from slack_sandbox.client.admin import Admin
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.clock import ShiftedClock
from slack_sandbox.workspace.seed import Seed, default_seed
from storage.installations import Installation
from tests.hosts import use_app_once_settled
from tests.local_slack import read_countersign_manifest
from tests.records import settings_of
from tests.stories.harness import Harness, Machine

OTHER = "T0SANDBOXB"
NEVER = 1e9  # seconds: no app is stopped during a story
CLIENT = {"COUNTERSIGN_CLIENT_ID": "1.2", "COUNTERSIGN_CLIENT_SECRET": "of the app's page at Slack"}


class WorkspaceView:
    """One workspace of a sandbox, used as if it were a sandbox of its own."""

    def __init__(self, sandbox: Sandbox, admin: Admin) -> None:
        self._sandbox, self._admin = sandbox, admin

    def __getattr__(self, name: str) -> Any:
        if name in ("start", "stop"):
            return lambda: None
        return getattr(self._admin if hasattr(self._admin, name) else self._sandbox, name)

    def wait(self, predicate: Any, timeout: float = 10.0) -> Any:
        """Wait as the sandbox does."""
        return self._sandbox.wait(predicate, timeout)

    @property
    def deliveries(self) -> list[Any]:
        """The deliveries to this workspace's bot."""
        return [each for each in self._sandbox.deliveries if each.app is self._admin.world.app]

    @property
    def requests(self) -> list[Any]:
        """The requests of this workspace's bot to Slack."""
        return [each for each in self._sandbox.requests if each.team == self._admin.world.team]

    @property
    def people(self) -> Any:
        """The workspace's people by short name."""
        return self._admin.world.people

    @property
    def bot_token(self) -> str:
        """The token of the workspace's bot."""
        return str(self._admin.world.app.bot_token)


def build_two_seeds() -> list[Seed]:
    """Build the default seed twice, with the same ids in both workspaces."""
    first, second = default_seed(), default_seed()
    for each in second.people:
        each.team_id = OTHER if each.team_id == first.team else each.team_id
    names = {name: about for name, about in second.teams.items() if name != first.team}
    second.team, second.teams = OTHER, {OTHER: ("Sandbox Tea", "sandbox-tea"), **names}
    return [first, second]


class TwoWorkspaces:
    """A sandbox with two workspaces, and one process that serves both."""

    def __init__(self, folder: Path, tools: Iterable[Tool[Any]], begin: Any = None) -> None:
        self.folder, self.tools = folder, tuple(tools)
        self.clock = ShiftedClock(begin)
        self.machine = Machine(self.clock)
        self.sandbox = Sandbox(
            read_countersign_manifest(), self.clock, build_two_seeds(), shares_clock=True
        )
        self.sandbox.world.shared.same_ids = True
        self.sandbox.start()
        first, *_ = worlds = list(self.sandbox.world.shared.worlds.values())
        for each in worlds:
            if each is not first:
                self.sandbox.install(
                    first.app, first.channels.keys() & each.channels.keys(), each.team
                )
            for person in each.people.values():
                person.tz = ""
        self.teams = [each.team for each in worlds]
        self.harnesses: list[HostedHarness] = []
        self.host: WorkspaceHost | None = None
        self.environ: dict[str, str] = {}

    def view(self, team: str) -> WorkspaceView:
        """Return a view of the workspace with this id."""
        return WorkspaceView(self.sandbox, self.sandbox.workspace(team))

    def serve(self, environ: dict[str, str]) -> WorkspaceHost:
        """Return the host that serves both, started if it is not yet."""
        if self.host is None:
            self.environ = environ
            for team in self.teams:  # else its app could open a record that is being copied there
                folder = self.folder / "workspaces" / team
                folder.mkdir(parents=True, exist_ok=True)
                settings_of(folder / "countersign.db")
            settings = Settings.load(environ, transport=Transport.SOCKET)
            self.install_in_record(settings)
            self.host = WorkspaceHost(
                settings, self.machine, AppSource(build, environ, tools=self.tools), NEVER
            )
            self.host.start()
        return self.host

    def install_in_record(self, settings: Settings) -> None:
        """Record both installations, as if people had installed the bot there."""
        record = open_installation_record(settings)
        cipher = open_token_cipher(settings, record)
        for team in self.teams:
            app = self.sandbox.workspace(team).world.app
            sealed = cipher.seal(team, Tokens(SecretStr(app.bot_token)))
            row = Installation(
                workspace=team,
                scopes=",".join(sorted(app.scopes)),
                bot_user=app.bot_user,
                bot_id=app.bot_id,
                url=f"{self.sandbox.url}/",
                sealed_tokens=sealed,
                token_key=cipher.key_id,
                installed_at=self.clock.now(),
            )
            record.insert_or_update_installation(row)
        record.close()

    def close(self) -> None:
        """Stop the host, and then Slack."""
        if self.host is not None:
            self.host.stop()
        self.sandbox.stop()


class HostedHarness(Harness):
    """The harness for one of the two workspaces."""

    def __init__(
        self, two: TwoWorkspaces, team: str, policy: str | None = None, **settings: str
    ) -> None:
        self.two, self.team = two, team
        two.harnesses.append(self)
        folder = two.folder / "workspaces" / team
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, two.tools, policy, Transport.SOCKET, **settings)

    @property
    def others(self) -> list[HostedHarness]:
        """The other workspace's harness, as a list."""
        return [each for each in self.two.harnesses if each is not self]

    def _open_slack(self, begin: Any) -> None:
        self.clock, self.machine = self.two.clock, self.two.machine
        self.slack: Any = self.two.view(self.team)

    def start(self, **options: Any) -> None:
        """Have the host start the workspace's app."""
        assert not options
        self.settings()  # writes its policy
        own = {
            "OPENAI_BASE_URL": self.planner.url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "COUNTERSIGN_SHOP": "shop.db",
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
            "COUNTERSIGN_MAX_ASKED_PER_HOUR": "10000",
            **{
                name: value
                for name, value in self.extra.items()
                if not SHARED_VARIABLES_PATTERN.fullmatch(name)
            },
        }
        lines = [f"{name}={value}" for name, value in own.items()]
        (self.folder / "settings.env").write_text("\n".join(lines), "utf-8")
        host = self.two.serve(
            {
                "SLACK_APP_TOKEN": self.slack.app_token,
                "SLACK_API_URL": self.slack.api_url,
                "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
                "COUNTERSIGN_WORKSPACES": str(self.two.folder / "workspaces"),
                "COUNTERSIGN_URL": "https://approve.example.com",
                "COUNTERSIGN_HTTP": "127.0.0.1:0",
                **CLIENT,
                **{
                    name: value
                    for name, value in self.extra.items()
                    if SHARED_VARIABLES_PATTERN.fullmatch(name)
                },
            }
        )
        host._get_hosted(self.team).stop()  # it may have started before its settings were written
        with use_app_once_settled(host, self.team) as app:
            self.app: App = app

    def restart(self, **options: Any) -> None:
        """Stop the workspace's app and start it again."""
        self.start(**options)

    def close(self) -> None:
        """Stop what belongs to this workspace alone."""
        self.planner.stop()

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of this workspace's database by table."""
        with self.app.core.store.engine.connect() as connection:
            names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
            return {
                name: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {name}"))]
                for (name,) in names.fetchall()
                if not name.startswith("sqlite_")
            }
