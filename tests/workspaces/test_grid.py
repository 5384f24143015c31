"""One installation for a whole organisation: people of its workspaces ask and decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from tests.stories.fakes import FakeTools
from tests.stories.steps import typed
from tests.workspaces.grid import FIRST, ORG, SECOND, Grid

HERE, THERE = (FIRST, "C0GENERAL"), (SECOND, "C0GENERALB")
ONLY_MEMBERS = "Only full members of this workspace"


@pytest.fixture
def fakes() -> FakeTools:
    """The tools."""
    return FakeTools()


@pytest.fixture
def make_grid(tmp_path: Path, fakes: FakeTools) -> Iterator[Callable[..., Grid]]:
    """Makes an organisation."""
    made: list[Grid] = []

    def make(**given: Any) -> Grid:
        made.append(Grid(tmp_path, fakes.tools, **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=[Transport.SOCKET, Transport.HTTP])
def grid(request: pytest.FixtureRequest, make_grid: Callable[..., Grid]) -> Grid:
    """One that has the bot in both of its workspaces."""
    made = make_grid(transport=request.param)
    assert "Countersign is now in Sandbox Org" in made.install(FIRST, SECOND)
    for team, channel in (HERE, THERE):
        made.bring_bot(channel, team)
    return made


@pytest.fixture
def first_only(make_grid: Callable[..., Grid]) -> Grid:
    """One that has the bot in its first workspace alone."""
    made = make_grid()
    made.install(FIRST)
    made.bring_bot("C0GENERAL")
    return made


def test_two_workspaces(grid: Grid, fakes: FakeTools) -> None:
    """Requests in both are decided by the organisation's group, from whichever workspace."""
    for team, channel, who in ((*HERE, "ana"), (*THERE, "cleo"), (*HERE, "cleo")):
        thread = grid.ask("dan", channel, f"by {who} in {team}", team)
        card = grid.card(who, channel, thread, team)
        grid.person(who, team).click(channel, card["ts"], "approve")
        grid.see("dan", channel, thread, "That is all.", team)
        assert fakes.did("note", f"by {who} in {team}") == 1


def test_a_channel_of_both(grid: Grid, fakes: FakeTools) -> None:
    """Somebody of the second asks in a channel that spans both; somebody of the second decides."""
    grid.slack.share("general", SECOND)
    grid.slack.workspace(SECOND).join("ben", "C0GENERAL")
    grid.slack.workspace(SECOND).join("dan", "C0GENERAL")
    thread = grid.ask("dan", "C0GENERAL", "across", SECOND)
    card = grid.card("ana", "C0GENERAL", thread)
    grid.person("ben", SECOND).click("C0GENERAL", card["ts"], "approve")
    grid.see("ben", "C0GENERAL", thread, "That is all.", SECOND)
    assert fakes.did("note", "across") == 1


def test_in_private(grid: Grid, fakes: FakeTools) -> None:
    """What is asked in a direct message of the second is decided there, edited, and by command."""
    dan, cleo = grid.person("dan", SECOND), grid.person("cleo", SECOND)
    grid.script("note", "in private")
    thread = dan.dm("please")
    at_home = grid.person("cleo")  # the sandbox has her direct messages there
    card = grid.card("cleo", at_home.dm_channel, None)
    cleo.open_home()
    grid.slack.wait(lambda: "in private" in str(cleo.home()))
    assert cleo.command("C0GENERALB", "/approvals").wait() == "acked"  # type: ignore[union-attr]
    menu = grid.see("cleo", "C0GENERALB", None, "What would you like to see", SECOND)
    cleo.click("C0GENERALB", menu["ts"], "look_waiting")
    grid.see("cleo", "C0GENERALB", None, "in private", SECOND)
    at_home.click(at_home.dm_channel, card["ts"], "edit")
    assert grid.slack.wait(at_home.view)
    at_home.submit(typed(text="in private, edited"))
    ana = grid.person("ana")
    edited = grid.see("ana", ana.dm_channel, None, "in private, edited")
    ana.click(ana.dm_channel, edited["ts"], "approve")
    grid.see("dan", dan.dm_channel, thread, "That is all.", SECOND)
    assert fakes.did("note", "in private, edited") == 1
    assert grid.run_in(thread).team == ORG
