"""One person's many slow requests delay neither approved calls nor new requests of others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from bot.demo.model_server import Turn
from bot.tools import Effect, ToolContext, tool
from storage.models import Audit, Run
from storage.states import CallStatus, RunStatus
from tests.model_stand_in.planner import RequestHold
from tests.stories.fakes import FakeTools, Note
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask_for, chat

FLOOD_SIZE = 64
MAX_SECONDS_TO_START = 2.0
MAX_RUNS_OF_ONE_PERSON = 5  # workers, of eight, for one person's unapproved work
MAX_RUNS_WITH_APPROVED_CALLS = 6  # the same for approved work


def list_running(harness: Harness, name: str) -> list[Run]:
    """The requests of this person that are running."""
    person = harness.person(name).id
    return harness.all(Run, Run.requester == person, Run.status == RunStatus.RUNNING)


def flood_with_requests(harness: Harness) -> list[RequestHold]:
    """Ben asks for 64 things at once, each a slow model turn."""
    holds = [harness.planner.hold_next_request() for _ in range(MAX_RUNS_OF_ONE_PERSON)]
    for number in range(FLOOD_SIZE):
        harness.person("ben").say(SUPPORT, f"@bot think hard about {number}")
    for hold in holds:
        assert hold.arrived.wait(30)
    harness.slack.wait(
        lambda: (
            len(harness.all(Run, Run.status == RunStatus.READY))
            == FLOOD_SIZE - MAX_RUNS_OF_ONE_PERSON
        )
    )
    return holds


def test_a_flood_of_requests_delays_no_approved_call(harness: Harness, fakes: FakeTools) -> None:
    """The call starts within two seconds, and another person's new request is answered, before any
    of the 64 requests has ended.
    """
    harness.planner.script(Turn(calls=[("note", {"text": "beside the flood"})]))
    thread = harness.person("dan").say(SUPPORT, "@bot note it")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    holds = flood_with_requests(harness)
    harness.planner.script(Turn(text="Noted beside them."))
    clicked = time.monotonic()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: fakes.did("note", "beside the flood"))
    assert time.monotonic() - clicked < MAX_SECONDS_TO_START
    harness.said(SUPPORT, thread, "Noted beside them.")
    harness.said(SUPPORT, chat(harness, "A new one.", who="cleo"), "A new one.")
    assert len(list_running(harness, "ben")) == MAX_RUNS_OF_ONE_PERSON
    for hold in holds:
        hold.release()
    harness.settle()
    ended = harness.all(Run, Run.requester == harness.person("ben").id)
    assert {each.status for each in ended[-FLOOD_SIZE:]} == {RunStatus.COMPLETED}


def test_approved_calls_of_one_person_leave_workers_for_others(
    harness: Harness, fakes: FakeTools
) -> None:
    """Eight slow calls of one person were approved. Another's approved call and a third person's
    new request begin beside them, and all eight are done in the end, each once.
    """
    cards = [ask_for(harness, f"slowly {number}", "slow") for number in range(8)]
    harness.planner.script(Turn(calls=[("note", {"text": "beside slow calls"})]))
    other = harness.person("dan").say(SUPPORT, "@bot note it")
    card = harness.card(SUPPORT, other)
    harness.settle()
    for _, each in cards:
        harness.person("ana").click(SUPPORT, each["ts"], "approve")
    harness.slack.wait(lambda: len(list_running(harness, "ben")) == MAX_RUNS_WITH_APPROVED_CALLS)
    harness.planner.script(Turn(text="Noted beside slow calls."))
    clicked = time.monotonic()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: fakes.did("note", "beside slow calls"))
    assert time.monotonic() - clicked < MAX_SECONDS_TO_START
    harness.said(SUPPORT, other, "Noted beside slow calls.")
    harness.said(SUPPORT, chat(harness, "Quite new.", who="cleo"), "Quite new.")
    assert len(list_running(harness, "ben")) == MAX_RUNS_WITH_APPROVED_CALLS
    fakes.go_on.set()
    harness.settle()
    assert [fakes.did("slow", f"slowly {number}") for number in range(8)] == [1] * 8


def test_a_long_request_lets_another_in_between_two_steps(
    own_harness: Callable[..., Harness],
) -> None:
    """There is one worker; the long request then goes on."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, COUNTERSIGN_WORKERS="1")
    steps = [Turn(calls=[("peek", {"text": f"step {number}"})]) for number in range(3)]
    hold = harness.planner.hold_next_request()
    harness.planner.script(*steps[:1])
    long = harness.person("ben").say(SUPPORT, "@bot three steps")
    assert hold.arrived.wait(30)
    short = harness.person("dan").say(SUPPORT, "@bot one step")
    harness.slack.wait(lambda: harness.all(Run, Run.status == RunStatus.READY))
    harness.planner.script(Turn(text="One."), *steps[1:], Turn(text="Three."))
    hold.release()
    harness.said(SUPPORT, short, "One.", who="dan")
    harness.said(SUPPORT, long, "Three.")
    assert [fakes.did("peek", f"step {number}") for number in range(3)] == [1] * 3
    handed_back = [
        row
        for row in harness.all(Audit, Audit.event == "run.ready")
        if "another's turn" in row.payload
    ]
    assert [row.run_id for row in handed_back] == [harness.run_in(long).id]
    assert {call.status for call in harness.calls_in(long)} == {CallStatus.SUCCEEDED}


def test_calls_that_hang_leave_threads_for_others(own_harness: Callable[..., Harness]) -> None:
    """Six calls go on after their time limit, with two workers."""
    fakes, go_on = FakeTools(), threading.Event()

    @tool(title="Hang", effect="Hang over “{text}”", does=Effect.READ, timeout=0.2)
    def hang(args: Note, context: ToolContext) -> str:
        go_on.wait(60)
        return "at last"

    harness = own_harness([*fakes.tools, hang], COUNTERSIGN_WORKERS="2")
    try:
        for number in range(6):
            harness.planner.script(
                Turn(calls=[("hang", {"text": f"hangs {number}"})]), Turn(text=f"Gave up {number}.")
            )
            thread = harness.person("ben").say(SUPPORT, f"@bot hang {number}")
            harness.said(SUPPORT, thread, f"Gave up {number}.")
        harness.planner.script(Turn(calls=[("peek", {"text": "beside"})]), Turn(text="Seen."))
        thread = harness.person("dan").say(SUPPORT, "@bot look")
        harness.said(SUPPORT, thread, "Seen.", who="dan")
        assert fakes.did("peek", "beside") == 1
    finally:
        go_on.set()
