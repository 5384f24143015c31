"""While people decide, the requester asks, looks something up, or wants something else."""

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
    """Approve; returns the card as it stands when the vote has been dealt with."""
    harness.person(who).click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    return now_at(harness, SUPPORT, card["ts"])


def half_approved(harness: Harness, text: str) -> tuple[str, dict[str, Any]]:
    """Ben asks for this note and Ana approves; one more is needed. Returns the thread, the card."""
    thread, card = ask_for(harness, text)
    return thread, approve(harness, "ana", card)


def says(harness: Harness, thread: str, text: str, *turns: Turn) -> None:
    """Ben mentions the bot in the thread, and the model takes these turns."""
    harness.planner.script(*turns)
    harness.person("ben").say(SUPPORT, f"@bot {text}", thread)


def offered(harness: Harness) -> list[str]:
    """The names of the tools that the model was given last."""
    return [each["name"] for each in harness.planner.requests[-1]["tools"]]


def test_a_question_is_answered_beside_the_card(harness: Harness, fakes: FakeTools) -> None:
    """The answer comes, the vote stays, and the model hears how it ended where the call stood."""
    thread, card = half_approved(harness, "aside one")
    says(harness, thread, "what will it do?", Turn(text="It writes aside one."))
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
    assert "replace_waiting_plan" not in offered(harness)


def test_something_is_looked_up_beside_the_card(harness: Harness, fakes: FakeTools) -> None:
    """What policy lets run at once does; the card stands as it was."""
    thread, card = half_approved(harness, "aside two")
    peek = Turn(calls=[("peek", {"text": "aside shelf"})])
    says(harness, thread, "look at the shelf", peek, Turn(text="I saw the aside shelf."))
    harness.said(SUPPORT, thread, "I saw the aside shelf.")
    harness.settle()
    assert fakes.did("peek", "aside shelf") == 1
    assert sorted(statuses(harness, thread)) == [C.PENDING, C.SUCCEEDED]
    harness.planner.script(Turn(text="Both are done."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Both are done.")
    assert fakes.did("note", "aside two") == 1


def test_nothing_else_is_proposed_beside_the_card(harness: Harness, fakes: FakeTools) -> None:
    """A call that changes something is refused while others wait, and nobody is asked about it."""
    thread, card = half_approved(harness, "aside three")
    more = Turn(calls=[("note", {"text": "aside more"})])
    says(harness, thread, "and another", more, Turn(text="One after the other."))
    harness.said(SUPPORT, thread, "One after the other.")
    harness.settle()
    assert harness.outputs()[-1]["output"].startswith("REFUSED: other calls of this request wait")
    assert statuses(harness, thread) == [C.PENDING, C.REFUSED]
    assert not any("aside more" in words(m) for m in harness.thread(SUPPORT, thread))
    harness.planner.script(Turn(text="The third is done."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "The third is done.")
    assert (fakes.did("note", "aside three"), fakes.did("note", "aside more")) == (1, 0)


def test_whoever_had_voted_is_told_of_a_change(harness: Harness, fakes: FakeTools) -> None:
    """The model takes the plan back and proposes another: votes are void, and that is said."""
    thread, card = half_approved(harness, "aside four")
    newer = Turn(calls=[REPLACE, ("note", {"text": "aside five"})])
    says(harness, thread, "no, write five instead", newer)
    told = harness.said(SUPPORT, thread, "has changed the request")
    assert "<@UANA00001>: Ben Okafor has changed" in words(told)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.SUPERSEDED, C.PENDING])
    harness.settle()
    assert "approve" not in words(now_at(harness, SUPPORT, card["ts"])).lower()
    fresh = harness.card(SUPPORT, thread)
    approve(harness, "ana", fresh)
    assert statuses(harness, thread) == [C.SUPERSEDED, C.PENDING]  # her first vote was for another
    harness.planner.script(Turn(text="Five is written."))
    approve(harness, "cleo", fresh)
    harness.said(SUPPORT, thread, "Five is written.")
    assert (fakes.did("note", "aside four"), fakes.did("note", "aside five")) == (0, 1)


def test_it_is_taken_back_without_anything_instead(harness: Harness, fakes: FakeTools) -> None:
    """The model takes the plan back in one turn, and answers in the next: the request is done."""
    thread, _ = half_approved(harness, "aside six")
    says(harness, thread, "leave it", Turn(calls=[REPLACE]), Turn(text="I leave it."))
    harness.said(SUPPORT, thread, "I leave it.")
    harness.settle()
    assert (statuses(harness, thread), harness.run_in(thread).status) == (
        [C.SUPERSEDED],
        R.COMPLETED,
    )
    assert [each["output"][:8] for each in harness.outputs()] == ["SUPERSED", "DONE: th"]


def test_a_model_that_fails_beside_the_card_leaves_it(harness: Harness, fakes: FakeTools) -> None:
    """The question gets no answer and that is said; the request is not given up for it."""
    thread, card = half_approved(harness, "aside seven")
    harness.planner.fail_next_requests(status=400)
    harness.person("ben").say(SUPPORT, "@bot and why?", thread)
    harness.said(SUPPORT, thread, "Whatever was waiting for a decision is still waiting.")
    harness.settle()
    assert (statuses(harness, thread), harness.run_in(thread).status) == ([C.PENDING], R.WAITING)
    harness.planner.script(Turn(text="Seven is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Seven is written.")
    assert fakes.did("note", "aside seven") == 1


def test_it_is_decided_while_the_model_answers(harness: Harness, fakes: FakeTools) -> None:
    """The last vote comes in the middle of a side turn: the call runs when that is over."""
    thread, card = half_approved(harness, "aside eight")
    hold = harness.planner.hold_next_request()
    says(harness, thread, "what now?", Turn(text="It waits."), Turn(text="Eight is written."))
    assert hold.arrived.wait(30)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: statuses(harness, thread) == [C.APPROVED])
    hold.release()
    harness.said(SUPPORT, thread, "Eight is written.")
    assert fakes.did("note", "aside eight") == 1


def test_a_restart_in_a_side_turn_loses_no_question(harness: Harness, fakes: FakeTools) -> None:
    """The bot stops while the model answers beside a card: it answers after the next start.

    The first answer stays held: let go on, it would take the turn that is meant for the approval.
    """
    thread, card = half_approved(harness, "aside nine")
    hold = harness.planner.hold_next_request()
    says(harness, thread, "still there?", Turn(text="Still here, aside nine waits."))
    assert hold.arrived.wait(30)
    harness.restart()
    harness.said(SUPPORT, thread, "Still here, aside nine waits.")
    harness.settle()
    assert (statuses(harness, thread), harness.run_in(thread).status) == ([C.PENDING], R.WAITING)
    harness.planner.script(Turn(text="Nine is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Nine is written.")
    assert fakes.did("note", "aside nine") == 1


def test_a_turn_that_the_stop_cuts_off_is_no_answer(harness: Harness) -> None:
    """The model's line breaks while the bot ends: the question is asked anew, and no fault told."""
    thread, _ = half_approved(harness, "aside twelve")
    harness.planner.cut_next_answers(0)
    hold = harness.planner.hold_next_request()
    says(harness, thread, "and now?", Turn(text="Twelve waits."))
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


def test_cancelled_beside_the_card(harness: Harness, fakes: FakeTools) -> None:
    """After an answer beside it the request can still be taken back, and nothing runs."""
    thread, card = half_approved(harness, "aside ten")
    says(harness, thread, "how long?", Turn(text="Until somebody decides."))
    harness.said(SUPPORT, thread, "Until somebody decides.")
    harness.settle()
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    assert (statuses(harness, thread), fakes.did("note", "aside ten")) == ([C.CANCELLED], 0)


def test_refusals_between_answers_are_not_in_a_row(harness: Harness, fakes: FakeTools) -> None:
    """The model tries once for each message, and answers each: that is no loop, and it goes on."""
    thread, card = half_approved(harness, "aside many")
    for n in range(4):
        also = Turn(calls=[("note", {"text": f"also {n}"})])
        says(harness, thread, f"also {n}", also, Turn(text=f"After that: {n}."))
        harness.said(SUPPORT, thread, f"After that: {n}.")
    harness.planner.script(Turn(text="Aside many is written."))
    approve(harness, "cleo", card)
    harness.said(SUPPORT, thread, "Aside many is written.")
    assert "in a row" not in str(harness.thread(SUPPORT, thread))
