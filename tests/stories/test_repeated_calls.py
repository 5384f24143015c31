"""A call repeated in one request gets the earlier result, or people are asked and told so."""

from __future__ import annotations

import json

import pytest

from bot.demo.model_server import Turn
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words

C = CallStatus


def wait_for_card(harness: Harness, thread: str, number: int) -> dict:
    """Wait for the card with the call of this number in the thread."""

    def look() -> dict | None:
        found = harness.calls_in(thread)[number:]
        return next(
            (
                m
                for m in harness.thread(SUPPORT, thread)
                if found and f'"{found[0].id}:1"' in words(m)
            ),
            None,
        )

    card: dict = harness.slack.wait(look)
    return card


def approve(harness: Harness, thread: str, number: int) -> dict:
    """Have Ana approve the call of this number once it is asked; return the card she saw."""
    card = wait_for_card(harness, thread, number)
    assert "approve" in action_ids(card)
    harness.person("ana").click(
        SUPPORT, card["ts"], "approve", value=f"{harness.calls_in(thread)[number].id}:1"
    )
    return card


def ask_in_turns(harness: Harness, *calls: tuple[str, str]) -> str:
    """Ben asks, and the model proposes these calls in separate turns; return the thread."""
    harness.planner.script(
        *(Turn(calls=[(tool, {"text": text})]) for tool, text in calls), Turn(text="That is all.")
    )
    thread: str = harness.person("ben").say(SUPPORT, "@bot please")
    return thread


def test_an_idempotent_repeat_gets_the_first_result(harness: Harness, fakes: FakeTools) -> None:
    """Nobody is asked, until another call may have changed things."""
    thread = ask_in_turns(
        harness,
        ("put", "flag"),
        ("peek", "flag"),
        ("put", "flag"),
        ("wipe", "flag"),
        ("put", "flag"),
    )
    assert "Why this is asked" not in words(approve(harness, thread, 0))
    approve(harness, thread, 3)
    card = approve(harness, thread, 4)
    assert "🔁 Why this is asked: the same was done already in this request, " in words(card)
    assert " UTC" in words(card)
    harness.said(SUPPORT, thread, "That is all.")
    first, _, again, _, last = harness.calls_in(thread)
    assert [call.status for call in (first, again, last)] == [C.SUCCEEDED, C.REFUSED, C.SUCCEEDED]
    assert fakes.did("put", "flag") == 2
    told = harness.outputs()[-3]["output"]
    assert told.startswith("NOT RUN AGAIN: ")
    assert "Nobody was asked." in told
    assert told.endswith(f"\n{first.output}")
    assert "put flag" in told
    assert again.note == "same as an earlier call, so it got that result"
    [born] = harness.all(Audit, Audit.call_id == again.id)
    assert json.loads(born.data)["same_as"] == first.id
    assert not any(
        again.id in words(m) or "did not ask" in words(m) for m in harness.thread(SUPPORT, thread)
    )


def test_a_repeat_after_a_change_in_its_plan_is_asked(harness: Harness, fakes: FakeTools) -> None:
    """An earlier call of its own plan would change things."""
    harness.planner.script(
        Turn(calls=[("put", {"text": "lamp"})]),
        Turn(calls=[("wipe", {"text": "lamp"}), ("put", {"text": "lamp"})]),
        Turn(text="That is all."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    approve(harness, thread, 0)
    assert "the same was done already in this request" in words(wait_for_card(harness, thread, 2))
    approve(harness, thread, 1)
    approve(harness, thread, 2)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "lamp") == 2


def test_the_card_marks_a_repeated_call(harness: Harness, fakes: FakeTools) -> None:
    """The call is not idempotent; reads run each time without asking."""
    thread = ask_in_turns(
        harness,
        ("note", "twice"),
        ("peek", "twice"),
        ("peek", "twice"),
        ("note", "twice"),
        ("note", "once"),
    )
    approve(harness, thread, 0)
    assert "🔁 Why this is asked: the same was done already in this request" in words(
        approve(harness, thread, 3)
    )
    assert "Why this is asked" not in words(approve(harness, thread, 4))
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "twice"), fakes.did("peek", "twice")) == (2, 2)


def test_the_same_call_in_another_request_is_no_repeat(harness: Harness, fakes: FakeTools) -> None:
    """It is the same person within a minute, and no program asks for either."""
    for _ in range(2):
        thread = ask_in_turns(harness, ("note", "in two requests"))
        assert "Why this is asked" not in words(approve(harness, thread, 0))
        harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "in two requests") == 2


@pytest.mark.parametrize("tool", ["put", "note"])
def test_the_card_marks_a_call_that_is_twice_in_one_plan(
    harness: Harness, fakes: FakeTools, tool: str
) -> None:
    """The mark is at the second one, and people decide both."""
    harness.planner.script(Turn(calls=[(tool, {"text": "a pair"})] * 2), Turn(text="That is all."))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = wait_for_card(harness, thread, 1)
    assert (
        words(card).count(
            "Why this is asked: the same is in this plan already, so it would run twice"
        )
        == 1
    )
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    assert [call.status for call in harness.calls_in(thread)] == [C.SUCCEEDED] * 2
    assert fakes.did(tool, "a pair") == 2


@pytest.mark.parametrize(
    ("tool", "approved", "status", "said"),
    [
        ("explode", True, C.FAILED, "was tried already in this request, and failed"),
        (
            "lose",
            True,
            C.UNKNOWN,
            "was started already in this request, with unknown outcome",
        ),
        ("put", False, C.EXPIRED, "was asked already in this request, with no answer"),
    ],
)
def test_the_card_of_a_repeat_says_how_the_first_call_ended(
    harness: Harness, tool: str, approved: bool, status: C, said: str
) -> None:
    """A failed, unknown or expired call gives no result for the second one."""
    thread = ask_in_turns(harness, (tool, f"first {status}"), (tool, f"first {status}"))
    if approved:
        approve(harness, thread, 0)
        harness.slack.wait(lambda: harness.calls_in(thread)[0].status is status)
    else:
        wait_for_card(harness, thread, 0)
    harness.settle()
    if status is not C.FAILED:
        harness.clock.advance(3601)  # nobody decides or resolves the first call
    assert f"🔁 Why this is asked: the same {said}" in words(wait_for_card(harness, thread, 1))
    assert [call.status for call in harness.calls_in(thread)] == [status, C.PENDING]


def test_an_unknown_outcome_is_mentioned_at_each_repeat(harness: Harness) -> None:
    """Though the tool is idempotent, and even after an expired repeat in between."""
    thread = ask_in_turns(harness, *[("lose_put", "who knows")] * 3)
    approve(harness, thread, 0)
    harness.slack.wait(lambda: harness.calls_in(thread)[0].status is C.UNKNOWN)
    for number in (1, 2):
        harness.settle()
        harness.clock.advance(3601)
        assert "with unknown outcome" in words(wait_for_card(harness, thread, number))
    assert [call.status for call in harness.calls_in(thread)] == [C.UNKNOWN, C.EXPIRED, C.PENDING]
