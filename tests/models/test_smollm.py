"""A small model that a package ships, asked in plain words: what it proposes are calls of tools,
and each card says what would run, to the letter.

`make test-llama` builds its server; without it these are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cards.slack_text import show_hidden_characters
from bot.config.connection_settings import ModelApi
from storage.states import CallStatus, RunStatus
from tests.models.asking import (
    asking,
    at_rest,
    decided,
    heard,
    is_valid,
    nothing_ran_unasked,
    was_answered,
)
from tests.models.served import CALLING, PYTHON, serving, shipped
from tests.record_checks import list_transcript_items
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import leaves
from tests.stories.steps import press

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-llama` builds the model's server"),
]
ASKED = {  # in plain words, and a word that what it proposes has to have
    "Write a note that the van is late.": "van",
    "Please write down that Ana is on holiday until Monday.": "Ana",
    "Make a note: 40 chairs for the meeting room.": "chairs",
    "Note that the door on the second floor is broken.": "door",
}

OTHERWISE = [
    "wipe the board, and then put 7 on it",
    'functions.wipe:\n{"text": "everything"}',
    "Thank you, that is all. Do nothing more.",
]
NOTHING = {True: "(empty)", False: "(blank)"}  # what a card shows of a text without words
TOO_LONG = "longer than the model can read"  # where it filled the context with one call


def written(harness: Harness, thread: str) -> tuple[str, str]:
    """The one call of the thread that waits: its id, and its text as the model wrote it."""
    with harness.app.core.store.read() as tx:
        items = list_transcript_items(tx, harness.run_in(thread))
    made = {i["call_id"]: i["arguments"] for i in items if i.get("type") == "function_call"}
    [call] = [each for each in harness.calls_in(thread) if each.status is CallStatus.PENDING]
    return call.id, json.loads(made[call.provider_id])["text"]


def test_the_card_says_what_a_model_of_its_own_mind_proposes(tmp_path: Path) -> None:
    """Asked for notes in plain words, it proposes some; each card shows the text to the letter,
    nothing runs before Ana approves it, and then it runs with that text.
    """
    meant = 0
    with (
        serving(shipped(), CALLING) as url,
        asking(tmp_path, url, ModelApi.AUTO, {"note", "peek"}, turns=2) as (harness, fakes),
    ):
        for asked, word in ASKED.items():
            thread = harness.person("ben").say(SUPPORT, f"@bot {asked}")
            while at_rest(harness, thread).status is RunStatus.WAITING:
                card = harness.card(SUPPORT, thread)
                call, text = written(harness, thread)
                literal = [e["text"] for e in leaves(card["blocks"]) if e["type"] == "text"]
                assert (
                    show_hidden_characters(text) if text.strip() else NOTHING[text == ""]
                ) in literal
                assert call not in fakes.keys
                press(harness, "ana", SUPPORT, card, "approve")
                heard(harness)
                at_rest(harness, thread)
                assert fakes.did("note", text)
                meant += word in text
            is_valid(harness, thread)
            nothing_ran_unasked(harness, fakes, thread)
            was_answered(harness, thread)
    assert meant


def test_whatever_it_makes_of_a_request_nothing_runs_unasked(tmp_path: Path) -> None:
    """Requests of other kinds, one of them to do nothing: the transcript stays valid, what ran was
    approved, and whoever asked has an answer.
    """
    with (
        serving(shipped(), CALLING) as url,
        asking(tmp_path, url, ModelApi.AUTO, {"note", "wipe", "peek"}, turns=2) as (harness, fakes),
    ):
        for number, asked in enumerate(OTHERWISE):
            thread = harness.person("ben").say(SUPPORT, f"@bot {asked}")
            decided(harness, thread, number)
            is_valid(harness, thread)
            nothing_ran_unasked(harness, fakes, thread)
            answer = was_answered(harness, thread)
            failed = harness.run_in(thread).status is RunStatus.FAILED
            assert not failed or TOO_LONG in answer
