"""A process that serves workspaces of a local Slack, where people install the bot."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import select, text
from sqlmodel import col

from bot.app import App, build
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.demo.model_server import Turn
from bot.tools import Tool
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource, NotServedError
from bot.workspaces.install_pages import REDIRECT_PATH
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.clock import ShiftedClock
from storage.installations import Installation
from storage.models import Call
from storage.transaction import fetch_rows
from tests.local_slack import read_countersign_manifest
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.fakes import FakeTools
from tests.stories.harness import Machine
from tests.stories.messages import action_ids, words
from tests.stories.over_http import asked_at, free_port
from tests.workspaces.installing import Browser, read_title

ONE, TWO = "T0SANDBOX", "T0SANDBOXB"
SUPPORT, ANA, BEN = "C0SUPPORT", "UANA00001", "UBEN00001"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\ndeadline = "1h"\n'
NEVER = 1e9  # seconds: no app is stopped by itself
_ASKED = re.compile(r"^(\w+): (.+)$", re.MULTILINE)


def plan_note(body: dict[str, Any]) -> Turn:
    """Plan the model's turn: for "note: some text" a call of that tool, then an answer."""
    last = body["input"][-1]
    if last.get("type") == "function_call_output":
        return Turn(text="That is all.")
    content = last["content"]
    parts = [content] if isinstance(content, str) else [str(each.get("text")) for each in content]
    found = _ASKED.findall("\n".join(parts))
    return Turn(calls=[(found[-1][0], {"text": found[-1][1]})]) if found else Turn(text="Hm.")


class Hosting:
    """One installation of the bot for a local Slack's workspaces; `start` begins to serve."""

    def __init__(
        self,
        folder: Path,
        transport: Transport = Transport.HTTP,
        *,
        quiet: float = NEVER,
        rotates: bool = False,
        tools: Iterable[Tool[Any]] | None = None,
        environ: dict[str, str] | None = None,
        **slack: Any,
    ) -> None:
        """`quiet`: seconds after which an idle app is stopped; `slack`: options of the sandbox."""
        self.folder, self.transport, self.quiet = folder, transport, quiet
        self.fakes = FakeTools()
        self.tools = self.fakes.tools if tools is None else list(tools)
        self.clock = ShiftedClock()
        self.machine = Machine(self.clock)
        self.url = f"http://localhost:{free_port()}"
        manifest = copy.deepcopy(read_countersign_manifest())
        manifest["oauth_config"]["redirect_urls"] = [self.url + REDIRECT_PATH]
        manifest["settings"]["token_rotation_enabled"] = rotates
        events = manifest["settings"]["event_subscriptions"]["bot_events"]
        events += ["team_access_granted", "team_access_revoked"]
        self.slack = Sandbox(
            manifest, self.clock, shares_clock=True, **{"workspaces": 2, "same_ids": True, **slack}
        )
        self.slack.start()
        self.teams = list(self.slack.world.shared.worlds)
        for team in self.teams:
            for person in self.slack.workspace(team).world.people.values():
                person.tz = ""  # else reminders would wait wherever it is night
        self.planner = StrictPlanner(mind=plan_note)
        self.planner.start()
        (folder / "policy.toml").write_text(POLICY, "utf-8")
        self.extra = environ or {}
        self.host: WorkspaceHost | None = None

    @property
    def environ(self) -> dict[str, str]:
        """The environment variables of the process."""
        app = self.slack.world.app
        return {
            "SLACK_APP_TOKEN": app.app_token,
            "SLACK_SIGNING_SECRET": app.signing_secret,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "OPENAI_BASE_URL": self.planner.url,
            "COUNTERSIGN_CLIENT_ID": app.client_id,
            "COUNTERSIGN_CLIENT_SECRET": app.client_secret,
            "COUNTERSIGN_URL": self.url,
            "COUNTERSIGN_HTTP": self.url.removeprefix("http://").replace("localhost", "127.0.0.1"),
            "COUNTERSIGN_WORKSPACES": str(self.folder / "workspaces"),
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
            "COUNTERSIGN_MAX_ASKED_PER_HOUR": "10000",
            **self.extra,
        }

    def start(self, build: Callable[..., Any] = build) -> WorkspaceHost:
        """Begin to serve."""
        settings = Settings.load(self.environ, transport=self.transport)
        self.host = WorkspaceHost(
            settings,
            self.machine,
            AppSource(build, self.environ, tools=self.tools),
            self.quiet,
        )
        self.host.start()
        if self.transport is Transport.HTTP:
            asked_at(self.slack.world.app.manifest, self.url)
        return self.host

    def stop(self) -> None:
        """End the process."""
        if self.host is not None:
            self.host.stop()
            self.host = None

    def restart(self) -> None:
        """End it and start it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End all of it."""
        for each in self.fakes.go_on, self.fakes.entered:
            each.set()
        self.stop()
        self.planner.stop()
        self.slack.stop()

    def wait(self, look: Callable[[], Any]) -> Any:
        """Wait until this finds something, which is returned."""
        return self.slack.wait(look, 15)

    def install(self, team: str, name: str = "ana", *channels: str) -> Installation:
        """Have somebody install the bot and invite it to channels; returns the row."""
        with Browser(self) as browser:  # type: ignore[arg-type]  # of a site it wants the address
            url = browser.leave()
            page = browser.open(browser.allow(url, **{"as": f"{team}/{name}"}))
        assert read_title(page).startswith("Countersign is now in"), page.text
        admin = self.slack.workspace(team)
        for channel in channels or (SUPPORT,):
            place = admin.world.channels[channel]
            if admin.world.app.bot_user not in place.members:
                admin.invite_bot(channel)
        return self.row(team)

    def row(self, team: str) -> Installation:
        """Read the row of an installation."""
        assert self.host is not None
        found = self.host.record.get(team)
        assert found is not None
        return found

    def workspace(self, team: str) -> Workspace:
        """Get one of the workspaces."""
        return Workspace(self, team)


class Workspace:
    """One of the workspaces: its people, what they see, and what the bot keeps of it."""

    def __init__(self, hosting: Hosting, team: str) -> None:
        self.hosting, self.team = hosting, team
        self.admin = hosting.slack.workspace(team)
        self.folder = hosting.folder / "workspaces" / team

    def person(self, name: str) -> Any:
        """Get somebody of this workspace."""
        return self.admin.person(name)

    def set(self, **settings: str) -> None:
        """Write the workspace's own settings, which apply from its next start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}" for name, value in settings.items()]
        (self.folder / "settings.env").write_text("\n".join(lines), "utf-8")

    def stop_app(self) -> None:
        """Stop the app, so that it starts again with its settings as they are now."""
        assert self.hosting.host is not None
        self.hosting.host._get_hosted(self.team).stop()

    def start_app(self) -> None:
        """Start the app, as a delivery does; ignore one that cannot be started."""
        assert self.hosting.host is not None
        with suppress(NotServedError), self.hosting.host.use_app(self.team):
            pass

    @property
    def app(self) -> App | None:
        """The app, if it is awake."""
        assert self.hosting.host is not None
        for each in self.hosting.host.list_hosted():
            if each.workspace == self.team:
                return each._app
        return None

    def settle(self) -> None:
        """Wait until nothing is under way here."""
        if self.app is not None:
            self.app.wait_until_idle()

    def ask(self, text: str, tool: str = "note", who: str = "ben", channel: str = SUPPORT) -> str:
        """Have somebody ask for something; returns the thread."""
        return str(self.person(who).say(channel, f"@bot {tool}: {text}"))

    def card(self, thread: str | None, who: str = "ana", channel: str = SUPPORT) -> dict[str, Any]:
        """Wait for the card that asks in a thread."""

        def look() -> dict[str, Any] | None:
            seen = self.person(who).messages(channel, thread)
            return next((each for each in seen if "approve" in action_ids(each)), None)

        found: dict[str, Any] = self.hosting.wait(look)
        return found

    def approve(self, thread: str | None, who: str = "ana", channel: str = SUPPORT) -> None:
        """Have somebody approve the card in a thread."""
        card = self.card(thread, who, channel)
        self.person(who).click(channel, card["ts"], "approve")

    def said(self, thread: str, part: str, who: str = "ben", channel: str = SUPPORT) -> str:
        """Wait for a message in a thread that contains this text."""

        def look() -> str | None:
            seen = self.person(who).messages(channel, thread)
            return next((words(each) for each in seen if part in words(each)), None)

        return str(self.hosting.wait(look))

    def command(self, line: str, who: str = "ana", channel: str = SUPPORT) -> str:
        """Type a slash command and wait for its answer."""
        before = {each["ts"] for each in self.person(who).everything(channel)}
        self.person(who).command(channel, line)

        def look() -> list[str]:
            seen = self.person(who).everything(channel)
            return [words(each) for each in seen if each["ts"] not in before]

        return "\n".join(self.hosting.wait(look))

    def home(self, who: str, part: str) -> str:
        """Open somebody's Home and wait until it contains this text."""
        self.person(who).open_home()

        def look() -> str:
            shown = str(self.person(who).home())
            return shown if part in shown else ""

        return str(self.hosting.wait(look))

    def calls(self) -> list[Call]:
        """List its calls, the oldest first; its app has to be awake."""
        assert self.app is not None
        with self.app.core.store.read() as tx:
            return fetch_rows(tx, Call, select(Call).order_by(col(Call.created_at)))

    def dump(self) -> str:
        """Dump all rows of its record as text; its app has to be awake."""
        assert self.app is not None
        with self.app.core.store.engine.connect() as connection:
            names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
            return "\n".join(
                f"{name} {tuple(row)}"
                for (name,) in names.fetchall()
                if not name.startswith("sqlite_")
                for row in connection.execute(text(f'SELECT * FROM "{name}"'))
            )
