"""Moving a record between a bot of one workspace and a host of many, by the page's commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.workspace_settings import get_schema_name
from countersign import Countersign
from slack_sandbox.workspace.records import Message as Posted
from storage.migrations import known
from storage.states import CallStatus
from tests.authenticator import Authenticator
from tests.client_keys import make_key
from tests.pages import ROOT, blocks_in, section
from tests.postgres_server import Server
from tests.record_checks import find_first_broken_row
from tests.storage.databases.freezing import KEY as FROZEN_KEY
from tests.storage.databases.freezing import SLACK, unpack
from tests.stories.harness import SUPPORT
from tests.stories.messages import action_ids
from tests.stories.signing import find_link, give_passkey, links_of, sign
from tests.stories.steps import ask_for, press, vote
from tests.workspaces.moving import ADDRESS, TEAM, MovingHarness

pytestmark = [pytest.mark.long, pytest.mark.file]
PAGE = ROOT / "docs" / "workspaces.md"
INTO_FOLDER, INTO_SCHEMA, OUT_OF_FOLDER, OUT_OF_SCHEMA = blocks_in(
    section(PAGE, "Moving a record"), "sh"
)
URL = re.compile(r"'postgresql://[^']*'")
KEYS = "one:" + "k" * 32
SIGNED = """
[passkeys]
enrol = "self"
days = 30
alarm = ["UDAN00001"]

[defaults]
approvers = ["@shop-leads"]
deadline = "1h"
signature = "passkey"
"""


@pytest.fixture
def make_harness(tmp_path: Path) -> Iterator[Callable[..., MovingHarness]]:
    """A function that makes a bot of one workspace."""
    made: list[MovingHarness] = []

    def make(policy: str | None = None, **settings: str) -> MovingHarness:
        made.append(MovingHarness(tmp_path, policy, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


def approve(harness: MovingHarness, text: str, thread: str) -> None:
    """Have Ana approve the card in that thread, and check that the call runs once."""
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: harness.fakes.did("note", text) == 1)
    harness.settle()
    assert [each.status for each in harness.calls_in(thread)] == [CallStatus.SUCCEEDED]


def ask_with_key(harness: MovingHarness, url: str, key: str) -> None:
    """Have a program ask with its key at that URL and Ana approve; the program is told."""
    client = Countersign(url, key)
    asked = client.request("note", {"text": "by a job"}, channel=SUPPORT)

    def look() -> dict[str, Any] | None:
        seen = harness.person("ana").everything(SUPPORT)
        return next((m for m in seen if "by a job" in str(m) and "approve" in action_ids(m)), None)

    vote(harness, "ana", harness.slack.wait(look))
    assert client.ended(asked.id, 30).status == "succeeded"


def is_sound(said: str) -> bool:
    """Whether `audit verify` found the record sound."""
    return "\nSound: " in f"\n{said}"


def test_a_record_moves_into_a_folder_and_back(make_harness: Callable[..., MovingHarness]) -> None:
    """Cards posted before still work, and a program's key works at the new address."""
    harness = make_harness()
    first, _ = ask_for(harness, "asked before")
    second, _ = ask_for(harness, "and this")
    third, _ = ask_for(harness, "and that")
    key = make_key(harness.folder / "countersign.db", "job", "@ben", ["note"]).key
    harness.stop()
    harness.run_script(INTO_FOLDER)
    host = harness.serve()
    approve(harness, "asked before", first)
    ask_with_key(harness, f"{host.server.url}/w/{TEAM}", key)
    harness.stop()
    hosted = {**harness.environ, "COUNTERSIGN_WORKSPACE": TEAM}
    assert is_sound(harness.run_script("countersign audit verify", **hosted))
    harness.run_script(OUT_OF_FOLDER)
    harness.start()
    approve(harness, "and this", second)
    harness.stop()
    assert is_sound(harness.run_script("countersign audit verify", **harness.single_environ))
    # in once more, as the page says, over the empty folder that was left
    harness.run_script(INTO_FOLDER)
    harness.serve()
    approve(harness, "and that", third)


def test_a_moved_bot_keeps_its_own_signing_key(make_harness: Callable[..., MovingHarness]) -> None:
    """The key is in its workspace's settings; the shared key is for other workspaces."""
    own, common = "o" * 40, "c" * 40
    harness = make_harness(COUNTERSIGN_KEY=own)
    thread, _ = ask_for(harness, "under its own key")
    harness.stop()
    harness.run_script(INTO_FOLDER)
    (harness.folder / "workspaces" / TEAM / "settings.env").write_text(f"COUNTERSIGN_KEY={own}\n")
    harness.serve(COUNTERSIGN_KEY=common)
    approve(harness, "under its own key", thread)
    harness.stop()
    hosted = {**harness.environ, "COUNTERSIGN_WORKSPACE": TEAM}
    assert is_sound(harness.run_script("countersign audit verify", **hosted))


def test_a_passkey_still_works_after_a_move(make_harness: Callable[..., MovingHarness]) -> None:
    """Its person signs at the new address without adding it again."""
    alone = {"COUNTERSIGN_URL": ADDRESS, "COUNTERSIGN_HTTP": "127.0.0.1:0"}
    harness = make_harness(SIGNED, **alone)
    key: Authenticator = give_passkey(harness, "ana")
    thread, card = ask_for(harness, "to be signed")
    harness.stop()
    harness.run_script(INTO_FOLDER)
    harness.serve()
    press(harness, "ana", SUPPORT, card, "approve")
    pages = f"{ADDRESS}/w/{TEAM}/sign/"
    harness.slack.wait(lambda: links_of(harness, "ana", pages))
    link = find_link(harness, links_of(harness, "ana", pages)[-1])
    assert sign(harness, link, key).is_done
    harness.slack.wait(lambda: harness.fakes.did("note", "to be signed") == 1)
    assert [each.status for each in harness.calls_in(thread)] == [CallStatus.SUCCEEDED]


def test_a_record_moves_into_a_schema_and_back(
    make_harness: Callable[..., MovingHarness], server: Server
) -> None:
    """Buttons work on the server, too. On the way back, open requests are asked again."""
    harness = make_harness()
    first, _ = ask_for(harness, "asked of a file")
    key = make_key(harness.folder / "countersign.db", "job", "@ben", ["note"]).key
    harness.stop()
    server.fresh("moved")
    url = server.url("moved", "owner")
    there = f"'{url}&schema={get_schema_name(TEAM)}'"
    harness.run_script(URL.sub(lambda _: there, INTO_SCHEMA), **harness.single_environ)
    shared = {"DATABASE_URL": url, "COUNTERSIGN_KEY": "c" * 40, "COUNTERSIGN_TOKEN_KEYS": KEYS}
    host = harness.serve(**shared)
    approve(harness, "asked of a file", first)
    ask_with_key(harness, f"{host.server.url}/w/{TEAM}", key)
    second, card = ask_for(harness, "asked of a server")
    harness.stop()
    hosted = {**harness.environ, "COUNTERSIGN_WORKSPACE": TEAM}
    assert is_sound(harness.run_script("countersign audit verify", **hosted))
    harness.run_script(OUT_OF_SCHEMA, **hosted)
    said = harness.run_script(
        "rm countersign.db*; countersign restore moved.db", **harness.single_environ
    )
    assert "what waited or ran is posted again for approval" in said
    harness.start()
    asked = harness.slack.wait(
        lambda: next(
            (
                each
                for each in harness.person("ana").messages(SUPPORT, second)
                if each["ts"] != card["ts"] and "approve" in action_ids(each)
            ),
            None,
        )
    )
    vote(harness, "ana", asked)
    harness.slack.wait(lambda: harness.fakes.did("note", "asked of a server") == 1)
    harness.stop()
    assert is_sound(harness.run_script("countersign audit verify", **harness.single_environ))
    harness.start()


@pytest.mark.parametrize("revision", sorted(known()))
def test_a_record_of_an_earlier_version_can_be_moved(revision: str, tmp_path: Path) -> None:
    """Its pending call is decided after the move, and runs once."""
    unpack(revision, tmp_path)
    left = json.loads((tmp_path / SLACK).read_text("utf-8"))
    begin = datetime.fromisoformat(left["at"]) + timedelta(seconds=1)
    harness = EarlierHarness(tmp_path, begin=begin)
    try:
        harness.run_script(f"touch policy.toml\n{INTO_FOLDER}")
        own = harness.folder / "workspaces" / TEAM / "settings.env"
        own.write_text(f"COUNTERSIGN_KEY={FROZEN_KEY}\n")
        (own.parent / "policy.toml").write_text(harness.policy, "utf-8")
        stood = {each["body"]["ts"]: Posted(**each) for each in left["messages"]}
        harness.slack.world.messages[SUPPORT] = stood
        harness.serve()
        assert harness.app.core.store.mismatch_reason == ""
        [card] = [
            each
            for each in harness.person("ana").everything(SUPPORT)
            if "“pending”" in str(each) and "approve" in action_ids(each)
        ]
        press(harness, "ana", SUPPORT, card, "approve")
        harness.slack.wait(lambda: harness.fakes.did("note", "pending") == 1)
        harness.settle()
        with harness.app.core.store.read() as tx:
            assert find_first_broken_row(tx) is None
    finally:
        harness.close()


class EarlierHarness(MovingHarness):
    """A folder that a bot of an earlier version left; that bot is not started."""

    def start(self, **options: Any) -> None:
        """Start nothing."""

    def stop(self) -> None:
        """End the host, if it runs."""
        if self.host is not None:
            super().stop()
