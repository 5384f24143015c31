"""Halves of characters, as JSON and the names of files may have them: no request ends by them."""

from __future__ import annotations

import pytest

from bot.tools import Effect, Preview, ToolContext, tool
from storage.examination import examine_audit_and_rows
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools, Note
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, chat, reject, vote
from tests.stories.streams import LONG, answer_of, bot_messages

HALVES = "\ud83c", "\udf89"


@tool(
    title="Rename",
    effect="Rename {text}",
    does=Effect.WRITE,
    preview=lambda args, context: Preview("was \ud83c"),
)
def rename(args: Note, context: ToolContext) -> str:
    """Rename something."""
    return "was \ud83c"


TOOLS = [rename]


@pytest.mark.parametrize("arguments", ['{"text": "\\ud83c"}', '{"\\ud83c": 1}', "\ud83c"])
def test_half_a_character_in_arguments_is_told_to_the_model(
    harness: Harness, fakes: FakeTools, arguments: str
) -> None:
    """Nobody is asked, the request goes on, and the audit is sound with what was refused."""
    thread = ask(harness, ("note", arguments))
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.REFUSED
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    with harness.app.core.store.read() as tx:
        assert examine_audit_and_rows(tx, tx.chain, None, has_note=False).problems == []


def test_half_a_character_in_a_preview_is_shown_as_replaced(harness: Harness) -> None:
    """The call is asked for, and runs."""
    thread = ask(harness, ("rename", {"text": "a"}))
    card = harness.card(SUPPORT, thread)
    assert "was ?" in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert (call.status, call.output.splitlines()[-1]) == (CallStatus.SUCCEEDED, "was ?")


def test_half_a_character_in_words_of_people_is_replaced(harness: Harness) -> None:
    """What they decided counts."""
    thread = ask(harness, ("note", {"text": "a"}))
    card = harness.card(SUPPORT, thread)
    assert reject(harness, "ana", SUPPORT, card, "not \ud83c now")["outcome"] == "closed"
    harness.said(SUPPORT, thread, "not ? now")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.REJECTED


def test_a_streamed_answer_has_whole_characters(harness: Harness) -> None:
    """Where the model's server sends the halves of one apart, and one half alone."""
    text = f"{'x' * 11}{'p'.join(HALVES)} {'y' * 11}{''.join(HALVES)} {LONG}"
    harness.planner.chunk_delay = 0.012
    thread = chat(harness, text)
    harness.said(SUPPORT, thread, "word119")
    harness.planner.chunk_delay = 0.0
    arrived(harness)
    [answer] = bot_messages(harness, thread)
    assert answer_of(answer).startswith(f"{'x' * 11}\ufffdp\ufffd {'y' * 11}\N{PARTY POPPER} word0")
