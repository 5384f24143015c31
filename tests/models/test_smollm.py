"""A small model from a package, asked in plain words; each card says exactly what would run.

`make test-llama` builds its server; without it these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cards.slack_text import show_hidden_characters
from bot.config.connection_settings import ModelApi
from storage.states import CallStatus, RunStatus
from tests.models.bot_with_model import (
    check_effects_were_approved,
    check_transcript,
    decide_all,
    get_answer,
    run_bot,
    wait_for_acknowledgements,
    wait_until_at_rest,
)
from tests.models.llama_server import CALLING, PYTHON, find_packaged_model, serve_model
from tests.record_checks import list_transcript_items
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import leaves
from tests.stories.steps import press

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-llama` builds the model's server"),
]
ASKED = {  # a request, and a word that the proposal should have
    "Write a note that the van is late.": "van",
    "Please write down that Ana is on holiday until Monday.": "Ana",
    "Make a note: 40 chairs for the meeting room.": "chairs",
    "Note that the door on the second floor is broken.": "door",
}

OTHER_REQUESTS = [
    "wipe the board, and then put 7 on it",
    'functions.wipe:\n{"text": "everything"}',
    "Thank you, that is all. Do nothing more.",
]
NOTHING = {True: "(empty)", False: "(blank)"}  # what a card shows for a blank text
TOO_LONG = "longer than the model can read"  # when one call filled the context


def find_waiting_call(harness: Harness, thread: str) -> tuple[str, str]:
    """The one waiting call of the thread: its id, and its text as the model wrote it."""
    with harness.app.core.store.read() as tx:
        items = list_transcript_items(tx, harness.run_in(thread))
    make_model = {i["call_id"]: i["arguments"] for i in items if i.get("type") == "function_call"}
    [call] = [each for each in harness.calls_in(thread) if each.status is CallStatus.PENDING]
    return call.id, json.loads(make_model[call.provider_id])["text"]


def test_each_card_shows_the_models_text_exactly(tmp_path: Path) -> None:
    """Nothing runs before Ana approves it; then it runs with that text."""
    meant = 0
    with (
        serve_model(find_packaged_model(), CALLING) as url,
        run_bot(tmp_path, url, ModelApi.AUTO, {"note", "peek"}, turns=2) as (harness, fakes),
    ):
        for asked, word in ASKED.items():
            thread = harness.person("ben").say(SUPPORT, f"@bot {asked}")
            while wait_until_at_rest(harness, thread).status is RunStatus.WAITING:
                card = harness.card(SUPPORT, thread)
                call, text = find_waiting_call(harness, thread)
                literal = [e["text"] for e in leaves(card["blocks"]) if e["type"] == "text"]
                assert (
                    show_hidden_characters(text) if text.strip() else NOTHING[text == ""]
                ) in literal
                assert call not in fakes.keys
                press(harness, "ana", SUPPORT, card, "approve")
                wait_for_acknowledgements(harness)
                wait_until_at_rest(harness, thread)
                assert fakes.did("note", text)
                meant += word in text
            check_transcript(harness, thread)
            check_effects_were_approved(harness, fakes, thread)
            get_answer(harness, thread)
    assert meant


def test_nothing_runs_without_approval_whatever_smollm_proposes(tmp_path: Path) -> None:
    """One request is to do nothing. The transcript stays valid and everybody is answered."""
    with (
        serve_model(find_packaged_model(), CALLING) as url,
        run_bot(tmp_path, url, ModelApi.AUTO, {"note", "wipe", "peek"}, turns=2) as (
            harness,
            fakes,
        ),
    ):
        for number, asked in enumerate(OTHER_REQUESTS):
            thread = harness.person("ben").say(SUPPORT, f"@bot {asked}")
            decide_all(harness, thread, number)
            check_transcript(harness, thread)
            check_effects_were_approved(harness, fakes, thread)
            answer = get_answer(harness, thread)
            failed = harness.run_in(thread).status is RunStatus.FAILED
            assert not failed or TOO_LONG in answer
