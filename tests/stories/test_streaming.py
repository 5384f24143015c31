"""Streamed answers: shown once and whole, whatever is cut, refused or stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.slack import answer_streams as stream
from storage.models import Message
from storage.states import MessageKind, MessageStatus, RunStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import having, words
from tests.stories.steps import all_sent, ask, chat, now_at, showing
from tests.stories.streams import LONG, bot_messages, count_requests, get_only_answer

HOUR = 3601  # seconds after which streams are tried again once Slack has refused one


@pytest.fixture
def slow_model(harness: Harness) -> Iterator[None]:
    """Have the model answer so slowly that its answer is streamed."""
    harness.planner.chunk_delay = 0.012
    yield
    harness.planner.chunk_delay = 0.0


def test_a_long_answer_is_streamed(harness: Harness, slow_model: None) -> None:
    """It is shown in one message, which is streamed, and has feedback buttons."""
    thread = chat(harness, LONG)
    found = harness.said(SUPPORT, thread, "word119")
    assert get_only_answer(harness, thread, LONG)["ts"] == found["ts"]
    assert "feedback_buttons" in words(now_at(harness, SUPPORT, found["ts"]))
    assert (
        count_requests(harness, thread, "chat.startStream")
        == count_requests(harness, thread, "chat.stopStream")
        == 1
    )
    assert count_requests(harness, thread, "chat.appendStream") >= 1
    assert count_requests(harness, thread, "chat.postMessage") == 0


def test_a_stream_overtakes_no_earlier_message(harness: Harness, slow_model: None) -> None:
    """It is not begun while the message about the rejection is still being posted."""
    thread = ask(harness, ("note", {"text": "first things first"}), answer=LONG)
    card = harness.card(SUPPORT, thread)
    hold = harness.slack.faults.hold("chat.postMessage", match=having(" rejected: "))
    harness.person("ana").click(SUPPORT, card["ts"], "reject_now", seen=card)
    harness.slack.wait(hold.arrived.is_set)
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.COMPLETED)
    assert count_requests(harness, thread, "chat.startStream") == 0
    hold.release()
    answer = harness.said(SUPPORT, thread, "word119")
    [rejection] = showing(harness, SUPPORT, thread, " rejected: ")
    assert rejection["ts"] < answer["ts"]


def test_a_short_answer_is_posted_without_a_stream(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack allows few streams, so none is begun, even if the words come slowly."""
    monkeypatch.setattr(stream, "APPEND_INTERVAL_SECONDS", 0.0)
    thread = chat(harness, "It has been shipped.")
    harness.said(SUPPORT, thread, "It has been shipped.")
    all_sent(harness)
    assert count_requests(harness, thread, "chat.startStream") == 0


@pytest.mark.parametrize(
    "error",
    [
        "feature_disabled",
        pytest.param("channel_type_not_supported", marks=pytest.mark.long),
        pytest.param("unknown_method", marks=pytest.mark.long),
        "ratelimited",
    ],
)
def test_an_answer_is_posted_whole_if_slack_refuses_streams(
    harness: Harness, slow_model: None, error: str
) -> None:
    """No stream is tried again for an hour."""
    start = len(harness.slack.requests)
    harness.slack.faults.fail("chat.startStream", error)
    for _ in range(2 if error == "feature_disabled" else 1):
        thread = chat(harness, LONG)
        harness.said(SUPPORT, thread, "word119")
        get_only_answer(harness, thread, LONG)
    tried = [each.method for each in harness.slack.requests[start:]]
    assert tried.count("chat.startStream") == 1
    harness.clock.advance(HOUR)


@pytest.mark.parametrize(
    ("method", "when"),
    [
        pytest.param("chat.startStream", "before", marks=pytest.mark.long),
        ("chat.startStream", "after"),
        ("chat.appendStream", "after"),
        ("chat.stopStream", "after"),
    ],
)
def test_a_lost_stream_response_does_not_repeat_the_answer(
    harness: Harness, slow_model: None, method: str, when: Any
) -> None:
    """The connection is cut before or after Slack has handled a request of the stream."""
    harness.slack.faults.drop(method, when)
    thread = chat(harness, LONG)
    harness.said(SUPPORT, thread, "word119")
    get_only_answer(harness, thread, LONG)


def test_a_cut_answer_goes_on_in_its_message(harness: Harness, slow_model: None) -> None:
    """The model's answer is cut three times, and one stream shows all of it in the end."""
    harness.planner.cut_next_answers(60, times=3)
    thread = chat(harness, LONG)
    harness.said(SUPPORT, thread, "word119")
    assert count_requests(harness, thread, "chat.startStream") == 1
    assert bot_messages(harness, thread) == [get_only_answer(harness, thread, LONG)]


def test_a_different_answer_after_a_cut_replaces_the_first_text(
    harness: Harness, slow_model: None
) -> None:
    """It replaces the text of the first try in the same message."""
    first = harness.planner.hold_next_request(after_events=55)
    harness.planner.cut_next_answers(60)
    thread = chat(harness, LONG)
    assert first.arrived.wait(30)
    second = harness.planner.hold_next_request()
    first.release()
    assert second.arrived.wait(30)
    harness.planner._turns[0] = Turn(text=LONG.replace("word", "term"))
    second.release()
    harness.said(SUPPORT, thread, "term119")
    [found] = bot_messages(harness, thread)
    assert found == get_only_answer(harness, thread, LONG.replace("word", "term"))
    assert count_requests(harness, thread, "chat.startStream") == 1


def test_the_text_is_withdrawn_if_every_try_is_cut(harness: Harness, slow_model: None) -> None:
    """The message says that it was interrupted, once."""
    harness.planner.cut_next_answers(60, times=5)
    thread = chat(harness, LONG)
    harness.slack.wait(lambda: showing(harness, SUPPORT, thread, "(interrupted)"))
    harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.FAILED)
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "(interrupted)")) == 1
    assert not showing(harness, SUPPORT, thread, "word1 ")
    harness.planner.clear_script()


def test_slacks_stop_withdraws_a_streamed_answer(harness: Harness, slow_model: None) -> None:
    """The run is cancelled, and no word of the answer is left."""
    harness.planner.chunk_delay = 0.05
    thread = chat(harness, LONG)
    harness.slack.wait(lambda: count_requests(harness, thread, "chat.startStream"))
    harness.person("ben").stop_agent(SUPPORT, thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    all_sent(harness)
    sessions = harness.slack.world.sessions
    [mine] = [key for key in sessions if thread in key]
    harness.slack.wait(lambda: sessions[mine]["status"] == "active")
    assert harness.run_in(thread).status is RunStatus.CANCELLED
    assert not showing(harness, SUPPORT, thread, "word119")
    assert not showing(harness, SUPPORT, thread, "word1 ")
    assert not [
        m for m in bot_messages(harness, thread) if m.get("streaming_state") == "in_progress"
    ]
    # wait until the model has noticed, and drop the rest of its answer
    harness.slack.wait(lambda: harness.planner._turns)
    harness.planner.clear_script()


@pytest.mark.parametrize(
    ("when", "given_up"), [("before", MessageStatus.FAILED), ("after", MessageStatus.SENT)]
)
def test_a_stop_before_slack_confirms_the_stream_leaves_no_text(
    harness: Harness, slow_model: None, when: Any, given_up: MessageStatus
) -> None:
    """The bot does not know the stream's message yet; once it does, it removes the text."""
    held = harness.slack.faults.hold("chat.startStream", when)
    thread = chat(harness, LONG)
    assert held.arrived.wait(30)
    run = harness.run_in(thread)
    harness.person("ben").stop_agent(SUPPORT, thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    begun = (Message.run_id == run.id, Message.kind == MessageKind.ANSWER)
    harness.slack.wait(lambda: harness.all(Message, *begun)[0].status is given_up)
    held.release()
    harness.settle()
    all_sent(harness)
    assert not showing(harness, SUPPORT, thread, "word1 ")
    assert not [
        m for m in bot_messages(harness, thread) if m.get("streaming_state") == "in_progress"
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_mentions_in_the_models_answer_notify_nobody(
    harness: Harness, slow_model: None, streamed: bool
) -> None:
    """They are shown as text, posted or streamed."""
    if not streamed:
        harness.slack.faults.fail("chat.startStream", "feature_disabled")
    start = len(harness.slack.requests)
    before = {who: len(harness.person(who).notifications()) for who in ("ana", "cleo", "dan")}
    text = (
        "Look <!channel> <!here> <@UANA00001> <!subteam^S0LEADS|@shop-leads> <@UDAN00001|dan>. "
        + "More. " * 40
    )
    thread = chat(harness, text)
    harness.slack.wait(
        lambda: [m for m in bot_messages(harness, thread) if "feedback_buttons" in words(m)]
    )
    all_sent(harness)
    assert {who: len(harness.person(who).notifications()) for who in before} == before
    # a Home that another story opened may still be updated
    said = [r for r in harness.slack.requests[start:] if r.method != "views.publish"]
    sent = [json.dumps(r.args) for r in said]
    assert [each for each in sent if "Look @channel" in each]
    assert not [each for each in sent if "<!" in each or "<@UANA" in each]
    harness.clock.advance(HOUR)


@pytest.mark.parametrize("delay", [0.0, 0.012])
def test_text_before_a_plan_is_shown_once_above_the_card(
    harness: Harness, slow_model: None, delay: float
) -> None:
    """Streamed or not, and without feedback buttons."""
    harness.planner.chunk_delay = delay
    harness.planner.script(Turn(text=LONG, calls=[("note", {"text": "after words"})]))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    found = get_only_answer(harness, thread, LONG)
    assert float(found["ts"]) < float(card["ts"])
    assert "feedback_buttons" not in words(found)
