"""An organisation on Enterprise Grid whose people install the bot: a Slack and a real process."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import select

from bot.app import build
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.demo.model_server import Turn
from bot.tools import Tool
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource
from slack_sandbox.client.actor import Actor
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.clock import ShiftedClock
from storage.models import Run
from storage.transaction import fetch_rows
from tests.hosts import use_app_once_settled
from tests.local_slack import read_countersign_manifest
from tests.model_stand_in.planner import StrictPlanner
from tests.pages import ROOT, blocks
from tests.stories.messages import action_ids, words
from tests.stories.over_http import asked_at, free_port
from tests.workspaces.installing import Browser

FIRST, SECOND, THIRD, ORG = "T0SANDBOX", "T0SANDBOXB", "T0SANDBOXC", "E0SANDBOX"
NEVER = 1e9  # seconds: no app is stopped during a test
POLICY = """
shared_channels = ["C0GENERAL"]

[defaults]
approvers = ["@shop-leads"]
deadline = "1h"
self_approval = false
"""


def read_organisation_manifest(url: str) -> dict[str, Any]:
    """Read the app's manifest with the additions of docs/workspaces.md for organisations."""
    (text,) = (each for each in blocks(ROOT / "docs" / "workspaces.md", "yaml"))
    added = yaml.safe_load(text.replace("https://approve.example.com", url))
    manifest = copy.deepcopy(read_countersign_manifest())
    events = added["settings"].pop("event_subscriptions")["bot_events"]
    manifest["settings"]["event_subscriptions"]["bot_events"] += events
    for part, changes in added.items():
        manifest[part] |= changes
    return manifest


class Grid:
    """Three workspaces, the first two of one organisation, and a process that serves the bot."""

    def __init__(
        self,
        folder: Path,
        tools: Iterable[Tool[Any]] = (),
        transport: Transport = Transport.SOCKET,
        policy: str = POLICY,
    ) -> None:
        self.folder, self.clock = folder, ShiftedClock()
        port = free_port()
        self.url = f"http://localhost:{port}"
        self.slack = Sandbox(
            read_organisation_manifest(self.url), self.clock, shares_clock=True, workspaces=3, org=2
        )
        self.slack.start()
        self.planner = StrictPlanner()
        self.planner.start()
        (folder / "policy.toml").write_text(policy, "utf-8")
        app = self.slack.world.app
        for world in self.slack.world.worlds.values():
            for person in world.people.values():
                person.tz = ""
        self._share_a_group()
        self.environ = {
            "SLACK_APP_TOKEN": app.app_token,
            "SLACK_SIGNING_SECRET": app.signing_secret,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "OPENAI_BASE_URL": self.planner.url,
            "COUNTERSIGN_POLICY": str(folder / "policy.toml"),
            "COUNTERSIGN_WORKSPACES": str(folder / "workspaces"),
            "COUNTERSIGN_CLIENT_ID": app.client_id,
            "COUNTERSIGN_CLIENT_SECRET": app.client_secret,
            "COUNTERSIGN_URL": self.url,
            "COUNTERSIGN_HTTP": f"127.0.0.1:{port}",
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
        }
        settings = Settings.load(self.environ, transport=transport)
        self.host = WorkspaceHost(
            settings, self.clock, AppSource(build, self.environ, tools=tools), NEVER
        )
        self.host.start()
        if transport is Transport.HTTP:
            for world in self.slack.world.worlds.values():
                asked_at(world.apps[app.id].manifest, self.url)

    def _share_a_group(self) -> None:
        """Make @shop-leads one group of the organisation, with members in each workspace."""
        first, second = (self.slack.workspace(each).world for each in (FIRST, SECOND))
        with self.slack.world.lock:
            second.groups["shop-leads"].id = first.groups["shop-leads"].id
            first.groups["shop-leads"].users = [first.people["ana"].id]
            second.groups["shop-leads"].users = [second.people[n].id for n in ("cleo", "ben")]

    def close(self) -> None:
        """End all of it."""
        self.host.stop()
        self.planner.stop()
        self.slack.stop()

    def install(self, *granted: str, at: str = FIRST, place: str = ORG) -> str:
        """Have Ana install the bot from the page; returns the page that she ends up on."""
        more: dict[str, Any] = {"add": list(granted)} if granted else {}
        with Browser(self) as ana:
            back = ana.allow(ana.leave(), **{"as": f"{at}/ana", "for": place, **more})
            return ana.open(back).text

    def bring_bot(self, channel: str, team: str = FIRST) -> None:
        """Invite the bot to a channel."""
        world = self.slack.workspace(team).world
        with world.lock:
            if world.app.bot_user not in world.channel(channel).members:
                world.channel(channel).members.append(world.app.bot_user)

    def person(self, name: str, team: str = FIRST) -> Actor:
        """Get somebody who acts from one of the workspaces."""
        return self.slack.workspace(team).person(name)

    def script(self, tool: str, text: str) -> None:
        """Have the model propose one call at the next request, and then answer."""
        self.planner.clear_script()
        self.planner.script(Turn(calls=[(tool, {"text": text})]), Turn(text="That is all."))

    def ask(self, name: str, channel: str, text: str, team: str = FIRST, tool: str = "note") -> str:
        """Have somebody ask, and the model propose one call; returns the thread."""
        self.script(tool, text)
        return str(self.person(name, team).say(channel, f"@bot {text}"))

    def see(
        self, name: str, channel: str, thread: str | None, text: str, team: str = FIRST
    ) -> dict[str, Any]:
        """Wait for the first message with this text that somebody sees in a thread."""
        person = self.person(name, team)
        return self.slack.wait(
            lambda: next(
                (
                    m
                    for m in person.everything(channel)
                    if text in words(m) and thread in (None, m.get("thread_ts"), m["ts"])
                ),
                None,
            )
        )

    def card(
        self,
        name: str,
        channel: str,
        thread: str | None,
        team: str = FIRST,
    ) -> dict[str, Any]:
        """Wait for the first message that asks to approve."""
        person = self.person(name, team)
        return self.slack.wait(
            lambda: next(
                (m for m in person.messages(channel, thread) if "approve" in action_ids(m)), None
            )
        )

    def change_id(self, name: str, new: str) -> None:
        """Give somebody another id, as Slack does when a workspace joins an organisation."""
        person = self.slack.world.people[name]
        with self.slack.world.lock:
            for world in self.slack.world.worlds.values():
                if world.by_id.get(person.id) is person:
                    world.by_id[new] = person
                for group in world.groups.values():
                    group.users = [new if each == person.id else each for each in group.users]
            person.id = new
        self.clock.advance(61)

    def settle(self) -> None:
        """Wait until nothing is under way."""
        with use_app_once_settled(self.host, ORG) as app:
            app.wait_until_idle()

    def run_in(self, thread: str) -> Run:
        """Read the newest request in a thread."""
        with use_app_once_settled(self.host, ORG) as app, app.core.store.read() as tx:
            query = select(Run).where(Run.thread_ts == thread).order_by(Run.created_at)
            return fetch_rows(tx, Run, query)[-1]
