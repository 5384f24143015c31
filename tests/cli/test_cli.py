"""The command line as a person meets it: what it prints, where, and with which exit code."""

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
PATIENCE = 40  # seconds after which a command that hangs is killed


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, none of our variables, and nobody at the keyboard."""
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
def test_what_is_no_command_ends_with_the_usage(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no command ends with a usage line and exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: countersign" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(list_installed_commands()))
def test_every_command_tells_its_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help of every command says what it takes."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: countersign {name}" in capsys.readouterr().out


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """--version says which one it is."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.count(".") == 2


def test_run_without_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` lists everything missing and everything wrong, and starts nothing.

    The policy's problems are among them.
    """
    Path("p.toml").write_text('[defaults]\napprovers = []\ndeadline = "1y"\n')
    Path(".env").write_text("SLACK_BOT_TOKEN=xoxb-from-file\nCOUNTERSIGN_POLICY=p.toml\n")
    monkeypatch.setenv("COUNTERSIGN_TICK", "99")
    assert main(["run"]) == 2
    printed = capsys.readouterr()
    told = [line.strip().split(":")[0] for line in printed.err.splitlines()[1:]]
    assert told == ["SLACK_APP_TOKEN", "COUNTERSIGN_TICK", "p.toml", "p.toml"]
    assert not printed.out
    assert not list(Path().glob("*.db*"))


def test_doctor_without_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor` with nothing set says what to set, a line each, and fails."""
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [each.split(":")[0] for each in lines[:-1]] == ["fail  settings"] * 3


def test_init_writes_a_policy_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor --init` writes policy.toml once, and says what comes next.

    A file that is there is left alone.
    """
    assert main(["doctor", "--init", "--approver", "U0123", "--approver", "@leads"]) == 0
    assert "COUNTERSIGN_POLICY=policy.toml" in capsys.readouterr().out
    text = Path("policy.toml").read_text()
    assert '["U0123", "@leads"]' in text
    assert main(["doctor", "--init", "--approver", "U0456"]) == 1
    assert "already exists and was not changed" in capsys.readouterr().err
    assert Path("policy.toml").read_text() == text


def test_init_without_approvers(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is made an approver by default: with no name and nobody to ask, nothing is written."""
    assert main(["doctor", "--init"]) == 1
    assert "--approver U0123" in capsys.readouterr().err
    assert not Path("policy.toml").exists()


def test_init_refuses_names(capsys: pytest.CaptureFixture[str]) -> None:
    """An approver that is no id and no handle is refused with what to write instead."""
    assert main(["doctor", "--init", "--approver", "Ana"]) == 1
    assert "'Ana' names nobody" in capsys.readouterr().err
    assert not Path("policy.toml").exists()


def test_approver_needs_init(capsys: pytest.CaptureFixture[str]) -> None:
    """--approver without --init would do nothing, so it is refused."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--approver", "U0123"])
    assert ended.value.code == 2
    assert "--init" in capsys.readouterr().err


@contextmanager
def command(*argv: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`countersign ...` as a process of its own in the current folder.

    Killed where it outlives its test.
    """
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", *argv],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.mark.long
def test_who_reads_no_further_hears_no_complaint() -> None:
    """As with `countersign … | head -1`: nothing is said, and the exit code is the usual one."""
    reads, writes = os.pipe()
    os.close(reads)
    words = [sys.executable, "-m", "bot", "doctor", "--init", "--approver", "U0123ABCD"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, env=environ, stdout=writes, stderr=subprocess.PIPE, check=False)
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("trouble", ["no module", "damaged", "locked", "full"])
def test_expected_trouble_is_a_sentence(
    trouble: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can be expected to keep a start from working is told in one line."""
    Path("policy.toml").write_text('[defaults]\napprovers = ["@shop-leads"]\n')
    path = Path("countersign.db")
    told, held = "The database cannot be used: ", None
    match trouble:
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
        assert main(["run"]) == (2 if trouble == "no module" else 1)
    if held is not None:
        held.close()
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(told)


def test_run_connects_and_ends_well() -> None:
    """`run` connects with what .env says, and ends with 0 on SIGTERM."""
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
        with command(
            "run", SLACK_CLIENT_ID="1.2", SLACK_CLIENT_SECRET="x", HTTPS_PROXY="http://127.0.0.1:9"
        ) as process:
            sandbox.wait(
                lambda: any(each.method == "apps.connections.open" for each in sandbox.requests),
                timeout=20,
            )
            process.terminate()
            _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "SLACK_CLIENT_ID and SLACK_CLIENT_SECRET are ignored" in err
        with command("run", SLACK_BOT_TOKEN="xoxb-wrong") as process:
            _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("Slack answers invalid_auth")
    assert "Traceback" not in err
