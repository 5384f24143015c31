"""Chats at the terminal: also shown in Slack, with the same approvals, followed live."""

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
from tests.stories.operator_steps import ANA, at_the_machine, command, environment, waits, world
from tests.stories.steps import ask, statuses
from tests.stories.typist import Typist

C = CallStatus
__all__ = ["at_the_machine", "world"]


def say(harness: Harness, text: str, *turns: Turn, run: str = "") -> str:
    """Ana types this at the terminal, and the model answers with these turns; return the run."""
    harness.planner.script(*turns)
    answer = send_command(
        socket_path(harness.app.core.store.path), OperatorCommand(CommandKind.SAY, run, text)
    )
    assert answer.counted, answer.sentence
    return answer.run


def wait_for_dm(harness: Harness, part: str) -> dict[str, Any]:
    """Wait for the message with this text in Ana's direct messages with the bot."""
    ana = harness.person("ana")
    return harness.slack.wait(
        lambda: next((m for m in ana.everything(ana.dm_channel) if part in words(m)), None)
    )


def test_a_typed_line_is_a_request_of_the_operator(harness: Harness) -> None:
    """It is answered there and in Ana's direct messages, where the bot repeats what she typed."""
    run = say(harness, "where is order <1042>?", Turn(text="It is **on its way**."))
    with followed(harness, run) as chat:
        assert chat.wait(ChatEventKind.ANSWER).text == "It is **on its way**."
        chat.wait(ChatEventKind.STATE, RunStatus.COMPLETED)
        assert not [each for each in chat.told if each.kind is ChatEventKind.NOTICE]
    root = wait_for_dm(harness, "From the terminal: where is order <1042>?")
    assert wait_for_dm(harness, "on its way")["thread_ts"] == root["ts"]
    found = harness.run_of(run)
    assert (found.requester, found.thread_ts) == (ANA, root["ts"])


def test_a_chat_goes_on_in_one_thread(harness: Harness) -> None:
    """The model is given the earlier lines, and Slack shows all of them."""
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
    typed = wait_for_dm(harness, "From the terminal: which word was it?")
    assert typed["thread_ts"] == harness.run_of(run).thread_ts


def test_messages_in_slack_belong_to_the_same_chat(harness: Harness) -> None:
    """Ana writes in the chat's thread in Slack in between."""
    run = say(harness, "begun at the terminal", Turn(text="Yes?"))
    with followed(harness, run) as chat:
        chat.wait(ChatEventKind.ANSWER, "Yes?")
        harness.planner.script(Turn(text="I hear you there, too."))
        ana, thread = harness.person("ana"), harness.run_of(run).thread_ts
        ana.say(ana.dm_channel, "and on in Slack", thread)
        chat.wait(ChatEventKind.ANSWER, "I hear you there, too.")
    say(harness, "back at the terminal", Turn(text="Welcome back."), run=run)
    wait_for_dm(harness, "Welcome back.")
    sent = str(harness.planner.requests[-1]["input"])
    assert sent.count("and on in Slack") == 1


def test_an_answer_is_shown_in_parts_while_it_comes(harness: Harness) -> None:
    """The parts come first, and then the whole answer."""
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


def test_others_decide_about_the_operators_request(harness: Harness, fakes: FakeTools) -> None:
    """The chat shows the call without Approve, since nobody approves their own request."""
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
    """The chat shows the question's fields, and the request goes on with the answer."""
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


def test_the_word_cancel_ends_the_chats_request(harness: Harness) -> None:
    """The cancel command after that finds nothing to cancel."""
    run = say(harness, "something long", Turn(calls=[("note", {"text": "never written"})]))
    with followed(harness, run) as chat:
        chat.call(C.PENDING)
        path = socket_path(harness.app.core.store.path)
        assert send_command(path, OperatorCommand(CommandKind.SAY, run, "cancel")).counted
        chat.call(C.CANCELLED)
        chat.wait(ChatEventKind.STATE, RunStatus.CANCELLED)
        answer = send_command(path, OperatorCommand(CommandKind.CANCEL, run))
        assert not answer.counted


def test_the_operator_cannot_chat_in_requests_of_others(harness: Harness) -> None:
    """Nor with an empty line or one of more than 12,000 characters."""
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


def test_the_chat_works_at_a_terminal(harness: Harness, fakes: FakeTools, typist: Typist) -> None:
    """On a pty: an answer, the waiting calls, an approval, an edit, a rejection; then Ctrl-D."""
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


def test_the_chat_reads_lines_from_a_pipe(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints plain lines, and waits for the answer after the end of the input."""
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


def test_stopping_the_bot_ends_the_chats_connection(harness: Harness) -> None:
    """Nothing hangs, and the chat can go on after the next start."""
    run = say(harness, "before the stop", Turn(text="Here."))
    with followed(harness, run) as chat:
        chat.wait(ChatEventKind.ANSWER, "Here.")
        harness.app.stop()
        harness.start()
    again = say(harness, "after it", Turn(text="Here again."), run=run)
    with followed(harness, again) as chat:
        chat.wait(ChatEventKind.ANSWER, "Here again.")
