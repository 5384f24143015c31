"""What the host and the record get from servers that answer in odd ways."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bot.config.connection_settings import Transport
from storage.models import Call, Revision
from storage.states import CallStatus
from tests.proxy.host import SERVER, Host, get_text, run_host
from tests.servers.test_outcomes import ERRORS, RESULTS, SCRIPTED, TOOLS, UNCLEAR, read_calls
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness

pytestmark = pytest.mark.long
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]

[[rule]]
name = "nobody is asked here"
tool = "shop_*"
verdict = "allow"
"""


@pytest.fixture(scope="module", params=["auto", "legacy"])
def host(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Host]:
    """A host before a server with scripted answers."""
    folder = tmp_path_factory.mktemp("scripted")
    script = {"tools": TOOLS, "instructions": "Read\x1b]0;this\x07 \u202eplease."}
    (folder / "answers.json").write_text(json.dumps(script))
    harness = Harness(folder, FakeTools().tools, POLICY, Transport.HTTP)
    command = [sys.executable, str(SCRIPTED), str(folder)]
    with run_host(harness, "desk", command, folder / "calls", request.param) as made:
        yield made
    harness.close()


def get_status(host: Host, tool: str) -> CallStatus:
    """The status of the last call of a tool in the record."""
    found: Call = host.harness.all(Call, Call.tool == f"shop_{tool}")[-1]
    return found.status


@pytest.mark.parametrize("tool", RESULTS)
def test_a_result_reaches_the_host_though_it_breaks_its_schema(host: Host, tool: str) -> None:
    """If it is not of the promised form, a note says so. The record has success."""
    host.portal.call(host.client.list_tools)
    result = host.start_call(tool).result(60)
    assert not result.is_error
    assert "seven" in get_text(result)
    assert ("do not make it again" in get_text(result)) == (tool != "fits")
    assert get_status(host, tool) is CallStatus.SUCCEEDED


@pytest.mark.parametrize("tool", ERRORS)
def test_the_servers_own_error_fails_the_call(host: Host, tool: str) -> None:
    """With its words, whatever its code."""
    result = host.start_call(tool).result(60)
    assert result.is_error
    reasons = ("it says no", "seven", "Connection closed", "failed, but not why")
    assert any(each in get_text(result) for each in reasons)
    assert get_status(host, tool) is CallStatus.FAILED


@pytest.mark.parametrize("tool", [*UNCLEAR, "ends"])
def test_an_unclear_answer_leaves_the_outcome_unknown(host: Host, tool: str) -> None:
    """The host gets the answer and is told not to call again.

    The call is made once; people are asked once its claim has expired. A server that ended is
    started again.
    """
    result = host.start_call(tool).result(60)
    assert "Do not make it again" in get_text(result)
    assert ("This is what the server said" in get_text(result)) == (tool != "ends")
    assert read_calls(host.book.parent).count(tool) == 1
    assert get_status(host, tool) is CallStatus.RUNNING
    host.harness.clock.advance(301)
    host.harness.settle()
    assert get_status(host, tool) is CallStatus.UNKNOWN
    assert get_text(host.start_call("fits").result(60)) == "seven"


def test_a_servers_descriptions_are_cleaned(host: Host) -> None:
    """No control characters reach the host."""
    listed = host.portal.call(host.client.list_tools)
    words = [each.description or "" for each in listed.tools] + [host.client.instructions or ""]
    assert "Does fits.⟨U+001B⟩[2J" in words
    assert host.client.instructions == "Read⟨U+001B⟩]0;this⟨U+0007⟩ ⟨U+202E⟩please."
    assert not [each for each in words if "\x1b" in each or "\u202e" in each]


def start_proxy(host: Host, *server: str) -> subprocess.Popen[str]:
    """Start the proxy as a process, before this server."""
    environment = {**os.environ, **(host.parameters.env or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "bot", "mcp-proxy", "--", *server],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_server_that_ends_at_once_is_reported_in_a_line(host: Host) -> None:
    """The proxy ends, too."""
    with start_proxy(host, sys.executable, "-c", "pass") as proxy:
        _, complaint = proxy.communicate(timeout=60)
    assert proxy.returncode == 1
    [line] = complaint.splitlines()
    assert "cannot be reached: it ended the connection" in line


def call_raw(proxy: subprocess.Popen[str], tool: str, **arguments: str) -> None:
    """Call a tool as a host that writes JSON itself."""
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    call = {"name": tool, "arguments": arguments}
    for number, (method, given) in enumerate([("initialize", hello), ("tools/call", call)]):
        sent = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        proxy.stdin.write(f"{json.dumps(sent)}\n")
        proxy.stdin.flush()
        if number == 0:
            assert "serverInfo" in proxy.stdout.readline()
            proxy.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')


def test_a_call_with_half_a_character_is_asked(host: Host, tmp_path: Path) -> None:
    """It is replaced in the request. Once such a call got no answer."""
    (tmp_path / "server.py").write_text(SERVER)
    server = [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "book")]
    with start_proxy(host, *server) as proxy:
        call_raw(proxy, "add_line", text="cut \ud83d")
        arguments = partial(host.harness.all, Revision, Revision.arguments.like("%cut \ufffd%"))
        host.harness.slack.wait(arguments, 20)
        proxy.terminate()


def test_a_signal_ends_the_proxy_soon(host: Host, tmp_path: Path) -> None:
    """Within two seconds, while a call waits for people, and with the server behind it."""
    (tmp_path / "server.py").write_text(SERVER)
    server = [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "book")]
    with start_proxy(host, *server) as proxy:
        call_raw(proxy, "add_line", text="nobody decides")
        host.harness.slack.wait(lambda: host.harness.all(Call, Call.tool == "add_line"), 20)
        began = time.monotonic()
        proxy.send_signal(signal.SIGTERM)
        proxy.wait(20)
        assert time.monotonic() - began < 2.5
