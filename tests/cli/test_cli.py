"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from countersign.cli.commands import list_installed_commands, main
from storage.sqlite_connections import PRAGMAS
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner

ROOT = Path(__file__).parents[2]
MAX_SECONDS = 40  # seconds after which a command that hangs is killed


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, none of our variables, and no input."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "OPENAI_API_KEY",
        "COUNTERSIGN_POLICY",
        "DATABASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    handler = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["walk"],
        ["explain"],
        ["explain", "x", "--at", "noon"],
        ["demo", "--port", "x"],
        ["run", "--port", "1"],
    ],
)
def test_wrong_arguments_end_with_the_usage(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: countersign" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(list_installed_commands()))
def test_every_command_has_a_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help prints the usage of that command."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: countersign {name}" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """It has three parts."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.count(".") == 2


def test_run_without_settings_lists_everything_that_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The problems of the policy are among them. Nothing is started."""
    Path("p.toml").write_text('[defaults]\napprovers = []\ndeadline = "1y"\n')
    Path(".env").write_text("SLACK_BOT_TOKEN=xoxb-from-file\nCOUNTERSIGN_POLICY=p.toml\n")
    monkeypatch.setenv("COUNTERSIGN_TICK", "99")
    assert main(["run"]) == 2
    printed = capsys.readouterr()
    told = [line.strip().split(":")[0] for line in printed.err.splitlines()[1:]]
    assert told == ["SLACK_APP_TOKEN", "COUNTERSIGN_TICK", "p.toml", "p.toml"]
    assert not printed.out
    assert not list(Path().glob("*.db*"))


def test_doctor_without_settings_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    """Each setting has a line, and the exit code is 1."""
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [each.split(":")[0] for each in lines[:-1]] == ["fail  settings"] * 3


def test_doctor_init_writes_a_policy_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The output says what comes next. An existing file is not changed."""
    assert main(["doctor", "--init", "--approver", "U0123", "--approver", "@leads"]) == 0
    assert "COUNTERSIGN_POLICY=policy.toml" in capsys.readouterr().out
    text = Path("policy.toml").read_text()
    assert '["U0123", "@leads"]' in text
    assert main(["doctor", "--init", "--approver", "U0456"]) == 1
    assert "already exists and was not changed" in capsys.readouterr().err
    assert Path("policy.toml").read_text() == text


def test_doctor_init_without_approvers_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is an approver by default, and there is nobody to ask."""
    assert main(["doctor", "--init"]) == 1
    assert "--approver U0123" in capsys.readouterr().err
    assert not Path("policy.toml").exists()


def test_doctor_init_refuses_an_approver_without_id_or_handle(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error says what to write instead."""
    assert main(["doctor", "--init", "--approver", "Ana"]) == 1
    assert "'Ana' names nobody" in capsys.readouterr().err
    assert not Path("policy.toml").exists()


def test_the_approver_option_needs_init(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --init it would do nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--approver", "U0123"])
    assert ended.value.code == 2
    assert "--init" in capsys.readouterr().err


@contextmanager
def start_command(*argv: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start `countersign …` as a process in the current folder; it is killed after the test."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", *argv],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(MAX_SECONDS, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_closed_pipe_ends_a_command_quietly() -> None:
    """As with `countersign … | head -1`; the exit code is the usual one."""
    reads, writes = os.pipe()
    os.close(reads)
    words = [sys.executable, "-m", "bot", "doctor", "--init", "--approver", "U0123ABCD"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, env=environ, stdout=writes, stderr=subprocess.PIPE, check=False)
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("problem", ["no module", "damaged", "locked", "full"])
def test_an_expected_problem_at_the_start_is_one_line(
    problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is missing, or the database is damaged, locked or full."""
    Path("policy.toml").write_text('[defaults]\napprovers = ["@shop-leads"]\n')
    path = Path("countersign.db")
    told, held = "The database cannot be used: ", None
    match problem:
        case "no module":
            monkeypatch.setenv("COUNTERSIGN_TOOLS", "nonexist")
            told = "Countersign cannot start: the tools cannot be used: nonexist cannot be imported"
        case "damaged":
            path.write_text("this is no database" * 100)
        case "locked":
            held = sqlite3.connect(path, isolation_level=None)
            held.execute("PRAGMA locking_mode=EXCLUSIVE")
            held.execute("BEGIN EXCLUSIVE")
            monkeypatch.setattr("storage.sqlite_connections.LOCK_TIMEOUT_SECONDS", 0.1)
        case "full":
            monkeypatch.setattr(
                "storage.sqlite_connections.PRAGMAS", (*PRAGMAS, "PRAGMA max_page_count=2")
            )
    with build_local_slack() as sandbox:
        for name, value in {
            "SLACK_BOT_TOKEN": sandbox.bot_token,
            "SLACK_APP_TOKEN": sandbox.app_token,
            "SLACK_API_URL": sandbox.api_url,
            "OPENAI_API_KEY": "offline",
            "COUNTERSIGN_POLICY": "policy.toml",
        }.items():
            monkeypatch.setenv(name, value)
        assert main(["run"]) == (2 if problem == "no module" else 1)
    if held is not None:
        held.close()
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(told)


def test_run_connects_and_ends_on_sigterm() -> None:
    """It uses the settings in .env, and its exit code is 0. A wrong token ends it with 1."""
    Path("policy.toml").write_text('[defaults]\napprovers = ["@shop-leads"]\n')
    with build_local_slack() as sandbox, StrictPlanner() as planner:
        variables = {
            "SLACK_BOT_TOKEN": sandbox.bot_token,
            "SLACK_APP_TOKEN": sandbox.app_token,
            "SLACK_API_URL": sandbox.api_url,
            "OPENAI_API_KEY": "offline",
            "OPENAI_BASE_URL": planner.url,
            "COUNTERSIGN_POLICY": "policy.toml",
        }
        Path(".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        with start_command(
            "run", SLACK_CLIENT_ID="1.2", SLACK_CLIENT_SECRET="x", HTTPS_PROXY="http://127.0.0.1:9"
        ) as process:
            sandbox.wait(
                lambda: any(each.method == "apps.connections.open" for each in sandbox.requests),
                timeout=20,
            )
            process.terminate()
            _, err = process.communicate(timeout=MAX_SECONDS)
        assert process.returncode == 0, err
        assert "SLACK_CLIENT_ID and SLACK_CLIENT_SECRET are ignored" in err
        with start_command("run", SLACK_BOT_TOKEN="xoxb-wrong") as process:
            _, err = process.communicate(timeout=MAX_SECONDS)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("Slack answers invalid_auth")
    assert "Traceback" not in err
