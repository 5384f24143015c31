"""Talking with the bot: first contact, status, streamed answers that stand there once, and who
continues a thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bot.sandbox.workspace import events, messages
from bot.sandbox.workspace.messages import Draft
from storage.models import Audit, Delivery, Run
from storage.states import RunStatus
from tests.stories.world import (
    GENERAL,
    SUPPORT,
    Turn,
    World,
    all_sent,
    arrived,
    ask,
    chat,
    now_at,
    showing,
    told,
    words,
)

LONG = " ".join(f"word{number}" for number in range(120))


@pytest.fixture
def slowly(world: World) -> Iterator[None]:
    """The model speaks so slowly that its answer is streamed."""
    world.planner.chunk_delay = 0.012
    yield
    world.planner.chunk_delay = 0.0


def called(world: World, thread: str, method: str) -> int:
    """How often the bot called a method of the thread with success, by its argument thread_ts or by
    its message.
    """
    mine = {m["ts"] for m in world.thread(SUPPORT, thread)} | {thread}
    found = [r for r in world.slack.requests if r.method == method and (r.response or {}).get("ok")]
    return sum(bool({r.args.get("thread_ts"), r.args.get("ts")} & mine) for r in found)


def answer_of(message: dict[str, Any]) -> str:
    """The Markdown that a message shows."""
    return "".join(b["text"] for b in message["blocks"] if b["type"] == "markdown")


def bot_messages(
    world: World, thread: str, who: str = "ben", channel: str = SUPPORT
) -> list[dict[str, Any]]:
    return [
        m
        for m in world.thread(channel, thread, who)
        if m.get("bot_id") and not m.get("is_ephemeral")
    ]


def stands_once(world: World, thread: str, text: str) -> dict[str, Any]:
    """The one message that shows this answer, whole.

    No other message of the thread shows any part of it.
    """
    all_sent(world)
    [found] = [m for m in bot_messages(world, thread) if answer_of(m)]
    assert answer_of(found) == text
    assert not [m for m in bot_messages(world, thread) if m.get("streaming_state") == "in_progress"]
    return found


def test_first_contact(own_world: Callable[..., World]) -> None:
    """One greeting for each person, in the DM or privately in the channel, that says it is an AI.

    Prompts in the DM.
    """
    world = own_world()
    ben, ana = world.person("ben"), world.person("ana")
    for _ in range(2):
        ben.open_dm()
    world.slack.wait(lambda: ben.messages(ben.dm_channel))
    arrived(world)
    [greeting] = ben.messages(ben.dm_channel)
    assert "an AI assistant" in words(greeting)
    prompts = world.slack.wait(lambda: world.slack.world.prompts.get(ben.dm_channel, []))
    assert 1 <= len(prompts) <= 4
    threads = [chat(world, "Hello.", who="ana")]
    world.said(SUPPORT, threads[0], "Hello.")
    assert "an AI assistant" in told(world, "ana", SUPPORT, threads[0], "an AI")
    threads.append(chat(world, "Hello again.", who="ana"))
    world.said(SUPPORT, threads[1], "Hello again.")
    arrived(world)
    private = [m for t in threads for m in ana.messages(SUPPORT, t) if m.get("is_ephemeral")]
    assert len(private) == 1


def test_help_asks_no_model(world: World) -> None:
    """`help` in a DM, in a channel, and a bare mention, list what the bot can do, without the
    model.
    """
    ben, asked = world.person("ben"), len(world.planner.requests)
    here, there, bare = ben.dm("help"), ben.say(SUPPORT, "@bot Help!"), ben.say(SUPPORT, "@bot")
    for channel, thread in ((ben.dm_channel, here), (SUPPORT, there), (SUPPORT, bare)):
        text = words(world.said(channel, thread, "I am an AI assistant"))
        assert "Refund an order" in text
        assert "cancel" in text
    arrived(world)
    assert len(world.planner.requests) == asked
    assert not world.all(Run, Run.thread_ts.in_([here, there, bare]))  # type: ignore[attr-defined] # a column


def test_feedback_is_recorded(world: World) -> None:
    """Thumbs down under an answer: thanked privately, and in the audit with who and about what."""
    thread = chat(world, "Judge me.")
    answer = world.said(SUPPORT, thread, "feedback_buttons")
    run = world.run_in(thread)
    world.person("ana").click(SUPPORT, answer["ts"], "feedback", value=f"bad:{run.id}")
    told(world, "ana", SUPPORT, thread, "Thank you")
    [row] = world.all(Audit, Audit.run_id == run.id, Audit.event == "feedback")
    assert (row.actor, json.loads(row.data)) == ("UANA00001", {"answer": "bad"})


def test_status_and_session(world: World) -> None:
    """Processing with a status while it thinks, suspended while people decide, active when it is
    done.
    """
    hold = world.planner.hold()
    thread = ask(world, ("note", {"text": "status"}))
    assert hold.arrived.wait(20)
    slack, place = world.slack.world, (SUPPORT, thread)
    session = (slack.app.id, *place)
    world.slack.wait(lambda: slack.sessions.get(session, {}).get("status") == "processing")
    assert "working" in slack.statuses[place].status
    hold.release()
    card = world.card(SUPPORT, thread)
    world.slack.wait(lambda: slack.sessions[session]["status"] == "suspended")
    assert place not in slack.statuses
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.slack.wait(
        lambda: slack.sessions[session]["status"] == "active" and place not in slack.statuses
    )


def test_a_long_answer_is_streamed(world: World, slowly: None) -> None:
    """A long answer begins to show before it is complete, and stands there once, whole, with
    feedback buttons.
    """
    thread = chat(world, LONG)
    found = world.said(SUPPORT, thread, "word119")
    assert stands_once(world, thread, LONG)["ts"] == found["ts"]
    assert "feedback_buttons" in words(now_at(world, SUPPORT, found["ts"]))
    assert (
        called(world, thread, "chat.startStream") == called(world, thread, "chat.stopStream") == 1
    )
    assert called(world, thread, "chat.appendStream") >= 1
    assert called(world, thread, "chat.postMessage") == 0


@pytest.mark.parametrize(
    "error", ["feature_disabled", "channel_type_not_supported", "unknown_method", "ratelimited"]
)
def test_streaming_is_refused(world: World, slowly: None, error: str) -> None:
    """Where Slack does not stream, the answer is posted whole."""
    world.slack.faults.fail("chat.startStream", error)
    thread = chat(world, LONG)
    world.said(SUPPORT, thread, "word119")
    stands_once(world, thread, LONG)


@pytest.mark.parametrize(
    ("method", "when"),
    [
        ("chat.startStream", "before"),
        ("chat.startStream", "after"),
        ("chat.appendStream", "after"),
        ("chat.stopStream", "after"),
    ],
)
def test_the_line_breaks_while_it_streams(
    world: World, slowly: None, method: str, when: Any
) -> None:
    """A request of the stream whose answer is lost: in the end the answer stands there once (L11)."""
    world.slack.faults.drop(method, when)
    thread = chat(world, LONG)
    world.said(SUPPORT, thread, "word119")
    stands_once(world, thread, LONG)


def test_the_model_breaks_off_while_it_streams(world: World, slowly: None) -> None:
    """The stream is cut in mid-text and the turn tried again: nothing is shown twice (X08, L11)."""
    world.planner.cut(60)
    thread = chat(world, LONG)
    world.slack.wait(lambda: called(world, thread, "chat.startStream"))
    world.slack.wait(lambda: [m for m in bot_messages(world, thread) if "word119" in words(m)])
    stands_once(world, thread, LONG)


def test_stop_while_it_streams(world: World, slowly: None) -> None:
    """Slack's Stop in the middle of an answer ends the run; the words so far are withdrawn."""
    world.planner.chunk_delay = 0.05
    thread = chat(world, LONG)
    world.slack.wait(lambda: called(world, thread, "chat.startStream"))
    world.person("ben").stop_agent(SUPPORT, thread)
    world.said(SUPPORT, thread, "cancelled the request")
    all_sent(world)
    assert world.run_in(thread).status is RunStatus.CANCELLED
    assert not showing(world, SUPPORT, thread, "word119")
    assert not showing(world, SUPPORT, thread, "word1 ")
    assert not [m for m in bot_messages(world, thread) if m.get("streaming_state") == "in_progress"]
    # the model has noticed; what it had not said is not for others
    world.slack.wait(lambda: world.planner._turns)
    world.planner.clear()


def test_an_answer_too_long_for_a_message(world: World) -> None:
    """Markdown beyond 12,000 characters goes on in further messages, whole.

    Feedback stands under the last.
    """
    text = "\n\n".join(f"Paragraph {number}: " + "x" * 600 for number in range(45))
    thread = chat(world, text)
    world.said(SUPPORT, thread, "Paragraph 44")
    all_sent(world)
    parts = [m for m in bot_messages(world, thread) if answer_of(m)]
    assert len(parts) == 3
    assert "\n\n".join(answer_of(m).strip() for m in parts) == text
    assert ["feedback_buttons" in words(m) for m in parts] == [False, False, True]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_model_notifies_nobody(world: World, slowly: None, streamed: bool) -> None:
    """Mentions and broadcasts in the model's words are words, posted or streamed (S04)."""
    if not streamed:
        world.slack.faults.fail("chat.startStream", "feature_disabled")
    start = len(world.slack.requests)
    before = {who: len(world.person(who).notifications()) for who in ("ana", "cleo", "dan")}
    text = (
        "Look <!channel> <!here> <@UANA00001> <!subteam^S0LEADS|@shop-leads> <@UDAN00001|dan>. "
        + "More. " * 40
    )
    thread = chat(world, text)
    world.slack.wait(
        lambda: [m for m in bot_messages(world, thread) if "feedback_buttons" in words(m)]
    )
    all_sent(world)
    assert {who: len(world.person(who).notifications()) for who in before} == before
    sent = [json.dumps(r.args) for r in world.slack.requests[start:]]
    assert [each for each in sent if "Look @channel" in each]
    assert not [each for each in sent if "<!" in each or "<@UANA" in each]


@pytest.mark.parametrize("delay", [0.0, 0.012])
def test_words_before_a_plan(world: World, slowly: None, delay: float) -> None:
    """What the model says before it proposes something is shown once, and above the card (L11)."""
    world.planner.chunk_delay = delay
    world.planner.script(Turn(text=LONG, calls=[("note", {"text": "after words"})]))
    thread = world.person("ben").say(SUPPORT, "@bot please")
    card = world.card(SUPPORT, thread)
    found = stands_once(world, thread, LONG)
    assert float(found["ts"]) < float(card["ts"])
    assert "feedback_buttons" not in words(found)


def test_a_conversation_in_a_dm(world: World) -> None:
    """Each message in a DM begins a thread, needs no mention, and is answered and continued there."""
    ben = world.person("ben")
    world.planner.script(Turn(text="One."), Turn(text="Two."), Turn(text="Three."))
    thread = ben.dm("first")
    world.said(ben.dm_channel, thread, "One.")
    world.settle()
    ben.dm("second", thread)
    world.said(ben.dm_channel, thread, "Two.")
    assert "first" in str(world.planner.requests[-1]["input"])
    other = ben.dm("third")
    world.said(ben.dm_channel, other, "Three.")
    assert "first" not in str(world.planner.requests[-1]["input"])


def test_who_continues_a_finished_thread(world: World) -> None:
    """The requester goes on without a mention.

    Somebody else, or words to another person, start nothing.
    """
    thread = chat(world, "Finished.")
    world.said(SUPPORT, thread, "Finished.")
    world.settle()
    asked = len(world.planner.requests)
    world.person("dan").say(SUPPORT, "interesting", thread)
    world.person("ben").say(SUPPORT, "@dan is it?", thread)
    arrived(world)
    assert len(world.planner.requests) == asked
    world.planner.script(Turn(text="Gladly more."))
    world.person("ben").say(SUPPORT, "tell me more", thread)
    world.said(SUPPORT, thread, "Gladly more.")
    assert "interesting" in str(world.planner.requests[-1]["input"])


def test_what_is_no_message_of_a_person(world: World) -> None:
    """Other bots, edits, deletions and channel notices that name the bot start nothing."""
    asked, slack = len(world.planner.requests), world.slack.world
    with slack.lock:
        place = slack.channel(GENERAL)
        base = {
            "type": "message",
            "channel": GENERAL,
            "channel_type": "channel",
            "text": "<@UBOT00001> do it",
        }
        odd: list[dict[str, Any]] = [
            {"bot_id": "B0OTHER", "user": "U0OTHER"},
            {"bot_id": "B0OTHER", "subtype": "bot_message"},
            {"subtype": "channel_topic", "user": "UBEN00001"},
        ]
        for each in odd:
            events.emit(
                slack,
                slack.app,
                {**base, **each, "ts": slack.next_ts()},
                place,
                subscription="message.channels",
            )
        mine = messages.add(slack, Draft(place, "UBEN00001", "no mention"))
        messages.edit(
            slack, mine, text="<@UBOT00001> now with one", blocks=[], by="UBEN00001", marked=True
        )
        messages.remove(slack, mine)
    arrived(world)
    assert len(world.planner.requests) == asked
    assert not world.all(Delivery, Delivery.status != "done")
