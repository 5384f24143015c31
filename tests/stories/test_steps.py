"""The agent's steps are shown while it works: in the status, and above its answer."""

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
from tests.stories.streams import LONG, bot_messages, count_requests, get_only_answer
from tests.stories.sub_agents import Errand

STATUS = "assistant.threads.setStatus"
THINKS = "is working on it…"


@pytest.fixture
def early_step_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tool count as slow after 0.02 seconds."""
    monkeypatch.setattr(runner, "FIRST_BEAT_SECONDS", 0.02)


@pytest.fixture
def slow_model(harness: Harness) -> Iterator[None]:
    """Have the model answer so slowly that a long answer is streamed."""
    harness.planner.chunk_delay = 0.012
    yield
    harness.planner.chunk_delay = 0.0


def list_statuses(harness: Harness, thread: str) -> list[str]:
    """Return what the bot's status in a thread was set to, in order."""
    calls = [each for each in harness.slack.requests if each.method == STATUS]
    return [each.args["status"] for each in calls if each.args.get("thread_ts") == thread]


def list_tasks(message: dict[str, Any]) -> list[tuple[str, str]]:
    """Return title and state of the tasks that a message shows."""
    cards = [each for each in message["blocks"] if each["type"] == "task_card"]
    return [(each["title"], each["status"]) for each in cards]


def list_tasks_in_thread(harness: Harness, thread: str) -> list[tuple[str, str]]:
    """Return the tasks of all messages of the thread."""
    return [each for m in bot_messages(harness, thread) for each in list_tasks(m)]


def find_open_streams(harness: Harness, thread: str) -> list[dict[str, Any]]:
    """Return the bot's messages that are still being streamed."""
    found = bot_messages(harness, thread)
    return [each for each in found if each.get("streaming_state") == "in_progress"]


def test_the_status_names_a_step_that_takes_long(
    harness: Harness, fakes: FakeTools, early_step_names: None
) -> None:
    """It is named while it runs, and once."""
    thread = ask(harness, ("watch", {"text": "order 1042"}))
    harness.slack.wait(lambda: "is watching order 1042…" in list_statuses(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    named = [each for each in list_statuses(harness, thread) if each not in (THINKS, "")]
    assert named == ["is watching order 1042…"]


def test_the_status_does_not_name_a_short_step(harness: Harness) -> None:
    """So that the status does not flicker."""
    thread = ask(harness, ("peek", {"text": "a quick look"}))
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert set(list_statuses(harness, thread)) <= {THINKS, ""}


def test_the_status_names_an_approved_call(
    harness: Harness, fakes: FakeTools, early_step_names: None, slow_model: None
) -> None:
    """By its title, since the tool has no `step`. Its card shows it, so the answer does not."""
    thread = ask(harness, ("slow", {"text": "a parcel"}), answer=LONG)
    card = harness.card(SUPPORT, thread)
    arrived(harness)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: "is working on it: Take long…" in list_statuses(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "word119")
    assert count_requests(harness, thread, "chat.startStream") == 1
    assert not list_tasks_in_thread(harness, thread)


def test_the_steps_of_a_sub_agent_are_shown(
    own_harness: Callable[..., Harness], early_step_names: None
) -> None:
    """In the status of the requester's thread, and above the answer."""
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
    harness.slack.wait(lambda: "is watching the door…" in list_statuses(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "word119")
    assert list_tasks(get_only_answer(harness, thread, LONG)) == [("Watching the door", "complete")]
    assert count_requests(harness, thread, "chat.startStream") == 1
    harness.settle()
    harness.slack.wait(lambda: (SUPPORT, thread) not in harness.slack.world.statuses)


def test_a_streamed_answer_shows_its_steps_above(harness: Harness, slow_model: None) -> None:
    """The message is not updated after the stream has ended."""
    harness.planner.script(
        Turn(calls=[("books", {"text": "shelf 7"}), ("peek", {"text": "shelf 7"})]),
        Turn(text=LONG),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot what is on the shelf")
    harness.said(SUPPORT, thread, "word119")
    found = get_only_answer(harness, thread, LONG)
    assert list_tasks(found) == [("List books", "complete"), ("Look at something", "complete")]
    kinds = [each["type"] for each in found["blocks"]]
    assert kinds[:3] == ["task_card", "task_card", "markdown"]
    assert "feedback_buttons" in words(found)
    assert count_requests(harness, thread, "chat.update") == 0


def test_steps_before_an_approval_are_shown(harness: Harness, slow_model: None) -> None:
    """Above the answer, without the approved call; the thread's next request has no steps."""
    calls = [("books", {"text": "shelf 8"}), ("note", {"text": "three on shelf 8"})]
    harness.planner.script(Turn(calls=calls), Turn(text=LONG))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    arrived(harness)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "word119")
    assert list_tasks(get_only_answer(harness, thread, LONG)) == [("List books", "complete")]
    harness.planner.script(Turn(text=LONG.replace("word", "sign")))
    harness.person("ben").say(SUPPORT, "@bot once more", thread)
    harness.said(SUPPORT, thread, "sign119")
    all_sent(harness)
    assert list_tasks_in_thread(harness, thread) == [("List books", "complete")]


def test_a_step_that_takes_long_begins_the_answers_message(
    harness: Harness, fakes: FakeTools, early_step_names: None
) -> None:
    """It is in progress, then complete, and a short answer follows in the same message."""
    thread = ask(harness, ("watch", {"text": "the tide"}), answer="It comes in.")
    harness.slack.wait(
        lambda: list_tasks_in_thread(harness, thread) == [("Watching the tide", "in_progress")]
    )
    [before] = find_open_streams(harness, thread)
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "It comes in.")
    found = get_only_answer(harness, thread, "It comes in.")
    assert (found["ts"], list_tasks(found)) == (before["ts"], [("Watching the tide", "complete")])
    harness.slack.wait(lambda: (SUPPORT, thread) not in harness.slack.world.statuses)
    assert count_requests(harness, thread, "chat.postMessage") == 0
    assert count_requests(harness, thread, "chat.startStream") == 1


def test_a_step_that_fails_is_shown_as_failed(
    harness: Harness, fakes: FakeTools, early_step_names: None
) -> None:
    """The steps of several turns are in one message."""
    harness.planner.script(
        Turn(calls=[("watch", {"text": "in vain"})]),
        Turn(calls=[("peek", {"text": "instead"})]),
        Turn(text="There was nothing."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.slack.wait(lambda: list_tasks_in_thread(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "There was nothing.")
    found = get_only_answer(harness, thread, "There was nothing.")
    assert list_tasks(found) == [("Watching in vain", "error"), ("Look at something", "complete")]


def test_steps_before_a_card_are_shown_as_ended_above_it(
    harness: Harness, fakes: FakeTools, early_step_names: None
) -> None:
    """The stream ends before the card is posted."""
    harness.planner.script(
        Turn(calls=[("watch", {"text": "the gate"})]),
        Turn(calls=[("note", {"text": "the gate is open"})]),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.slack.wait(lambda: list_tasks_in_thread(harness, thread))
    fakes.go_on.set()
    card = harness.card(SUPPORT, thread)
    all_sent(harness)
    [found] = [each for each in bot_messages(harness, thread) if list_tasks(each)]
    assert list_tasks(found) == [("Watching the gate", "complete")]
    assert float(found["ts"]) < float(card["ts"])
    assert not find_open_streams(harness, thread)
    assert "interrupted" not in words(found)


def test_a_cancelled_request_leaves_no_open_stream(
    harness: Harness, fakes: FakeTools, early_step_names: None
) -> None:
    """It is cancelled while a step is shown; the tool ends after that."""
    thread = ask(harness, ("watch", {"text": "the kettle"}))
    harness.slack.wait(lambda: list_tasks_in_thread(harness, thread))
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.CANCELLED)
    fakes.go_on.set()
    all_sent(harness)
    assert not find_open_streams(harness, thread)


def test_a_step_notifies_nobody(harness: Harness, fakes: FakeTools, early_step_names: None) -> None:
    """Mentions in the model's arguments are plain text in status and task."""
    before = len(harness.person("ana").notifications())
    thread = ask(harness, ("watch", {"text": "<!here> <@UANA00001|ana> <x>"}))
    harness.slack.wait(lambda: list_tasks_in_thread(harness, thread))
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert list_statuses(harness, thread)[1] == "is watching @here @ana ‹x›…"
    assert list_tasks_in_thread(harness, thread) == [("Watching @here @ana ‹x›", "complete")]
    assert len(harness.person("ana").notifications()) == before


@pytest.mark.parametrize(
    "error", ["invalid_chunks", pytest.param("feature_disabled", marks=pytest.mark.long)]
)
def test_an_answer_is_streamed_without_tasks_if_slack_refuses_them(
    own_harness: Callable[..., Harness], error: str
) -> None:
    """Tasks are not tried again for an hour."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    harness.planner.chunk_delay = 0.012
    harness.slack.faults.fail("chat.startStream", error)
    for _ in range(2):
        harness.planner.script(Turn(calls=[("peek", {"text": "twice"})]), Turn(text=LONG))
        thread = harness.person("ben").say(SUPPORT, "@bot please")
        harness.said(SUPPORT, thread, "word119")
        assert not list_tasks(get_only_answer(harness, thread, LONG))
    tried = [each for each in harness.slack.requests if each.method == "chat.startStream"]
    assert ["chunks" in each.args for each in tried] == [True, False, False]
    harness.clock.advance(3601)
    harness.planner.script(Turn(calls=[("peek", {"text": "later"})]), Turn(text=LONG))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.said(SUPPORT, thread, "word119")
    assert list_tasks(get_only_answer(harness, thread, LONG))


@pytest.mark.parametrize("method", ["chat.startStream", "chat.appendStream", "chat.stopStream"])
def test_a_lost_stream_response_does_not_repeat_the_answer(
    harness: Harness, fakes: FakeTools, early_step_names: None, method: str
) -> None:
    """Slack's response to starting, appending to or stopping the stream is lost."""
    harness.slack.faults.drop(method, "after")
    thread = ask(harness, ("watch", {"text": "the line"}), answer="It is dead.")
    harness.slack.wait(
        lambda: [r for r in harness.slack.requests if r.method == "chat.startStream"]
    )
    fakes.go_on.set()
    harness.said(SUPPORT, thread, "It is dead.")
    get_only_answer(harness, thread, "It is dead.")
