"""The same call again in one request: its result is given again, or people are asked anew and see
that it repeats.
"""

from __future__ import annotations

import pytest

from storage.models import Audit
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, Turn, World, action_ids, words

C = CallStatus


def asked(world: World, thread: str, number: int) -> dict:
    """The card on which the call of that number in the thread waits, waited for."""

    def look() -> dict | None:
        found = world.calls_in(thread)[number:]
        return next(
            (
                m
                for m in world.thread(SUPPORT, thread)
                if found and f'"{found[0].id}:1"' in words(m)
            ),
            None,
        )

    card: dict = world.slack.wait(look)
    return card


def approve(world: World, thread: str, number: int) -> dict:
    """Ana approves the call of that number once it is asked; returns the card as she saw it."""
    card = asked(world, thread, number)
    assert "approve" in action_ids(card)
    world.person("ana").click(
        SUPPORT, card["ts"], "approve", value=f"{world.calls_in(thread)[number].id}:1"
    )
    return card


def turns(world: World, *calls: tuple[str, str]) -> str:
    """Ben asks, and the model proposes these calls in turn, one by one; returns the thread."""
    world.planner.script(
        *(Turn(calls=[(tool, {"text": text})]) for tool, text in calls), Turn(text="That is all.")
    )
    thread: str = world.person("ben").say(SUPPORT, "@bot please")
    return thread


def test_what_can_be_done_twice_without_harm(world: World, kit: Kit) -> None:
    """An idempotent call that repeats gets the first result unasked, until something else has
    changed things.
    """
    thread = turns(
        world, ("put", "flag"), ("peek", "flag"), ("put", "flag"), ("wipe", "flag"), ("put", "flag")
    )
    assert "Asked again" not in words(approve(world, thread, 0))
    approve(world, thread, 3)
    card = approve(world, thread, 4)
    assert "🔁 Asked again: the same was done already in this request, " in words(card)
    assert " UTC" in words(card)
    world.said(SUPPORT, thread, "That is all.")
    first, _, again, _, last = world.calls_in(thread)
    assert [call.status for call in (first, again, last)] == [C.SUCCEEDED, C.REFUSED, C.SUCCEEDED]
    assert kit.did("put", "flag") == 2
    told = world.outputs()[-3]["output"]
    assert told.startswith("NOT RUN AGAIN: ")
    assert "Nobody was asked." in told
    assert told.endswith(f"\n{first.output}")
    assert "put flag" in told
    assert again.note == "same as an earlier call, whose result it got"
    [born] = world.all(Audit, Audit.call_id == again.id)
    assert f'"same_as": "{first.id}"' in born.data
    assert not any(
        again.id in words(m) or "did not ask" in words(m) for m in world.thread(SUPPORT, thread)
    )


def test_what_would_change_things_first(world: World, kit: Kit) -> None:
    """A step before it in its own plan would change things, so the repeated call is asked."""
    world.planner.script(
        Turn(calls=[("put", {"text": "lamp"})]),
        Turn(calls=[("wipe", {"text": "lamp"}), ("put", {"text": "lamp"})]),
        Turn(text="That is all."),
    )
    thread = world.person("ben").say(SUPPORT, "@bot please")
    approve(world, thread, 0)
    assert "the same was done already in this request" in words(asked(world, thread, 2))
    approve(world, thread, 1)
    approve(world, thread, 2)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("put", "lamp") == 2


def test_what_would_be_done_twice(world: World, kit: Kit) -> None:
    """Any other call that repeats is asked anew, and its card says so.

    What only reads runs each time.
    """
    thread = turns(
        world,
        ("note", "twice"),
        ("peek", "twice"),
        ("peek", "twice"),
        ("note", "twice"),
        ("note", "once"),
    )
    approve(world, thread, 0)
    assert "🔁 Asked again: the same was done already in this request" in words(
        approve(world, thread, 3)
    )
    assert "Asked again" not in words(approve(world, thread, 4))
    world.said(SUPPORT, thread, "That is all.")
    assert (kit.did("note", "twice"), kit.did("peek", "twice")) == (2, 2)


@pytest.mark.parametrize("tool", ["put", "note"])
def test_twice_in_one_plan(world: World, kit: Kit, tool: str) -> None:
    """Of two same calls in a plan the second says so, and both are for people to decide (P01)."""
    world.planner.script(Turn(calls=[(tool, {"text": "a pair"})] * 2), Turn(text="That is all."))
    thread = world.person("ben").say(SUPPORT, "@bot please")
    card = asked(world, thread, 1)
    assert (
        words(card).count(
            "Asked again: the same stands in this plan already, so it would be done twice"
        )
        == 1
    )
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    world.said(SUPPORT, thread, "That is all.")
    assert [call.status for call in world.calls_in(thread)] == [C.SUCCEEDED] * 2
    assert kit.did(tool, "a pair") == 2


@pytest.mark.parametrize(
    ("tool", "approved", "status", "said"),
    [
        ("explode", True, C.FAILED, "was tried already in this request, and failed"),
        (
            "lose",
            True,
            C.UNKNOWN,
            "was started already in this request, and nobody knows whether it happened",
        ),
        ("put", False, C.EXPIRED, "was asked already in this request, and nobody answered"),
    ],
)
def test_what_became_of_the_first(
    world: World, tool: str, approved: bool, status: C, said: str
) -> None:
    """The card of the second says how the first one ended; nothing of it is taken for a result."""
    thread = turns(world, (tool, f"first {status}"), (tool, f"first {status}"))
    if approved:
        approve(world, thread, 0)
        world.slack.wait(lambda: world.calls_in(thread)[0].status is status)
    else:
        asked(world, thread, 0)
    world.settle()
    if status is not C.FAILED:
        world.clock.advance(3601)  # nobody answers, and nobody says what became of it
    assert f"🔁 Asked again: the same {said}" in words(asked(world, thread, 1))
    assert [call.status for call in world.calls_in(thread)] == [status, C.PENDING]


def test_what_nobody_knows_stays_said(world: World) -> None:
    """What is unknown is no result, though it could be done twice.

    And what came after it does not hide it.
    """
    thread = turns(world, *[("lose_put", "who knows")] * 3)
    approve(world, thread, 0)
    world.slack.wait(lambda: world.calls_in(thread)[0].status is C.UNKNOWN)
    for number in (1, 2):
        world.settle()
        world.clock.advance(3601)
        assert "nobody knows whether it happened" in words(asked(world, thread, number))
    assert [call.status for call in world.calls_in(thread)] == [C.UNKNOWN, C.EXPIRED, C.PENDING]
