"""While a person thinks about what a server asks: whose time goes on, and who is left to work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import write_accepted_tools
from storage.states import CallStatus
from tests.servers.support import over_http
from tests.stories.harness import SUPPORT, Harness

pytestmark = pytest.mark.long


@pytest.fixture
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot whose server has a second for a call, and with two workers."""
    folder = tmp_path_factory.mktemp("depot")
    with over_http(folder) as server:
        (folder / "servers.toml").write_text(
            f'[[server]]\nname = "depot"\nurl = "{server.url}"\ntimeout = 1\n'
        )
        write_accepted_tools(
            folder / "servers.lock.json", {"depot": fetch_tool_definitions(server)}
        )
        names = {"COUNTERSIGN_SERVERS": str(folder / "servers.toml"), "COUNTERSIGN_WORKERS": "2"}
        made = Harness(folder, **names)
        yield made
        made.close()


def put(harness: Harness, item: str, *answer: str) -> str:
    """Ben asks for it, and Ana approves; returns the thread."""
    turns = [Turn(calls=[("depot_put", {"item": item})]), *(Turn(text=each) for each in answer)]
    harness.planner.script(*turns)
    thread: str = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    return thread


def statuses(harness: Harness, thread: str) -> dict[str, Any]:
    """Of the calls in the thread."""
    return {each.tool: each.status for each in harness.calls_in(thread)}


def test_the_servers_time_stands_still_and_a_worker_is_left(harness: Harness) -> None:
    """It has longer than the server has for its call; others are worked for meanwhile, and who asks
    beside it, for whom no worker would be left, is declined. With one worker nobody is asked.
    """
    thread = put(harness, "a lamp")
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    began = time.monotonic()
    other = put(harness, "a chair", "Nobody was asked.")
    harness.said(SUPPORT, other, "Nobody was asked.")
    assert "a chair stays outside: decline" in str(harness.outputs())
    harness.slack.wait(lambda: time.monotonic() - began > 1.5)
    assert statuses(harness, thread)["depot_put"] is CallStatus.RUNNING
    harness.planner.script(Turn(text="It stays outside."))
    harness.person("ben").click(SUPPORT, asked["ts"], "decline")
    harness.said(SUPPORT, thread, "It stays outside.")
    assert statuses(harness, thread)["depot_put"] is CallStatus.SUCCEEDED
    harness.settle()
    harness.extra["COUNTERSIGN_WORKERS"] = "1"
    harness.restart()
    alone = put(harness, "a stool", "Nobody was asked again.")
    harness.said(SUPPORT, alone, "Nobody was asked again.")
    assert "a stool stays outside: decline" in str(harness.outputs())
