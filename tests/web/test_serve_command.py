"""`countersign serve` as a process of its own, and its errors when it cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from countersign.cli.commands import main
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack
from tests.pages import ROOT
from tests.records import settings_of
from tests.stories.over_http import asked_at
from tests.web.requests import Sender, build_event

POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def slack() -> Iterator[Sandbox]:
    """A local Slack for one bot."""
    with build_local_slack() as server:
        yield server


@pytest.fixture
def environ(tmp_path: Path, slack: Sandbox) -> dict[str, str]:
    """The settings that a start needs."""
    (tmp_path / "policy.toml").write_text(POLICY)
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.world.app.signing_secret,
        "SLACK_API_URL": slack.api_url,
        "COUNTERSIGN_POLICY": "policy.toml",
        **settings_of(tmp_path / "countersign.db"),
    }


@pytest.mark.long
def test_serve_listens_takes_deliveries_and_ends_on_sigterm(
    tmp_path: Path, slack: Sandbox, environ: dict[str, str]
) -> None:
    """It says where it listens, and its exit code is 0."""
    command = [sys.executable, "-m", "bot", "serve", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        line = next(each for each in process.stderr if "listening at" in each)
        url = line.split("listening at ")[1].strip()
        assert url.startswith("http://127.0.0.1:")
        asked_at(slack.world.app.manifest, url)
        assert slack.person("ben").command("C0SUPPORT", "/approvals help").wait() == "acked"
        now = int(slack.clock.now().timestamp())
        sender = Sender(url, environ["SLACK_SIGNING_SECRET"], now)
        assert sender.post(build_event("over HTTP")) == 200
        slack.wait(lambda: sender.ask("GET", "/readyz")[0] == 200)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        with pytest.raises(OSError, match="refused"):
            sender.post(build_event("to nobody"))
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize(
    ("words", "missing", "said"),
    [
        (["serve"], "SLACK_SIGNING_SECRET", "SLACK_SIGNING_SECRET: is missing."),
        (["serve", "--port", "65536"], "", "'65536' is not a port"),
    ],
)
def test_serve_says_why_it_cannot_start(
    tmp_path: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    missing: str,
    said: str,
) -> None:
    """The error is a line with the remedy."""
    monkeypatch.chdir(tmp_path)
    for name, value in environ.items():
        if name != missing:
            monkeypatch.setenv(name, value)
    if missing:
        assert main(words) == 2
    else:
        with pytest.raises(SystemExit):
            main(words)
    assert said in capsys.readouterr().err


def test_serve_names_the_extra_to_install(tmp_path: Path, environ: dict[str, str]) -> None:
    """The packages of the extra are missing."""
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')")
    hidden = environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "bot", "serve", "--port", "0"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=hidden, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    assert "need starlette: pip install 'countersign-bot[serve]'" in ended.stderr


def test_serve_for_many_workspaces_names_a_missing_package(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """There is no traceback."""
    (tmp_path / "httpx2.py").write_text("raise ModuleNotFoundError(name='httpx2')")
    app = {"COUNTERSIGN_CLIENT_ID": "1.2", "COUNTERSIGN_CLIENT_SECRET": "s" * 32}
    hidden = environ | app | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    hidden["COUNTERSIGN_URL"] = "https://bot.example.com"
    for each in ("SLACK_BOT_TOKEN", "DATABASE_URL"):
        hidden.pop(each, None)
    command = [sys.executable, "-m", "bot", "serve", "--port", "0"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=hidden, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    assert "need httpx2: pip install 'countersign-bot[serve]'" in ended.stderr
    assert "Traceback" not in ended.stderr
