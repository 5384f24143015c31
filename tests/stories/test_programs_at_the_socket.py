"""Programs of the bot's own account ask for approval at its socket, without a key."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bot.cli.bot_connection import BotUnreachableError, open_chat_event_socket, send_command
from bot.terminal.terminal_messages import CommandKind, OperatorCommand
from countersign import Countersign, countersigned
from countersign.cli.commands import main
from countersign.request import NotAllowed, Request, Unreachable
from countersign.wire import ApiTransport, build_bot_socket_address
from storage.backend import socket_path
from storage.models import Run
from storage.states import RunSource
from tests.added_package import add_package
from tests.client_keys import make_key, revoke_key
from tests.pages import ROOT, blocks
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.operator_steps import post_body
from tests.stories.steps import reject, vote

BEN = "UBEN00001"
PAGE = blocks(ROOT / "docs" / "extending.md", "python")
SCRIPT = """
import json, sys
from countersign import Countersign
bot = Countersign.beside(sys.argv[3])
asked = bot.request("note", {"text": sys.argv[1]}, requester="UBEN00001", channel=sys.argv[2])
print(asked.id, flush=True)
ended = bot.ended(asked.id, 60)
is_heavy = not {"sqlmodel", "pydantic"}.isdisjoint(sys.modules)
print(json.dumps([ended.status, ended.arguments, is_heavy]))
"""


def get_database_path(harness: Harness) -> Path:
    """The path of the bot's database."""
    return harness.settings().database_path.absolute()


def make_client(harness: Harness) -> Countersign:
    """The client of a program on the bot's machine, without a key."""
    return Countersign.beside(get_database_path(harness))


def request_note(harness: Harness, text: str, key: str = "") -> Request:
    """Have a program request a note, in Ben's name in #support."""
    arguments = {"text": text}
    return make_client(harness).request("note", arguments, run=key, requester=BEN, channel=SUPPORT)


def wait_for_card(harness: Harness, text: str) -> dict[str, Any]:
    """Wait for the card with this text that Ana can decide."""
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


def test_a_script_learns_how_its_call_ended(harness: Harness, fakes: FakeTools) -> None:
    """The script runs in a process of its own and loads none of the bot's heavy packages."""
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "from a script",
        SUPPORT,
        str(get_database_path(harness)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        run = script.stdout.readline().strip()
        vote(harness, "ana", wait_for_card(harness, "from a script"))
        status, arguments, is_heavy = json.loads(script.stdout.readline())
    assert (status, arguments["text"], is_heavy) == ("succeeded", "from a script", False)
    assert fakes.did("note", "from a script") == 1
    [row] = harness.all(Run, Run.id == run)
    assert (row.source, row.requester) == (RunSource.PROGRAM, BEN)


@pytest.mark.file
def test_the_client_example_of_the_documentation_works(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code in docs/extending.md requests a refund and returns how it ended."""
    monkeypatch.chdir(harness.folder)
    [code] = [each for each in PAGE if "def refund_what_came_broken" in each]
    example: dict[str, Any] = {}
    exec(code, example)
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(example["refund_what_came_broken"], 1047)
        vote(harness, "ana", wait_for_card(harness, "order 1047"))
        assert said.result(30) == "succeeded: 5 EUR"


def test_the_source_example_of_the_documentation_works(
    own_harness: Callable[..., Harness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source in docs/extending.md watches a folder; a repeated file is not requested again."""
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
    vote(harness, "ana", wait_for_card(harness, "from a folder"))
    harness.slack.wait(lambda: fakes.did("note", "from a folder") == 1)
    assert len(harness.all(Run)) == 1


def test_a_request_repeated_with_its_key_is_made_once(harness: Harness, fakes: FakeTools) -> None:
    """A program that does not know whether it had asked gets the same request.

    A request with other arguments cannot use the same key.
    """
    once = request_note(harness, "with a key", key="job 7")
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: request_note(harness, "with a key", key="job 7"), range(4)))
    assert {each.id for each in again} == {once.id}
    vote(harness, "ana", wait_for_card(harness, "with a key"))
    assert make_client(harness).ended(once.id, 30).status == "succeeded"
    assert request_note(harness, "with a key", key="job 7").status == "succeeded"
    assert fakes.did("note", "with a key") == 1
    wire = ApiTransport(build_bot_socket_address(get_database_path(harness)), "")
    asked = {"tool": "note", "requester": BEN, "channel": SUPPORT}
    wire.post("/v1/requests", {**asked, "arguments": {"text": "by a wire"}}, key="job-8")
    with pytest.raises(NotAllowed, match="job-8"):
        wire.post("/v1/requests", {**asked, "arguments": {"text": "another"}}, key="job-8")


def test_a_waiting_program_survives_a_bots_restart(harness: Harness, fakes: FakeTools) -> None:
    """The program learns how its call ended after the bot has started again."""
    found, bot = request_note(harness, "over a restart"), make_client(harness)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bot.ended, found.id, 60)
        card = wait_for_card(harness, "over a restart")
        harness.settle()
        harness.app.stop()
        with pytest.raises(Unreachable):
            ApiTransport(build_bot_socket_address(get_database_path(harness)), "").get(
                "/v1/requests", patience=None
            )
        harness.start()
        reject(harness, "ana", SUPPORT, card, "not today")
        ended = waiting.result(60)
    assert ended.status == "rejected"
    assert "not today" in ended.note
    assert fakes.did("note", "over a restart") == 0


def test_a_file_in_the_sockets_place_is_not_removed(harness: Harness) -> None:
    """The bot works without a socket then; once the file is gone, a restart makes one."""
    place = socket_path(harness.app.core.store.path)
    harness.app.stop()
    place.write_text("somebody else's")
    try:
        harness.start()
        assert place.read_text() == "somebody else's"
    finally:
        place.unlink()
        harness.restart()
    assert request_note(harness, "once it was gone").id


@pytest.mark.parametrize(
    ("tool", "arguments", "requester", "says"),
    [
        ("no_such_tool", {}, BEN, "no_such_tool"),
        ("note", {"words": "x"}, BEN, "text"),
        ("note", {"text": "x"}, "UGUS00001", "full member"),
        ("note", {"text": "x"}, "", "full member"),
    ],
)
def test_a_request_that_cannot_be_made_is_refused_with_a_reason(
    harness: Harness, tool: str, arguments: dict[str, str], requester: str, says: str
) -> None:
    """An unknown tool, wrong arguments, a guest or nobody as requester."""
    before = len(harness.all(Run))
    with pytest.raises(NotAllowed, match=says):
        make_client(harness).request(tool, arguments, requester=requester)
    assert len(harness.all(Run)) == before
    with pytest.raises(NotAllowed, match="no request"):
        make_client(harness).get_request("nobody")


def test_a_program_is_told_that_no_bot_answers(tmp_path: Path) -> None:
    """No bot listens at the socket's address."""
    wire = ApiTransport(build_bot_socket_address(tmp_path / "other.db"), "")
    with pytest.raises(Unreachable, match="does not answer at unix:"):
        wire.get("/v1/requests", patience=None)


def test_a_blank_database_url_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the bot it is."""
    monkeypatch.setenv("DATABASE_URL", " ")
    assert build_bot_socket_address() == f"unix:{Path.cwd() / 'countersign.db.socket'}"


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"run": 7}', b'{"tool": "note"}'])
def test_a_garbled_request_is_refused(harness: Harness, body: bytes) -> None:
    """Proper ones are answered after it. Only the bot's account may open the socket."""
    path = socket_path(get_database_path(harness))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    before = len(harness.all(Run))
    status, said = post_body(path, "/v1/requests", body)
    assert (status, said["status"]) in ((400, 400), (422, 422))
    assert len(harness.all(Run)) == before
    with pytest.raises(NotAllowed, match="no request"):
        make_client(harness).get_request("nobody")


def test_operator_commands_are_refused_without_an_operator(harness: Harness) -> None:
    """The bot was started without `COUNTERSIGN_OPERATOR`: no command, no chat, no events."""
    path = socket_path(get_database_path(harness))
    for wish in (
        OperatorCommand(CommandKind.PENDING),
        OperatorCommand(CommandKind.SAY, words="pay me"),
    ):
        with pytest.raises(BotUnreachableError, match="started without COUNTERSIGN_OPERATOR"):
            send_command(path, wish)
    with pytest.raises(BotUnreachableError, match="started without COUNTERSIGN_OPERATOR"):
        open_chat_event_socket(path, "any")


def test_an_invalid_key_is_refused_at_the_socket(harness: Harness) -> None:
    """A request with a key counts for the key's owner; a made-up or revoked key is refused."""
    url, wanted = build_bot_socket_address(get_database_path(harness)), {"text": "by a key"}
    made_up = Countersign(url, f"csk_{'0' * 16}_{'x' * 43}")
    with pytest.raises(NotAllowed, match="no valid API key"):
        made_up.request("note", wanted, requester=BEN)
    key = make_key(get_database_path(harness), "beside", "@ben", ["note"]).key
    asked = Countersign(url, key).request("note", wanted, channel=SUPPORT)
    assert asked.raw["requester"] == BEN
    revoke_key(get_database_path(harness), "beside")
    with pytest.raises(NotAllowed, match="no valid API key"):
        Countersign(url, key).get_request(asked.id)


def test_requests_with_and_without_a_key_are_kept_apart(harness: Harness) -> None:
    """Neither can look up the other's requests."""
    key = make_key(get_database_path(harness), "apart", "@ben", ["note"]).key
    url = build_bot_socket_address(get_database_path(harness))
    of_the_key = Countersign(url, key).request("note", {"text": "apart"}, channel=SUPPORT)
    own = request_note(harness, "its own")
    listed = ApiTransport(url, "").get("/v1/requests")["requests"]
    assert own.id in {each["id"] for each in listed}
    with pytest.raises(NotAllowed, match="no request"):
        make_client(harness).get_request(of_the_key.id)
    with pytest.raises(NotAllowed, match="no request"):
        Countersign(url, key).get_request(own.id)


def test_programs_can_have_their_own_calls_approved_at_the_socket(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decorator and `countersign ask` need no key there, and run what was approved once."""
    done: list[str] = []

    @countersigned(
        effect="Write “{text}” down", requester=BEN, channel=SUPPORT, client=make_client(harness)
    )
    def write_down(text: str) -> int:
        done.append(text)
        return len(done)

    monkeypatch.setenv("COUNTERSIGN_URL", build_bot_socket_address(get_database_path(harness)))
    monkeypatch.setenv("COUNTERSIGN_API_KEY", "")
    asked = ["ask", "tidy_up", "--title", "Tidy up", "--effect", "Tidy the shelf up"]
    behind = ["--requester", "@ben", "--channel", "#support", "--", sys.executable, "-c", "pass"]
    with ThreadPoolExecutor(2) as pool:
        written = pool.submit(write_down, "by itself")
        vote(harness, "ana", wait_for_card(harness, "Write “by itself” down"))
        assert written.result(30) == 1
        told = pool.submit(main, [*asked, *behind])
        vote(harness, "ana", wait_for_card(harness, "Tidy the shelf up"))
        assert told.result(30) == 0
    assert done == ["by itself"]
