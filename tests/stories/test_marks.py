"""The request's own message says how it stands: one emoji, whatever happens on the way there."""

from __future__ import annotations

from typing import Any

import pytest

from bot.demo.model_server import Turn
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, ask, ask_for, reject

WAITS, DONE, REJECTED = "hourglass_flowing_sand", "white_check_mark", "no_entry_sign"
MIXED = "ballot_box_with_check"
EXPIRED, FAILED, UNKNOWN = "alarm_clock", "x", "question"
HOUR = 3600


def worn(harness: Harness, message: str) -> list[str]:
    """The emojis on that message of #support."""
    everything: list[dict[str, Any]] = harness.person("ben").everything(SUPPORT)
    [found] = [each for each in everything if each["ts"] == message]
    return [each["name"] for each in found.get("reactions", [])]


def wears(harness: Harness, message: str, name: str) -> None:
    """Wait until it wears this one; it wears no other beside it."""
    harness.slack.wait(lambda: name in worn(harness, message))
    harness.slack.wait(lambda: worn(harness, message) == [name])


def test_a_request_says_how_it_stands(harness: Harness, fakes: FakeTools) -> None:
    """It waits, and is done; of two at once, each wears its own."""
    first, card = ask_for(harness, "the first")
    second, other = ask_for(harness, "the second")
    wears(harness, first, WAITS)
    wears(harness, second, WAITS)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wears(harness, first, DONE)
    harness.settle()
    assert worn(harness, second) == [WAITS]
    reject(harness, "ana", SUPPORT, other, "not today")
    wears(harness, second, REJECTED)


def test_silence_and_failure_are_told_apart(harness: Harness, fakes: FakeTools) -> None:
    """Nobody answered; it failed; nobody knows what became of it, until somebody says so."""
    late, _ = ask_for(harness, "too late")
    harness.clock.advance(HOUR + 1)
    wears(harness, late, EXPIRED)
    harness.settle()  # the model has been told
    broken, card = ask_for(harness, "broken", "refuse")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wears(harness, broken, FAILED)
    harness.settle()
    lost, card = ask_for(harness, "lost", "lose")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wears(harness, lost, UNKNOWN)
    harness.person("ana").click(
        SUPPORT, harness.card(SUPPORT, lost, having="resolve_done")["ts"], "resolve_done"
    )
    wears(harness, lost, DONE)


def test_what_asks_nobody_wears_nothing(harness: Harness) -> None:
    """Neither an answer nor a call that policy allows is anybody's to decide."""
    thread = ask(harness, ("peek", {"text": "at it"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert worn(harness, thread) == []


def test_the_next_plan_counts_as_well(harness: Harness) -> None:
    """It waits again with the next call; after a rejection and an approval it says both."""
    harness.planner.script(
        Turn(calls=[("note", {"text": "the mark goes"})]),
        Turn(calls=[("note", {"text": "the mark comes"})]),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot one and two")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not that one")
    harness.slack.wait(lambda: len(harness.calls_in(thread)) == 2)
    wears(harness, thread, WAITS)
    second = harness.slack.wait(lambda: cards_that_ask(harness, thread, "the mark comes"))
    harness.planner.script(Turn(text="One of them."))
    harness.person("ana").click(SUPPORT, second[0]["ts"], "approve")
    wears(harness, thread, MIXED)


def cards_that_ask(harness: Harness, thread: str, what: str) -> list[dict[str, Any]]:
    found = [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]
    return [m for m in found if what in words(m)]


def test_a_limit_on_marks_holds_up_no_card(harness: Harness, fakes: FakeTools) -> None:
    """While Slack takes no marks, cards and answers go on; the mark is right afterwards."""
    harness.slack.faults.rate_limit("reactions.add", retry_after=40)
    thread, card = ask_for(harness, "limited")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.planner.script(Turn(text="All noted down."))
    harness.said(SUPPORT, thread, "All noted down.")
    assert worn(harness, thread) == []
    harness.clock.advance(41)
    wears(harness, thread, DONE)


@pytest.mark.parametrize("method", ["reactions.add", "reactions.remove"])
def test_a_lost_answer_leaves_no_second_mark(harness: Harness, method: str) -> None:
    """Slack took it and the answer was lost: it is said again, and one emoji stands there."""
    thread, card = ask_for(harness, f"lost {method}")
    wears(harness, thread, WAITS)
    harness.slack.faults.drop(method, when="after")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: not harness.slack.faults.waiting)  # it has been lost
    harness.settle()
    harness.clock.advance(30)
    wears(harness, thread, DONE)


def test_a_restart_in_between_leaves_no_second_mark(harness: Harness) -> None:
    """The process ends with a mark on its way: after the start it wears the one that is true."""
    hold = harness.slack.faults.hold("reactions.add")
    thread, card = ask_for(harness, "restarted")
    assert hold.arrived.wait(30)
    hold.release()
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    wears(harness, thread, DONE)


@pytest.mark.parametrize("error", ["message_not_found", "missing_scope", "too_many_reactions"])
def test_without_marks_all_else_goes_on(harness: Harness, fakes: FakeTools, error: str) -> None:
    """Slack refuses the mark for good: the request is asked, decided and answered as ever."""
    harness.slack.faults.fail("reactions.add", error, times=9)
    thread, card = ask_for(harness, f"no {error}")
    harness.planner.script(Turn(text="Noted."))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "Noted.")
    assert fakes.did("note", f"no {error}") == 1
    assert worn(harness, thread) == []
