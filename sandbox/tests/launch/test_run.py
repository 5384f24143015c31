"""`countersign sandbox --run`: the app and the sandbox end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slack_sandbox.launch.environment import LaunchError
from slack_sandbox.launch.process import run_app

ROOT = Path(__file__).parents[3]
PATIENCE = 30  # seconds
APP = """
import os
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler

app = App(token=os.environ["SLACK_BOT_TOKEN"])
SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).connect()
print("posted", app.client.chat_postMessage(channel="C0GENERAL", text="hello")["ok"], flush=True)
os._exit(7)
"""
FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def sandbox(tmp_path: Path, code: str) -> subprocess.Popen[str]:
    """The sandbox as a process of its own, with an app of this code."""
    (tmp_path / "app.py").write_text(code)
    command = [sys.executable, "-m", "bot", "sandbox", "--port", "0"]
    return subprocess.Popen(
        [*command, "--run", f"'{sys.executable}' app.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_bolt_app_runs_unchanged(tmp_path: Path) -> None:
    """It does not know of the sandbox; its exit code is passed on."""
    with sandbox(tmp_path, APP) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert out.startswith("Local Slack: http://127.0.0.1:")
    assert out.endswith("posted True\n"), err
    assert process.returncode == 7


def test_the_app_ends_with_the_sandbox(tmp_path: Path) -> None:
    """The app's own child processes end, too."""
    with sandbox(tmp_path, FAMILY) as process:
        assert process.stdout is not None
        child = next(int(line) for line in process.stdout if line.strip().isdigit())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_the_apps_exit_is_passed_on() -> None:
    """A signal is passed on as shells do; an app that cannot be started has an error."""
    assert run_app(f"'{sys.executable}' -c 'import os; os.kill(os.getpid(), 15)'", {}) == 143
    for command in ("no-such-program --x", "'open", " "):
        with pytest.raises(LaunchError, match=r"no-such-program cannot|No closing|no command"):
            run_app(command, {})
