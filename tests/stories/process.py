"""The bot in a process of its own, to be killed and started again on the same database."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from sqlalchemy import select

from bot.config.connection_settings import Transport
from countersign.cli.commands import main
from countersign.cli.process import exit_if_stopping
from slack_sandbox.server import Sandbox
from storage.models import Call, Run
from storage.passkeys import Passkey
from storage.transaction import fetch_rows
from tests.model_stand_in.planner import StrictPlanner
from tests.records import settings_of, store_of
from tests.stories.harness import ASKED_BY, OVER
from tests.stories.over_http import asked_at, free_port, is_ready

# The bot is forked from a process that has imported it, and has done nothing else.
FORKS = get_context("forkserver")
PRELOADED = [
    "__main__",
    "bot.cli.service",
    "bot.app",
    "bot.agent.planner",
    "httpcore2",
    "sqlalchemy.dialects.sqlite",
    "tests.stories.crash_tools",
]
FORKS.set_forkserver_preload(PRELOADED)
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


def run_bot(command: str, environ: dict[str, str], log: str) -> None:
    """Run a `countersign` command with these variables and its output in this file."""
    os.environ.clear()
    os.environ.update(environ)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(exit_if_stopping(main([command])))


class BotProcess:
    """`countersign run` against a local Slack and planner; `serve` where STORIES_OVER says http."""

    def __init__(
        self,
        folder: Path,
        slack: Sandbox,
        planner: StrictPlanner,
        over: Transport = OVER,
        **settings: str,
    ) -> None:
        self.target = run_bot
        self.folder, self.slack, self.planner = folder, slack, planner
        self.extra = settings
        (folder / "policy.toml").write_text(POLICY)
        self.process: BaseProcess | None = None
        self.address = ""  # where it listens, if over HTTP
        if over is Transport.HTTP:
            self.address = f"127.0.0.1:{free_port()}"
            asked_at(slack.world.app.manifest, f"http://{self.address}")
        self._before: dict[str, int] = {}  # how many of each there were before this story

    def looked_at_from_here(self) -> None:
        """Leave out of `effects` and `rows` what was done until now."""
        self._before = {}
        found = {"effects": self.effects(), "Call": self.rows(Call), "Run": self.rows(Run)}
        self._before = {name: len(those) for name, those in found.items()}

    def start(self, *, wait: bool = True) -> None:
        """Start, and by default wait until it is connected."""
        environ = {
            "PATH": os.environ["PATH"],
            "SLACK_BOT_TOKEN": self.slack.bot_token,
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "OPENAI_BASE_URL": self.planner.url,
            "OPENAI_API": ASKED_BY,
            **settings_of(self.folder / "countersign.db"),
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_TOOLS": "tests.stories.crash_tools",
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
            "CRASH_FOLDER": str(self.folder),
            **self.extra,
        }
        if self.address:
            secret = self.slack.world.app.signing_secret
            environ |= {"SLACK_SIGNING_SECRET": secret, "COUNTERSIGN_HTTP": self.address}
        command = "serve" if self.address else "run"
        log = str(self.folder / "log")
        self.process = FORKS.Process(target=self.target, args=(command, environ, log))
        self.process.start()
        if not wait:
            return
        self.slack.wait(self._is_there, timeout=20)

    def _is_there(self) -> bool:
        if not self.address:
            return self.slack.connections > 0
        return is_ready(self.address)

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.join(30)
            self.process = None
            self.slack.wait(lambda: self.slack.connections == 0)

    def effects(self) -> list[str]:
        """Return the effects of the tools, one line each."""
        path = self.folder / "effects"
        lines = path.read_text().splitlines() if path.exists() else []
        return lines[self._before.get("effects", 0) :]

    def rows(self, model: type[Call | Run | Passkey]) -> list[object]:
        """Return rows of its database, read from this process."""
        store = store_of(self.folder / "countersign.db")
        try:
            with store.read() as tx:
                found = list(fetch_rows(tx, model, select(model).order_by(model.created_at)))
                return [*found[self._before.get(model.__name__, 0) :]]
        finally:
            store.close()
