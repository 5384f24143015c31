"""What a host and the record are told of calls that the server behind answers in its own way."""

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
from tests.proxy.host import SERVER, Host, hosting, said
from tests.servers.test_outcomes import GIVEN, NOT_TOLD, SAID_NO, SCRIPTED, TOOLS, calls
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
    """A host before a server that says what is written for it."""
    folder = tmp_path_factory.mktemp("scripted")
    script = {"tools": TOOLS, "instructions": "Read\x1b]0;this\x07 \u202eplease."}
    (folder / "answers.json").write_text(json.dumps(script))
    harness = Harness(folder, FakeTools().tools, POLICY, Transport.HTTP)
    command = [sys.executable, str(SCRIPTED), str(folder)]
    with hosting(harness, "desk", command, folder / "calls", request.param) as made:
        yield made
    harness.close()


def status(host: Host, tool: str) -> CallStatus:
    """How the last call of a tool stands in the record."""
    found: Call = host.harness.all(Call, Call.tool == f"shop_{tool}")[-1]
    return found.status


@pytest.mark.parametrize("tool", GIVEN)
def test_a_result_reaches_the_host_whatever_was_promised(host: Host, tool: str) -> None:
    """It is no error, and where it is not what was promised that is said; the record has that it
    was done.
    """
    host.portal.call(host.client.list_tools)
    result = host.calls(tool).result(60)
    assert not result.is_error
    assert "seven" in said(result)
    assert ("do not make it again" in said(result)) == (tool != "fits")
    assert status(host, tool) is CallStatus.SUCCEEDED


@pytest.mark.parametrize("tool", SAID_NO)
def test_the_servers_own_error_is_one(host: Host, tool: str) -> None:
    """With its words, and whatever its code."""
    result = host.calls(tool).result(60)
    assert result.is_error
    assert any(each in said(result) for each in ("it says no", "seven", "Connection closed"))
    assert status(host, tool) is CallStatus.FAILED


@pytest.mark.parametrize("tool", [*NOT_TOLD, "ends"])
def test_what_nobody_knows_is_told_as_that(host: Host, tool: str) -> None:
    """The host is told what was heard, and not to call again; the call is made once, and people
    are asked once its claim has lapsed. The server that ended is begun anew.
    """
    result = host.calls(tool).result(60)
    assert "Do not make it again" in said(result)
    assert ("This is what the server said" in said(result)) == (tool != "ends")
    assert calls(host.book.parent).count(tool) == 1
    assert status(host, tool) is CallStatus.RUNNING
    host.harness.clock.advance(301)
    host.harness.settle()
    assert status(host, tool) is CallStatus.UNKNOWN
    assert said(host.calls("fits").result(60)) == "seven"


def test_what_a_server_says_of_itself_is_cleaned(host: Host) -> None:
    """No control character of its words reaches the host."""
    listed = host.portal.call(host.client.list_tools)
    words = [each.description or "" for each in listed.tools] + [host.client.instructions or ""]
    assert "Does fits.⟨U+001B⟩[2J" in words
    assert host.client.instructions == "Read⟨U+001B⟩]0;this⟨U+0007⟩ ⟨U+202E⟩please."
    assert not [each for each in words if "\x1b" in each or "\u202e" in each]


def started(host: Host, *server: str) -> subprocess.Popen[str]:
    """The proxy as a process, before this server."""
    environment = {**os.environ, **(host.parameters.env or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "bot", "mcp-proxy", "--", *server],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_server_that_ends_at_once_is_told_in_a_line(host: Host) -> None:
    """And the proxy ends."""
    with started(host, sys.executable, "-c", "pass") as proxy:
        _, complaint = proxy.communicate(timeout=60)
    assert proxy.returncode == 1
    [line] = complaint.splitlines()
    assert "cannot be reached: it ended the connection" in line


def call_raw(proxy: subprocess.Popen[str], tool: str, **arguments: str) -> None:
    """Call a tool as a host does that writes JSON by itself."""
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


def test_half_a_character_of_a_hosts_is_answered(host: Host, tmp_path: Path) -> None:
    """Its call is asked with the sign for what cannot be read; it was left without an answer."""
    (tmp_path / "server.py").write_text(SERVER)
    server = [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "book")]
    with started(host, *server) as proxy:
        call_raw(proxy, "add_line", text="cut \ud83d")
        arguments = partial(host.harness.all, Revision, Revision.arguments.like("%cut \ufffd%"))
        host.harness.slack.wait(arguments, 20)
        proxy.terminate()


def test_a_signal_ends_the_proxy_soon(host: Host, tmp_path: Path) -> None:
    """Within two seconds, while a call waits for people; the server behind ends with it."""
    (tmp_path / "server.py").write_text(SERVER)
    server = [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "book")]
    with started(host, *server) as proxy:
        call_raw(proxy, "add_line", text="nobody decides")
        host.harness.slack.wait(lambda: host.harness.all(Call, Call.tool == "add_line"), 20)
        began = time.monotonic()
        proxy.send_signal(signal.SIGTERM)
        proxy.wait(20)
        assert time.monotonic() - began < 2.5
