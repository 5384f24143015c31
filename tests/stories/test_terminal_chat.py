"""A chat at the terminal: the same engine and gate, kept by Slack, followed line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bot.cli.bot_connection import send_command
from bot.demo.model_server import Turn
from bot.terminal.terminal_messages import (
    AllowedAction,
    ChatEventKind,
    CommandKind,
    OperatorCommand,
)
from storage.backend import socket_path
from storage.states import CallStatus, RunStatus
from tests.stories.asked_people import question
from tests.stories.fakes import FakeTools
from tests.stories.follower import followed
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.operator_steps import (
    ANA,
    at_the_machine,
    command,
    environment,
    waits,
    world,
)
from tests.stories.steps import ask, statuses
from tests.stories.typist import Typist

C = CallStatus
__all__ = ["at_the_machine", "world"]


def say(harness: Harness, text: str, *turns: Turn, run: str = "") -> str:
    """Ana types this at the terminal, and the model's next turns are these; returns the request."""
    harness.planner.script(*turns)
    answer = send_command(
        socket_path(harness.app.core.store.path), OperatorCommand(CommandKind.SAY, run, text)
    )
    assert answer.counted, answer.sentence
    return answer.run


def in_dm(harness: Harness, part: str) -> dict[str, Any]:
    """The message in Ana's direct messages with the bot that says this, waited for."""
    ana = harness.person("ana")
    return harness.slack.wait(
        lambda: next((m for m in ana.everything(ana.dm_channel) if part in words(m)), None)
    )


def test_what_is_typed_is_a_request_of_the_operator(harness: Harness) -> None:
    """It is answered there and in Ana's direct messages, where the bot says what she typed."""
    run = say(harness, "where is order <1042>?", Turn(text="It is **on its way**."))
    with followed(harness, run) as chat:
        assert chat.wait(ChatEventKind.ANSWER).text == "It is **on its way**."
        chat.wait(ChatEventKind.STATE, RunStatus.COMPLETED)
        assert not [each for each in chat.told if each.kind is ChatEventKind.NOTICE]
    root = in_dm(harness, "From the terminal: where is order <1042>?")
    assert in_dm(harness, "on its way")["thread_ts"] == root["ts"]
    found = harness.run_of(run)
    assert (found.requester, found.thread_ts) == (ANA, root["ts"])


def test_the_chat_goes_on_in_its_thread(harness: Harness) -> None:
    """What is typed next is heard with what was said before; Slack shows both."""
    run = say(harness, "remember the word marmalade", Turn(text="I shall."))
    with followed(harness, run) as chat:
        chat.wait(ChatEventKind.STATE, RunStatus.COMPLETED)
        again = say(harness, "which word was it?", Turn(text="Marmalade."), run=run)
        assert again != run
        chat.wait(ChatEventKind.ANSWER, "Marmalade.")
        assert not [each for each in chat.told if each.kind is ChatEventKind.NOTICE]
        chat.wait(ChatEventKind.STATE, RunStatus.COMPLETED)
    sent = str(harness.planner.requests[-1]["input"])
    assert "remember the word marmalade" in sent
    assert "which word was it?" in sent
    typed = in_dm(harness, "From the terminal: which word was it?")
    assert typed["thread_ts"] == harness.run_of(run).thread_ts


def test_what_is_said_in_slack_meanwhile_is_heard(harness: Harness) -> None:
    """The thread is one conversation, wherever Ana writes."""
    run = say(harness, "begun at the terminal", Turn(text="Yes?"))
    with followed(harness, run) as chat:
        chat.wait(ChatEventKind.ANSWER, "Yes?")
        harness.planner.script(Turn(text="I hear you there, too."))
        ana, thread = harness.person("ana"), harness.run_of(run).thread_ts
        ana.say(ana.dm_channel, "and on in Slack", thread)
        chat.wait(ChatEventKind.ANSWER, "I hear you there, too.")
    say(harness, "back at the terminal", Turn(text="Welcome back."), run=run)
    in_dm(harness, "Welcome back.")
    sent = str(harness.planner.requests[-1]["input"])
    assert sent.count("and on in Slack") == 1


def test_an_answer_is_told_while_it_comes(harness: Harness) -> None:
    """The words arrive in parts, and then the whole of it."""
    text = " ".join(f"word{number}" for number in range(150))
    harness.planner.chunk_delay = 0.01
    try:
        run = say(harness, "tell me at length", Turn(text=text))
        with followed(harness, run) as chat:
            assert chat.wait(ChatEventKind.ANSWER).text == text
    finally:
        harness.planner.chunk_delay = 0.0
    parts = [each.text for each in chat.told if each.kind is ChatEventKind.WORDS]
    assert len(parts) > 5
    assert text.endswith("".join(parts))


def test_others_decide_about_what_the_operator_asks_for(harness: Harness, fakes: FakeTools) -> None:
    """The call is told with what may be done about it: nobody approves their own request."""
    calls = [("note", {"text": "typed by its requester"})]
    asks = Turn(text="I ask the leads.", calls=calls)
    run = say(harness, "note it down", asks, Turn(text="Noted, then."))
    with followed(harness, run) as chat:
        waiting = chat.call(C.PENDING)
        kinds = [each.kind for each in chat.told]
        assert kinds.index(ChatEventKind.ANSWER) < kinds.index(ChatEventKind.CALL)
        assert waiting.effect == "Write “typed by its requester”"
        assert AllowedAction.APPROVE not in waiting.may
        assert "@shop-leads" in waiting.deciders
        chat.wait(ChatEventKind.STATE, RunStatus.WAITING)
        path = socket_path(harness.app.core.store.path)
        assert not send_command(path, OperatorCommand(CommandKind.APPROVE, waiting.id)).counted
        cleo = harness.person("cleo")
        card = harness.card(cleo.dm_channel, None, "cleo")
        cleo.click(cleo.dm_channel, card["ts"], "approve")
        assert chat.call(C.SUCCEEDED).note == "noted typed by its requester"
        chat.wait(ChatEventKind.STEP, "Write a note")
        answer = chat.wait(ChatEventKind.ANSWER, "Noted, then.")
        assert "✅ Done: Write “typed by its requester”." in answer.text
    assert fakes.did("note", "typed by its requester") == 1


def test_a_question_is_answered_in_the_chat(harness: Harness) -> None:
    """What the agent asks comes with its fields, and the request goes on with the answer."""
    asks = question(question="Which shade?", kind="choice", options=["pale", "dark"])
    run = say(harness, "paint it", Turn(calls=[asks]), Turn(text="Dark it is."))
    with followed(harness, run) as chat:
        asked = chat.call(C.PENDING)
        assert (asked.question, asked.may) == (True, (AllowedAction.ANSWER,))
        assert [each.options for each in asked.fields] == [("pale", "dark")]
        assert asked.values == (("Question", "Which shade?", ""), ("One of", "pale, dark", ""))
        path = socket_path(harness.app.core.store.path)
        assert send_command(path, OperatorCommand(CommandKind.ANSWER, asked.id, "dark")).counted
        chat.wait(ChatEventKind.ANSWER, "Dark it is.")


def test_cancel_stops_it(harness: Harness) -> None:
    """The word, and the wish: the request is over, and says so."""
    run = say(harness, "something long", Turn(calls=[("note", {"text": "never written"})]))
    with followed(harness, run) as chat:
        chat.call(C.PENDING)
        path = socket_path(harness.app.core.store.path)
        assert send_command(path, OperatorCommand(CommandKind.SAY, run, "cancel")).counted
        chat.call(C.CANCELLED)
        chat.wait(ChatEventKind.STATE, RunStatus.CANCELLED)
        answer = send_command(path, OperatorCommand(CommandKind.CANCEL, run))
        assert not answer.counted


def test_nobody_chats_in_requests_of_others(harness: Harness) -> None:
    """Words go to requests of the operator's own; Ben's stay his."""
    thread = ask(harness, ("note", {"text": "ben's alone"}))
    waits(harness, thread)
    path = socket_path(harness.app.core.store.path)
    answer = send_command(
        path, OperatorCommand(CommandKind.SAY, harness.run_in(thread).id, "and pay me")
    )
    assert (answer.counted, answer.sentence) == (False, "You have no chat with that id.")
    for odd in ("", "x" * 12_001):
        assert not send_command(path, OperatorCommand(CommandKind.SAY, "", odd)).counted


@pytest.fixture
def typist(harness: Harness) -> Iterator[Typist]:
    """Ana at `countersign chat`."""
    found = Typist(harness.folder, environment(harness), "chat")
    yield found
    found.close()


def test_asked_and_decided_at_a_real_terminal(
    harness: Harness, fakes: FakeTools, typist: Typist
) -> None:
    """On a pty: an answer, what waits for Ana, an edit, an approval, a rejection; then Ctrl-D."""
    wait = harness.slack.wait
    typist.reads(wait, "you>")
    harness.planner.script(Turn(text="Order 1042 is **on its way**, \x1b[31mreally."))
    typist.type("where is order 1042?")
    typist.reads(wait, "Order 1042 is on its way, ⟨U+001B⟩[31mreally.")
    assert "\x1b[31mreally" not in typist.raw
    approved = ask(harness, ("note", {"text": "[red]seen[/red] at the terminal"}))
    waits(harness, approved)
    typist.type("/pending")
    typist.reads(wait, "Write “[red]seen[/red] at the terminal”")
    typist.reads(wait, "/approve 1 /edit 1 /reject 1 why")
    typist.type("/approve")
    typist.reads(wait, "Approved: Write “[red]seen[/red] at the terminal”")
    harness.said(SUPPORT, approved, "That is all.")
    edited = ask(harness, ("note", {"text": "to be worded better"}))
    waits(harness, edited)
    typist.type("/pending")
    typist.reads(wait, "2 Write “to be worded better”")
    typist.type("/edit 2")
    typist.reads(wait, "Text [to be worded better]:")
    typist.type("worded better")
    typist.reads(wait, "Saved: Write “worded better”")
    typist.type("/reject 2 not today")
    typist.reads(wait, "out of date")
    typist.type("/show 2")
    typist.reads(wait, "2 Write “worded better”")
    typist.type("/reject 2 not today")
    typist.reads(wait, "Rejected: Write “worded better”")
    harness.said(SUPPORT, edited, "not today")
    assert statuses(harness, edited) == [C.REJECTED]
    assert typist.end() == 0
    assert fakes.did("note", "[red]seen[/red] at the terminal") == 1


def test_lines_from_a_pipe(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal each thing is a plain line, and the end of the input waits for the end."""
    harness.planner.script(Turn(text="Three books."))
    typed = harness.folder / "typed.txt"
    typed.write_text("what is on the shelf?\n/nonsense\n")
    with typed.open() as lines:
        monkeypatch.setattr("sys.stdin", lines)
        code, said = command(capsys, "chat", "--plain")
    assert code == 0
    assert "Three books." in said
    assert said.endswith("There is no /nonsense; /help lists the commands.\n")
    assert "\x1b" not in said


def test_a_bot_that_stops_ends_the_chat(harness: Harness) -> None:
    """Whoever follows is told by the end of the line, and nothing hangs."""
    run = say(harness, "before the stop", Turn(text="Here."))
    with followed(harness, run) as chat:
        chat.wait(ChatEventKind.ANSWER, "Here.")
        harness.app.stop()
        harness.start()
    again = say(harness, "after it", Turn(text="Here again."), run=run)
    with followed(harness, again) as chat:
        chat.wait(ChatEventKind.ANSWER, "Here again.")
