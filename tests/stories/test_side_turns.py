"""Side turns: the requester writes while a call waits for its approvers."""

from __future__ import annotations

import threading
from typing import Any

from bot.demo.model_server import Turn
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask_for, now_at, statuses

C, R = CallStatus, RunStatus
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001", "UDAN00001"]
quorum = 2
"""
REPLACE = ("replace_waiting_plan", {})


def approve(harness: Harness, who: str, card: dict[str, Any]) -> dict[str, Any]:
    """Approve, and return the card as it is once the vote has been decided."""
    harness.person(who).click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    return now_at(harness, SUPPORT, card["ts"])


def ask_and_half_approve(harness: Harness, text: str) -> tuple[str, dict[str, Any]]:
    """Ben asks for this note and Ana gives one of two approvals; return thread and card."""
    thread, card = ask_for(harness, text)
    return thread, approve(harness, "ana", card)


def say_in_thread(harness: Harness, thread: str, text: str, *turns: Turn) -> None:
    """Ben mentions the bot in the thread, and the model answers with these turns."""
    harness.planner.script(*turns)
    harness.person("ben").say(SUPPORT, f"@bot {text}", thread)


def list_offered_tools(harness: Harness) -> list[str]:
    """Return the names of the tools in the last request to the model."""
    return [each["name"] for each in harness.planner.requests[-1]["tools"]]


def test_a_question_is_answered_while_a_call_waits(harness: Harness, fakes: FakeTools) -> None:
    """The vote still counts, and the call's output later takes its place in the transcript."""
    thread, card = ask_and_half_approve(harness, "aside one")
    say_in_thread(harness, thread, "what will it do?", Turn(text="It writes aside one."))
    harness.said(SUPPORT, thread, "It writes aside one.")
    harness.settle()
    assert harness.outputs()[-1]["output"].startswith("WAITING")
    assert (statuses(harness, thread), harness.run_in(thread).status) == ([C.PENDING], R.WAITING)

    harness.planner.script(Turn(text="Aside one is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Aside one is written.")
    assert fakes.did("note", "aside one") == 1
    given = harness.planner.requests[-1]["input"]
    kinds = [each.get("type", each.get("role")) for each in given]
    at = kinds.index("function_call_output")
    assert given[at]["output"].startswith("SUCCEEDED")
    asked = next(n for n, each in enumerate(given) if "what will it do" in str(each))
    assert at < asked
    assert given[-1]["role"] == "developer"
    assert "replace_waiting_plan" not in list_offered_tools(harness)


def test_a_read_runs_while_a_call_waits(harness: Harness, fakes: FakeTools) -> None:
    """Policy allows the read; the waiting call keeps its vote."""
    thread, card = ask_and_half_approve(harness, "aside two")
    peek = Turn(calls=[("peek", {"text": "aside shelf"})])
    say_in_thread(harness, thread, "look at the shelf", peek, Turn(text="I saw the aside shelf."))
    harness.said(SUPPORT, thread, "I saw the aside shelf.")
    harness.settle()
    assert fakes.did("peek", "aside shelf") == 1
    assert sorted(statuses(harness, thread)) == [C.PENDING, C.SUCCEEDED]
    harness.planner.script(Turn(text="Both are done."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Both are done.")
    assert fakes.did("note", "aside two") == 1


def test_a_write_proposed_while_a_call_waits_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """Nobody is asked about it."""
    thread, card = ask_and_half_approve(harness, "aside three")
    more = Turn(calls=[("note", {"text": "aside more"})])
    say_in_thread(harness, thread, "and another", more, Turn(text="One after the other."))
    harness.said(SUPPORT, thread, "One after the other.")
    harness.settle()
    assert harness.outputs()[-1]["output"].startswith("REFUSED: other calls of this request wait")
    assert statuses(harness, thread) == [C.PENDING, C.REFUSED]
    assert not any("aside more" in words(m) for m in harness.thread(SUPPORT, thread))
    harness.planner.script(Turn(text="The third is done."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "The third is done.")
    assert (fakes.did("note", "aside three"), fakes.did("note", "aside more")) == (1, 0)


def test_voters_are_told_when_the_plan_is_replaced(harness: Harness, fakes: FakeTools) -> None:
    """Their votes do not count for the new plan."""
    thread, card = ask_and_half_approve(harness, "aside four")
    newer = Turn(calls=[REPLACE, ("note", {"text": "aside five"})])
    say_in_thread(harness, thread, "no, write five instead", newer)
    told = harness.said(SUPPORT, thread, "has changed the request")
    assert "<@UANA00001>: Ben Okafor has changed" in words(told)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.SUPERSEDED, C.PENDING])
    harness.settle()
    assert "approve" not in words(now_at(harness, SUPPORT, card["ts"])).lower()
    fresh = harness.card(SUPPORT, thread)
    approve(harness, "ana", fresh)
    assert statuses(harness, thread) == [
        C.SUPERSEDED,
        C.PENDING,
    ]  # her first vote was for the old plan
    harness.planner.script(Turn(text="Five is written."))
    approve(harness, "cleo", fresh)
    harness.said(SUPPORT, thread, "Five is written.")
    assert (fakes.did("note", "aside four"), fakes.did("note", "aside five")) == (0, 1)


def test_a_waiting_plan_can_be_withdrawn(harness: Harness, fakes: FakeTools) -> None:
    """The model withdraws it in one turn and answers in the next, which ends the request."""
    thread, _ = ask_and_half_approve(harness, "aside six")
    say_in_thread(harness, thread, "leave it", Turn(calls=[REPLACE]), Turn(text="I leave it."))
    harness.said(SUPPORT, thread, "I leave it.")
    harness.settle()
    assert (statuses(harness, thread), harness.run_in(thread).status) == (
        [C.SUPERSEDED],
        R.COMPLETED,
    )
    assert [each["output"][:8] for each in harness.outputs()] == ["SUPERSED", "DONE: th"]


def test_a_failing_side_turn_leaves_the_waiting_call(harness: Harness, fakes: FakeTools) -> None:
    """The thread says that the question got no answer; the call can still be approved."""
    thread, card = ask_and_half_approve(harness, "aside seven")
    harness.planner.fail_next_requests(status=400)
    harness.person("ben").say(SUPPORT, "@bot and why?", thread)
    harness.said(SUPPORT, thread, "Whatever was waiting for a decision is still waiting.")
    harness.settle()
    assert (statuses(harness, thread), harness.run_in(thread).status) == ([C.PENDING], R.WAITING)
    harness.planner.script(Turn(text="Seven is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Seven is written.")
    assert fakes.did("note", "aside seven") == 1


def test_a_call_approved_in_a_side_turn_runs_after(harness: Harness, fakes: FakeTools) -> None:
    """The second of two votes comes while the model answers."""
    thread, card = ask_and_half_approve(harness, "aside eight")
    hold = harness.planner.hold_next_request()
    say_in_thread(
        harness, thread, "what now?", Turn(text="It waits."), Turn(text="Eight is written.")
    )
    assert hold.arrived.wait(30)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: statuses(harness, thread) == [C.APPROVED])
    hold.release()
    harness.said(SUPPORT, thread, "Eight is written.")
    assert fakes.did("note", "aside eight") == 1


def test_a_side_turn_is_repeated_after_a_restart(harness: Harness, fakes: FakeTools) -> None:
    """The bot stops while the model answers.

    The first answer stays held: released, it would take the turn meant for the approval.
    """
    thread, card = ask_and_half_approve(harness, "aside nine")
    hold = harness.planner.hold_next_request()
    say_in_thread(harness, thread, "still there?", Turn(text="Still here, aside nine waits."))
    assert hold.arrived.wait(30)
    harness.restart()
    harness.said(SUPPORT, thread, "Still here, aside nine waits.")
    harness.settle()
    assert (statuses(harness, thread), harness.run_in(thread).status) == ([C.PENDING], R.WAITING)
    harness.planner.script(Turn(text="Nine is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Nine is written.")
    assert fakes.did("note", "aside nine") == 1


def test_a_side_turn_cut_off_by_a_stop_is_repeated_without_an_error(harness: Harness) -> None:
    """The connection to the model breaks while the bot stops."""
    thread, _ = ask_and_half_approve(harness, "aside twelve")
    harness.planner.cut_next_answers(0)
    hold = harness.planner.hold_next_request()
    say_in_thread(harness, thread, "and now?", Turn(text="Twelve waits."))
    assert hold.arrived.wait(30)
    stopping = harness.app.core.signals.stopping
    ending = threading.Thread(target=harness.restart)
    ending.start()
    assert stopping.wait(30)
    hold.release()
    ending.join(20)
    harness.said(SUPPORT, thread, "Twelve waits.")
    harness.settle()
    assert "could not answer" not in str(harness.thread(SUPPORT, thread))


def test_a_request_can_be_cancelled_after_a_side_turn(harness: Harness, fakes: FakeTools) -> None:
    """A vote that comes after that runs nothing."""
    thread, card = ask_and_half_approve(harness, "aside ten")
    say_in_thread(harness, thread, "how long?", Turn(text="Until somebody decides."))
    harness.said(SUPPORT, thread, "Until somebody decides.")
    harness.settle()
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    assert (statuses(harness, thread), fakes.did("note", "aside ten")) == ([C.CANCELLED], 0)


def test_refusals_with_answers_between_them_are_no_loop(harness: Harness, fakes: FakeTools) -> None:
    """The model proposes a refused call for each message, and answers each message."""
    thread, card = ask_and_half_approve(harness, "aside many")
    for n in range(4):
        also = Turn(calls=[("note", {"text": f"also {n}"})])
        say_in_thread(harness, thread, f"also {n}", also, Turn(text=f"After that: {n}."))
        harness.said(SUPPORT, thread, f"After that: {n}.")
    harness.planner.script(Turn(text="Aside many is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Aside many is written.")
    assert "in a row" not in str(harness.thread(SUPPORT, thread))
