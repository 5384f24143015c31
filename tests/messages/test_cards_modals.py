"""Dialogs of a card: Review shows all of a call, Reject asks why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards.button_codec import CallTarget, CardTarget
from bot.cards.review_dialog import (
    REJECTION_REASONS,
    parse_rejection_reason,
    render_break_glass_dialog,
    render_objection_dialog,
    render_reject_dialog,
    render_review_dialog,
)
from bot.cards.slack_text import count_slack_characters, show_hidden_characters, split_into_chunks
from bot.cards.views import ArgumentValue
from tests.messages.cards_support import CANCEL, REFUND, accept_view, list_objects, read


def read_everything(modal: dict[str, Any]) -> str:
    """Read all literal text of a dialog, in order, without separators."""
    return "".join(
        each["text"] for each in list_objects(modal["blocks"]) if isinstance(each.get("text"), str)
    )


def test_review_of_an_approved_call_has_no_submit_button() -> None:
    """The call waits for its time to start, which Review shows."""
    view = render_review_dialog(replace(REFUND, starts_at=REFUND.deadline))
    accept_view(view)
    assert "submit" not in view
    assert "Starts " in read(view["blocks"])
    assert "submit" in render_review_dialog(REFUND)


def test_review_shows_the_whole_call_and_approves_it() -> None:
    """It has the effect, the arguments, the agent's reason, the requester and Approve."""
    modal = render_review_dialog(REFUND, asked="Asked by <@UBEN00001>")
    accept_view(modal)
    assert modal["callback_id"] == "review_call"
    assert json.loads(modal["private_metadata"]) == {"call": "call-1", "revision": 1}
    assert modal["submit"]["text"] == "Approve"
    lines = read(modal["blocks"]).splitlines()
    assert lines[:3] == ["Refund 40.00 EUR of order 1042", "Order:  1042", "Amount:  40.00 EUR"]
    assert lines[3:5] == ["The agent says:", "The parcel arrived broken."]
    assert lines[5].startswith("Asked by <@UBEN00001>  ·  ⏳ Decide by ")
    assert lines[6:] == ["Note on your approvalFor the thread and for the agent"]
    assert "cannot be undone" in read(render_review_dialog(CANCEL)["blocks"])


def test_break_glass_shows_the_whole_call_and_asks_why() -> None:
    """It says that nobody has approved the call. One that is too long has no submit button."""
    modal = render_break_glass_dialog(CANCEL)
    accept_view(modal)
    text = read(modal["blocks"])
    assert "cannot be undone" in text
    assert "whatever approval is still missing" in text
    assert modal["submit"]["text"] == "Run now"
    assert not modal["blocks"][-1].get("optional")
    long = "".join(f"{n:06}" for n in range(60_000))
    modal = render_break_glass_dialog(replace(CANCEL, values=(ArgumentValue("Text", long),)))
    accept_view(modal)
    assert "submit" not in modal
    accept_view(render_objection_dialog(CANCEL.target, "<!channel>\u202e" * 100))


def test_review_for_somebody_who_may_not_approve_says_why() -> None:
    """It has no submit button."""
    modal = render_review_dialog(REFUND, bar="You edited this.")
    accept_view(modal)
    assert "submit" not in modal
    assert "You edited this." in read(modal["blocks"])


def test_review_shows_a_long_argument_in_numbered_parts() -> None:
    """The text is complete, so the call can be approved."""
    text = "".join(f"{n:06}" for n in range(10_000))
    modal = render_review_dialog(replace(REFUND, values=(ArgumentValue("Text", text, "before"),)))
    accept_view(modal)
    parts = [
        e["elements"][0]["text"]
        for e in list_objects(modal["blocks"])
        if e.get("type") == "rich_text_preformatted"
    ]
    assert "".join(parts) == text
    assert f"Text, now (part {len(parts)} of {len(parts)}):" in read(modal["blocks"])
    assert "submit" in modal


@pytest.mark.parametrize("text", ["x" * 400_000, "é" * 60_000, "x\n" * 150_000])
def test_a_call_too_long_for_any_dialog_cannot_be_approved(text: str) -> None:
    """It exceeds Slack's limit of blocks or bytes; the dialog says so."""
    modal = render_review_dialog(replace(REFUND, values=(ArgumentValue("Text", text),)))
    accept_view(modal)
    assert "submit" not in modal
    assert "more than Slack can show" in read(modal["blocks"])


@given(
    st.lists(
        st.builds(ArgumentValue, label=st.text(max_size=20), text=st.text(max_size=6_000)),
        max_size=8,
    ),
    st.booleans(),
)
def test_review_of_any_values_is_valid_and_complete(
    values: list[ArgumentValue], edited: bool
) -> None:
    """Texts of up to 2,900 characters are looked for in one piece."""
    changed = tuple(
        replace(each, previous_text=each.text[::-1] if edited else None) for each in values
    )
    modal = render_review_dialog(replace(REFUND, values=changed))
    accept_view(modal)
    printable = [
        each.text
        for each in values
        if each.text.isprintable()
        and each.text.strip()
        and show_hidden_characters(each.text) == each.text
    ]
    assert all(len(text) > 2_900 or text in read_everything(modal) for text in printable)


@given(st.text(alphabet="a&<>\n🏴", max_size=300), st.integers(5, 40))
def test_chunks_join_to_the_text(text: str, limit: int) -> None:
    """Each chunk is within the limit as Slack counts."""
    parts = split_into_chunks(text, limit)
    assert "".join(parts) == text
    assert all(count_slack_characters(part) <= limit for part in parts)


def test_reject_names_its_target() -> None:
    """It shows the target as plain text, shortened."""
    modal = render_reject_dialog(
        CallTarget("call-1", 1), count=1, title="Refund <!here> " + "x" * 5_000
    )
    accept_view(modal)
    assert modal["callback_id"] == "reject"
    assert json.loads(modal["private_metadata"]) == {"target": "call:call-1:1"}
    assert modal["blocks"][0]["text"]["type"] == "plain_text"
    assert "more characters)" in read(modal["blocks"])
    assert (
        render_reject_dialog(CardTarget("p", 2, 7), count=3, title="x")["title"]["text"]
        == "Reject all 3"
    )
    accept_view(render_reject_dialog(CardTarget("p", 2, 7), count=3, title="\u202e"))


def build_state(key: str | None, words: str | None) -> dict[str, Any]:
    """Build what Slack submits for the Reject dialog."""
    option = None if key is None else {"text": {"type": "plain_text", "text": "x"}, "value": key}
    return {
        "reason": {"preset": {"type": "radio_buttons", "selected_option": option}},
        "words": {"text": {"type": "plain_text_input", "value": words}},
    }


@pytest.mark.parametrize(
    ("key", "words", "outcome"),
    [
        ("not_needed", None, "Not needed"),
        ("value", " 30 EUR at most ", "Wrong amount or value: 30 EUR at most"),
        ("other", "He left", "He left"),
        ("other", "  ", {"words": "Please say why, in a few words."}),
        (None, "x", {"reason": "Please choose one."}),
        ("made-up", "x", {"reason": "Please choose one."}),
        ("value", "x" * 501, {"words": "At most 500 characters, please; these are 501."}),
    ],
)
def test_a_rejection_is_read_or_has_an_error_at_a_field(
    key: str | None, words: str | None, outcome: object
) -> None:
    """The reason is the chosen one with the person's words."""
    assert parse_rejection_reason(build_state(key, words)) == outcome


@pytest.mark.parametrize(
    "values", [{}, {"reason": None}, {"reason": {"preset": None}, "words": []}]
)
def test_a_malformed_rejection_has_errors_at_fields(values: dict[str, Any]) -> None:
    """The submission lacks blocks; there is no exception, and the fields exist."""
    errors = parse_rejection_reason(values)
    assert isinstance(errors, dict)
    assert set(errors) <= {
        block["block_id"]
        for block in render_reject_dialog(CallTarget("x", 1), count=1, title="x")["blocks"]
    }


def test_the_reject_dialog_offers_exactly_the_known_reasons() -> None:
    """`parse_rejection_reason` knows them."""
    modal = render_reject_dialog(CallTarget("x", 1), count=1, title="x")
    assert [option["value"] for option in modal["blocks"][1]["element"]["options"]] == list(
        REJECTION_REASONS
    )
