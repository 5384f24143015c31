"""`countersign ask`: what a job prints, and its exit code."""

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
from countersign.cli.process import END_SIGNALS
from tests.client.shop import Shop, get_result
from tests.pages import ROOT

EFFECT = "Deploy {version} to {env}"


def build_command(version: str, *more: str) -> list[str]:
    """What a job types, with values before its options and between them."""
    words = ["ask", "deploy", "env=prod", "--title", "Deploy", f"version={version}"]
    return [*words, "--effect", EFFECT, "--channel", "C0SUPPORT", *more]


def read_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one line of JSON that was printed."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_job_gets_the_approved_arguments_and_reports_its_end(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ana edits, Cleo approves: exit code 0, and the approved arguments.

    The outcome is unknown until the job reports it with the claim.
    """
    future = shop.start(main, build_command("6.1", "--reason", "The tests are green."))
    assert "The tests are green." in str(shop.wait_for_card("Deploy 6.1 to prod"))
    shop.edit("Deploy 6.1 to prod", version="6.1.2")
    shop.approve("Deploy 6.1.2 to prod", "cleo")
    assert get_result(future) == ExitCode.APPROVED
    said = read_json(capsys)
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
def test_an_approval_that_cannot_be_printed_fails(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    """The job cannot act on what it cannot read; the card says that nothing was done."""
    version = f"6.2.{len(to)}"
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full if to == "a full disk" else None)
        future = shop.start(main, build_command(version))
        shop.approve(f"Deploy {version} to prod", "cleo")
        assert get_result(future) == ExitCode.FAILED
    assert "its claim could not be printed" in capsys.readouterr().err
    [call] = shop.list_calls(version)
    assert (call.status.value, "nothing was done" in call.note) == ("failed", True)


def test_a_rejection_that_cannot_be_printed_stays_a_rejection(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code and the sentence say the same."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        future = shop.start(main, build_command("6.13"))
        shop.reject("Deploy 6.13 to prod", "not on a Friday")
        assert get_result(future) == ExitCode.DECLINED
    assert "not on a Friday" in capsys.readouterr().err


def test_a_command_runs_once_with_the_approved_values(
    shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once, with the edited values as arguments that no shell reads.

    The job prints its output, and the card shows its end.
    """
    words = build_command(
        "6.8", "--run", "job 68", "--", *build_script_command(tmp_path, "{version}", "to={env}")
    )
    future = shop.start(main, words)
    assert "It runs: " in str(shop.wait_for_card("Deploy 6.8 to prod"))
    shop.edit("Deploy 6.8 to prod", version="6.8; touch x $(id)")
    shop.approve("Deploy 6.8; touch x $(id) to prod", "cleo")
    assert get_result(future) == ExitCode.APPROVED
    said = json.loads(capfd.readouterr().out)
    assert said["argv"] == ["6.8; touch x $(id)", "to=prod"]
    assert said["values"] == {"env": "prod", "version": "6.8; touch x $(id)"}
    [call] = shop.list_calls("6.8; touch")
    assert (call.status.value, "exit code 0 after" in call.note) == ("succeeded", True)
    assert main(words) == ExitCode.APPROVED
    told = capfd.readouterr()
    assert ("done before" in told.err, told.out) == (True, "")


def test_a_failed_command_gives_exit_code_4(
    shop: Shop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever its own code is; the card and the record say that it failed."""
    future = shop.start(main, build_command("6.9", "--", *build_script_command(tmp_path, "3")))
    shop.approve("Deploy 6.9 to prod")
    assert get_result(future) == ExitCode.FAILED
    assert "exit code 3" in capfd.readouterr().err
    [call] = shop.list_calls('"6.9"')
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
        ([r"C:\ci\Deploy.BAT", "{env}"], "shell"),
        (["env", "npm.cmd", "run", "{env}"], "shell"),
        (["{env}"], "must be fixed"),
        (["no-such-command-here"], "no command"),
    ],
)
def test_a_command_that_cannot_be_run_asks_nobody(
    behind: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 before anybody is asked, above all where a shell would read edited values."""
    with pytest.raises(SystemExit) as end:
        main(build_command("6.0", "--", *behind))
    assert end.value.code == ExitCode.NOT_ASKED
    assert says in capsys.readouterr().err


def build_script_command(folder: Path, *arguments: str) -> list[str]:
    """A command that prints its arguments, and exits with the first one if it is a number."""
    path = folder / "deploy.py"
    path.write_text(
        "import json, os, sys\n"
        "values = json.loads(os.environ['COUNTERSIGN_ARGUMENTS'])\n"
        "print(json.dumps({'argv': sys.argv[1:], 'values': values}))\n"
        "sys.exit(int(sys.argv[1]) if sys.argv[1].isdecimal() else 0)\n"
    )
    return [sys.executable, str(path), *arguments]


def test_a_rejected_job_gets_exit_code_1(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """With the words of the person who rejected it."""
    future = shop.start(main, build_command("6.2"))
    shop.reject("Deploy 6.2 to prod", "not on a Friday")
    assert get_result(future) == ExitCode.DECLINED
    told = capsys.readouterr()
    assert json.loads(told.out)["status"] == "rejected"
    assert "not on a Friday" in told.err


def test_a_job_nobody_decided_about_gets_exit_code_2(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can approve the request any more."""
    assert main(build_command("6.3", "--wait", "3s")) == ExitCode.EXPIRED
    said = read_json(capsys)
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
def test_a_request_that_cannot_be_made_gets_exit_code_3(
    shop: Shop, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """With a sentence and no JSON."""
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
def test_wrong_usage_of_ask_gets_exit_code_3(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the usual 2, which means for `ask` that nobody decided in time."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == (ExitCode.NOT_ASKED if words[0] == "ask" else 2)
    assert "usage: countersign" in capsys.readouterr().err


def test_the_bot_runs_its_own_tool_with_registered(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its result is printed; values in JSON are read."""
    words = ["ask", "note", 'text:="from a job"', "--registered", "--channel", "C0SUPPORT"]
    future = shop.start(main, words)
    shop.approve("from a job")
    assert get_result(future) == ExitCode.APPROVED
    said = read_json(capsys)
    assert (said["status"], said["result"]) == ("succeeded", "noted from a job")


def test_a_bug_is_no_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python's own exit code after an error is 1, which means that people have said no."""
    schema = tmp_path / "deep.json"
    schema.write_text("[" * 100_000 + "]" * 100_000)
    assert main(["ask", "deploy", "x=1", "--schema", str(schema)]) == ExitCode.NOT_ASKED
    assert "Traceback" in capsys.readouterr().err


def test_a_result_of_the_bot_that_cannot_be_printed_is_no_rejection(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was approved and has run; the job has not got it."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        words = ["ask", "note", "text=on a full disk", "--registered", "--channel", "C0SUPPORT"]
        future = shop.start(main, words)
        shop.approve("on a full disk")
        assert get_result(future) == ExitCode.FAILED
    assert "No space left" in capsys.readouterr().err


def test_a_job_started_again_with_run_asks_once(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits for the same request; a claim that was handed out is not handed out again."""
    words = build_command("6.6", "--run", "job 66")
    first = shop.start(main, words)
    shop.approve("Deploy 6.6 to prod")
    assert get_result(first) == ExitCode.APPROVED
    assert read_json(capsys)["status"] == "approved"
    assert main(words) == ExitCode.NOT_ASKED
    assert "handed out" in capsys.readouterr().err
    shop.harness.settle()
    assert shop.count_cards("Deploy 6.6") == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["2>/dev/full", "2>&-"])
def test_a_command_runs_though_its_log_cannot_be_written(
    shop: Shop, tmp_path: Path, how: str
) -> None:
    """The disk of the job's log is full, or there is no log. The command's end is reported."""
    version = f"6.12.{len(how)}"
    line = shlex.join([*build_command(version, "--", *build_script_command(tmp_path, "{version}"))])
    words = ["sh", "-c", f"{sys.executable} -m bot {line} {how}"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
        shop.approve(f"Deploy {version} to prod")
        assert job.wait(30) == ExitCode.APPROVED
        assert job.stdout is not None
        assert json.loads(job.stdout.read())["argv"] == [version]
    [call] = shop.list_calls(version)
    assert call.status.value == "succeeded"


@pytest.mark.long
@pytest.mark.usefixtures("ending_hangups")
@pytest.mark.parametrize("end", END_SIGNALS)
def test_ending_a_job_ends_its_command(shop: Shop, tmp_path: Path, end: signal.Signals) -> None:
    """The signal is passed on, and the command's end is reported."""
    version = f"6.10.{end}"
    path = tmp_path / "slow.py"
    path.write_text("import signal\nprint('runs', flush=True)\nsignal.pause()\n")
    words = [sys.executable, "-m", "bot", *build_command(version, "--", sys.executable, str(path))]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
        shop.approve(f"Deploy {version} to prod")
        assert job.stdout is not None
        assert job.stdout.readline() == "runs\n"
        job.send_signal(end)
        assert job.wait(30) == ExitCode.FAILED
    shop.harness.settle()
    [call] = shop.list_calls(f'"{version}"')
    assert (call.status.value, f"Signal {end} ended it" in call.note) == ("failed", True)


@pytest.mark.long
def test_people_are_asked_for_the_outcome_of_a_killed_job(shop: Shop, tmp_path: Path) -> None:
    """The job and its command are killed; nobody knows how it ended."""
    path = tmp_path / "slow.py"
    path.write_text("import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n")
    words = [sys.executable, "-m", "bot", *build_command("6.11", "--", sys.executable, str(path))]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as job:
        shop.approve("Deploy 6.11 to prod")
        assert job.stdout is not None
        left = int(job.stdout.readline())
        job.kill()
        os.kill(left, signal.SIGKILL)
    shop.harness.clock.advance(301)
    shop.wait_for_card("Deploy 6.11 to prod", having="resolve_done")
    [call] = shop.list_calls('"6.11"')
    assert call.status.value == "unknown"


@pytest.mark.long
@pytest.mark.usefixtures("ending_hangups")
@pytest.mark.parametrize("end", END_SIGNALS)
def test_ending_a_waiting_job_cancels_its_request(shop: Shop, end: signal.Signals) -> None:
    """The runner ends it while people decide, or its terminal hangs up."""
    version = f"6.7.{end}"
    words = [sys.executable, "-m", "bot", *build_command(version)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as job:
        shop.wait_for_card(f"Deploy {version} to prod")
        assert job.stderr is not None
        assert "people have 30 minutes" in job.stderr.readline()
        job.send_signal(end)
        assert job.wait(30) != ExitCode.APPROVED
    shop.harness.settle()
    [call] = shop.list_calls(f'"{version}"')
    assert call.status.value == "cancelled"
