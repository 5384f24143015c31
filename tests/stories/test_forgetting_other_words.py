"""Words of answers, delegations and decisions at the terminal are forgotten as well."""

from __future__ import annotations

import pytest

from bot.cli.bot_connection import send_command
from bot.demo.model_server import Turn
from bot.terminal.terminal_messages import CommandKind, OperatorCommand
from storage.models import Delivery, PersonAnswer
from storage.states import Surface
from tests.stories.asked_people import outcome, question
from tests.stories.harness import SUPPORT, Harness
from tests.stories.operator_steps import ANA, at_the_machine, bot_socket, command, waits, world
from tests.stories.steps import all_sent, arrived, ask, open_modal
from tests.stories.test_delegation import CLEO, DAY, fill_delegation_dialog, open_delegation_dialog
from tests.stories.test_forgetting import WORD, find_columns_with

__all__ = ["at_the_machine", "world"]
# one word for each way to write, each of which contains WORD
ANSWERED, DECIDED, DELEGATED = (f"{WORD}-{door}" for door in ("answered", "decided", "delegated"))


def answer_questions(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """Ana answers questions of Cleo's agent: one in Slack, one at the terminal."""
    for at_the_terminal in (False, True):
        asks = question(question=f"What is on the label, {at_the_terminal}?", to="@shop-leads")
        thread = ask(harness, asks, who="cleo", answer=f"I have heard {ANSWERED}.")
        asked = harness.card(SUPPORT, thread, "ana", "answer")
        if at_the_terminal:
            [call] = harness.calls_in(thread)
            code, said = command(capsys, "answer", f"{call.id}:{call.revision}", ANSWERED)
            assert code == 0, said
        else:
            open_modal(harness, "ana", SUPPORT, asked, "answer")
            harness.person("ana").submit({"f:a0": {"v": {"value": ANSWERED}}})
        assert ANSWERED in outcome(harness, ANSWERED)
        harness.said(SUPPORT, thread, "I have heard")


def decide_at_terminal(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """Ana rejects and approves with words at the terminal, then asks there herself."""
    for verb, option in (("reject", "--reason"), ("approve", "--note")):
        thread = ask(harness, ("note", {"text": f"to {verb}"}), who="cleo")
        assert command(capsys, verb, waits(harness, thread), option, DECIDED)[0] == 0
        harness.said(SUPPORT, thread, "That is all.")
    harness.planner.script(Turn(text=f"So {DECIDED}."))
    assert send_command(
        bot_socket(harness), OperatorCommand(CommandKind.SAY, words=f"what of {DECIDED}?")
    ).counted
    arrived(harness)


def delegate_with_note(harness: Harness) -> None:
    """Ana delegates her approvals to Cleo, with a note."""
    open_delegation_dialog(harness, "ana")
    filled = fill_delegation_dialog(harness, CLEO, 2, DELEGATED)
    assert harness.person("ana").submit(filled)["outcome"] == "closed"
    arrived(harness)


def test_words_in_answers_decisions_and_notes_are_forgotten(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each was in the record, and is in none of its columns afterwards."""
    answer_questions(harness, capsys)
    decide_at_terminal(harness, capsys)
    delegate_with_note(harness)
    harness.clock.advance(3 * DAY)  # until the delegation has ended
    all_sent(harness)
    assert harness.all(PersonAnswer, PersonAnswer.person == ANA)
    assert harness.all(Delivery, Delivery.surface == Surface.TERMINAL)
    for word in (ANSWERED, DECIDED, DELEGATED):
        assert find_columns_with(harness, word), word
    code, said = command(capsys, "forget", ANA, "--yes")
    assert code == 0, said
    assert find_columns_with(harness, WORD) == []
