"""Python apps as the sandbox starts them: pointed at it, and kept from everywhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sandbox.tests.launch.conftest import Start
from slack_sandbox.server import Sandbox

SHIM = Path(__file__).parents[2] / "slack_sandbox" / "launch" / "python"
PYTHON = (sys.executable, "-c")
CONNECT = "import socket; socket.create_connection(({!r}, 443))"


def test_python_clients_call_the_sandbox_by_default(start: Start, sandbox: Sandbox) -> None:
    """A client with an address of its own keeps it."""
    lines = "from slack_sdk import WebClient as C\n"
    lines += "from slack_sdk.web.async_client import AsyncWebClient as A\n"
    lines += "import os; print(C(os.environ['SLACK_BOT_TOKEN']).auth_test()['team'])\n"
    lines += "print(A('x').base_url, C(base_url='http://other/').base_url)"
    ended = start(*PYTHON, lines, HTTPS_PROXY="http://192.0.2.1:1")
    assert ended.stdout.splitlines() == ["Sandbox Coffee", f"{sandbox.api_url} http://other/"], (
        ended.stderr
    )


def test_the_sync_client_works_without_aiohttp(start: Start, sandbox: Sandbox) -> None:
    """It calls the sandbox also where aiohttp is missing."""
    lines = "import sys; sys.modules['aiohttp'] = None\n"
    lines += "from slack_sdk import WebClient; print(WebClient().base_url)"
    ended = start(*PYTHON, lines)
    assert ended.stdout.strip() == sandbox.api_url, ended.stderr


def test_an_unknown_slack_sdk_ends_the_app(start: Start, tmp_path: Path) -> None:
    """If slack_sdk has changed, the app is ended so that it cannot call Slack."""
    (tmp_path / "slack_sdk" / "web").mkdir(parents=True)
    for name in ("__init__.py", "web/__init__.py"):
        (tmp_path / "slack_sdk" / name).touch()
    (tmp_path / "slack_sdk" / "web" / "base_client.py").write_text("class BaseClient: pass")
    ended = start(*PYTHON, "import slack_sdk.web.base_client; print('on')", PYTHONPATH=".")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "local Slack: slack_sdk is not as it was, and cannot be pointed; the app was ended\n"
    )


def test_the_real_slack_is_never_reached(start: Start) -> None:
    """An app that looks up or connects to a host of Slack's is ended with a message."""
    for code in (
        "from slack_sdk import WebClient\n"
        "WebClient('xoxb-x', base_url='https://slack.com/api/').auth_test()",
        CONNECT.format("files.slack.com."),
        "import socket, sys; sys.audit('socket.connect', socket.socket(), ('Slack.com', 443))",
        "import socket; socket.gethostbyname('slack.com')",
    ):
        ended = start(*PYTHON, f"{code}\nprint('on')")
        assert (ended.returncode, ended.stdout) == (1, ""), code
        assert "the app was ended as it was about to reach" in ended.stderr
    ended = start(*PYTHON, "import sys; sys.audit('socket.gethostbyname', 'notslack.com')")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_other_machines_are_refused(start: Start) -> None:
    """A connection to another machine fails with a sentence, unless it is allowed by name."""
    ended = start(*PYTHON, CONNECT.format("192.0.2.1"))
    said = (
        "refused a connection to 192.0.2.1, which is not this machine (--allow 192.0.2.1 lets it)"
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"local Slack: {said}\n")
    assert ended.stderr.endswith(f"ConnectionRefusedError: local Slack: {said}\n")
    begun = "import socket, sys; sys.audit('socket.connect', socket.socket(), ({!r}, 443))"
    assert start(*PYTHON, begun.format("127.evil.example"), allowed=["a.example"]).returncode == 1
    assert start(*PYTHON, begun.format("a.example"), allowed=["A.example"]).returncode == 0


def test_the_apps_own_sitecustomize_is_run_too(start: Start, tmp_path: Path) -> None:
    """Python reads it at its start, besides that of the sandbox."""
    (tmp_path / "sitecustomize.py").write_text("print('its own')")
    assert start(*PYTHON, "", PYTHONPATH=str(tmp_path)).stdout == "its own\n"


def test_a_guard_without_its_settings_ends_the_app() -> None:
    """Python has the file but not the list of what it may reach."""
    environ = {"PYTHONPATH": str(SHIM)}
    ended = subprocess.run(
        [*PYTHON, "print('on')"], env=environ, capture_output=True, text=True, timeout=30
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "KeyError('LOCAL_SLACK')" in ended.stderr


def test_a_program_without_the_guard_meets_a_proxy(start: Start) -> None:
    """Programs that read no sitecustomize get proxies that lead nowhere."""
    code = "from slack_sdk import WebClient\nWebClient('xoxb-x', retry_handlers=[]).auth_test()"
    ended = start(sys.executable, "-I", "-c", code)
    assert ended.returncode == 1
    assert "Connection refused" in ended.stderr
