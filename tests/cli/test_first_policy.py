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


def test_the_first_policy_works(tmp_path: Path) -> None:
    """--init writes a policy that works, names its approvers, and whose examples work too.

    It never overwrites.
    """
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
def test_approvers_that_name_nobody_write_nothing(tmp_path: Path, approvers: list[str]) -> None:
    """Approvers that name nobody, or smuggle in other keys, write nothing."""
    with pytest.raises(PolicyError):
        write_policy(tmp_path / "policy.toml", approvers)
    assert not list(tmp_path.iterdir())


def test_it_is_said_what_was_wrong_with_an_approver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words about what was typed, not about a line of a file that is not there."""
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--init", "--approver", "Ana"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("policy.toml was not written: 'Ana' names nobody; write a user id")
    assert not list(tmp_path.iterdir())


def test_a_policy_that_could_not_be_written_is_not_there(tmp_path: Path) -> None:
    """Else it is empty, and the next try leaves it as it is."""
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


def test_who_does_not_say_who_decides_is_asked_again(tmp_path: Path) -> None:
    """Ctrl-D at the question ends the command with what to type."""
    master, terminal = pty.openpty()
    os.write(master, b"\x04")
    command = [sys.executable, "-m", "bot", "doctor", "--init"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, stdin=terminal, capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "Say who decides, for example: countersign doctor --init" in done.stderr
