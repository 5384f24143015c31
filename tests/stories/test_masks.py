"""What looks like a secret is shown to nobody, though no field was declared secret.

The tool gets the real thing.
"""

from __future__ import annotations

import logging

import pytest

from storage.masking import MASK
from storage.models import Audit
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask, now_at, open_modal, reject

TOKEN = "xoxb-123456789012-SecretSecret"
TEXT = f"deploy with {TOKEN} to https://ana:hunter2@shop.example/x"
MASKED = f"deploy with xoxb-{MASK} to https://ana:{MASK}@shop.example/x"


def seen(harness: Harness, thread: str) -> str:
    """All that people see in the thread, notifications too."""
    return "".join(words(m) for who in ("ana", "ben") for m in harness.thread(SUPPORT, thread, who))


def test_cards_dialogs_notices_and_the_audit(harness: Harness, fakes: FakeTools) -> None:
    """Secrets are masked on the card, in its notification, and in Reject.

    So they are after an edit, in the thread and in the audit.
    """
    reason = "the key is sk-proj-abcdefghij0123456789ABCD"
    thread = ask(harness, ("note", {"text": TEXT, "reason_for_approver": reason}))
    card = harness.card(SUPPORT, thread)
    assert MASKED in card["text"]
    assert words(card).count(MASKED) == 3  # notification, headline, argument
    assert f"the key is sk-{MASK}" in words(card)
    person = harness.person("ana")
    assert MASKED in words(open_modal(harness, "ana", SUPPORT, card, "reject"))
    person.close_view()
    edit = open_modal(harness, "ana", SUPPORT, card, "edit")
    assert TEXT in words(edit)  # who edits it needs the real value
    longer = f"{TEXT}, and again"
    assert person.submit({"f:text": {"v": {"value": longer}}})["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    assert f"{MASKED}, and again" in words(now_at(harness, SUPPORT, card["ts"]))
    person = harness.person("cleo")
    person.click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert fakes.did("note", longer) == 1
    assert longer in harness.outputs()[-1]["output"]
    everything = seen(harness, thread)
    assert MASKED in everything
    for secret in (TOKEN, "hunter2", "abcdefghij0123456789"):
        assert secret not in everything
        assert not [row for row in harness.all(Audit) if secret in row.data]


def test_review_masks_as_the_card_does(harness: Harness, fakes: FakeTools) -> None:
    """The dialog that shows all of a call masks as its card does.

    What is approved there is the real thing.
    """
    long = f"{TEXT} {'and more ' * 500}"
    thread = ask(harness, ("note", {"text": long}))
    view = open_modal(
        harness, "ana", SUPPORT, harness.card(SUPPORT, thread, having="review"), "review"
    )
    assert MASKED in words(view)
    assert TOKEN not in words(view)
    harness.person("ana").submit()
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", long) == 1


def test_words_of_people_and_logs(
    harness: Harness, fakes: FakeTools, caplog: pytest.LogCaptureFixture
) -> None:
    """What somebody writes when rejecting, and what a tool raises, are masked.

    They are for people and in the log.
    """
    thread = ask(harness, ("note", {"text": "not with a token"}))
    assert (
        reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), f"use {TOKEN}")["outcome"]
        == "closed"
    )
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert f"use xoxb-{MASK}" in seen(harness, thread)
    assert f"use {TOKEN}" in harness.outputs()[-1]["output"]  # the model is told what was said

    failing = ask(harness, ("explode", {"text": TEXT}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, failing)["ts"], "approve")
    harness.said(SUPPORT, failing, "That is all.")
    all_sent(harness)
    assert fakes.did("explode", TEXT) == 1
    assert f"boom {MASKED}" in seen(harness, failing)
    assert TOKEN not in seen(harness, thread) + seen(harness, failing)
    logging.getLogger("countersign").error("what the log holds of %s", TOKEN)
    assert f"what the log holds of xoxb-{MASK}" in caplog.text
    assert TOKEN not in caplog.text


def test_what_a_tool_says_beforehand(harness: Harness) -> None:
    """A preview that repeats an argument is masked as well."""
    card = harness.card(SUPPORT, ask(harness, ("empty", {"text": TEXT})))
    assert f"3 books stand on {MASKED}" in words(card)
    assert TOKEN not in words(card)
