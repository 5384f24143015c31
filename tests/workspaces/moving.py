"""A bot that serves one workspace, moves to a host of many on the same Slack, and back."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.app import build
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource, NotServedError
from bot.workspaces.tokens import Tokens, open_installation_record, open_token_cipher
from storage.installations import Installation
from tests.hosts import use_app_once_settled
from tests.pages import ROOT
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness
from tests.stories.hosted import CLIENT, NEVER

TEAM, ADDRESS = "T0SANDBOX", "https://approve.example.com"


class MovingHarness(Harness):
    """A bot of one workspace that moves: `stop`, the commands of the page, then `serve`."""

    def __init__(
        self,
        folder: Path,
        policy: str | None = None,
        begin: datetime | None = None,
        **settings: str,
    ) -> None:
        self.fakes = FakeTools()
        self.host: WorkspaceHost | None = None
        self.shared: dict[str, str] = {}  # additional settings of all workspaces
        super().__init__(folder, self.fakes.tools, policy, Transport.SOCKET, begin, **settings)

    def stop(self) -> None:
        """End the bot or the host, whichever runs; Slack goes on."""
        if self.host is not None:
            self.host.stop()
            self.host = None
        else:
            self.app.stop()

    def close(self) -> None:
        """End all of it."""
        self.fakes.go_on.set()
        self.stop()
        self.planner.stop()
        self.slack.stop()

    @property
    def environ(self) -> dict[str, str]:
        """The variables of the process for many workspaces, without the workspace's own."""
        return {
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_BASE_URL": self.planner.url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_WORKSPACES": str(self.folder / "workspaces"),
            "COUNTERSIGN_URL": ADDRESS,
            "COUNTERSIGN_HTTP": "127.0.0.1:0",
            **CLIENT,
            **self.shared,
        }

    def serve(self, **shared: str) -> WorkspaceHost:
        """Start the process for many workspaces, with the bot installed in this one."""
        self.shared = shared
        settings = Settings.load(self.environ)
        record = open_installation_record(settings)
        if record.get(TEAM) is None:
            record.insert_or_update_installation(self._build_installation(settings, record))
        record.close()
        self.host = WorkspaceHost(
            settings, self.machine, AppSource(build, self.environ, tools=self.tools), NEVER
        )
        self.host.start()
        # a record from a backup says that the process that made it still owns the workspace
        self.slack.wait(self._is_served, 20)
        return self.host

    def _is_served(self) -> bool:
        assert self.host is not None
        try:
            with use_app_once_settled(self.host, TEAM) as app:
                self.app = app  # type: ignore[assignment]  # it is one
        except NotServedError as error:
            if str(error) != "another process serves it":  # until its lease ends
                raise
            return False
        return True

    def _build_installation(self, settings: Settings, record: Any) -> Installation:
        app = self.slack.world.app
        cipher = open_token_cipher(settings, record)
        return Installation(
            workspace=TEAM,
            name="Sandbox Coffee",
            scopes=",".join(sorted(app.scopes)),
            bot_user=app.bot_user,
            bot_id=app.bot_id,
            url=f"{self.slack.url}/",
            app_id=app.id,
            sealed_tokens=cipher.seal(TEAM, Tokens(SecretStr(app.bot_token))),
            token_key=cipher.key_id,
            installed_at=self.clock.now(),
        )

    def run_script(self, script: str, **given: str) -> str:
        """Run these lines in a shell in the bot's folder, for this workspace; their output."""
        lines = script.replace("T0123ABCD", TEAM).replace("t0123abcd", TEAM.lower())
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": ":".join(str(ROOT / each) for each in ("", "client", "sandbox")),
            **given,
        }
        done = subprocess.run(
            ["sh", "-euc", lines],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def single_environ(self) -> dict[str, str]:
        """The variables for commands of the bot of one workspace."""
        return {
            "SLACK_BOT_TOKEN": self.slack.bot_token,
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.api_url,
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
        }
