"""`countersign mcp-proxy --url`: servers at an address, with a login or a header."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from mcp.server.auth.provider import AccessToken

from bot.config.connection_settings import Transport
from countersign.cli import mcp_proxy
from countersign.cli.console import UsageError
from countersign.cli.mcp_proxy import build_remote_address, show_login_address
from storage.models import Call
from storage.states import CallStatus
from tests.proxy.host import Host, get_text, run_host
from tests.servers.guarded import Guarded, guarded
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness

pytestmark = pytest.mark.long
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
"""


@dataclass
class Remote:
    """The servers, a host, and the proxy between them."""

    at: Guarded
    host: Host


@pytest.fixture(params=["auto", "legacy"])
def found(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Remote]:
    """A host whose proxy has a login that somebody made at a terminal."""
    harness = Harness(tmp_path, FakeTools().tools, POLICY, Transport.HTTP)
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    with guarded(tmp_path) as at:
        log_in(at, harness, state)
        options = ["--url", at.url]
        with run_host(
            harness, "desk", [], tmp_path / "none", request.param, *options, **state
        ) as host:
            yield Remote(at, host)
    harness.close()


def log_in(at: Guarded, harness: Harness, state: dict[str, str]) -> None:
    """Start the proxy at a terminal without a screen, and log in at the address that it prints."""
    web = harness.app.endpoints.web
    assert web is not None
    plain = {
        name: each for name, each in os.environ.items() if name not in mcp_proxy.DISPLAY_VARIABLES
    }
    asked = {"COUNTERSIGN_URL": web.url, "COUNTERSIGN_API_KEY": "csk_none"}
    command = [sys.executable, "-m", "bot", "mcp-proxy", "--url", at.url]
    with subprocess.Popen(
        command,
        env={**plain, **asked, **state},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as proxy:
        assert proxy.stderr is not None
        giving_up = threading.Timer(60, proxy.kill)
        giving_up.start()
        line = proxy.stderr.readline()
        assert line.startswith("To log in at the server, open http://127.0.0.1:")
        answer = httpx2.get(line.split()[-1], follow_redirects=True)
        assert "You are logged in" in answer.text
        proxy.communicate("")
        giving_up.cancel()
    assert proxy.returncode == 0


def get_status(host: Host) -> CallStatus:
    """The status of the last call in the record."""
    call: Call = host.harness.all(Call, Call.tool == "shop_paint")[-1]
    return call.status


def test_a_call_of_a_remote_server_runs_once_it_is_approved(found: Remote) -> None:
    """With the login made at a terminal before. An expired token is renewed meanwhile."""
    call = found.host.start_call("paint", shed="the red shed")
    found.at.logins.tokens.clear()
    found.host.approve("the red shed")
    assert get_text(call.result(60)) == "the red shed is painted"
    assert found.at.done == ["the red shed"]
    assert get_status(found.host) is CallStatus.SUCCEEDED
    assert found.at.logins.given == ["login", "renewal"]


def test_a_call_answered_by_a_401_has_an_unknown_outcome(found: Remote) -> None:
    """The call was done and answered by HTTP 401. People are asked what happened."""
    found.at.doorman.after = 401
    call = found.host.start_call("paint", shed="the blue shed")
    found.host.approve("the blue shed")
    answer = call.result(60)
    assert answer.is_error
    assert "the only answer was HTTP 401: its outcome is unknown" in get_text(answer)
    assert found.at.done == ["the blue shed"]
    assert found.at.doorman.calls == ["paint"]
    found.host.harness.clock.advance(301)
    found.host.harness.settle()
    assert get_status(found.host) is CallStatus.UNKNOWN


def test_a_header_can_replace_the_login(tmp_path: Path) -> None:
    """Its value comes from a variable, and nobody has to log in."""
    harness = Harness(tmp_path, FakeTools().tools, POLICY, Transport.HTTP)
    with guarded(tmp_path) as at:
        at.logins.tokens["s3cret"] = AccessToken(token="s3cret", client_id="desk", scopes=[])
        options = ["--url", at.url, "--header", "Authorization: Bearer $SHOP_TOKEN"]
        with run_host(
            harness, "desk", [], tmp_path / "none", "auto", *options, SHOP_TOKEN="s3cret"
        ) as host:
            call = host.start_call("paint", shed="the shed")
            host.approve("the shed")
            assert get_text(call.result(60)) == "the shed is painted"
            at.logins.tokens.clear()
            assert "cannot be reached" in get_text(
                host.start_call("paint", shed="another").result(60)
            )
    harness.close()
    assert at.done == ["the shed"]
    assert at.logins.given == []


@pytest.mark.parametrize(
    ("url", "headers", "why"),
    [
        ("ftp://x", [], "must begin with https"),
        ("https://x y", [], "must begin with https"),
        ("https://x", ["Authorization: Bearer $NOT_SET"], "NOT_SET is not set"),
        ("https://x", ["Authorization"], "'Name: value'"),
        ("https://x", ["A b: c"], "'Name: value'"),
        ("https://x", ["A: b\r\nC: d"], "'Name: value'"),
        ("https://x", ["A: $TWO_LINES"], "'Name: value'"),
        ("https://x", ["A: é"], "'Name: value'"),
    ],
)
def test_a_wrong_address_or_header_is_refused(url: str, headers: list[str], why: str) -> None:
    """In words, before anything is sent, without the value of a variable."""
    with pytest.raises(UsageError, match=why) as refused:
        build_remote_address(url, headers, {"TWO_LINES": "secret\nx", "HOME": "/nowhere"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"server": [], "url": ""},
        {"server": ["x"], "url": "https://x"},
        {"server": ["x"], "url": "", "header": ["A: b"]},
    ],
)
def test_the_server_is_a_command_or_an_address(given: dict[str, object]) -> None:
    """Not both, and not neither."""
    usual = {"name": "", "hold": 50.0, "header": [], "prefix": ""}
    with pytest.raises(UsageError):
        mcp_proxy.run(SimpleNamespace(**{**usual, **given}))  # type: ignore[arg-type] # as argparse has it


def test_a_browser_is_opened_only_if_there_is_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The browser gets none of the proxy's streams, and no control characters are printed."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho on stdout\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    for each in mcp_proxy.DISPLAY_VARIABLES:
        monkeypatch.delenv(each, raising=False)
    show_login_address("https://login.example/\x1b[2J")
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err == "To log in at the server, open https://login.example/⟨U+001B⟩[2J\n"
    assert not (tmp_path / "opened").exists()
    monkeypatch.setenv("DISPLAY", ":1")
    show_login_address("https://login.example/a")
    opened = tmp_path / "opened"
    pause = threading.Event()
    for _ in range(400):
        if opened.exists() and opened.read_text():
            break
        pause.wait(0.05)
    assert opened.read_text() == "https://login.example/a\n"
