"""A reaction on the request's message shows its state: one emoji, whatever happens meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from bot.demo.model_server import Turn
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, ask, ask_for, reject

WAITING, DONE, REJECTED = "hourglass_flowing_sand", "white_check_mark", "no_entry_sign"
MIXED = "ballot_box_with_check"
EXPIRED, FAILED, UNKNOWN = "alarm_clock", "x", "question"
HOUR = 3600


def list_reactions(harness: Harness, message: str) -> list[str]:
    """The reactions on that message of #support."""
    everything: list[dict[str, Any]] = harness.person("ben").everything(SUPPORT)
    [found] = [each for each in everything if each["ts"] == message]
    return [each["name"] for each in found.get("reactions", [])]


def wait_for_reaction(harness: Harness, message: str, name: str) -> None:
    """Wait until the message has this reaction and no other."""
    harness.slack.wait(lambda: name in list_reactions(harness, message))
    harness.slack.wait(lambda: list_reactions(harness, message) == [name])


def test_a_reaction_shows_the_state_of_a_request(harness: Harness, fakes: FakeTools) -> None:
    """It waits and is done; two requests at once have a reaction each."""
    first, card = ask_for(harness, "the first")
    second, other = ask_for(harness, "the second")
    wait_for_reaction(harness, first, WAITING)
    wait_for_reaction(harness, second, WAITING)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wait_for_reaction(harness, first, DONE)
    harness.settle()
    assert list_reactions(harness, second) == [WAITING]
    reject(harness, "ana", SUPPORT, other, "not today")
    wait_for_reaction(harness, second, REJECTED)


def test_expired_failed_and_unknown_have_reactions_of_their_own(
    harness: Harness, fakes: FakeTools
) -> None:
    """The unknown outcome is then settled."""
    late, _ = ask_for(harness, "too late")
    harness.clock.advance(HOUR + 1)
    wait_for_reaction(harness, late, EXPIRED)
    harness.settle()  # until the model has been told
    broken, card = ask_for(harness, "broken", "refuse")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wait_for_reaction(harness, broken, FAILED)
    harness.settle()
    lost, card = ask_for(harness, "lost", "lose")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wait_for_reaction(harness, lost, UNKNOWN)
    harness.person("ana").click(
        SUPPORT, harness.card(SUPPORT, lost, having="resolve_done")["ts"], "resolve_done"
    )
    wait_for_reaction(harness, lost, DONE)


def test_a_request_that_asks_nobody_has_no_reaction(harness: Harness) -> None:
    """The policy allows the call."""
    thread = ask(harness, ("peek", {"text": "at it"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert list_reactions(harness, thread) == []


def test_the_reaction_counts_the_next_plan_as_well(harness: Harness) -> None:
    """It waits again with the next call; one rejected and one done call give a mixed one."""
    harness.planner.script(
        Turn(calls=[("note", {"text": "the mark goes"})]),
        Turn(calls=[("note", {"text": "the mark comes"})]),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot one and two")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not that one")
    harness.slack.wait(lambda: len(harness.calls_in(thread)) == 2)
    wait_for_reaction(harness, thread, WAITING)
    second = harness.slack.wait(lambda: list_waiting_cards(harness, thread, "the mark comes"))
    harness.planner.script(Turn(text="One of them."))
    harness.person("ana").click(SUPPORT, second[0]["ts"], "approve")
    wait_for_reaction(harness, thread, MIXED)


def list_waiting_cards(harness: Harness, thread: str, what: str) -> list[dict[str, Any]]:
    found = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    return [m for m in found if what in words(m)]


def test_a_rate_limit_on_reactions_delays_no_card(harness: Harness, fakes: FakeTools) -> None:
    """Cards and answers go on; the reaction follows."""
    harness.slack.faults.rate_limit("reactions.add", retry_after=40)
    thread, card = ask_for(harness, "limited")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.planner.script(Turn(text="All noted down."))
    harness.said(SUPPORT, thread, "All noted down.")
    assert list_reactions(harness, thread) == []
    harness.clock.advance(41)
    wait_for_reaction(harness, thread, DONE)


@pytest.mark.parametrize("method", ["reactions.add", "reactions.remove"])
def test_a_lost_answer_leaves_no_second_reaction(harness: Harness, method: str) -> None:
    """Slack did it, but its answer was lost."""
    thread, card = ask_for(harness, f"lost {method}")
    wait_for_reaction(harness, thread, WAITING)
    harness.slack.faults.drop(method, when="after")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: not harness.slack.faults.waiting)  # until the answer is lost
    harness.settle()
    harness.clock.advance(30)
    wait_for_reaction(harness, thread, DONE)


def test_a_restart_leaves_no_second_reaction(harness: Harness) -> None:
    """The process ends while it adds a reaction."""
    hold = harness.slack.faults.hold("reactions.add")
    thread, card = ask_for(harness, "restarted")
    assert hold.arrived.wait(30)
    hold.release()
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wait_for_reaction(harness, thread, DONE)


@pytest.mark.parametrize("error", ["message_not_found", "missing_scope", "too_many_reactions"])
def test_requests_go_on_without_reactions(harness: Harness, fakes: FakeTools, error: str) -> None:
    """Slack refuses them for good."""
    harness.slack.faults.fail("reactions.add", error, times=9)
    thread, card = ask_for(harness, f"no {error}")
    harness.planner.script(Turn(text="Noted."))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "Noted.")
    assert fakes.did("note", f"no {error}") == 1
    assert list_reactions(harness, thread) == []
