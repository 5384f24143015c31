"""Helpers for stories at the terminal: the bot's policy and settings, and commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from countersign.cli.commands import main
from countersign.wire import UnixConnection
from storage.backend import socket_path
from storage.states import CallStatus
from tests.records import settings_of
from tests.stories.fakes import FakeTools
from tests.stories.harness import POLICY as DEMO
from tests.stories.harness import SUPPORT, Harness

ANA = "UANA00001"
TOOLS = "tools_of_stories"  # the module with the stories' tools
POLICY = f"""
{DEMO.read_text("utf-8").split("[[rule]]")[0]}

[[rule]]
tool = "wipe"
verdict = "ask"
quorum = 2
approvers = ["@shop-leads"]
break_glass = ["{ANA}"]

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["UDAN00001"]
break_glass = ["{ANA}"]

[[rule]]
tool = "ask_person"
verdict = "allow"

[[rule]]
tool = "*"
verdict = "ask"
approvers = ["@shop-leads"]
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, FakeTools]]:
    """A bot whose operator is Ana, and its tools."""
    fakes = FakeTools()
    folder = with_tools(tmp_path_factory.mktemp("t"))
    harness = Harness(folder, fakes.tools, POLICY, COUNTERSIGN_OPERATOR=ANA)
    yield harness, fakes
    harness.close()


@pytest.fixture(autouse=True)
def at_the_machine(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands the bot's folder and settings."""
    monkeypatch.chdir(harness.folder)
    for name, value in environment(harness).items():
        monkeypatch.setenv(name, value)


def with_tools(folder: Path) -> Path:
    """Write a module with the stories' tools to the folder, and return the folder."""
    (folder / f"{TOOLS}.py").write_text(
        "from tests.stories.fakes import FakeTools\n"
        "globals().update({each.name: each for each in FakeTools().tools})\n"
    )
    return folder


def environment(harness: Harness) -> dict[str, str]:
    """Return the environment variables with the bot's settings."""
    return {
        "SLACK_BOT_TOKEN": harness.slack.bot_token,
        "SLACK_APP_TOKEN": harness.slack.app_token,
        "SLACK_API_URL": harness.slack.api_url,
        **settings_of(harness.folder / "countersign.db"),
        "COUNTERSIGN_POLICY": str(harness.folder / "policy.toml"),
        "COUNTERSIGN_SHOP": str(harness.folder / "shop.db"),
        "COUNTERSIGN_TOOLS": TOOLS,
        "COUNTERSIGN_OPERATOR": ANA,
    }


def command(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Run a command, and return its exit code and all that it printed."""
    capsys.readouterr()
    code = main(argv)
    said = capsys.readouterr()
    return code, said.out + said.err


def waits(harness: Harness, thread: str) -> str:
    """Wait for the thread's card, and return the id that `approve` takes for its only call."""
    harness.card(SUPPORT, thread)
    [call] = [each for each in harness.calls_in(thread) if each.status is CallStatus.PENDING]
    return f"{call.id}:{call.revision}"


def bot_socket(harness: Harness) -> Path:
    """Return the path of the bot's socket."""
    return socket_path(harness.app.core.store.path)


def post_body(path: Path, route: str, body: bytes) -> tuple[int, Any]:
    """Post this body to the bot's socket; return the status and the JSON of the answer."""
    with closing(UnixConnection(str(path), timeout=10)) as bot:
        bot.request("POST", route, body, {"Content-Type": "application/json"})
        answer = bot.getresponse()
        return answer.status, json.loads(answer.read())
