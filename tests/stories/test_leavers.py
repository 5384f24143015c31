"""Who asked has left or become a guest: nothing of theirs is approved or run any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slack_sandbox.workspace import events
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of, words
from tests.stories.steps import (
    arrived,
    ask,
    ask_for,
    noted,
    now_at,
    reject,
    statuses,
    told,
    vote,
)

GONE = "is no longer a full member of this workspace"
FLAGS = pytest.mark.parametrize("flag", ["deleted", "is_restricted", "is_ultra_restricted"])


@pytest.fixture(autouse=True)
def back(harness: Harness) -> Iterator[None]:
    """Ben is a full member again, and nobody remembers that he was not."""
    yield
    for flag in ("deleted", "is_restricted", "is_ultra_restricted"):
        setattr(harness.slack.people["ben"], flag, False)
    harness.clock.advance(61)


def lose(harness: Harness, flag: str, *, unheard: bool = False) -> None:
    """Ben is no full member any more, and Slack tells of it unless that is `unheard`."""
    with harness.slack.world.lock:
        setattr(harness.slack.people["ben"], flag, True)
        if not unheard:
            events.user_changed(harness.slack.world, harness.slack.people["ben"].id)
            harness.slack.world.touch()
    if unheard:
        harness.clock.advance(61)  # what was looked up is old
    else:
        arrived(harness)


@FLAGS
def test_a_request_of_somebody_who_left_ends(harness: Harness, fakes: FakeTools, flag: str) -> None:
    """An account changes while people decide: the card says so, and nothing runs."""
    text = f"ben is {flag}"
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    lose(harness, flag)
    harness.said(SUPPORT, thread, f"Ben Okafor, who asked for this, {GONE}", "ana")
    arrived(harness)
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "approve" not in action_ids(drawn)
    assert f"the person who asked {GONE}" in words(drawn)
    assert harness.run_in(thread).status is RunStatus.CANCELLED
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    assert not fakes.did("note", text)


@FLAGS
def test_who_left_unheard_of_is_looked_up(harness: Harness, fakes: FakeTools, flag: str) -> None:
    """Slack never told of it: an approval finds out, counts for nothing and says why."""
    text = f"ben is {flag}, unheard of"
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    lose(harness, flag, unheard=True)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    told(harness, "ana", SUPPORT, thread, GONE)
    run = harness.run_in(thread)
    whys = [each["why"] for each in noted(harness, run.id, "decision.refused")]
    assert whys == ["requester_gone"]
    assert statuses(harness, thread) == [CallStatus.PENDING]
    assert not fakes.did("note", text)


@FLAGS
def test_what_was_approved_before_does_not_start(
    harness: Harness, fakes: FakeTools, flag: str
) -> None:
    """Slack never told of it: what was approved and waits for the rest of its plan does not run."""
    text = f"approved before ben is {flag}"
    thread = ask(harness, ("note", {"text": text}), ("put", {"text": "the rest"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    harness.slack.wait(lambda: statuses(harness, thread)[0] is CallStatus.APPROVED)
    harness.settle()
    lose(harness, flag, unheard=True)
    reject(harness, "ana", SUPPORT, card, "not needed", 1)
    harness.said(SUPPORT, thread, "That is all.", "ana")
    harness.settle()
    assert statuses(harness, thread) == [CallStatus.INVALIDATED, CallStatus.REJECTED]
    assert f"the person who asked {GONE}" in words(now_at(harness, SUPPORT, card["ts"]))
    assert not fakes.did("note", text)


@FLAGS
def test_nothing_runs_again_for_who_left(harness: Harness, fakes: FakeTools, flag: str) -> None:
    """Of a call with an unknown outcome people may say what became of it, not run it again."""
    text = f"lost while ben is {flag}"
    thread = ask(harness, ("lose", {"text": text}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    card = harness.card(SUPPORT, thread, having="run_again")
    harness.settle()
    lose(harness, flag, unheard=True)
    harness.person("ana").click(SUPPORT, card["ts"], "run_again", seen=card)
    told(harness, "ana", SUPPORT, thread, GONE)
    assert statuses(harness, thread) == [CallStatus.UNKNOWN]
    harness.person("ana").click(SUPPORT, card["ts"], "resolve_not_done", seen=card)
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.FAILED]
    assert fakes.did("lose", text) == 1


def test_a_guest_retries_nothing(harness: Harness) -> None:
    """A request that failed does not go on by the click of somebody who is a guest by now."""
    thread, card = ask_for(harness, "a guest has patience")
    harness.planner.fail_next_requests(500, times=5)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    gave_up = harness.card(SUPPORT, thread, having="retry")
    harness.settle()
    lose(harness, "is_restricted")
    harness.person("ben").click(SUPPORT, gave_up["ts"], "retry", seen=gave_up)
    told(harness, "ben", SUPPORT, thread, "full members of this workspace only")
    assert harness.run_in(thread).status is RunStatus.FAILED
