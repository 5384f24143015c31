"""Text that looks like a secret is masked for onlookers, even if no field was declared secret. The
tool gets the real text, and approvers see it where they decide.
"""

from __future__ import annotations

import json
import logging

import pytest

from storage.masking import MASK
from storage.models import Audit
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, leaves, words
from tests.stories.steps import all_sent, ask, menu, now_at, open_modal, reject

TOKEN = "xoxb-123456789012-SecretSecret"
TEXT = f"deploy with {TOKEN} to https://ana:hunter2@shop.example/x"
SHOWN_EVENTS = ("call.shown", "call.revealed")
MASKED = f"deploy with xoxb-{MASK} to https://ana:{MASK}@shop.example/x"


def read_thread(harness: Harness, thread: str) -> str:
    """Everything that people see in the thread, notifications included."""
    return "".join(words(m) for who in ("ana", "ben") for m in harness.thread(SUPPORT, thread, who))


def list_what_was_shown(harness: Harness, thread: str) -> list[tuple[str, str, str]]:
    """(person, event, dialog) of everything shown of the thread's call, from the audit."""
    [call] = harness.calls_in(thread)
    rows = harness.all(Audit, Audit.call_id == call.id, Audit.event.in_(SHOWN_EVENTS))
    return [(row.actor, row.event, json.loads(row.data)["dialog"]) for row in rows]


def test_secrets_are_masked_except_where_people_decide(harness: Harness, fakes: FakeTools) -> None:
    """Card, notification, Reject dialog, thread and audit mask them, after an edit as well. Edit
    and Review show the real text to those who may, and that is recorded.
    """
    reason = "the key is sk-proj-abcdefghij0123456789ABCD"
    thread = ask(harness, ("note", {"text": TEXT, "reason_for_approver": reason}))
    card = harness.card(SUPPORT, thread, having="review")
    assert MASKED in card["text"]
    assert words(card).count(MASKED) == 3  # notification, headline, argument
    assert f"the key is sk-{MASK}" in words(card)
    assert "“Text”, the sentence at the top and why it is asked. Review" in words(card)
    assert "approve" not in action_ids(card)
    person = harness.person("ana")
    assert MASKED in words(open_modal(harness, "ana", SUPPORT, card, "reject"))
    person.close_view()
    edit = open_modal(harness, "ana", SUPPORT, card, "edit")
    assert TEXT in words(edit)  # an editor needs the real value
    assert "This access is logged" in words(edit)
    longer = f"{TEXT}, and again"
    assert person.submit({"f:text": {"v": {"value": longer}}})["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    edited = now_at(harness, SUPPORT, card["ts"])
    assert f"{MASKED}, and again" in words(edited)
    view = words(open_modal(harness, "cleo", SUPPORT, edited, "review"))
    assert longer in view
    assert TEXT in view.replace(longer, "")  # the text before the edit
    assert reason in view
    assert MASKED not in view
    assert harness.person("cleo").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert fakes.did("note", longer) == 1
    assert longer in harness.outputs()[-1]["output"]
    assert list_what_was_shown(harness, thread) == [
        ("UANA00001", "call.revealed", "edit"),
        ("UCLEO0001", "call.revealed", "review"),
    ]
    everything = read_thread(harness, thread)
    assert MASKED in everything
    for secret in (TOKEN, "hunter2", "abcdefghij0123456789"):
        assert secret not in everything
        assert not [row for row in harness.all(Audit) if secret in row.data + row.payload]


@pytest.mark.parametrize(
    "text",
    [
        'password="Everybody: the office is closed, send your bank details to eve"',
        "DELETE FROM orders WHERE id = 1 AND (secret=0)OR(id=2)OR(id=3)",
    ],
)
def test_a_mask_never_hides_what_runs(harness: Harness, fakes: FakeTools, text: str) -> None:
    """Such a call can be approved only in Review, where all of it is shown."""
    thread = ask(harness, ("note", {"text": text}))
    card = harness.card(SUPPORT, thread, having="review")
    assert MASK in words(card)
    assert "approve" not in action_ids(card)
    view = open_modal(harness, "ana", SUPPORT, card, "review")
    assert text in [each["text"] for each in leaves(view["blocks"]) if each["type"] == "text"]
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", text) == 1


def test_a_declared_secret_stays_masked_for_everybody(harness: Harness, fakes: FakeTools) -> None:
    """Card and dialogs say that its tool's author declared it. The card keeps its Approve
    button.
    """
    thread = ask(harness, ("login", {"account": "shop", "password": "correct-horse"}))
    card = harness.card(SUPPORT, thread)
    for dialog in ("review", "edit"):
        assert "declared secret, shown to nobody" in words(card)
        if dialog == "review":
            menu(harness, "ana", card, dialog)
        else:
            open_modal(harness, "ana", SUPPORT, card, dialog)
        view = words(harness.slack.wait(harness.person("ana").view))
        assert "declared secret, shown to nobody" in view
        assert "correct-horse" not in view
        harness.person("ana").close_view()
    assert [event for _, event, _ in list_what_was_shown(harness, thread)] == [
        "call.shown",
        "call.shown",
    ]


def test_only_approvers_see_the_whole_preview(harness: Harness, fakes: FakeTools) -> None:
    """They see it in Review."""
    thread = ask(harness, ("look_up", {"text": "salaries"}))
    card = harness.card(SUPPORT, thread, having="review")
    assert "2 rows of 1 column" in words(card)
    assert "Not in full here: the preview. Review" in words(card)
    assert "🔓" not in words(open_modal(harness, "ben", SUPPORT, card, "edit"))
    harness.person("ben").close_view()
    view = words(open_modal(harness, "ana", SUPPORT, card, "review"))
    assert "ana 9000" in view
    assert harness.person("ana").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert "ana 9000" not in read_thread(harness, thread)


def test_secrets_in_reasons_and_errors_are_masked(
    harness: Harness, fakes: FakeTools, caplog: pytest.LogCaptureFixture
) -> None:
    """Thread and log mask them; the model gets the approver's words as they are."""
    thread = ask(harness, ("note", {"text": "not with a token"}))
    assert (
        reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), f"use {TOKEN}")["outcome"]
        == "closed"
    )
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert f"use xoxb-{MASK}" in read_thread(harness, thread)
    assert f"use {TOKEN}" in harness.outputs()[-1]["output"]  # the model gets it unmasked

    failing = ask(harness, ("explode", {"text": TEXT}))
    open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, failing, having="review"), "review")
    harness.person("ana").submit()
    harness.said(SUPPORT, failing, "That is all.")
    all_sent(harness)
    assert fakes.did("explode", TEXT) == 1
    assert f"boom {MASKED}" in read_thread(harness, failing)
    assert TOKEN not in read_thread(harness, thread) + read_thread(harness, failing)
    logging.getLogger("countersign").error("what the log holds of %s", TOKEN)
    assert f"what the log holds of xoxb-{MASK}" in caplog.text
    assert TOKEN not in caplog.text


def test_a_secret_in_a_preview_is_masked(harness: Harness) -> None:
    """The preview repeats an argument."""
    card = harness.card(SUPPORT, ask(harness, ("empty", {"text": TEXT})), having="review")
    assert f"3 books stand on {MASKED}" in words(card)
    assert TOKEN not in words(card)
