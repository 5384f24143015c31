"""Where it ends: turns, calls, cards, tokens and pending calls are bounded, and strangers get a
private sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.models import Delivery, Run
from storage.states import CallStatus, RunStatus
from tests.stories.kit import Kit
from tests.stories.test_time import ask as ask_one
from tests.stories.world import (
    PARTNERS,
    SUPPORT,
    Turn,
    World,
    action_ids,
    arrived,
    reject,
    told,
    words,
)

C = CallStatus


@pytest.fixture
def limits(world: World) -> Iterator[Callable[..., None]]:
    """Gives the running bot other limits, for one story."""
    core = world.app.core
    before = core.settings

    def use(**changed: int) -> None:
        core.settings = before.model_copy(update=changed)

    yield use
    core.settings = before


def peeks(*texts: str) -> Turn:
    """A turn that only reads."""
    return Turn(calls=[("peek", {"text": text}) for text in texts])


def test_turns(world: World, kit: Kit, limits: Callable[..., None]) -> None:
    """A model that never comes to an end is stopped after so many turns, and the thread is told."""
    limits(max_turns=2)
    world.planner.script(peeks("turn 1"), peeks("turn 2"), peeks("turn 3"))
    asked = len(world.planner.requests)
    thread = world.person("ben").say(SUPPORT, "@bot go on for ever")
    world.said(SUPPORT, thread, "2 turns, which is its limit")
    world.settle()
    assert len(world.planner.requests) - asked == 2
    assert world.run_in(thread).status is RunStatus.COMPLETED
    assert (kit.did("peek", "turn 2"), kit.did("peek", "turn 3")) == (1, 0)


def test_tokens(world: World, limits: Callable[..., None]) -> None:
    """A run that has used up its tokens asks the model no more.

    The next request in the thread may.
    """
    limits(max_tokens=1)
    world.planner.script(peeks("dear"), Turn(text="Begun anew."))
    thread = world.person("ben").say(SUPPORT, "@bot spend")
    world.said(SUPPORT, thread, "which is more than its limit")
    world.settle()
    assert world.run_in(thread).status is RunStatus.COMPLETED
    world.person("ben").say(SUPPORT, "@bot again", thread)
    world.said(SUPPORT, thread, "Begun anew.")


def test_calls(world: World, kit: Kit, limits: Callable[..., None]) -> None:
    """Calls beyond the limit are refused with a reason, in the same turn and in later ones.

    The others count.
    """
    limits(max_calls=3)
    world.planner.script(peeks("1", "2"), peeks("3", "4"), Turn(text="Enough calls."))
    thread = world.person("ben").say(SUPPORT, "@bot call and call")
    world.said(SUPPORT, thread, "Enough calls.")
    assert [c.status for c in world.calls_in(thread)] == [C.SUCCEEDED] * 3 + [C.REFUSED]
    assert "3 calls at most" in world.outputs()[-1]["output"]


def test_cards(world: World, limits: Callable[..., None]) -> None:
    """After so many cards nobody is asked any more in this request: refused, and the thread is told
    (L05).
    """
    limits(max_cards=1)
    thread, card = ask_one(world, "the first card")
    world.planner.script(Turn(calls=[("note", {"text": "another card"})]), Turn(text="I give up."))
    assert reject(world, "ana", SUPPORT, card, "no")["outcome"] == "closed"
    world.said(SUPPORT, thread, "reached its limit of cards")
    world.said(SUPPORT, thread, "I give up.")
    world.settle()
    assert [c.status for c in world.calls_in(thread)] == [C.REJECTED, C.REFUSED]
    assert not [m for m in world.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_pending_calls_of_one_requester(
    world: World, kit: Kit, limits: Callable[..., None]
) -> None:
    """Nobody can have more undecided calls than allowed, over all threads.

    Others still can ask (A11).
    """
    limits(max_pending=2)
    first, card = ask_one(world, "pending one")
    world.planner.script(
        Turn(calls=[("note", {"text": "pending two"}), ("note", {"text": "one too many"})])
    )
    second = world.person("ben").say(SUPPORT, "@bot two more")
    world.card(SUPPORT, second)
    world.said(SUPPORT, second, "wait for a decision already")
    world.settle()
    assert [c.status for c in world.calls_in(second)] == [C.PENDING, C.REFUSED]
    world.planner.script(Turn(calls=[("note", {"text": "of somebody else"})]))
    world.card(SUPPORT, world.person("dan").say(SUPPORT, "@bot mine"))
    world.planner.script(
        Turn(text="There is room again."), Turn(calls=[("note", {"text": "pending three"})])
    )
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, first, "There is room again.")
    world.settle()
    third = world.person("ben").say(SUPPORT, "@bot once more")
    world.card(SUPPORT, third)


def test_calls_asked_within_an_hour(world: World, limits: Callable[..., None]) -> None:
    """People are asked about so many calls of one requester in an hour, decided or not.

    Then there is room again.
    """
    world.clock.advance(3601)
    limits(max_asked_per_hour=2)
    world.planner.script(Turn(calls=[("note", {"text": f"of the hour {n}"}) for n in range(3)]))
    first = world.person("ben").say(SUPPORT, "@bot three, please")
    world.said(
        SUPPORT,
        first,
        "2 calls of yours within the last hour, which is the limit; ask me again in 60 minutes",
    )
    world.settle()
    assert [c.status for c in world.calls_in(first)] == [C.PENDING, C.PENDING, C.REFUSED]
    world.planner.script(Turn(calls=[("note", {"text": "of somebody else"})]))
    world.card(SUPPORT, world.person("dan").say(SUPPORT, "@bot mine"))

    world.clock.advance(1200)
    world.planner.script(Turn(calls=[("note", {"text": "one too many"})]), Turn(text="Not now."))
    second = world.person("ben").say(SUPPORT, "@bot another")
    world.said(SUPPORT, second, "ask me again in 40 minutes")
    world.said(SUPPORT, second, "Not now.")
    assert "room again in 40 minutes" in world.outputs()[-1]["output"]

    world.planner.script(Turn(text="Closed."), Turn(text="Closed."))
    world.clock.advance(2401)
    world.said(SUPPORT, first, "Closed.")
    world.planner.script(Turn(calls=[("note", {"text": "of the next hour"})]))
    world.card(SUPPORT, world.person("ben").say(SUPPORT, "@bot now?"))


def test_tokens_within_a_day(world: World, limits: Callable[..., None]) -> None:
    """Who has used up a day's tokens is told so in every thread, and the model is not asked.

    Others are served.
    """
    world.clock.advance(25 * 3600)
    limits(max_tokens_per_day=1)
    world.planner.script(peeks("the last words of the day"))
    first = world.person("cleo").say(SUPPORT, "@bot spend")
    world.said(SUPPORT, first, "of the last 24 hours have used")
    world.settle()
    asked = len(world.planner.requests)
    second = world.person("cleo").say(SUPPORT, "@bot spend more")
    world.said(SUPPORT, second, "one person's limit is 1. Ask me again later.")
    world.settle()
    assert len(world.planner.requests) == asked
    assert [world.run_in(thread).status for thread in (first, second)] == [RunStatus.COMPLETED] * 2
    world.planner.script(Turn(text="At your service."))
    world.said(SUPPORT, world.person("dan").say(SUPPORT, "@bot hello"), "At your service.")
    world.clock.advance(25 * 3600)
    world.planner.script(Turn(text="A new day."))
    world.person("cleo").say(SUPPORT, "@bot and now", second)
    world.said(SUPPORT, second, "A new day.")


@pytest.mark.parametrize(("who", "channel"), [("gus", SUPPORT), ("eve", PARTNERS)])
def test_strangers_are_told_privately(world: World, who: str, channel: str) -> None:
    """A guest and somebody of another company are told so, and nobody else sees it.

    There is no run (A04).
    """
    asked = len(world.planner.requests)
    thread = world.person(who).say(channel, "@bot refund everything")
    told(world, who, channel, thread, "full members of this workspace only")
    arrived(world)
    assert len(world.planner.requests) == asked
    assert not world.all(Run, Run.thread_ts == thread)
    [row] = world.all(Delivery, Delivery.thread_ts == thread)
    assert (row.status, row.note) == ("done", "not a colleague")
    assert not [m for m in world.thread(channel, thread, "ana") if "full members" in words(m)]


def test_a_stranger_in_a_dm(world: World) -> None:
    """A guest who writes directly is told the same, and is not greeted as if they could ask."""
    gus = world.person("gus")
    gus.open_dm()
    thread = gus.dm("refund everything")
    told(world, "gus", gus.dm_channel, thread, "full members of this workspace only")
    arrived(world)
    assert not world.all(Run, Run.thread_ts == thread)
    assert not [m for m in gus.messages(gus.dm_channel) if "an AI assistant" in words(m)]


def test_a_stranger_in_somebody_elses_thread(world: World) -> None:
    """While people decide, a guest's words in the thread neither change nor cancel anything (L07,
    A04).
    """
    thread, _ = ask_one(world, "not for guests")
    asked = len(world.planner.requests)
    world.person("gus").say(SUPPORT, "@bot cancel", thread)
    told(world, "gus", SUPPORT, thread, "full members")
    arrived(world)
    assert world.calls_in(thread)[0].status is C.PENDING
    assert len(world.planner.requests) == asked
