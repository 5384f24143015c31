"""Lone surrogates (halves of characters), which JSON and file names may contain, end no request."""

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

SURROGATES = "\ud83c", "\udf89"


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
def test_a_call_with_a_lone_surrogate_is_refused(
    harness: Harness, fakes: FakeTools, arguments: str
) -> None:
    """Nobody is asked, the request goes on, and the audit is sound."""
    thread = ask(harness, ("note", arguments))
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.REFUSED
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    with harness.app.core.store.read() as tx:
        assert examine_audit_and_rows(tx, tx.chain, None, has_note=False).problems == []


def test_a_lone_surrogate_in_a_preview_is_replaced(harness: Harness) -> None:
    """The call is asked for, and runs."""
    thread = ask(harness, ("rename", {"text": "a"}))
    card = harness.card(SUPPORT, thread)
    assert "was ?" in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert (call.status, call.output.splitlines()[-1]) == (CallStatus.SUCCEEDED, "was ?")


def test_a_lone_surrogate_in_a_reason_is_replaced(harness: Harness) -> None:
    """The rejection counts."""
    thread = ask(harness, ("note", {"text": "a"}))
    card = harness.card(SUPPORT, thread)
    assert reject(harness, "ana", SUPPORT, card, "not \ud83c now")["outcome"] == "closed"
    harness.said(SUPPORT, thread, "not ? now")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.REJECTED


def test_surrogates_in_a_streamed_answer_are_joined_or_replaced(harness: Harness) -> None:
    """The model's server sends the two halves of one apart, and single halves."""
    text = f"{'x' * 11}{'p'.join(SURROGATES)} {'y' * 11}{''.join(SURROGATES)} {LONG}"
    harness.planner.chunk_delay = 0.012
    thread = chat(harness, text)
    harness.said(SUPPORT, thread, "word119")
    harness.planner.chunk_delay = 0.0
    arrived(harness)
    [answer] = bot_messages(harness, thread)
    assert answer_of(answer).startswith(f"{'x' * 11}\ufffdp\ufffd {'y' * 11}\N{PARTY POPPER} word0")
