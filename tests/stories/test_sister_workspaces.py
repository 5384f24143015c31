"""People who act from another workspace of the same organisation (Enterprise Grid)."""

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
# in a process of many workspaces a command or shortcut belongs to the workspace it comes from
SINGLE_WORKSPACE_ONLY = pytest.mark.skipif(
    bool(os.environ.get("STORIES_HOSTED")), reason="it is not installed there"
)


@pytest.fixture
def grid(harness: Harness) -> Iterator[Harness]:
    """Ben, Ana and Dan are in both workspaces and act from the sister; Cleo is only in that one."""
    people, ours = harness.slack.people, harness.app.core.identity.team
    for name in ("ben", "ana", "dan"):
        people[name].grid_teams, people[name].acts_from = (SISTER, ours), SISTER
    people["cleo"].grid_teams, people["cleo"].acts_from = (SISTER,), SISTER
    forget_people(harness)
    yield harness
    for name in ("ben", "ana", "dan", "cleo"):
        people[name].grid_teams, people[name].acts_from = (), ""
    forget_people(harness)


def ask_with_card(harness: Harness, text: str) -> tuple[str, dict[str, Any]]:
    """Have Ben ask for this note; return the thread and the waiting card."""
    thread = ask(harness, ("note", {"text": text}))
    return thread, harness.card(SUPPORT, thread)


def test_a_click_from_a_sister_workspace_counts(grid: Harness) -> None:
    """Ana, who is in our workspace too, can approve; Cleo, who is not, is told that she cannot."""
    thread, card = ask_with_card(grid, "a click from a sister")
    grid.person("cleo").click(SUPPORT, card["ts"], "approve")
    told(grid, "cleo", SUPPORT, thread, NO)
    grid.person("ana").click(SUPPORT, card["ts"], "approve")
    grid.said(SUPPORT, thread, "That is all.")
    assert statuses(grid, thread) == [CallStatus.SUCCEEDED]


def test_a_dialog_can_be_used_from_a_sister_workspace(grid: Harness) -> None:
    """It does not open for Cleo, who is not in our workspace."""
    thread, card = ask_with_card(grid, "a dialog from a sister")
    press(grid, "cleo", SUPPORT, card, "reject")
    told(grid, "cleo", SUPPORT, thread, "full members of this workspace")
    assert grid.person("cleo").view() is None
    reject(grid, "ana", SUPPORT, card, "not today")
    grid.slack.wait(lambda: statuses(grid, thread) == [CallStatus.REJECTED])


def test_a_request_can_be_cancelled_from_a_sister_workspace(grid: Harness) -> None:
    """The requester uses the card's menu."""
    thread, card = ask_with_card(grid, "cancelled from a sister")
    menu(grid, "ben", card, "cancel_run")
    grid.slack.wait(lambda: grid.run_in(thread).status is RunStatus.CANCELLED)


@SINGLE_WORKSPACE_ONLY
def test_the_command_can_be_used_from_a_sister_workspace(grid: Harness) -> None:
    """So can the buttons of its answer; Cleo, who is not in our workspace, gets no answer."""
    ana = grid.person("ana")
    before = {m["ts"] for m in ana.everything(SUPPORT)}
    assert ana.command(SUPPORT, "/approvals").wait() == "acked"  # type: ignore[union-attr]  # it is delivered
    answers = grid.slack.wait(lambda: [m for m in ana.everything(SUPPORT) if m["ts"] not in before])
    button = next(
        each["action_id"]
        for block in answers[0]["blocks"]
        for each in block.get("elements", ())
        if str(each.get("action_id", "")).startswith("look")
    )
    ana.click(SUPPORT, answers[0]["ts"], button)
    cleo = grid.person("cleo")
    seen = len(cleo.everything(SUPPORT))
    cleo.command(SUPPORT, "/approvals help")
    arrived(grid)
    assert len(cleo.everything(SUPPORT)) == seen


@SINGLE_WORKSPACE_ONLY
def test_a_shortcut_can_be_used_from_a_sister_workspace(grid: Harness) -> None:
    """The dialog of a request opens."""
    ben = grid.person("ben")
    assert ben.shortcut("ask_with_a_form").wait() == "acked"
    assert grid.slack.wait(ben.view)


def test_home_can_be_used_from_a_sister_workspace(grid: Harness) -> None:
    """It shows what waits for Ana, and its buttons work."""
    thread, _ = ask_with_card(grid, "seen in Home from a sister")
    ana = grid.person("ana")
    ana.open_home()
    grid.slack.wait(lambda: "seen in Home from a sister" in str(ana.home()))
    ana.click_home("review")
    assert "seen in Home from a sister" in str(grid.slack.wait(ana.view))
    assert statuses(grid, thread) == [CallStatus.PENDING]


def test_a_click_with_a_forged_workspace_is_refused(grid: Harness) -> None:
    """Slack does not know the person in the workspace that the payload names."""
    thread, card = ask_with_card(grid, "forged")
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
