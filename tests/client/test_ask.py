"""`countersign ask`: what a job prints, and with which exit code it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from countersign import RequestStatus
from countersign.cli.ask import ExitCode
from countersign.cli.commands import main
from tests.client.shop import Shop, ended
from tests.pages import ROOT

EFFECT = "Deploy {version} to {env}"


def command(version: str, *more: str) -> list[str]:
    """What a job types, with values before its options and behind one of them."""
    words = ["ask", "deploy", "env=prod", "--title", "Deploy", f"version={version}"]
    return [*words, "--effect", EFFECT, "--channel", "C0SUPPORT", *more]


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one line of JSON."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_job_goes_on_with_what_was_approved(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ana edits, Cleo approves: exit 0, and the arguments as they were approved.

    What the job makes of them nobody knows, until it says so with the claim.
    """
    future = shop.begin(main, command("6.1", "--reason", "The tests are green."))
    assert "The tests are green." in str(shop.card("Deploy 6.1 to prod"))
    shop.edit("Deploy 6.1 to prod", version="6.1.2")
    shop.approve("Deploy 6.1.2 to prod", "cleo")
    assert ended(future) == ExitCode.APPROVED
    said = printed(capsys)
    assert said["arguments"] == {"env": "prod", "version": "6.1.2"}
    assert (said["status"], said["decided_by"]) == ("approved", ["UCLEO0001"])
    assert said["edited_by"] == ["UANA00001"]
    assert shop.client.get_request(said["id"]).status is RequestStatus.UNKNOWN
    assert main(["outcome", said["claim"], "failed", "--result", "the disk is full"]) == 0
    stands = shop.client.get_request(said["id"])
    assert (stands.status, stands.note) == (RequestStatus.FAILED, "the disk is full")
    assert main(["outcome", said["claim"], "succeeded"]) == 1
    assert "it has ended" in capsys.readouterr().err.lower()


@pytest.mark.parametrize("to", ["a full disk", "nowhere"])
def test_a_claim_that_cannot_be_printed_is_no_approval(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    """The job cannot act on what it does not read; people see on the card that nothing was done."""
    version = f"6.2.{len(to)}"
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full if to == "a full disk" else None)
        future = shop.begin(main, command(version))
        shop.approve(f"Deploy {version} to prod", "cleo")
        assert ended(future) == ExitCode.FAILED
    assert "its claim could not be printed" in capsys.readouterr().err
    [call] = shop.calls(version)
    assert (call.status.value, "nothing was done" in call.note) == ("failed", True)


def test_a_rejection_that_cannot_be_printed_is_one(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code and the sentence beside it say the same."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        future = shop.begin(main, command("6.13"))
        shop.reject("Deploy 6.13 to prod", "not on a Friday")
        assert ended(future) == ExitCode.DECLINED
    assert "not on a Friday" in capsys.readouterr().err


def test_a_command_runs_as_people_approved_it(
    shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is run once, with the edited values as arguments that no shell reads; what it says is the
    job's output, and how it ended stands on the card.
    """
    words = command("6.8", "--run", "job 68", "--", *script(tmp_path, "{version}", "to={env}"))
    future = shop.begin(main, words)
    assert "It runs: " in str(shop.card("Deploy 6.8 to prod"))
    shop.edit("Deploy 6.8 to prod", version="6.8; touch x $(id)")
    shop.approve("Deploy 6.8; touch x $(id) to prod", "cleo")
    assert ended(future) == ExitCode.APPROVED
    said = json.loads(capfd.readouterr().out)
    assert said["argv"] == ["6.8; touch x $(id)", "to=prod"]
    assert said["values"] == {"env": "prod", "version": "6.8; touch x $(id)"}
    [call] = shop.calls("6.8; touch")
    assert (call.status.value, "exit code 0 after" in call.note) == ("succeeded", True)
    assert main(words) == ExitCode.APPROVED
    told = capfd.readouterr()
    assert ("done before" in told.err, told.out) == (True, "")


def test_a_command_that_fails_is_no_success(
    shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit 4, whatever its own code is; the card and the record say that it failed."""
    future = shop.begin(main, command("6.9", "--", *script(tmp_path, "3")))
    shop.approve("Deploy 6.9 to prod")
    assert ended(future) == ExitCode.FAILED
    assert "exit code 3" in capfd.readouterr().err
    [call] = shop.calls('"6.9"')
    assert (call.status.value, "exit code 3" in call.note) == ("failed", True)


@pytest.mark.parametrize(
    ("behind", "says"),
    [
        ([], "the command"),
        (["echo", "{verison}"], "{verison}"),
        (["sh", "-c", "echo {version}"], "shell"),
        (["env", "X=1", "/bin/bash", "-ec", "echo {env}"], "shell"),
        (["sh", "-ce", "echo {env}"], "shell"),
        (["bash", "-Ec", "--", "echo {env}"], "shell"),
        (["bash", "-c", "-o", "pipefail", "echo {env}"], "shell"),
        (["{env}"], "must be fixed"),
        (["no-such-command-here"], "no command"),
    ],
)
def test_a_command_that_cannot_be_run_asks_nobody(
    behind: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3 before anybody is asked; above all where a shell would read what people edit."""
    with pytest.raises(SystemExit) as end:
        main(command("6.0", "--", *behind))
    assert end.value.code == ExitCode.NOT_ASKED
    assert says in capsys.readouterr().err


def script(folder: Path, *arguments: str) -> list[str]:
    """A command that prints how it was called, and ends with its first argument where it can."""
    path = folder / "deploy.py"
    path.write_text(
        "import json, os, sys\n"
        "values = json.loads(os.environ['COUNTERSIGN_ARGUMENTS'])\n"
        "print(json.dumps({'argv': sys.argv[1:], 'values': values}))\n"
        "sys.exit(int(sys.argv[1]) if sys.argv[1].isdecimal() else 0)\n"
    )
    return [sys.executable, str(path), *arguments]


def test_a_job_that_is_rejected_does_not_go_on(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, with the words of whoever rejected it."""
    future = shop.begin(main, command("6.2"))
    shop.reject("Deploy 6.2 to prod", "not on a Friday")
    assert ended(future) == ExitCode.DECLINED
    told = capsys.readouterr()
    assert json.loads(told.out)["status"] == "rejected"
    assert "not on a Friday" in told.err


def test_a_job_that_waits_in_vain(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 after the time it gave people; nobody can approve it any more."""
    assert main(command("6.3", "--wait", "3s")) == ExitCode.EXPIRED
    said = printed(capsys)
    assert said["status"] in ("expired", "cancelled")
    assert not shop.client.get_request(said["id"]).decided_by


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ask", "wipe", "what=everything"], "wipe"),
        (["ask", "note", "colour=red", "--registered"], "text"),
        (["ask", "deploy", "x=1", "--requester", "@nobody-at-all"], "nobody"),
        (["ask", "deploy", "x=1", "--approvers", "2"], "verify"),
    ],
)
def test_what_cannot_be_asked(
    shop: Shop, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """Exit 3, with a sentence and no JSON."""
    assert main(words) == ExitCode.NOT_ASKED
    told = capsys.readouterr()
    assert says in told.err
    assert not told.out


@pytest.mark.parametrize(
    "words",
    [
        ["ask"],
        ["ask", "deploy", "nothing"],
        ["ask", "deploy", "--wait", "soon"],
        ["ask", "deploy", "amount:=much"],
        ["ask", "deploy", "amount:=NaN"],
        ["ask", "deploy", "amount:=1e999"],
        ["ask", "deploy", "amount=1", "amount:=2"],
        ["ask", "deploy", "--schema", "nowhere.json"],
        ["ask", "note", "--registered", "--title", "Mine"],
        ["ask", "note", "--registered", "--", "true"],
        ["outcome", "1", "failed"],
        ["ask", "deploy", "--does", "good"],
    ],
)
def test_what_was_typed_wrongly_is_no_decision(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `ask` exit 3, not the usual 2, which would say that nobody decided in time."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == (ExitCode.NOT_ASKED if words[0] == "ask" else 2)
    assert "usage: countersign" in capsys.readouterr().err


def test_a_tool_of_the_bots_own_is_run_by_it(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --registered the bot runs it, and its result is printed; JSON values are read."""
    words = ["ask", "note", 'text:="from a job"', "--registered", "--channel", "C0SUPPORT"]
    future = shop.begin(main, words)
    shop.approve("from a job")
    assert ended(future) == ExitCode.APPROVED
    said = printed(capsys)
    assert (said["status"], said["result"]) == ("succeeded", "noted from a job")


def test_the_same_job_started_again_asks_once(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --run the second waits for the same request; what was handed out is not, again."""
    words = command("6.6", "--run", "job 66")
    first = shop.begin(main, words)
    shop.approve("Deploy 6.6 to prod")
    assert ended(first) == ExitCode.APPROVED
    assert printed(capsys)["status"] == "approved"
    assert main(words) == ExitCode.NOT_ASKED
    assert "handed out" in capsys.readouterr().err
    shop.harness.settle()
    assert shop.cards("Deploy 6.6") == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["2>/dev/full", "2>&-"])
def test_what_nobody_can_be_told_holds_nothing_up(shop: Shop, tmp_path: Path, how: str) -> None:
    """The disk of the job's log is full, or there is none: the command runs, and its end is
    reported, as anywhere.
    """
    version = f"6.12.{len(how)}"
    line = shlex.join([*command(version, "--", *script(tmp_path, "{version}"))])
    words = ["sh", "-c", f"{sys.executable} -m bot {line} {how}"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
        shop.approve(f"Deploy {version} to prod")
        assert job.wait(30) == ExitCode.APPROVED
        assert job.stdout is not None
        assert json.loads(job.stdout.read())["argv"] == [version]
    [call] = shop.calls(version)
    assert call.status.value == "succeeded"


@pytest.mark.long
def test_a_runner_ends_the_command(shop: Shop, tmp_path: Path) -> None:
    """SIGTERM reaches the command that runs, and how that ended is reported."""
    path = tmp_path / "slow.py"
    path.write_text("import signal\nprint('runs', flush=True)\nsignal.pause()\n")
    words = [sys.executable, "-m", "bot", *command("6.10", "--", sys.executable, str(path))]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
        shop.approve("Deploy 6.10 to prod")
        assert job.stdout is not None
        assert job.stdout.readline() == "runs\n"
        job.send_signal(signal.SIGTERM)
        assert job.wait(30) == ExitCode.FAILED
    shop.harness.settle()
    [call] = shop.calls('"6.10"')
    assert (call.status.value, "Signal 15 ended it" in call.note) == ("failed", True)


@pytest.mark.long
def test_of_a_job_that_dies_people_are_asked(shop: Shop, tmp_path: Path) -> None:
    """The machine goes away under the command: nobody knows how it ended, and people may say."""
    path = tmp_path / "slow.py"
    path.write_text("import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n")
    words = [sys.executable, "-m", "bot", *command("6.11", "--", sys.executable, str(path))]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
        shop.approve("Deploy 6.11 to prod")
        assert job.stdout is not None
        left = int(job.stdout.readline())
        job.kill()
        os.kill(left, signal.SIGKILL)
    shop.harness.clock.advance(301)
    shop.card("Deploy 6.11 to prod", having="resolve_done")
    [call] = shop.calls('"6.11"')
    assert call.status.value == "unknown"


@pytest.mark.long
def test_a_job_that_is_ended_takes_it_back(shop: Shop) -> None:
    """A runner ends the job while people decide: the request is cancelled."""
    words = [sys.executable, "-m", "bot", *command("6.7")]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as job:
        shop.card("Deploy 6.7 to prod")
        assert job.stderr is not None
        assert "people have 30 minutes" in job.stderr.readline()
        job.send_signal(signal.SIGTERM)
        assert job.wait(30) != ExitCode.APPROVED
    shop.harness.settle()
    [call] = shop.calls('"6.7"')
    assert call.status.value == "cancelled"
