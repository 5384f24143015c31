"""The command line as a person meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from bot.__main__ import main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, none of our variables, and nobody at the keyboard."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "OPENAI_API_KEY", "COUNTERSIGN_POLICY", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return tmp_path


@pytest.mark.parametrize("argv", [[], ["walk"], ["demo", "--port", "x"], ["run", "--fresh"]])
def test_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is no command ends with a usage line and exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: countersign" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version says which one it is."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.count(".") == 2


def test_run_without_settings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` lists everything missing and everything wrong, the policy's problems included, and starts nothing."""
    Path("p.toml").write_text('[defaults]\napprovers = []\ndeadline = "1y"\n')
    Path(".env").write_text("SLACK_BOT_TOKEN=xoxb-from-file\nCOUNTERSIGN_POLICY=p.toml\n")
    monkeypatch.setenv("COUNTERSIGN_TICK", "99")
    assert main(["run"]) == 1
    printed = capsys.readouterr()
    told = [line.strip().split(":")[0] for line in printed.err.splitlines()[1:]]
    assert told == ["SLACK_APP_TOKEN", "OPENAI_API_KEY", "COUNTERSIGN_TICK", "p.toml", "p.toml"]
    assert not printed.out
    assert not list(Path().glob("*.db*"))


def test_doctor_without_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor` with nothing set says what to set, a line each, and fails."""
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [each.split(":")[0] for each in lines[:-1]] == ["fail  settings"] * 4


def test_init(capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor --init` writes policy.toml once, says what comes next, and leaves a file that is there alone."""
    assert main(["doctor", "--init", "--approver", "U0123", "--approver", "@leads"]) == 0
    assert "COUNTERSIGN_POLICY=policy.toml" in capsys.readouterr().out
    text = Path("policy.toml").read_text()
    assert '["U0123", "@leads"]' in text
    assert main(["doctor", "--init", "--approver", "U0456"]) == 1
    assert Path("policy.toml").read_text() == text


def test_init_without_approvers(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is made an approver by default: without a name, and nobody to ask, nothing is written."""
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
