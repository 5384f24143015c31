"""The demo: what it prints, and the commands that it suggests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.tools.web_shop import Shop
from countersign.cli.commands import main
from slack_sandbox.ports import PortTakenError, free_port
from storage.sqlite import lock_database
from tests.cli.test_cli import MAX_SECONDS, ROOT, start_command
from tests.local_slack import build_local_slack


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty working folder with a path short enough for sockets, and no model."""
    with TemporaryDirectory() as folder, monkeypatch.context() as there:
        there.chdir(folder)
        there.delenv("OPENAI_API_KEY", raising=False)
        yield


@pytest.mark.long
def test_the_demo_starts_in_a_folder_too_deep_for_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why no program can ask."""
    deep = Path("a" * 60, "b" * 60)
    deep.mkdir(parents=True)
    with monkeypatch.context() as there:
        there.chdir(deep)
        with start_command("demo", "--port", "0") as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(5)]
    assert lines[0].startswith("Countersign demo: http://127.0.0.1:")
    assert "a shorter path" in lines[4]


@pytest.mark.long
def test_the_commands_that_the_demo_prints_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed job asks, and Ana approves it at a terminal. Ctrl-C ends the demo with 0."""
    with start_command("demo", "--port", "0") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        start, address = lines[0].rstrip().rsplit(" ", 1)
        assert start == "Countersign demo:"
        assert address.startswith("http://127.0.0.1:")
        assert "http" not in "".join(lines[1:])
        with urllib.request.urlopen(f"{address}/sandbox/people", timeout=5) as answer:
            assert b"Ana Ruiz" in answer.read()
        assert os.stat("var/demo/program.sh").st_mode & 0o077 == 0
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            ["sh", "-c", lines[5]], env=environ, stdout=subprocess.PIPE, text=True
        ) as job:
            with monkeypatch.context() as there:
                there.chdir("var/demo")
                assert main(["approve", wait_for_request("Deploy 2.8.0 to prod", capsys)]) == 0
            told, _ = job.communicate(timeout=MAX_SECONDS)
        assert job.returncode == 0
        assert json.loads(told)["arguments"] == {"version": "2.8.0", "env": "prod"}
        assert json.loads(told)["decided_by"] == ["UANA00001"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=MAX_SECONDS)
    assert (process.returncode, out) == (0, ""), err
    assert err == ""
    assert Path("var/demo/countersign.db").is_file()
    assert Shop("var/demo/shop.db").get_order(1042).id == 1042


def wait_for_request(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Wait for a request with this text in `countersign pending`; returns its id."""
    until = time.monotonic() + MAX_SECONDS
    while time.monotonic() < until:
        assert main(["pending"]) == 0
        if found := re.search(rf"^(\S+)  {re.escape(text)}", capsys.readouterr().out, re.M):
            return found[1]
    raise TimeoutError(text)


def test_a_second_demo_removes_nothing_of_a_running_one(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with 1 and names the process and the page of the running one."""
    folder = Path("var/demo")
    folder.mkdir(parents=True)
    (folder / "shop.db").write_text("precious")
    with closing(lock_database(folder / "countersign.db")):
        (folder / "demo.url").write_text("http://127.0.0.1:8765")
        assert main(["demo"]) == 1
    told = capsys.readouterr().err
    assert f"(process {os.getpid()})" in told
    assert "its page is http://127.0.0.1:8765" in told
    assert (folder / "shop.db").read_text() == "precious"


def test_the_demo_refuses_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    """The port was asked for with --port."""
    with build_local_slack() as sandbox:
        port = int(sandbox.url.rsplit(":", 1)[1])
        with pytest.raises(PortTakenError, match=f"port {port} is taken"):
            free_port(port)
        assert main(["demo", "--port", str(port)]) == 1
        assert "--port" in capsys.readouterr().err
    with pytest.raises(PortTakenError, match="80000 is not a port"):
        free_port(80_000)
