"""While a server's question waits: the call's time limit, and the workers that are left."""

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
    """A bot with two workers, whose server has a time limit of one second for a call."""
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


def approve_put(harness: Harness, item: str, *answer: str) -> str:
    """Ben asks for this item to be put away, and Ana approves; return the thread."""
    turns = [Turn(calls=[("depot_put", {"item": item})]), *(Turn(text=each) for each in answer)]
    harness.planner.script(*turns)
    thread: str = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    return thread


def statuses_by_tool(harness: Harness, thread: str) -> dict[str, Any]:
    """Return the statuses of the thread's calls by tool."""
    return {each.tool: each.status for each in harness.calls_in(thread)}


def test_a_servers_question_stops_the_time_limit_and_leaves_a_worker(harness: Harness) -> None:
    """The call waits longer than its limit for the answer, and other requests are worked on.

    A second question, which would take the last worker, is declined; so is any with one worker.
    """
    thread = approve_put(harness, "a lamp")
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    began = time.monotonic()
    other = approve_put(harness, "a chair", "Nobody was asked.")
    harness.said(SUPPORT, other, "Nobody was asked.")
    assert "a chair stays outside: decline" in str(harness.outputs())
    harness.slack.wait(lambda: time.monotonic() - began > 1.5)
    assert statuses_by_tool(harness, thread)["depot_put"] is CallStatus.RUNNING
    harness.planner.script(Turn(text="It stays outside."))
    harness.person("ben").click(SUPPORT, asked["ts"], "decline")
    harness.said(SUPPORT, thread, "It stays outside.")
    assert statuses_by_tool(harness, thread)["depot_put"] is CallStatus.SUCCEEDED
    harness.settle()
    harness.extra["COUNTERSIGN_WORKERS"] = "1"
    harness.restart()
    last = approve_put(harness, "a stool", "Nobody was asked again.")
    harness.said(SUPPORT, last, "Nobody was asked again.")
    assert "a stool stays outside: decline" in str(harness.outputs())
