"""The whole product with its wire: a local Slack and a stub model in this process, the real bot
(Bolt, Socket Mode, the OpenAI client) in another, so that the two do not wait for each other's
interpreter.
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

from bench.installed import others
from bot.demo.model_server import Turn
from slack_sandbox.workspace.people import BOT_USER, Channel, Group, Person
from slack_sandbox.workspace.seed import Seed
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner

ROOT = Path(__file__).parents[1]
CHANNELS = 10
POLICY = '[defaults]\napprovers = ["@crew"]\ndeadline = "4h"\n'
QUORUM_OF_THREE = f"{POLICY}quorum = 3\n"
PATIENCE = 120.0  # seconds anything may take


def seed(people: int) -> Seed:
    """Ben, who asks, `people` who may approve, and channels that they are all in."""
    ben = Person("ben", "UBEN00001", "Ben Okafor")
    crew = [Person(f"p{number}", f"UP{number:07}", f"Person {number}") for number in range(people)]
    ids = [person.id for person in crew]
    channels = [
        Channel(f"C{n:08}", f"orders-{n}", members=[ben.id, *ids, BOT_USER])
        for n in range(CHANNELS)
    ]
    return Seed([ben, *crew], channels, [Group("S0CREW", "crew", "Crew", ids)])


def mind(body: dict[str, Any]) -> Turn:
    """The stub model: proposes a note with the words of the request, then answers."""
    last = body["input"][-1]
    if last.get("type") == "function_call_output":
        return Turn(text="It is done.")
    words = last["content"][0]["text"].rpartition("note ")[2].strip()
    return Turn(calls=[("note_asked", {"order_id": 1042, "text": words})])


def read_line(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    """The next line of a bot that is measured; RuntimeError with its log if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the bot ended: {log.read_text()[-2000:]}")
    found: dict[str, Any] = json.loads(line)
    return found


class Live:
    """Started by `with`; `start` and `stop` end and begin lives of the bot on the same database."""

    def __init__(
        self,
        folder: Path,
        people: int = 50,
        *,
        policy: str = POLICY,
        database: str = "",
        mind: Callable[[dict[str, Any]], Turn] = mind,
    ) -> None:
        """`people` may approve what Ben asks for; `database`: a server's instead of a file.

        `mind`: what the stub model does.
        """
        self.folder, self.people = folder, people
        self._database = database or f"sqlite:///{folder / 'countersign.db'}"
        self.slack = build_local_slack(seed=seed(people))
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
        """Start the bot; its first line, with the moment before the process was made as `began`."""
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
        if not flags:  # what profiles it needs the rest
            extras = ("cluster",) if self._database.startswith("postgresql") else ()
            flags = ("--without", *others(*extras))
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

    def beside(self) -> Live:
        """Another bot on the same database and Slack; not started yet."""
        other = copy(self)
        other._process = None
        return other

    def kill(self) -> None:
        """End the bot as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        """End the bot in an orderly way."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(30)
            self._process = None

    def tell(self, command: str) -> dict[str, Any]:
        """What the bot answers to a command."""
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
        """Somebody asks for a note in a thread of its own, in one channel after the other."""
        self._asked += 1
        channel, text = f"C{self._asked % CHANNELS:08}", f"n{self._asked}"
        thread = self.slack.person(person).say(channel, f"@bot note {text}")
        return Story(self, channel, thread, text)

    def wait(self, look: Callable[[], Any]) -> Any:
        """The first truthy answer of `look`."""
        return self.slack.wait(look, PATIENCE)


class Story:
    """One request, as Slack shows it."""

    def __init__(self, live: Live, channel: str, thread: str, text: str) -> None:
        self.live, self.channel, self.thread, self.text = live, channel, thread, text
        self.clicked = 0.0

    def card(self) -> dict[str, Any] | None:
        """The card with its buttons, once it is there."""
        return next((m for m in self._seen() if "approve" in _actions(m)), None)

    def click(self, card: dict[str, Any], person: str) -> Any:
        """Approve it as that person; the delivery that follows. `clicked` is the moment before."""
        actor = self.live.slack.person(person)
        self.clicked = time.monotonic()
        return actor.click(self.channel, card["ts"], "approve", seen=card)

    def is_over(self) -> bool:
        """Whether the answer stands in the thread and the card has lost its buttons."""
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
