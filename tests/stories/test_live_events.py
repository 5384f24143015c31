"""What listeners learn of a request while the bot works on it: tools, words, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.monitoring.live_events import Event, EventKind, StepEvent, ToolStepOutcome, WordsEvent
from bot.tools import runner
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, ask_for, chat

K = EventKind
EventsOf = Callable[[str], list[Event]]


@pytest.fixture
def events_of(harness: Harness) -> Iterator[EventsOf]:
    """Returns the events of the request in a thread, in order."""
    events: list[Event] = []
    end = harness.app.core.signals.live.listen(events.append)
    yield lambda thread: [each for each in events if each.run.thread_ts == thread]
    end()


def wait_until_over(harness: Harness, events_of: EventsOf, thread: str) -> list[Event]:
    """All events of a request, once it is over."""
    harness.slack.wait(lambda: [e for e in events_of(thread) if e.kind is K.OVER])
    return events_of(thread)


def test_listeners_follow_a_tool_from_start_to_end(
    harness: Harness, fakes: FakeTools, events_of: EventsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start, progress and end come in words for people, between the turns of the model."""
    monkeypatch.setattr(runner, "FIRST_BEAT_SECONDS", 0.02)
    stored: list[CallStatus] = []

    def look(event: Event) -> None:
        if event.kind is K.STEP_ENDED:
            stored.append(harness.calls_in(event.run.thread_ts)[0].status)

    end = harness.app.core.signals.live.listen(look)
    thread = ask(harness, ("watch", {"text": "the sky"}))
    harness.slack.wait(lambda: [e for e in events_of(thread) if e.kind is K.STEP_GOES_ON])
    fakes.go_on.set()
    events = wait_until_over(harness, events_of, thread)
    end()
    kinds = [each.kind for each in events if each.kind not in (K.WORDS, K.WORKS)]
    once = [kind for kind, _ in groupby(kinds)]  # a slow machine reports progress more than once
    assert once == [K.STEP_BEGAN, K.STEP_GOES_ON, K.STEP_ENDED, K.WORDS_ENDED, K.OVER]
    steps = [each for each in events if isinstance(each, StepEvent)]
    [call] = harness.calls_in(thread)
    assert {(e.step.call_id, e.step.tool, e.step.title) for e in steps} == {
        (call.id, "watch", "Watch something")
    }
    assert {(e.step.doing, e.step.asked) for e in steps} == {("watching the sky", False)}
    assert {e.end for e in steps[:-1]} == {None}
    assert steps[-1].end is ToolStepOutcome.DONE
    assert stored == [CallStatus.SUCCEEDED]
    said = [each.text for each in events if isinstance(each, WordsEvent)]
    assert "".join(said[:-1]) == said[-1] == "That is all."


@pytest.mark.parametrize(
    ("tool", "end"),
    [
        ("refuse", ToolStepOutcome.FAILED),
        ("explode", ToolStepOutcome.FAILED),
        ("lose", ToolStepOutcome.UNKNOWN),
    ],
)
def test_listeners_learn_how_a_tool_ended(
    harness: Harness, events_of: EventsOf, tool: str, end: ToolStepOutcome
) -> None:
    """They tell failures from unknown outcomes, and that people were asked."""
    thread, card = ask_for(harness, f"to hear {tool}", tool)
    harness.slack.wait(lambda: [e for e in events_of(thread) if e.kind is K.WAITS])
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: [e for e in events_of(thread) if e.kind is K.STEP_ENDED])
    [*_, last] = [each for each in events_of(thread) if isinstance(each, StepEvent)]
    assert (last.end, last.step.doing, last.step.asked) == (end, "", True)


def test_listeners_get_no_secrets(harness: Harness, events_of: EventsOf) -> None:
    """A step's sentence is one line."""
    values = {"account": "till", "password": "open-sesame"}
    thread = ask(harness, ("login", values))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    steps = [e for e in wait_until_over(harness, events_of, thread) if isinstance(e, StepEvent)]
    assert {each.step.doing for each in steps} == {"logging in to till with ••••••••"}


def test_listeners_learn_that_words_are_void(harness: Harness, events_of: EventsOf) -> None:
    """The model broke off and is asked again, so its words so far are void."""
    text = " ".join(f"word{number}" for number in range(30))
    harness.planner.cut_next_answers(10)
    thread = chat(harness, text)
    said: list[Any] = [
        e for e in wait_until_over(harness, events_of, thread) if isinstance(e, WordsEvent)
    ]
    [void] = [number for number, each in enumerate(said) if each.kind is K.WORDS_VOID]
    assert void > 0
    assert "".join(each.text for each in said[void + 1 : -1]) == text
    assert (said[-1].kind, said[-1].text) == (K.WORDS_ENDED, text)


def test_a_listener_that_fails_stops_no_request(harness: Harness, events_of: EventsOf) -> None:
    """The listener raises an error at each event."""

    def deaf(_event: Event) -> None:
        raise RuntimeError("I hear nothing")

    end = harness.app.core.signals.live.listen(deaf)
    harness.planner.script(Turn(calls=[("peek", {"text": "deaf"})]), Turn(text="Not a word."))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.said(SUPPORT, thread, "Not a word.")
    wait_until_over(harness, events_of, thread)
    end()


def test_listeners_learn_of_a_cancelled_request(harness: Harness, events_of: EventsOf) -> None:
    """It was waiting for a decision."""
    thread, _ = ask_for(harness, "nothing after all")
    harness.slack.wait(lambda: [e for e in events_of(thread) if e.kind is K.WAITS])
    harness.person("ben").say(SUPPORT, "cancel", thread)
    assert K.WORDS_ENDED not in [each.kind for each in wait_until_over(harness, events_of, thread)]


def test_the_example_in_the_documentation_follows_a_request(
    harness: Harness, events_of: EventsOf
) -> None:
    """It prints one line for each event."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
    code = page.partition("## Hear what goes on")[2].partition("```python")[2]
    example: dict[str, Any] = {}
    exec(code.partition("```")[0], example)
    queue = example["follow"](harness.app)
    thread = ask(harness, ("peek", {"text": "the example"}), answer="Seen.")
    wait_until_over(harness, events_of, thread)
    lines = [example["line"](queue.get()) for _ in range(queue.qsize())]
    told = [line for line in lines if line not in ("works", "words")]
    assert told == ["Look at something: under way", "Look at something: done", "Seen.", "over"]
