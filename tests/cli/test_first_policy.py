"""The first policy that `countersign doctor --init` writes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.doctor.doctor import write_policy
from bot.policy.evaluation import PolicyError, parse
from countersign.cli.commands import main
from tests.pages import ROOT


def test_the_first_policy_and_its_examples_work(tmp_path: Path) -> None:
    """It names its approvers, and does not overwrite an existing file."""
    path = tmp_path / "policy.toml"
    policy = write_policy(path, ["U0123", "@shop-leads"])
    assert policy.default
    assert (policy.default.approvers.users, policy.default.approvers.groups) == (
        ("U0123",),
        ("shop-leads",),
    )
    text = path.read_text()
    assert parse(text).digest == policy.digest
    body = "\n".join(
        line.removeprefix("# ") if '"' in line or "[[" in line else line
        for line in text.splitlines()
    )
    assert [each.gate.verdict for each in parse(body).rules] == ["deny", "ask", "allow"]
    with pytest.raises(FileExistsError):
        write_policy(path, ["U0456"])
    assert path.read_text() == text


@pytest.mark.parametrize("approvers", [[], ["ana"], ['U0123"]\nself_approval = true # ']])
def test_no_policy_is_written_for_invalid_approvers(tmp_path: Path, approvers: list[str]) -> None:
    """They name nobody, or contain other keys."""
    with pytest.raises(PolicyError):
        write_policy(tmp_path / "policy.toml", approvers)
    assert not list(tmp_path.iterdir())


def test_the_error_about_an_approver_repeats_what_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not name a line of a file that does not exist."""
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--init", "--approver", "Ana"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("policy.toml was not written: 'Ana' names nobody; write a user id")
    assert not list(tmp_path.iterdir())


def test_a_policy_that_could_not_be_written_is_removed(tmp_path: Path) -> None:
    """Otherwise an empty file would keep the next attempt from writing it."""
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
    script += " from bot.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-B", "-c", script, "doctor", "--init", "--approver", "U0123"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "This did not work: File too large; see `countersign doctor`.\n"
    assert not list(tmp_path.iterdir())


def test_ctrl_d_at_the_question_for_approvers_ends_the_command(tmp_path: Path) -> None:
    """The output says what to type instead."""
    master, terminal = pty.openpty()
    os.write(master, b"\x04")
    command = [sys.executable, "-m", "bot", "doctor", "--init"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, stdin=terminal, capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "Say who decides, for example: countersign doctor --init" in done.stderr
