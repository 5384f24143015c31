"""A requester who has left or become a guest: nothing of theirs is approved or run any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slack_sandbox.workspace import events
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of, words
from tests.stories.steps import arrived, ask, ask_for, noted, now_at, reject, statuses, told, vote

GONE = "is no longer a full member of this workspace"
FLAGS = pytest.mark.parametrize("flag", ["deleted", "is_restricted", "is_ultra_restricted"])


@pytest.fixture(autouse=True)
def membership_restored(harness: Harness) -> Iterator[None]:
    """Ben is a full member again after a story, and no cached look-up says otherwise."""
    yield
    for flag in ("deleted", "is_restricted", "is_ultra_restricted"):
        setattr(harness.slack.people["ben"], flag, False)
    harness.clock.advance(61)


def end_membership(harness: Harness, flag: str, *, without_event: bool = False) -> None:
    """Ben is no full member any more; Slack sends an event about it unless `without_event`."""
    with harness.slack.world.lock:
        setattr(harness.slack.people["ben"], flag, True)
        if not without_event:
            events.user_changed(harness.slack.world, harness.slack.people["ben"].id)
            harness.slack.world.touch()
    if without_event:
        harness.clock.advance(61)  # past the lifetime of a look-up
    else:
        arrived(harness)


@FLAGS
def test_a_request_ends_when_its_requester_leaves(
    harness: Harness, fakes: FakeTools, flag: str
) -> None:
    """Their account changes while people decide. The card says so, and nothing runs."""
    text = f"ben is {flag}"
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    end_membership(harness, flag)
    harness.said(SUPPORT, thread, f"Ben Okafor, who asked for this, {GONE}", "ana")
    arrived(harness)
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "approve" not in action_ids(drawn)
    assert f"the person who asked {GONE}" in words(drawn)
    assert harness.run_in(thread).status is RunStatus.CANCELLED
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    assert not fakes.did("note", text)


def test_a_request_goes_on_if_its_requester_leaves_another_workspace(
    harness: Harness, fakes: FakeTools
) -> None:
    """In an organisation, Slack's event may be about one of its other workspaces."""
    thread = ask(harness, ("note", {"text": "elsewhere"}))
    card = harness.card(SUPPORT, thread)
    world = harness.slack.world
    with world.lock:
        shown = events.user_json(world.people["ben"], world.team, email=False, url=world.url)
        left = {**shown, "team_id": "T0ELSEWHERE", "deleted": True}
        events.emit(world, world.app, {"type": "user_change", "user": left})
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.PENDING]
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "elsewhere") == 1


def test_a_request_ends_when_its_requester_is_removed_from_the_workspace(
    harness: Harness,
) -> None:
    """They stay in the organisation, so Slack's event does not call them deleted."""
    thread = ask(harness, ("note", {"text": "removed"}))
    harness.card(SUPPORT, thread)
    ben = harness.slack.people["ben"]
    ben.grid_teams, ben.team_id = ("T0ELSEWHERE",), "T0ELSEWHERE"
    try:
        world = harness.slack.world
        with world.lock:
            shown = events.user_json(ben, world.team, email=False, url=world.url)
            events.emit(world, world.app, {"type": "user_change", "user": shown})
        harness.said(SUPPORT, thread, f"Ben Okafor, who asked for this, {GONE}", "ana")
        arrived(harness)
        assert harness.run_in(thread).status is RunStatus.CANCELLED
    finally:
        ben.grid_teams, ben.team_id = (), world.team


@FLAGS
def test_an_approval_for_somebody_who_left_does_not_count(
    harness: Harness, fakes: FakeTools, flag: str
) -> None:
    """Slack sent no event, so the approval finds it out and says why it does not count."""
    text = f"ben is {flag}, unheard of"
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    end_membership(harness, flag, without_event=True)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, GONE)
    run = harness.run_in(thread)
    whys = [each["why"] for each in noted(harness, run.id, "decision.refused")]
    assert whys == ["requester_gone"]
    assert statuses(harness, thread) == [CallStatus.PENDING]
    assert not fakes.did("note", text)


@FLAGS
def test_an_approved_call_of_somebody_who_left_does_not_start(
    harness: Harness, fakes: FakeTools, flag: str
) -> None:
    """Slack sent no event; the approved call was waiting for the rest of its plan."""
    text = f"approved before ben is {flag}"
    thread = ask(harness, ("note", {"text": text}), ("put", {"text": "the rest"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    harness.slack.wait(lambda: statuses(harness, thread)[0] is CallStatus.APPROVED)
    harness.settle()
    end_membership(harness, flag, without_event=True)
    reject(harness, "ana", SUPPORT, card, "not needed", 1)
    harness.said(SUPPORT, thread, "That is all.", "ana")
    harness.settle()
    assert statuses(harness, thread) == [CallStatus.INVALIDATED, CallStatus.REJECTED]
    assert f"the person who asked {GONE}" in words(now_at(harness, SUPPORT, card["ts"]))
    assert not fakes.did("note", text)


@FLAGS
def test_a_call_of_somebody_who_left_is_not_run_again(
    harness: Harness, fakes: FakeTools, flag: str
) -> None:
    """People can only say whether the call with the unknown outcome happened."""
    text = f"lost while ben is {flag}"
    thread = ask(harness, ("lose", {"text": text}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    card = harness.card(SUPPORT, thread, having="run_again")
    harness.settle()
    end_membership(harness, flag, without_event=True)
    harness.person("ana").click(SUPPORT, card["ts"], "run_again", seen=card)
    told(harness, "ana", SUPPORT, thread, GONE)
    assert statuses(harness, thread) == [CallStatus.UNKNOWN]
    harness.person("ana").click(SUPPORT, card["ts"], "resolve_not_done", seen=card)
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.FAILED]
    assert fakes.did("lose", text) == 1


def test_a_guest_cannot_retry_their_request(harness: Harness) -> None:
    """The request failed while they were still a member."""
    thread, card = ask_for(harness, "a guest has patience")
    harness.planner.fail_next_requests(500, times=5)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    gave_up = harness.card(SUPPORT, thread, having="retry")
    harness.settle()
    end_membership(harness, "is_restricted")
    harness.person("ben").click(SUPPORT, gave_up["ts"], "retry", seen=gave_up)
    told(harness, "ben", SUPPORT, thread, "full members of this workspace only")
    run = harness.run_in(thread)
    assert run.status is RunStatus.FAILED
    [refused] = noted(harness, run.id, "decision.refused")
    assert (refused["verb"], refused["why"]) == ("retry", "stranger")
