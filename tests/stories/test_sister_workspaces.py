"""An organisation of several workspaces: who acts from another one is judged by the directory."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest

from slack_sandbox.workspace.people import OTHER_TEAM
from storage.states import CallStatus, RunStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import (
    arrived,
    ask,
    forget_people,
    menu,
    now_at,
    press,
    reject,
    statuses,
    told,
)

SISTER, ELSEWHERE = OTHER_TEAM, "T0ELSEWHERE"
NO = "Only full members of this workspace"
# of many workspaces a command or a shortcut is that of the one which it comes from
ALONE = pytest.mark.skipif(
    bool(os.environ.get("STORIES_HOSTED")), reason="it is not installed there"
)


@pytest.fixture
def grid(harness: Harness) -> Iterator[Harness]:
    """Ben, Ana and Dan are in two workspaces and act from the other; Cleo is in that one alone."""
    people, ours = harness.slack.people, harness.app.core.identity.team
    for name in ("ben", "ana", "dan"):
        people[name].grid_teams, people[name].acts_from = (SISTER, ours), SISTER
    people["cleo"].grid_teams, people["cleo"].acts_from = (SISTER,), SISTER
    forget_people(harness)
    yield harness
    for name in ("ben", "ana", "dan", "cleo"):
        people[name].grid_teams, people[name].acts_from = (), ""
    forget_people(harness)


def asked(harness: Harness, text: str) -> tuple[str, dict[str, Any]]:
    """A request of Ben's that waits: its thread and its card."""
    thread = ask(harness, ("note", {"text": text}))
    return thread, harness.card(SUPPORT, thread)


def test_a_click_from_the_sister_counts(grid: Harness) -> None:
    """Who is in ours as well approves; who is not is told so."""
    thread, card = asked(grid, "a click from a sister")
    grid.person("cleo").click(SUPPORT, card["ts"], "approve")
    told(grid, "cleo", SUPPORT, thread, NO)
    grid.person("ana").click(SUPPORT, card["ts"], "approve")
    grid.said(SUPPORT, thread, "That is all.")
    assert statuses(grid, thread) == [CallStatus.SUCCEEDED]


def test_a_dialog_opens_there_and_counts(grid: Harness) -> None:
    """It opens, and what is entered counts; it opens for nobody of the sister alone."""
    thread, card = asked(grid, "a dialog from a sister")
    press(grid, "cleo", SUPPORT, card, "reject")
    told(grid, "cleo", SUPPORT, thread, "full members of this workspace")
    assert grid.person("cleo").view() is None
    reject(grid, "ana", SUPPORT, card, "not today")
    grid.slack.wait(lambda: statuses(grid, thread) == [CallStatus.REJECTED])


def test_the_cards_menu(grid: Harness) -> None:
    """The requester cancels from the sister workspace."""
    thread, card = asked(grid, "cancelled from a sister")
    menu(grid, "ben", card, "cancel_run")
    grid.slack.wait(lambda: grid.run_in(thread).status is RunStatus.CANCELLED)


@ALONE
def test_the_command_and_the_buttons_of_its_answer(grid: Harness) -> None:
    """It is answered, and so are its buttons; who is in the sister alone hears nothing."""
    ana = grid.person("ana")
    before = {m["ts"] for m in ana.everything(SUPPORT)}
    assert ana.command(SUPPORT, "/approvals").wait() == "acked"  # type: ignore[union-attr]  # it is delivered
    menu_of = grid.slack.wait(lambda: [m for m in ana.everything(SUPPORT) if m["ts"] not in before])
    button = next(
        each["action_id"]
        for block in menu_of[0]["blocks"]
        for each in block.get("elements", ())
        if str(each.get("action_id", "")).startswith("look")
    )
    ana.click(SUPPORT, menu_of[0]["ts"], button)
    cleo = grid.person("cleo")
    seen = len(cleo.everything(SUPPORT))
    cleo.command(SUPPORT, "/approvals help")
    arrived(grid)
    assert len(cleo.everything(SUPPORT)) == seen


@ALONE
def test_a_shortcut_opens_its_dialog(grid: Harness) -> None:
    """The dialog of a request opens from the sister workspace."""
    ben = grid.person("ben")
    assert ben.shortcut("ask_with_a_form").wait() == "acked"
    assert grid.slack.wait(ben.view)


def test_home_is_theirs_there_too(grid: Harness) -> None:
    """Home opens, and its buttons work."""
    thread, _ = asked(grid, "seen in Home from a sister")
    ana = grid.person("ana")
    ana.open_home()
    grid.slack.wait(lambda: "seen in Home from a sister" in str(ana.home()))
    ana.click_home("review")
    assert "seen in Home from a sister" in str(grid.slack.wait(ana.view))
    assert statuses(grid, thread) == [CallStatus.PENDING]


def test_a_forged_workspace_is_nobodys(grid: Harness) -> None:
    """A payload that names a workspace in which Slack does not know the person is refused."""
    thread, card = asked(grid, "forged")
    seen = now_at(grid, SUPPORT, card["ts"])
    grid.slack.faults.lose_ack("interactive")
    click = grid.person("cleo").click(SUPPORT, card["ts"], "approve", seen=seen)
    arrived(grid)
    payload = copy.deepcopy(click.payload)
    payload["user"] |= {"id": "UANA00001", "team_id": ELSEWHERE}
    payload["team"]["id"] = ELSEWHERE
    assert grid.slack.forge(payload).wait() == "acked"
    arrived(grid)
    assert statuses(grid, thread) == [CallStatus.PENDING]
