"""MCP servers of others, over both transports: as tools of the bot, and behind the proxy.

`make integrations` installs them into an environment of their own; without it they are skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from bot.config.connection_settings import Transport
from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import read_server_file, write_accepted_tools
from bot.mcp.server_tools import build_prefixed_tool_name
from tests.client_keys import make_key
from tests.pages import ROOT
from tests.proxy.host import get_text, run_host
from tests.proxy.test_http_hosts import Hosts
from tests.proxy.test_http_hosts import get_text as get_host_text
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.over_http import free_port
from tests.stories.steps import ask, open_modal, waiting

INSTALLED = ROOT / ".venv-servers"
TIME = INSTALLED / "bin" / "mcp-server-time"
EVERYTHING = INSTALLED / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
NODE = shutil.which("node") or "node"
FILE = """
[[server]]
name = "time"
command = "{time}"
args = ["--local-timezone", "UTC"]

[[server]]
name = "every"
command = "{node}"
args = ["{everything}", "stdio"]

[[server]]
name = "web"
url = "http://127.0.0.1:{port}/mcp"
"""
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (TIME.exists() and EVERYTHING.exists()),
        reason="`make integrations` installs the servers of others",
    ),
]


@dataclass
class Served:
    """A bot with the tools of these servers."""

    harness: Harness
    names: dict[str, str]  # a server's tool to its name in the bot

    def call(self, tool: str, **arguments: Any) -> str:
        """Ben asks for a call, and Ana approves it; return the thread."""
        thread = ask(self.harness, (self.names[tool], arguments), answer=f"{tool} is done.")
        card = self.harness.card(SUPPORT, thread)
        self.harness.person("ana").click(SUPPORT, card["ts"], "approve")
        return thread

    def result(self, tool: str, **arguments: Any) -> str:
        """The same; return the output for the model."""
        return self.told(tool, self.call(tool, **arguments))

    def told(self, tool: str, thread: str) -> str:
        """The output for the model, once the call has ended."""
        self.harness.said(SUPPORT, thread, f"{tool} is done.")
        self.harness.settle()
        return str(self.harness.outputs()[-1]["output"])


@contextmanager
def run_http_server(port: int) -> Iterator[None]:
    """Run the server that uses HTTP until the block ends."""
    environment = {**os.environ, "PORT": str(port)}
    server = subprocess.Popen(
        [NODE, str(EVERYTHING), "streamableHttp"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        server.terminate()
        server.wait(10)


def is_listening(port: int) -> bool:
    """Whether somebody listens at the port."""
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A bot that has accepted all their tools."""
    folder = tmp_path_factory.mktemp("others")
    port = free_port()
    path = folder / "servers.toml"
    path.write_text(FILE.format(time=TIME, node=NODE, everything=EVERYTHING, port=port))
    with run_http_server(port):
        file = read_server_file(path, os.environ)
        harness = Harness(folder, FakeTools().tools, transport=Transport.HTTP)
        harness.slack.wait(lambda: is_listening(port), 30)
        found = {each.name: fetch_tool_definitions(each) for each in file.servers}
        write_accepted_tools(file.accepted_tools_path, found)
        harness.app.stop()
        harness.extra["COUNTERSIGN_SERVERS"] = str(path)
        harness.start()
        names = {
            f"{each.name} {tool}": build_prefixed_tool_name(each, tool)
            for each in file.servers
            for tool in found[each.name]
        }
        yield Served(harness, names)
        harness.close()


def list_statuses(served: Served, thread: str) -> set[str]:
    """The statuses of the calls in a thread."""
    return {str(each.status) for each in served.harness.calls_in(thread)}


def test_a_server_from_pypi_can_be_used(served: Served) -> None:
    """Of the newer protocol, over stdio."""
    given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    assert "21:00" in served.result("time convert_time", **given)


@pytest.mark.parametrize("way", ["every", "web"])
def test_a_server_from_npm_can_be_used(served: Served, way: str) -> None:
    """Of the older protocol, over stdio and streamable HTTP: text, values, pictures, links,
    progress.
    """
    assert "5" in served.result(f"{way} get-sum", a=2, b=3)
    weather = served.result(f"{way} get-structured-content", location="New York")
    assert '"temperature"' in weather.replace("\\", "")
    assert "[image, image/png, " in served.result(f"{way} get-tiny-image")
    assert "demo://resource/" in served.result(f"{way} get-resource-links", count=2)
    heard: list[str] = []

    def hear(event: Any) -> None:
        heard.append(getattr(getattr(event, "step", None), "so_far", ""))

    end = served.harness.app.core.signals.live.listen(hear)
    steps = {"duration": 1, "steps": 2}
    assert "completed" in served.result(f"{way} trigger-long-running-operation", **steps)
    end()
    assert "1 of 2" in heard


@pytest.mark.parametrize("way", ["every", "web"])
def test_a_servers_questions_reach_the_requester(served: Served, way: str) -> None:
    """It accepts thirteen values of every kind, asked in three dialogs."""
    ben, tool = served.harness.person("ben"), f"{way} trigger-elicitation-request"
    thread = served.call(tool)
    for number in (1, 2, 3):
        asked = served.harness.said(SUPPORT, thread, f"({number} of 3)")
        open_modal(served.harness, "ben", SUPPORT, asked, "answer")
        name = {"f:a0": {"v": {"value": "Ben Hill"}}} if number == 1 else {}
        assert ben.submit(name)["outcome"] == "closed"
        served.harness.slack.wait(lambda: ben.view() is None)
    told = served.told(tool, thread)
    assert "User provided the requested information" in told
    assert "Name: Ben Hill" in told


def test_a_question_about_one_of_several_calls_is_not_answered(served: Served) -> None:
    """A server of the older protocol does not say which call it is about, over stdio."""
    slow, asks = "every trigger-long-running-operation", "every trigger-elicitation-request"
    bot, given = served.harness, {"duration": 12, "steps": 1}
    long = waiting(bot, (served.names[slow], given))
    bot.person("ana").click(SUPPORT, bot.card(SUPPORT, long)["ts"], "approve")
    bot.slack.wait(lambda: "running" in list_statuses(served, long))
    thread = served.call(asks)
    bot.said(SUPPORT, thread, f"{asks} is done.")
    assert "cancelled" in str(bot.outputs()).lower()
    assert list_statuses(served, long) == {"running"}
    bot.slack.wait(lambda: list_statuses(served, long) == {"succeeded"}, 20)
    bot.settle()  # its run asks the model once more, which must not use another test's turn


def test_a_server_that_would_have_an_address_opened_lists_no_tool_for_it(served: Served) -> None:
    """It is told that only forms are filled in."""
    assert "every trigger-elicitation-request" in served.names
    assert "every trigger-url-elicitation" not in served.names


def test_a_host_over_http_can_use_their_tools(served: Served) -> None:
    """By the bot, with a key for them."""
    key = make_key(served.harness.app.core.store.path, "desk", "@ben", ["time_*"]).key
    with start_blocking_portal() as portal:
        hosts = Hosts(served.harness, FakeTools(), portal, key, "auto")
        given = {"source_timezone": "UTC", "time": "13:00", "target_timezone": "Asia/Tokyo"}
        call = hosts.start_call("time_convert_time", **given)
        card = hosts.wait_for_card("Convert time")
        ana = served.harness.person("ana")
        ana.click(ana.dm_channel, card["ts"], "approve")
        assert "22:00" in get_host_text(call.result(30))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_servers_of_others_work_behind_the_proxy(served: Served, tmp_path: Path, mode: str) -> None:
    """A host's calls run after approval."""
    everything = [NODE, str(EVERYTHING), "stdio"]
    with run_host(served.harness, f"every-{mode}", everything, tmp_path, mode) as host:
        call = host.start_call("get-sum", a=20, b=22)
        host.approve("20")
        assert "42" in get_text(call.result(30))
    with run_host(served.harness, f"time-{mode}", [str(TIME)], tmp_path, mode) as host:
        call = host.start_call("get_current_time", timezone="Asia/Tokyo")
        host.approve("Asia/Tokyo")
        assert "Asia/Tokyo" in get_text(call.result(30))
