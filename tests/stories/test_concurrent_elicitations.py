"""A tool asks two questions at once during its call, or one after its call has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from pydantic import BaseModel

from bot.demo.model_server import Turn
from bot.tools import Effect, ElicitationOutcome, ElicitationRequest, ToolContext, tool
from bot.tools.person_question import AnswerKind, AskPerson
from storage.models import Run
from storage.states import CallStatus, RunSource
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import now_at

pytestmark = pytest.mark.long
SEEN = threading.Event()  # set once people see both questions
BEGUN = threading.Event()  # set by the slow tool
ENDED = threading.Event()  # set once the call of the slow tool has ended
LATE_OUTCOMES: list[ElicitationOutcome] = []


class Thing(BaseModel):
    text: str


def build_question(question: str) -> ElicitationRequest:
    """A yes-or-no question to the requester."""
    return ElicitationRequest(AskPerson(question=question, kind=AnswerKind.YES_NO), "depot", 600)


@tool(title="Look for something", effect="Look for “{text}”", does=Effect.WRITE)
def search(args: Thing, context: ToolContext) -> str:
    with ThreadPoolExecutor(2) as pool:
        red = pool.submit(context.line.ask, build_question("Is it red?"), SEEN.is_set)
        blue = pool.submit(context.line.ask, build_question("Is it blue?"), lambda: False)
        return f"{args.text}: {red.result().outcome}, {blue.result().outcome}"


@tool(title="Look slowly", effect="Look for “{text}”", does=Effect.READ, timeout=2)
def look_slowly(args: Thing, context: ToolContext) -> str:
    BEGUN.set()
    assert ENDED.wait(30)
    answer = context.line.ask(build_question("Is it green?"), lambda: False)
    LATE_OUTCOMES.append(answer.outcome)
    return args.text


@pytest.fixture
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot with these tools."""
    for each in (SEEN, BEGUN, ENDED):
        each.clear()
    made = Harness(tmp_path_factory.mktemp("line"), [search, look_slowly])
    yield made
    SEEN.set()
    ENDED.set()
    made.close()


def test_a_question_that_is_not_needed_is_withdrawn_alone(harness: Harness) -> None:
    """The other question stays open and is answered."""
    calls = [("search", {"text": "the key"})]
    harness.planner.script(Turn(calls=calls), Turn(text="It is the blue one."))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    red, blue = (harness.said(SUPPORT, thread, f"Is it {each}?") for each in ("red", "blue"))
    for each in (red, blue):
        harness.slack.wait(partial(is_open, harness, each["ts"]))
    SEEN.set()
    harness.slack.wait(lambda: "No longer needed" in words(now_at(harness, SUPPORT, red["ts"])))
    assert is_open(harness, blue["ts"])
    harness.person("ben").click(SUPPORT, blue["ts"], "choose_1")
    harness.said(SUPPORT, thread, "It is the blue one.")
    found = {each.tool: each for each in harness.calls_in(thread)}
    assert found["search"].status is CallStatus.SUCCEEDED
    assert "the key: nobody, answered" in found["search"].output


def test_a_tool_whose_call_has_ended_asks_nobody(harness: Harness) -> None:
    """It took too long, and its request goes on without it."""
    harness.planner.script(Turn(calls=[("look_slowly", {"text": "the key"})]), Turn(text="Lost."))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    assert BEGUN.wait(30)
    hold = harness.planner.hold_next_request()
    assert hold.arrived.wait(30)
    ENDED.set()
    harness.slack.wait(lambda: LATE_OUTCOMES)
    assert LATE_OUTCOMES == [ElicitationOutcome.NOBODY]
    assert not harness.all(Run, Run.source == RunSource.SERVER)
    hold.release()
    harness.said(SUPPORT, thread, "Lost.")


def is_open(harness: Harness, ts: str) -> bool:
    """Whether that question can be answered."""
    return "choose_1" in action_ids(now_at(harness, SUPPORT, ts))
