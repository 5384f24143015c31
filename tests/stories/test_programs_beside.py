"""Programs of the bot's own account put calls before people at its socket, without a key."""

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
from tests.stories.operator_steps import posted
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


def database(harness: Harness) -> Path:
    """The bot's file."""
    return harness.settings().database_path.absolute()


def beside(harness: Harness) -> Countersign:
    """A program on the bot's machine."""
    return Countersign.beside(database(harness))


def note(harness: Harness, text: str, key: str = "") -> Request:
    """A program asks for a note, in Ben's name, in #support."""
    arguments = {"text": text}
    return beside(harness).request("note", arguments, run=key, requester=BEN, channel=SUPPORT)


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
    assert {each.id for each in again} == {once.id}
    vote(harness, "ana", card_of(harness, "with a key"))
    assert beside(harness).ended(once.id, 30).status == "succeeded"
    assert note(harness, "with a key", key="job 7").status == "succeeded"
    assert fakes.did("note", "with a key") == 1
    wire = ApiTransport(build_bot_socket_address(database(harness)), "")
    asked = {"tool": "note", "requester": BEN, "channel": SUPPORT}
    wire.post("/v1/requests", {**asked, "arguments": {"text": "by a wire"}}, key="job-8")
    with pytest.raises(NotAllowed, match="job-8"):
        wire.post("/v1/requests", {**asked, "arguments": {"text": "another"}}, key="job-8")


def test_who_waits_outlives_a_restart_of_the_bot(harness: Harness, fakes: FakeTools) -> None:
    """The bot ends and starts while a program waits: it hears the end nevertheless."""
    found, bot = note(harness, "over a restart"), beside(harness)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bot.ended, found.id, 60)
        card = card_of(harness, "over a restart")
        harness.settle()
        harness.app.stop()
        with pytest.raises(Unreachable):
            ApiTransport(build_bot_socket_address(database(harness)), "").get(
                "/v1/requests", patience=None
            )
        harness.start()
        reject(harness, "ana", SUPPORT, card, "not today")
        ended = waiting.result(60)
    assert ended.status == "rejected"
    assert "not today" in ended.note
    assert fakes.did("note", "over a restart") == 0


def test_a_file_in_the_place_of_the_socket_is_left(harness: Harness) -> None:
    """The bot works without a socket then; once the file is gone, the next start makes one."""
    place = socket_path(harness.app.core.store.path)
    harness.app.stop()
    place.write_text("somebody else's")
    try:
        harness.start()
        assert place.read_text() == "somebody else's"
    finally:
        place.unlink()
        harness.restart()
    assert note(harness, "once it was gone").id


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
    with pytest.raises(NotAllowed, match=says):
        beside(harness).request(tool, arguments, requester=requester)
    assert len(harness.all(Run)) == before
    with pytest.raises(NotAllowed, match="no request"):
        beside(harness).get_request("nobody")


def test_no_bot_is_said(tmp_path: Path) -> None:
    """Where no bot listens, the program is told so."""
    wire = ApiTransport(build_bot_socket_address(tmp_path / "other.db"), "")
    with pytest.raises(Unreachable, match="does not answer at unix:"):
        wire.get("/v1/requests", patience=None)


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"run": 7}', b'{"tool": "note"}'])
def test_what_is_no_request_changes_nothing(harness: Harness, body: bytes) -> None:
    """A garbled one is refused; whole ones are answered after it. The socket is private."""
    path = socket_path(database(harness))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    before = len(harness.all(Run))
    status, said = posted(path, "/v1/requests", body)
    assert (status, said["status"]) in ((400, 400), (422, 422))
    assert len(harness.all(Run)) == before
    with pytest.raises(NotAllowed, match="no request"):
        beside(harness).get_request("nobody")


def test_nobody_is_the_operator_where_none_is_named(harness: Harness) -> None:
    """Whoever may open the socket is told so; nothing is shown, done or followed."""
    path = socket_path(database(harness))
    for wish in (
        OperatorCommand(CommandKind.PENDING),
        OperatorCommand(CommandKind.SAY, words="pay me"),
    ):
        with pytest.raises(BotUnreachableError, match="started without COUNTERSIGN_OPERATOR"):
            send_command(path, wish)
    with pytest.raises(BotUnreachableError, match="started without COUNTERSIGN_OPERATOR"):
        open_chat_event_socket(path, "any")


def test_a_key_that_is_no_good_is_not_the_account(harness: Harness) -> None:
    """Who shows a key there is whom it names: what is revoked, or made up, asks nothing."""
    url, wanted = build_bot_socket_address(database(harness)), {"text": "by a key"}
    made_up = Countersign(url, f"csk_{'0' * 16}_{'x' * 43}")
    with pytest.raises(NotAllowed, match="no valid API key"):
        made_up.request("note", wanted, requester=BEN)
    key = make_key(database(harness), "beside", "@ben", ["note"]).key
    asked = Countersign(url, key).request("note", wanted, channel=SUPPORT)
    assert asked.raw["requester"] == BEN
    revoke_key(database(harness), "beside")
    with pytest.raises(NotAllowed, match="no valid API key"):
        Countersign(url, key).get_request(asked.id)


def test_who_asks_without_a_key_hears_of_no_keys_requests(harness: Harness) -> None:
    """The account's own requests are listed to it, and none of a key's."""
    key = make_key(database(harness), "apart", "@ben", ["note"]).key
    url = build_bot_socket_address(database(harness))
    of_the_key = Countersign(url, key).request("note", {"text": "apart"}, channel=SUPPORT)
    own = note(harness, "its own")
    listed = ApiTransport(url, "").get("/v1/requests")["requests"]
    assert own.id in {each["id"] for each in listed}
    with pytest.raises(NotAllowed, match="no request"):
        beside(harness).get_request(of_the_key.id)
    with pytest.raises(NotAllowed, match="no request"):
        Countersign(url, key).get_request(own.id)


def test_what_a_program_does_itself_is_asked_there_too(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decorator and `countersign ask` do without a key, and do what was approved, once."""
    done: list[str] = []

    @countersigned(
        effect="Write “{text}” down", requester=BEN, channel=SUPPORT, client=beside(harness)
    )
    def write_down(text: str) -> int:
        done.append(text)
        return len(done)

    monkeypatch.setenv("COUNTERSIGN_URL", build_bot_socket_address(database(harness)))
    monkeypatch.setenv("COUNTERSIGN_API_KEY", "")
    asked = ["ask", "tidy_up", "--title", "Tidy up", "--effect", "Tidy the shelf up"]
    behind = ["--requester", "@ben", "--channel", "#support", "--", sys.executable, "-c", "pass"]
    with ThreadPoolExecutor(2) as pool:
        written = pool.submit(write_down, "by itself")
        vote(harness, "ana", card_of(harness, "Write “by itself” down"))
        assert written.result(30) == 1
        told = pool.submit(main, [*asked, *behind])
        vote(harness, "ana", card_of(harness, "Tidy the shelf up"))
        assert told.result(30) == 0
    assert done == ["by itself"]
