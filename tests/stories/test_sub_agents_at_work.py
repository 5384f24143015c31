"""While a sub-agent works: cancelling, restarts, side turns, failures."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from bot.demo.model_server import Turn
from bot.tools import ToolContext, agent_tool
from storage.models import Delivery, Run
from storage.states import CallStatus, DeliveryStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import arrived, menu, now_at, statuses
from tests.stories.sub_agents import (
    AGENTS,
    Errand,
    approve,
    asked_for,
    child_of,
    errand,
    get_last_output,
    get_request_run,
)

C, R = CallStatus, RunStatus
TOOLS = AGENTS


@pytest.mark.parametrize("how", ["a word", "the card"])
def test_cancelling_a_request_ends_its_sub_agent(
    harness: Harness, fakes: FakeTools, how: str
) -> None:
    """By a message or on the card of the sub-agent's call; nothing runs."""
    thread, card = asked_for(harness, f"errand six by {how}")
    if how == "a word":
        harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    else:
        menu(harness, "ben", card, "cancel_run:")
    harness.said(SUPPORT, thread, "cancelled the request")
    arrived(harness)
    assert {get_request_run(harness, thread).status, child_of(harness, thread).status} == {
        R.CANCELLED
    }
    assert statuses(harness, thread) == [C.CANCELLED, C.CANCELLED]
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    assert not fakes.did("note", f"errand six by {how}")


def test_no_sub_agent_begins_after_its_request_is_cancelled(
    own_harness: Callable[..., Harness],
) -> None:
    """The request is cancelled while the task is written."""
    entered, go_on = threading.Event(), threading.Event()

    @agent_tool(title="Slow desk", effect="{task}", prompt="You write notes.", tools=("note",))
    def slow_desk(args: Errand, context: ToolContext) -> str:
        """Writes notes, after a while."""
        entered.set()
        assert go_on.wait(20)
        return args.task

    policy = '[defaults]\napprovers = ["@shop-leads"]\n'
    harness = own_harness([*FakeTools().tools, slow_desk], policy)
    harness.planner.script(Turn(calls=[errand("note it", "slow_desk")]))
    thread = harness.person("ben").say(SUPPORT, "@bot have it noted")
    assert entered.wait(20)
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    go_on.set()
    harness.settle()
    [run] = harness.all(Run, Run.thread_ts == thread)
    assert (run.status, statuses(harness, thread)) == (R.CANCELLED, [C.FAILED])
    [call] = harness.calls_in(thread)
    assert "cancelled before the sub-agent had begun" in call.note


def test_a_sub_agent_goes_on_after_one_of_its_calls_is_withdrawn(
    harness: Harness, fakes: FakeTools
) -> None:
    """The requester withdraws one of two calls, and the other is approved."""
    harness.planner.script(
        Turn(calls=[errand("seven and eight")]),
        Turn(calls=[("note", {"text": "errand seven"}), ("note", {"text": "errand eight"})]),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot seven and eight")
    card = harness.card(SUPPORT, thread)
    menu(harness, "ben", card, "withdraw:")
    arrived(harness)
    harness.planner.script(Turn(text="Only one."), Turn(text="One was written."))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "One was written.")
    assert fakes.did("note", "errand seven") + fakes.did("note", "errand eight") == 1


@pytest.mark.parametrize(
    "stage",
    ["asked", "decided", pytest.param("its turn", marks=pytest.mark.long), "the parent's turn"],
)
def test_a_sub_agent_survives_a_restart(harness: Harness, fakes: FakeTools, stage: str) -> None:
    """Before or after the vote, and during the next turn of either agent."""
    text = f"errand nine, {stage}"
    thread, card = asked_for(harness, text)
    turns = {"its turn": 1, "the parent's turn": 2}.get(stage, 0)
    holds = [harness.planner.hold_next_request() for _ in range(turns)]
    for each in holds[:-1]:
        each.release()
    harness.planner.script(Turn(text="It is noted."), Turn(text=f"Written: {text}"))
    if stage == "decided":
        harness.app.loop.pause()
    if stage != "asked":
        harness.person("ana").click(SUPPORT, card["ts"], "approve")
    if stage == "decided":
        harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == DeliveryStatus.NEW))
    assert all(each.arrived.wait(30) for each in holds)
    harness.restart()
    if stage == "asked":
        harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, f"Written: {text}")
    harness.settle()
    assert fakes.did("note", text) == 1
    assert statuses(harness, thread) == [C.SUCCEEDED, C.SUCCEEDED]
    assert not harness.planner.refused


def test_side_turns_are_answered_while_a_sub_agent_waits(
    harness: Harness, fakes: FakeTools
) -> None:
    """The parent answers it; the sub-agent's call stays open, and its answer still comes."""
    thread, card = asked_for(harness, "errand ten")
    harness.planner.script(Turn(text="The note desk is at it."))
    harness.person("ben").say(SUPPORT, "@bot how is it going?", thread)
    harness.said(SUPPORT, thread, "The note desk is at it.")
    harness.settle()
    assert get_last_output(harness).startswith("WAITING: a sub-agent works on this")
    assert (statuses(harness, thread), get_request_run(harness, thread).status) == (
        [C.ENTRUSTED, C.PENDING],
        R.WAITING,
    )
    approve(harness, card, Turn(text="Ten is noted."), Turn(text="Errand ten is written."))
    harness.said(SUPPORT, thread, "Errand ten is written.")
    assert fakes.did("note", "errand ten") == 1
    assert not harness.planner.refused


def test_replacing_the_plan_ends_its_sub_agent(harness: Harness, fakes: FakeTools) -> None:
    """The card of the sub-agent's call loses its buttons."""
    thread, card = asked_for(harness, "errand eleven")
    harness.planner.script(Turn(calls=[("replace_waiting_plan", {})]), Turn(text="I leave it."))
    harness.person("ben").say(SUPPORT, "@bot leave it", thread)
    harness.said(SUPPORT, thread, "I leave it.")
    arrived(harness)
    assert statuses(harness, thread) == [C.SUPERSEDED, C.CANCELLED]
    assert child_of(harness, thread).status is R.CANCELLED
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert "SUPERSEDED: the sub-agent was stopped" in str(harness.outputs())


def test_the_parent_is_told_that_a_sub_agent_failed(harness: Harness, fakes: FakeTools) -> None:
    """The model refuses the sub-agent's request; people are offered no Retry."""
    harness.planner.script(Turn(calls=[errand("errand twelve")]), Turn(text="The desk is out."))
    hold = harness.planner.hold_next_request(after_events=1)
    thread = harness.person("ben").say(SUPPORT, "@bot errand twelve")
    assert hold.arrived.wait(30)
    harness.planner.fail_next_requests(status=400)
    hold.release()
    harness.said(SUPPORT, thread, "The desk is out.")
    harness.settle()
    assert get_last_output(harness).startswith("FAILED: the sub-agent could not continue.")
    assert child_of(harness, thread).status is R.FAILED
    assert statuses(harness, thread) == [C.FAILED]
    assert not [m for m in harness.thread(SUPPORT, thread) if "retry" in action_ids(m)]


def test_a_second_sub_agent_in_a_side_turn_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """The first one goes on."""
    thread, card = asked_for(harness, "errand eighteen")
    harness.planner.script(Turn(calls=[errand("errand nineteen")]), Turn(text="One by one."))
    harness.person("ben").say(SUPPORT, "@bot and nineteen", thread)
    harness.said(SUPPORT, thread, "One by one.")
    harness.settle()
    assert "no sub-agent is asked beside them" in get_last_output(harness)
    assert statuses(harness, thread) == [C.ENTRUSTED, C.PENDING, C.REFUSED]
    approve(harness, card, Turn(text="Noted."), Turn(text="Eighteen is written."))
    harness.said(SUPPORT, thread, "Eighteen is written.")
    assert fakes.did("note", "errand eighteen") == 1
