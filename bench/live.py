"""Runs the whole product over its real connections.

A local Slack and a stub model run in this process, the real bot (Bolt, Socket Mode, the OpenAI
client) in another, so that they do not wait for each other's interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.installed import find_other_modules
from bot.demo.model_server import Turn
from slack_sandbox.workspace.people import BOT_USER, Channel, Group, Person
from slack_sandbox.workspace.seed import Seed
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner

ROOT = Path(__file__).parents[1]
CHANNELS = 10
POLICY = '[defaults]\napprovers = ["@crew"]\ndeadline = "4h"\n'
QUORUM_OF_THREE = f"{POLICY}quorum = 3\n"
PATIENCE = 120.0  # seconds to wait for anything


def build_seed(people: int) -> Seed:
    """Return Ben, who asks, `people` who may approve, and channels with all of them."""
    ben = Person("ben", "UBEN00001", "Ben Okafor")
    crew = [Person(f"p{number}", f"UP{number:07}", f"Person {number}") for number in range(people)]
    ids = [person.id for person in crew]
    channels = [
        Channel(f"C{n:08}", f"orders-{n}", members=[ben.id, *ids, BOT_USER])
        for n in range(CHANNELS)
    ]
    return Seed([ben, *crew], channels, [Group("S0CREW", "crew", "Crew", ids)])


def plan_turn(body: dict[str, Any]) -> Turn:
    """Let the stub model propose a note with the words of the request, then answer."""
    last = body["input"][-1]
    if last.get("type") == "function_call_output":
        return Turn(text="It is done.")
    words = last["content"][0]["text"].rpartition("note ")[2].strip()
    return Turn(calls=[("note_asked", {"order_id": 1042, "text": words})])


def read_line(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    """Return the next line of a measured bot; RuntimeError with its log if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the bot ended: {log.read_text()[-2000:]}")
    found: dict[str, Any] = json.loads(line)
    return found


class Live:
    """A bot with a local Slack and a stub model, for use in `with`.

    `start` and `stop` start and stop the bot on the same database.
    """

    def __init__(
        self,
        folder: Path,
        people: int = 50,
        *,
        policy: str = POLICY,
        database: str = "",
        mind: Callable[[dict[str, Any]], Turn] = plan_turn,
    ) -> None:
        """`people` may approve what Ben asks for; `database` is a server's, else a file.

        `mind` decides what the stub model does.
        """
        self.folder, self.people = folder, people
        self._database = database or f"sqlite:///{folder / 'countersign.db'}"
        self.slack = build_local_slack(seed=build_seed(people))
        self.planner = StrictPlanner(mind=mind)
        self._process: subprocess.Popen[str] | None = None
        self._asked = 0
        (folder / "policy.toml").write_text(policy)

    def __enter__(self) -> Live:
        self.slack.start()
        self.planner.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()
        self.planner.stop()
        self.slack.stop()

    def start(self, *flags: str) -> dict[str, float]:
        """Start the bot; return its first line with the time before the start as `began`."""
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "SLACK_BOT_TOKEN": self.slack.bot_token,
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "offline",
            "OPENAI_BASE_URL": self.planner.url,
            "DATABASE_URL": self._database,
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_MAX_PENDING": "100000",
            "COUNTERSIGN_MAX_ASKED_PER_HOUR": "1000000",
            "COUNTERSIGN_MAX_TOKENS_PER_DAY": "1000000000",
        }
        if self._database.startswith("postgresql"):
            environ["COUNTERSIGN_KEY"] = "of-the-benchmark-and-of-nobody-else"
        if not flags:  # profiling needs the other packages
            extras = ("cluster",) if self._database.startswith("postgresql") else ()
            flags = ("--without", *find_other_modules(*extras))
        began = time.monotonic()
        command = [sys.executable, "-m", "bench.child", *flags]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return {**self._line(), "began": began}

    def create_second(self) -> Live:
        """Return another bot on the same database and Slack, not started yet."""
        other = copy(self)
        other._process = None
        return other

    def kill(self) -> None:
        """Kill the bot as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        """Stop the bot in an orderly way."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(30)
            self._process = None

    def send_command(self, command: str) -> dict[str, Any]:
        """Send the bot a command and return what it answers."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process is not None
        return read_line(self._process, self.folder / "log")

    # stories

    def ask(self, person: str = "ben") -> Story:
        """Ask for a note in a new thread, in one channel after another."""
        self._asked += 1
        channel, text = f"C{self._asked % CHANNELS:08}", f"n{self._asked}"
        thread = self.slack.person(person).say(channel, f"@bot note {text}")
        return Story(self, channel, thread, text)

    def wait(self, look: Callable[[], Any]) -> Any:
        """Wait for a truthy result of `look` and return it."""
        return self.slack.wait(look, PATIENCE)


class Story:
    """One request as Slack shows it."""

    def __init__(self, live: Live, channel: str, thread: str, text: str) -> None:
        self.live, self.channel, self.thread, self.text = live, channel, thread, text
        self.clicked = 0.0

    def find_card(self) -> dict[str, Any] | None:
        """Return the card with its buttons, or None."""
        return next((m for m in self._seen() if "approve" in _actions(m)), None)

    def click(self, card: dict[str, Any], person: str) -> Any:
        """Approve as that person and return the delivery.

        `clicked` is the time before.
        """
        actor = self.live.slack.person(person)
        self.clicked = time.monotonic()
        return actor.click(self.channel, card["ts"], "approve", seen=card)

    def is_over(self) -> bool:
        """Return whether the answer is in the thread and the card has no buttons."""
        seen = self._seen()
        return any("feedback" in _actions(m) for m in seen) and not any(
            "approve" in _actions(m) for m in seen
        )

    def _seen(self) -> list[dict[str, Any]]:
        return self.live.slack.person("p0").messages(self.channel, self.thread)


def _actions(message: dict[str, Any]) -> list[str]:
    return [
        str(e.get("action_id"))
        for block in message.get("blocks") or []
        for e in block.get("elements") or []
    ]
