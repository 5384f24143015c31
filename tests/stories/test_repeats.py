"""The same call again in one request gets its result again, or people are asked anew.

They see that it repeats.
"""

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


def asked(harness: Harness, thread: str, number: int) -> dict:
    """The card on which the call of that number in the thread waits, waited for."""

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
    """Ana approves the call of that number once it is asked; returns the card as she saw it."""
    card = asked(harness, thread, number)
    assert "approve" in action_ids(card)
    harness.person("ana").click(
        SUPPORT, card["ts"], "approve", value=f"{harness.calls_in(thread)[number].id}:1"
    )
    return card


def turns(harness: Harness, *calls: tuple[str, str]) -> str:
    """Ben asks, and the model proposes these calls in turn, one by one; returns the thread."""
    harness.planner.script(
        *(Turn(calls=[(tool, {"text": text})]) for tool, text in calls), Turn(text="That is all.")
    )
    thread: str = harness.person("ben").say(SUPPORT, "@bot please")
    return thread


def test_what_can_be_done_twice_without_harm(harness: Harness, fakes: FakeTools) -> None:
    """An idempotent call that repeats gets the first result unasked.

    It does until something else has changed things.
    """
    thread = turns(
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


def test_what_would_change_things_first(harness: Harness, fakes: FakeTools) -> None:
    """A step before it in its own plan would change things, so the repeated call is asked."""
    harness.planner.script(
        Turn(calls=[("put", {"text": "lamp"})]),
        Turn(calls=[("wipe", {"text": "lamp"}), ("put", {"text": "lamp"})]),
        Turn(text="That is all."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    approve(harness, thread, 0)
    assert "the same was done already in this request" in words(asked(harness, thread, 2))
    approve(harness, thread, 1)
    approve(harness, thread, 2)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "lamp") == 2


def test_what_would_be_done_twice(harness: Harness, fakes: FakeTools) -> None:
    """Any other call that repeats is asked anew, and its card says so.

    What only reads runs each time.
    """
    thread = turns(
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


@pytest.mark.parametrize("tool", ["put", "note"])
def test_twice_in_one_plan(harness: Harness, fakes: FakeTools, tool: str) -> None:
    """Of two same calls in a plan the second says so, and both are for people to decide."""
    harness.planner.script(Turn(calls=[(tool, {"text": "a pair"})] * 2), Turn(text="That is all."))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = asked(harness, thread, 1)
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
def test_what_became_of_the_first(
    harness: Harness, tool: str, approved: bool, status: C, said: str
) -> None:
    """The card of the second says how the first one ended; nothing of it is taken for a result."""
    thread = turns(harness, (tool, f"first {status}"), (tool, f"first {status}"))
    if approved:
        approve(harness, thread, 0)
        harness.slack.wait(lambda: harness.calls_in(thread)[0].status is status)
    else:
        asked(harness, thread, 0)
    harness.settle()
    if status is not C.FAILED:
        harness.clock.advance(3601)  # nobody answers, and nobody says what became of it
    assert f"🔁 Why this is asked: the same {said}" in words(asked(harness, thread, 1))
    assert [call.status for call in harness.calls_in(thread)] == [status, C.PENDING]


def test_what_nobody_knows_stays_said(harness: Harness) -> None:
    """What is unknown is no result, though it could be done twice.

    And what came after it does not hide it.
    """
    thread = turns(harness, *[("lose_put", "who knows")] * 3)
    approve(harness, thread, 0)
    harness.slack.wait(lambda: harness.calls_in(thread)[0].status is C.UNKNOWN)
    for number in (1, 2):
        harness.settle()
        harness.clock.advance(3601)
        assert "with unknown outcome" in words(asked(harness, thread, number))
    assert [call.status for call in harness.calls_in(thread)] == [C.UNKNOWN, C.EXPIRED, C.PENDING]
