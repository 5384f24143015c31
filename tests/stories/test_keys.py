"""The key behind the fingerprints is another one at the start: what waits under the old one stops
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.cli.doctor.checks import check_database
from bot.startup import StartupError
from storage.digest import key_id
from storage.models import Call
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, World, action_ids, ask, now_at, words

NEW = "another-key-of-at-least-32-characters"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


@pytest.fixture
def stopped(own_world: Callable[..., World]) -> tuple[World, Kit, str, dict[str, Any]]:
    """A world that was stopped while a call waits; with its tools, the thread and the card."""
    kit = Kit()
    world = own_world(kit.tools, POLICY)
    thread = ask(world, ("note", {"text": "under the first key"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.app.stop()
    return world, kit, thread, card


def test_another_key(stopped: tuple[World, Kit, str, dict[str, Any]]) -> None:
    """The start stops with both ids and what to do, and changes nothing.

    With the old key all goes on.
    """
    world, kit, thread, card = stopped
    old = key_id(world.app.core.key)
    [call] = world.all(Call)
    assert call.key_id == old
    world.extra["COUNTERSIGN_KEY"] = NEW
    with pytest.raises(StartupError) as refused:
        world.start()
    text = str(refused.value)
    new = key_id(NEW.encode())
    assert (
        f"1 call still waits that was shown under the key {old}, and the key now in use is {new}."
        in text
    )
    assert f"COUNTERSIGN_LOST_KEY={old}" in text
    assert NEW not in text
    assert world.app.core.key.decode() not in text
    assert world.all(Call) == [call]
    [found] = [check for check in check_database(world.settings()) if check.level == "fail"]
    assert f"COUNTERSIGN_LOST_KEY={old}" in found.text

    world.extra["COUNTERSIGN_LOST_KEY"] = "00000000"  # not that one
    with pytest.raises(StartupError):
        world.start()
    del world.extra["COUNTERSIGN_KEY"]
    assert not [check for check in check_database(world.settings()) if check.about == "key"]
    world.start()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "under the first key") == 1

    world.app.stop()  # nothing waits any more, so the key may change
    world.extra["COUNTERSIGN_KEY"] = NEW
    world.start()
    world.card(SUPPORT, ask(world, ("note", {"text": "under the second key"})))
    assert {call.key_id for call in world.all(Call)} == {old, new}


def test_a_lost_key(stopped: tuple[World, Kit, str, dict[str, Any]]) -> None:
    """Where the key is said to be lost, what it made is closed undone: the card says so, and the
    model is told.
    """
    world, kit, thread, card = stopped
    world.extra |= {"COUNTERSIGN_KEY": NEW, "COUNTERSIGN_LOST_KEY": key_id(world.app.core.key)}
    world.start()
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    [call] = world.calls_in(thread)
    assert call.status is CallStatus.INVALIDATED
    assert world.outputs()[-1]["output"].startswith(
        "INVALIDATED: it was not run, because it was shown under a key"
    )
    drawn = now_at(world, SUPPORT, card["ts"])
    assert "it was shown under a key that is lost" in words(drawn)
    assert "approve" not in action_ids(drawn)
    assert kit.did("note", "under the first key") == 0


def test_a_key_file_cut_short(stopped: tuple[World, Kit, str, dict[str, Any]]) -> None:
    """A key file that holds no key stops the start in its own words, and not as if a tool were
    wrong.
    """
    world = stopped[0]
    path = world.folder / "countersign.db.key"
    whole = path.read_text()
    path.write_text("short")
    with pytest.raises(
        StartupError, match=r"countersign\.db\.key does not hold a key.*COUNTERSIGN_KEY"
    ):
        world.start()
    path.write_text(whole)
    world.start()
