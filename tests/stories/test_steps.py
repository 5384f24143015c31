"""What the agent does shows while it does it: in the status, and above the answer it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.tools import ToolContext, agent_tool, runner
from storage.states import RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, arrived, ask
from tests.stories.streams import LONG, bot_messages, called, stands_once
from tests.stories.sub_agents import Errand

STATUS = "assistant.threads.setStatus"
THINKS = "is working on it…"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool takes long after a moment, not after a second."""
    monkeypatch.setattr(runner, "FIRST_BEAT_SECONDS", 0.02)


@pytest.fixture
def slowly(harness: Harness) -> Iterator[None]:
    """The model speaks so slowly that a long answer is streamed."""
    harness.planner.chunk_delay = 0.012
    yield
    harness.planner.chunk_delay = 0.0


def statuses(harness: Harness, thread: str) -> list[str]:
    """What the bot's status in a thread was set to, in order."""
    calls = [each for each in harness.slack.requests if each.method == STATUS]
    return [each.args["status"] for each in calls if each.args.get("thread_ts") == thread]


def tasks(message: dict[str, Any]) -> list[tuple[str, str]]:
    """The tasks that a message shows: title and state."""
    cards = [each for each in message["blocks"] if each["type"] == "task_card"]
    return [(each["title"], each["status"]) for each in cards]


def with_tasks(harness: Harness, thread: str) -> list[tuple[str, str]]:
    """The tasks of the thread's messages."""
    return [each for m in bot_messages(harness, thread) for each in tasks(m)]


def open_streams(harness: Harness, thread: str) -> list[dict[str, Any]]:
    """The bot's messages that are not finished."""
    found = bot_messages(harness, thread)
    return [each for each in found if each.get("streaming_state") == "in_progress"]


def test_the_status_names_what_takes_long(harness: Harness, fakes: FakeTools, soon: None) -> None:
    """A look-up that takes long is named while it runs; then the bot thinks on."""
    thread = ask(harness, ("watch", {"text": "order 1042"}))
    harness.slack.wait(lambda: "is watching order 1042…" in statuses(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    named = [each for each in statuses(harness, thread) if each not in (THINKS, "")]
    assert named == ["is watching order 1042…"]


def test_what_is_over_at_once_is_not_named(harness: Harness) -> None:
    """The status does not flicker for a tool that takes no time."""
    thread = ask(harness, ("peek", {"text": "a quick look"}))
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert set(statuses(harness, thread)) <= {THINKS, ""}


def test_the_status_names_an_approved_call(
    harness: Harness, fakes: FakeTools, soon: None, slowly: None
) -> None:
    """What people approved is named while it runs, by its title where the tool says no more.

    Its card shows it, so the answer does not.
    """
    thread = ask(harness, ("slow", {"text": "a parcel"}), answer=LONG)
    card = harness.card(SUPPORT, thread)
    arrived(harness)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: "is working on it: Take long…" in statuses(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "word119")
    assert called(harness, thread, "chat.startStream") == 1
    assert not with_tasks(harness, thread)


def test_what_a_sub_agent_does_is_named(own_harness: Callable[..., Harness], soon: None) -> None:
    """Who asked reads what is done for them, in the status and above the answer."""
    fakes = FakeTools()

    @agent_tool(title="Night watch", effect="{task}", prompt="You keep watch.", tools=("watch",))
    def night_watch(args: Errand, context: ToolContext) -> str:
        return args.task

    harness = own_harness([*fakes.tools, night_watch])
    harness.planner.script(
        Turn(calls=[("night_watch", {"task": "watch the door"})]),
        Turn(calls=[("watch", {"text": "the door"})]),
        Turn(text="It is shut."),
        Turn(text=LONG),
    )
    harness.planner.chunk_delay = 0.012
    thread = harness.person("ben").say(SUPPORT, "@bot is the door shut")
    harness.slack.wait(lambda: "is watching the door…" in statuses(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "word119")
    assert tasks(stands_once(harness, thread, LONG)) == [("Watching the door", "complete")]
    assert called(harness, thread, "chat.startStream") == 1
    harness.settle()
    harness.slack.wait(lambda: (SUPPORT, thread) not in harness.slack.world.statuses)


def test_a_long_answer_carries_its_steps(harness: Harness, slowly: None) -> None:
    """Above a streamed answer stands what the bot did for it, and it ends as it was streamed."""
    harness.planner.script(
        Turn(calls=[("books", {"text": "shelf 7"}), ("peek", {"text": "shelf 7"})]),
        Turn(text=LONG),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot what is on the shelf")
    harness.said(SUPPORT, thread, "word119")
    found = stands_once(harness, thread, LONG)
    assert tasks(found) == [("List books", "complete"), ("Look at something", "complete")]
    kinds = [each["type"] for each in found["blocks"]]
    assert kinds[:3] == ["task_card", "task_card", "markdown"]
    assert "feedback_buttons" in words(found)
    assert called(harness, thread, "chat.update") == 0


def test_a_decision_in_between_loses_no_step(harness: Harness, slowly: None) -> None:
    """What was looked up before people decided stands above the answer; what they decided does not.

    The next request in the thread begins anew.
    """
    calls = [("books", {"text": "shelf 8"}), ("note", {"text": "three on shelf 8"})]
    harness.planner.script(Turn(calls=calls), Turn(text=LONG))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    arrived(harness)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "word119")
    assert tasks(stands_once(harness, thread, LONG)) == [("List books", "complete")]
    harness.planner.script(Turn(text=LONG.replace("word", "sign")))
    harness.person("ben").say(SUPPORT, "@bot once more", thread)
    harness.said(SUPPORT, thread, "sign119")
    all_sent(harness)
    assert with_tasks(harness, thread) == [("List books", "complete")]


def test_a_step_that_takes_long_begins_the_stream(
    harness: Harness, fakes: FakeTools, soon: None
) -> None:
    """It is in progress, then complete, and even a short answer follows in the same message."""
    thread = ask(harness, ("watch", {"text": "the tide"}), answer="It comes in.")
    harness.slack.wait(
        lambda: with_tasks(harness, thread) == [("Watching the tide", "in_progress")]
    )
    [before] = open_streams(harness, thread)
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "It comes in.")
    found = stands_once(harness, thread, "It comes in.")
    assert (found["ts"], tasks(found)) == (before["ts"], [("Watching the tide", "complete")])
    harness.slack.wait(lambda: (SUPPORT, thread) not in harness.slack.world.statuses)
    assert called(harness, thread, "chat.postMessage") == 0
    assert called(harness, thread, "chat.startStream") == 1


def test_a_step_that_fails_is_shown_as_failed(
    harness: Harness, fakes: FakeTools, soon: None
) -> None:
    """What a tool refused is not complete; the steps of several turns stand in one message."""
    harness.planner.script(
        Turn(calls=[("watch", {"text": "in vain"})]),
        Turn(calls=[("peek", {"text": "instead"})]),
        Turn(text="There was nothing."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.slack.wait(lambda: with_tasks(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "There was nothing.")
    found = stands_once(harness, thread, "There was nothing.")
    assert tasks(found) == [("Watching in vain", "error"), ("Look at something", "complete")]


def test_steps_before_a_card_are_closed(harness: Harness, fakes: FakeTools, soon: None) -> None:
    """Where people are asked next, the steps stand as they ended, above the card."""
    harness.planner.script(
        Turn(calls=[("watch", {"text": "the gate"})]),
        Turn(calls=[("note", {"text": "the gate is open"})]),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.slack.wait(lambda: with_tasks(harness, thread))
    fakes.go_on.set()
    card = harness.card(SUPPORT, thread)
    all_sent(harness)
    [found] = [each for each in bot_messages(harness, thread) if tasks(each)]
    assert tasks(found) == [("Watching the gate", "complete")]
    assert float(found["ts"]) < float(card["ts"])
    assert not open_streams(harness, thread)
    assert "interrupted" not in words(found)


def test_a_request_that_is_cancelled_leaves_no_open_stream(
    harness: Harness, fakes: FakeTools, soon: None
) -> None:
    """Who cancels while a step is shown gets an end of it; the late result changes nothing."""
    thread = ask(harness, ("watch", {"text": "the kettle"}))
    harness.slack.wait(lambda: with_tasks(harness, thread))
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.CANCELLED)
    fakes.go_on.set()
    all_sent(harness)
    assert not open_streams(harness, thread)


def test_a_step_notifies_nobody(harness: Harness, fakes: FakeTools, soon: None) -> None:
    """What the model wrote into the arguments is plain text in status and task."""
    before = len(harness.person("ana").notifications())
    thread = ask(harness, ("watch", {"text": "<!here> <@UANA00001|ana> <x>"}))
    harness.slack.wait(lambda: with_tasks(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread)[1] == "is watching @here @ana ‹x›…"
    assert with_tasks(harness, thread) == [("Watching @here @ana ‹x›", "complete")]
    assert len(harness.person("ana").notifications()) == before


@pytest.mark.parametrize(
    "error", ["invalid_chunks", pytest.param("feature_disabled", marks=pytest.mark.long)]
)
def test_where_slack_draws_no_tasks(own_harness: Callable[..., Harness], error: str) -> None:
    """The words are streamed without them, and tasks are not tried again for an hour."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    harness.planner.chunk_delay = 0.012
    harness.slack.faults.fail("chat.startStream", error)
    for _ in range(2):
        harness.planner.script(Turn(calls=[("peek", {"text": "twice"})]), Turn(text=LONG))
        thread = harness.person("ben").say(SUPPORT, "@bot please")
        harness.said(SUPPORT, thread, "word119")
        assert not tasks(stands_once(harness, thread, LONG))
    tried = [each for each in harness.slack.requests if each.method == "chat.startStream"]
    assert ["chunks" in each.args for each in tried] == [True, False, False]
    harness.clock.advance(3601)
    harness.planner.script(Turn(calls=[("peek", {"text": "later"})]), Turn(text=LONG))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.said(SUPPORT, thread, "word119")
    assert tasks(stands_once(harness, thread, LONG))


@pytest.mark.parametrize("method", ["chat.startStream", "chat.appendStream", "chat.stopStream"])
def test_the_line_breaks_while_steps_are_shown(
    harness: Harness, fakes: FakeTools, soon: None, method: str
) -> None:
    """Whatever of the stream is lost on the way, the answer stands there once."""
    harness.slack.faults.drop(method, "after")
    thread = ask(harness, ("watch", {"text": "the line"}), answer="It is dead.")
    harness.slack.wait(
        lambda: [r for r in harness.slack.requests if r.method == "chat.startStream"]
    )
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "It is dead.")
    stands_once(harness, thread, "It is dead.")
