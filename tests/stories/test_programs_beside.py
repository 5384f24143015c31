"""Programs in processes of their own put calls before people through the socket."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bot.programs.program_client import (
    NotRunningError,
    Requested,
    TurnedAwayError,
    read_told,
    request,
    socket_path,
)
from storage.models import Run
from storage.states import RunSource
from tests.added_package import add_package
from tests.pages import ROOT, blocks
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import reject, vote

BEN = "UBEN00001"
PAGE = blocks(ROOT / "docs" / "extending.md", "python")
SCRIPT = """
import json, sys
from bot.programs.program_client import request
asked = request("note", {"text": sys.argv[1]}, requester="UBEN00001", channel=sys.argv[2],
                database=sys.argv[3])
print(asked.run_id, flush=True)
ended = asked.wait(60)
print(json.dumps([ended.status, dict(ended.arguments), "sqlmodel" in sys.modules]))
"""


def database(harness: Harness) -> Path:
    """The bot's file."""
    return harness.settings().database_path.absolute()


def note(harness: Harness, text: str, **more: str) -> Requested:
    """A program asks for a note, in Ben's name, in #support."""
    return request(
        "note",
        {"text": text},
        requester=more.pop("requester", BEN),
        channel=SUPPORT,
        database=database(harness),
        **more,
    )


def card_of(harness: Harness, text: str) -> dict[str, Any]:
    """The card at which Ana decides about this."""
    return harness.slack.wait(
        lambda: next(
            (
                m
                for m in harness.person("ana").everything(SUPPORT)
                if "approve" in words(m) and text in words(m)
            ),
            None,
        )
    )


def test_a_process_of_its_own_asks_and_hears(harness: Harness, fakes: FakeTools) -> None:
    """A script asks, Ana approves, the script hears it; it loads nothing of the bot's weight."""
    command = [sys.executable, "-c", SCRIPT, "from a script", SUPPORT, str(database(harness))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        run = script.stdout.readline().strip()
        vote(harness, "ana", card_of(harness, "from a script"))
        status, arguments, is_heavy = json.loads(script.stdout.readline())
    assert (status, arguments["text"], is_heavy) == ("succeeded", "from a script", False)
    assert fakes.did("note", "from a script") == 1
    [row] = harness.all(Run, Run.id == run)
    assert (row.source, row.requester) == (RunSource.PROGRAM, BEN)


@pytest.mark.file
def test_the_example_of_the_page(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code in docs/extending.md asks beside the bot, and says what came of it."""
    monkeypatch.chdir(harness.folder)
    [code] = [each for each in PAGE if "def refund_what_came_broken" in each]
    example: dict[str, Any] = {}
    exec(code, example)
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(example["refund_what_came_broken"], 1047)
        vote(harness, "ana", card_of(harness, "order 1047"))
        assert said.result(30) == "succeeded: 5 EUR"


def test_the_source_of_the_page(
    own_harness: Callable[..., Harness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of docs/extending.md is watched; a file that comes back is not asked for again."""
    monkeypatch.chdir(tmp_path)
    [code] = [each for each in PAGE if "class DropFolder" in each]
    entry = {"countersign.sources": "folder = drop_folder:DropFolder"}
    add_package(monkeypatch, tmp_path, "drop_folder", code, entry)
    harness = own_harness((fakes := FakeTools()).tools)
    wanted = {"tool": "note", "arguments": {"text": "from a folder"}, "requester": BEN}
    file = Path("requests", "first.json")
    for _ in range(2):
        file.with_suffix(".part").write_text(json.dumps({**wanted, "channel": SUPPORT}))
        file.with_suffix(".part").rename(file)
        harness.slack.wait(lambda: not file.exists())
    vote(harness, "ana", card_of(harness, "from a folder"))
    harness.slack.wait(lambda: fakes.did("note", "from a folder") == 1)
    assert len(harness.all(Run)) == 1


def test_what_was_asked_with_a_key_is_not_asked_again(harness: Harness, fakes: FakeTools) -> None:
    """A program that does not know whether it had asked asks again: one card, one effect.

    The key of one request is no key of another.
    """
    once = note(harness, "with a key", key="job 7")
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: note(harness, "with a key", key="job 7"), range(4)))
    assert {each.run_id for each in again} == {once.run_id}
    with pytest.raises(TurnedAwayError, match="job 7"):
        note(harness, "something else", key="job 7")
    vote(harness, "ana", card_of(harness, "with a key"))
    assert once.wait(30).status == "succeeded"
    assert note(harness, "with a key", key="job 7").wait(30).status == "succeeded"
    assert fakes.did("note", "with a key") == 1


def test_who_waits_outlives_a_restart_of_the_bot(harness: Harness, fakes: FakeTools) -> None:
    """The bot ends and starts while a program waits: it hears the end nevertheless."""
    found = note(harness, "over a restart")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(found.wait, 60)
        card = card_of(harness, "over a restart")
        harness.settle()
        harness.app.stop()
        with pytest.raises(NotRunningError):
            found.ended()
        harness.start()
        reject(harness, "ana", SUPPORT, card, "not today")
        ended = waiting.result(60)
    assert ended.status == "rejected"
    assert "not today" in ended.result
    assert fakes.did("note", "over a restart") == 0


@pytest.mark.parametrize(
    ("tool", "arguments", "requester", "says"),
    [
        ("no_such_tool", {}, BEN, "no_such_tool"),
        ("note", {"words": "x"}, BEN, "text"),
        ("note", {"text": "x"}, "UGUS00001", "full member"),
        ("note", {"text": "x"}, "", "full member"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    harness: Harness, tool: str, arguments: dict[str, str], requester: str, says: str
) -> None:
    """An unknown tool, arguments that it does not take, and strangers: a sentence, and no card."""
    before = len(harness.all(Run))
    with pytest.raises(TurnedAwayError, match=says):
        request(tool, arguments, requester=requester, database=database(harness))
    assert len(harness.all(Run)) == before
    with pytest.raises(TurnedAwayError, match="no request"):
        Requested("nobody's", database(harness)).ended()


def test_no_bot_is_said(tmp_path: Path) -> None:
    """Where no bot listens, the program is told so."""
    with pytest.raises(NotRunningError, match="no bot answers"):
        request("note", {"text": "x"}, requester=BEN, database=tmp_path / "other.db")


@pytest.mark.parametrize("line", [b"no json\n", b"[]\n", b'{"run": 7}\n', b'{"tool": "note"}\n'])
def test_what_is_no_request_changes_nothing(harness: Harness, line: bytes) -> None:
    """A garbled line gets no answer; whole ones are answered after it. The socket is private."""
    path = socket_path(database(harness))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.connect(str(path))
        visitor.sendall(line)
        assert visitor.recv(100) == b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.connect(str(path))
        visitor.sendall(b'{"run": "nobody"}\n')
        assert "no request" in read_told(visitor.recv(1000)).problem
