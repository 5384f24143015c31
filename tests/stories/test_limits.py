"""Limits on turns, calls, cards and tokens; and what strangers are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bot.demo.model_server import Turn
from storage.models import Delivery, Run
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask_for, reject, showing, told, vote

C = CallStatus


@pytest.fixture
def limits(harness: Harness) -> Iterator[Callable[..., None]]:
    """Restart the bot with other limits, for one story."""

    def use(**changed: int) -> None:
        harness.settle()
        harness.limits = changed
        harness.restart()

    yield use
    use()


def build_peek_turn(*texts: str) -> Turn:
    """A turn that only reads."""
    return Turn(calls=[("peek", {"text": text}) for text in texts])


def test_turns_are_limited_per_run(
    harness: Harness, fakes: FakeTools, limits: Callable[..., None]
) -> None:
    """A model that never ends is stopped, and the thread says why."""
    limits(max_turns=2)
    harness.planner.script(
        build_peek_turn("turn 1"), build_peek_turn("turn 2"), build_peek_turn("turn 3")
    )
    asked = len(harness.planner.requests)
    thread = harness.person("ben").say(SUPPORT, "@bot go on for ever")
    harness.said(SUPPORT, thread, "2 turns, which is its limit")
    harness.settle()
    assert len(harness.planner.requests) - asked == 2
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    assert (fakes.did("peek", "turn 2"), fakes.did("peek", "turn 3")) == (1, 0)


def test_a_card_still_waits_when_the_turns_have_run_out(
    harness: Harness, limits: Callable[..., None]
) -> None:
    """The answer says so. The card is then approved, and the call runs."""
    limits(max_turns=2)
    thread, card = ask_for(harness, "the last turn but one")
    harness.planner.script(build_peek_turn("the last turn"))
    harness.person("ben").say(SUPPORT, "@bot what else?", thread)
    limit = "this request has taken 2 turns, which is its limit."
    still = "Whatever was waiting for a decision is still waiting."
    harness.said(SUPPORT, thread, f"I could not answer that: {limit} {still}")
    vote(harness, "ana", card)
    said = words(harness.said(SUPPORT, thread, f"I stopped: {limit}"))
    assert "Done: Write “the last turn but one”" in said


def test_tokens_are_limited_per_run(harness: Harness, limits: Callable[..., None]) -> None:
    """The next request in the thread may ask the model again."""
    limits(max_tokens=1)
    harness.planner.script(build_peek_turn("dear"), Turn(text="Begun anew."))
    thread = harness.person("ben").say(SUPPORT, "@bot spend")
    harness.said(SUPPORT, thread, "which is more than its limit")
    harness.settle()
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    harness.person("ben").say(SUPPORT, "@bot again", thread)
    harness.said(SUPPORT, thread, "Begun anew.")


def test_calls_beyond_the_limit_are_refused(
    harness: Harness, fakes: FakeTools, limits: Callable[..., None]
) -> None:
    """The limit counts this turn and earlier ones; the calls below it run."""
    limits(max_calls=3)
    harness.planner.script(
        build_peek_turn("1", "2"), build_peek_turn("3", "4"), Turn(text="Enough calls.")
    )
    thread = harness.person("ben").say(SUPPORT, "@bot call and call")
    harness.said(SUPPORT, thread, "Enough calls.")
    assert [c.status for c in harness.calls_in(thread)] == [C.SUCCEEDED] * 3 + [C.REFUSED]
    assert "3 calls at most" in harness.outputs()[-1]["output"]


def test_cards_beyond_the_limit_are_refused(harness: Harness, limits: Callable[..., None]) -> None:
    """The thread says why."""
    limits(max_cards=1)
    thread, card = ask_for(harness, "the first card")
    harness.planner.script(
        Turn(calls=[("note", {"text": "another card"})]), Turn(text="I give up.")
    )
    assert reject(harness, "ana", SUPPORT, card, "no")["outcome"] == "closed"
    harness.said(SUPPORT, thread, "has reached its limit for asking people")
    harness.said(SUPPORT, thread, "I give up.")
    harness.settle()
    assert [c.status for c in harness.calls_in(thread)] == [C.REJECTED, C.REFUSED]
    assert not [m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]


def test_undecided_calls_are_limited_per_requester(
    harness: Harness, fakes: FakeTools, limits: Callable[..., None]
) -> None:
    """The limit counts all threads. Others can still ask."""
    limits(max_pending=2)
    first, card = ask_for(harness, "pending one")
    harness.planner.script(
        Turn(calls=[("note", {"text": "pending two"}), ("note", {"text": "one too many"})])
    )
    second = harness.person("ben").say(SUPPORT, "@bot two more")
    harness.card(SUPPORT, second)
    harness.said(SUPPORT, second, "already waiting for a decision")
    harness.settle()
    assert [c.status for c in harness.calls_in(second)] == [C.PENDING, C.REFUSED]
    harness.planner.script(Turn(calls=[("note", {"text": "of somebody else"})]))
    harness.card(SUPPORT, harness.person("dan").say(SUPPORT, "@bot mine"))
    harness.planner.script(
        Turn(text="There is room again."), Turn(calls=[("note", {"text": "pending three"})])
    )
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, first, "There is room again.")
    harness.settle()
    third = harness.person("ben").say(SUPPORT, "@bot once more")
    harness.card(SUPPORT, third)


def test_calls_asked_per_hour_are_limited_per_requester(
    harness: Harness, limits: Callable[..., None]
) -> None:
    """Decided ones count, too. The refusal says when there is room again."""
    harness.clock.advance(3601)
    limits(max_asked_per_hour=2)
    harness.planner.script(Turn(calls=[("note", {"text": f"of the hour {n}"}) for n in range(3)]))
    first = harness.person("ben").say(SUPPORT, "@bot three, please")
    harness.said(
        SUPPORT,
        first,
        "2 calls of yours within the last hour, which is the limit; ask me again in 60 minutes",
    )
    harness.settle()
    assert [c.status for c in harness.calls_in(first)] == [C.PENDING, C.PENDING, C.REFUSED]
    harness.planner.script(Turn(calls=[("note", {"text": "of somebody else"})]))
    harness.card(SUPPORT, harness.person("dan").say(SUPPORT, "@bot mine"))

    harness.clock.advance(1200)
    harness.planner.script(Turn(calls=[("note", {"text": "one too many"})]), Turn(text="Not now."))
    second = harness.person("ben").say(SUPPORT, "@bot another")
    harness.said(SUPPORT, second, "ask me again in 40 minutes")
    harness.said(SUPPORT, second, "Not now.")
    assert "room again in 40 minutes" in harness.outputs()[-1]["output"]

    harness.planner.script(Turn(text="Closed."), Turn(text="Closed."))
    harness.clock.advance(2401)
    harness.said(SUPPORT, first, "Closed.")
    harness.planner.script(Turn(calls=[("note", {"text": "of the next hour"})]))
    harness.card(SUPPORT, harness.person("ben").say(SUPPORT, "@bot now?"))


def test_tokens_per_day_are_limited_per_person(
    harness: Harness, limits: Callable[..., None]
) -> None:
    """Every thread says so, without asking the model. Others are served."""
    harness.clock.advance(25 * 3600)
    limits(max_tokens_per_day=1)
    harness.planner.script(build_peek_turn("the last words of the day"))
    first = harness.person("cleo").say(SUPPORT, "@bot spend")
    harness.said(SUPPORT, first, "of the last 24 hours have used")
    harness.settle()
    asked = len(harness.planner.requests)
    second = harness.person("cleo").say(SUPPORT, "@bot spend more")
    harness.said(SUPPORT, second, "one person's limit is 1. Ask me again later.")
    harness.settle()
    assert len(harness.planner.requests) == asked
    assert [harness.run_in(thread).status for thread in (first, second)] == [
        RunStatus.COMPLETED
    ] * 2
    harness.planner.script(Turn(text="At your service."))
    harness.said(SUPPORT, harness.person("dan").say(SUPPORT, "@bot hello"), "At your service.")
    harness.clock.advance(25 * 3600)
    harness.planner.script(Turn(text="A new day."))
    harness.person("cleo").say(SUPPORT, "@bot and now", second)
    harness.said(SUPPORT, second, "A new day.")


@pytest.mark.parametrize(("who", "channel"), [("gus", SUPPORT), ("eve", PARTNERS)])
def test_strangers_are_refused_privately(harness: Harness, who: str, channel: str) -> None:
    """They are a guest and somebody of another company. There is no run."""
    asked = len(harness.planner.requests)
    thread = harness.person(who).say(channel, "@bot refund everything")
    told(harness, who, channel, thread, "full members of this workspace only")
    arrived(harness)
    assert len(harness.planner.requests) == asked
    assert not harness.all(Run, Run.thread_ts == thread)
    [row] = harness.all(Delivery, Delivery.thread_ts == thread)
    assert (row.status, row.note) == ("done", "not a colleague")
    assert not [m for m in harness.thread(channel, thread, "ana") if "full members" in words(m)]


def test_a_stranger_in_a_dm_is_refused_and_not_greeted(harness: Harness) -> None:
    """The greeting would say that they can ask."""
    gus = harness.person("gus")
    gus.open_dm()
    thread = gus.dm("refund everything")
    told(harness, "gus", gus.dm_channel, thread, "full members of this workspace only")
    arrived(harness)
    assert not harness.all(Run, Run.thread_ts == thread)
    assert not [m for m in gus.messages(gus.dm_channel) if "an AI assistant" in words(m)]


def test_a_stranger_cannot_cancel_somebody_elses_request(harness: Harness) -> None:
    """A guest writes “cancel” in the thread while people decide."""
    thread, _ = ask_for(harness, "not for guests")
    asked = len(harness.planner.requests)
    harness.person("gus").say(SUPPORT, "@bot cancel", thread)
    told(harness, "gus", SUPPORT, thread, "full members")
    arrived(harness)
    assert harness.calls_in(thread)[0].status is C.PENDING
    assert len(harness.planner.requests) == asked


def test_a_limit_is_announced_only_once(harness: Harness, limits: Callable[..., None]) -> None:
    """The model loops, and its request is ended."""
    limits(max_cards=1)
    asks = [Turn(calls=[("note", {"text": f"again {n}"})]) for n in range(9)]
    harness.planner.script(*asks)
    thread = harness.person("ben").say(SUPPORT, "@bot go on asking")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "no")
    harness.said(SUPPORT, thread, "refused 3 turns in a row")
    assert len(showing(harness, SUPPORT, thread, "I did not ask anybody")) == 1
