"""The dialogs that ask for words: why a call is rejected, what a new plan should do otherwise.

Pure: views out, submitted state in. Also what the Review dialog shares with them. The edit dialog
is made from a tool's argument model and lives in `forms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.messages.actions.codec import Subject, encode_dialog
from bot.messages.actions.names import Dialog, Entry, Field
from bot.messages.actions.targets import CallTarget, CardTarget
from bot.messages.parts import Json, header, plain_text, section
from bot.messages.pieces import fits_header, shown
from bot.messages.text import plain

REASONS = {
    "value": "Wrong amount or value",
    "not_needed": "Not needed",
    "information": "Needs more information",
    "policy": "Against policy",
    "other": "Other",
}
MAX_WORDS = 500  # characters of what a person says in a dialog


def input_block(
    field: Field, label: str, element: Json, *, optional: bool = False, hint: str = ""
) -> Json:
    """Build an input block of a dialog; `hint` stands below it in small print."""
    block: Json = {
        "type": "input",
        "block_id": field,
        "label": plain_text(label),
        "element": element,
        "optional": optional,
    }
    return {**block, "hint": plain_text(hint)} if hint else block


def text_element(placeholder: str = "") -> Json:
    """Build the element for a few lines of a person's own words."""
    element: Json = {
        "type": "plain_text_input",
        "action_id": Entry.TEXT,
        "multiline": True,
        "max_length": MAX_WORDS,
    }
    return {**element, "placeholder": plain_text(placeholder)} if placeholder else element


def entered_text(state_values: Mapping[str, Any], field: Field) -> str:
    """Return what stands in the text element of this input, without blanks around it."""
    return str(_state(state_values, field, Entry.TEXT).get("value") or "").strip()


def chosen_value(state_values: Mapping[str, Any], field: Field, entry: Entry) -> str:
    """Return the value of the option that is chosen in this input; "" for none."""
    option = _state(state_values, field, entry).get("selected_option") or {}
    return str(option.get("value", ""))


def _state(state_values: Mapping[str, Any], field: Field, entry: Entry) -> Mapping[str, Any]:
    block = state_values.get(field)
    element = block.get(entry) if isinstance(block, Mapping) else None
    return element if isinstance(element, Mapping) else {}


def send_back_modal(target: CallTarget, *, title: str) -> Json:
    """Build the dialog for a remark on a plan: `target` is a call of it, `title` its effects."""
    label = "What should change?"
    return {
        "type": "modal",
        "callback_id": Dialog.SEND_BACK,
        "title": plain_text("Send the plan back"),
        "submit": plain_text("Send back"),
        "close": plain_text("Back"),
        "private_metadata": encode_dialog(Subject(Dialog.SEND_BACK, target)),
        "blocks": [
            _top(shown(title, "This plan")),
            input_block(Field.WORDS, label, text_element()),
        ],
    }


def read_feedback(state_values: Mapping[str, Any]) -> str:
    """Return the words of a submitted Send-back dialog; "" for none."""
    return entered_text(state_values, Field.WORDS)[:MAX_WORDS]


def reject_modal(
    target: CallTarget | CardTarget,
    *,
    count: int,
    title: str,
    needs_words: bool = False,
    by_agent: bool = True,
) -> Json:
    """Build the dialog that asks why; `title` is what would be rejected.

    `needs_words`: choosing a reason is not enough; `by_agent`: an agent proposed it, and is told.
    """
    options = [{"text": plain_text(label), "value": key} for key, label in REASONS.items()]
    preset = {"type": "radio_buttons", "action_id": Entry.PRESET, "options": options}
    agent = ", and for the agent" if by_agent else ""
    own_words = text_element(f"For the person who asked{agent}")
    return {
        "type": "modal",
        "callback_id": Dialog.REJECT,
        "title": plain_text("Reject" if count == 1 else f"Reject all {count}"),
        "submit": plain_text("Reject"),
        "close": plain_text("Back"),
        "private_metadata": encode_dialog(Subject(Dialog.REJECT, target)),
        "blocks": [
            _top(shown(title, "This action")),
            input_block(Field.REASON, "Why?", preset),
            input_block(Field.WORDS, "In your words", own_words, optional=not needs_words),
        ],
    }


def _top(what: str) -> Json:
    """What the dialog is about, big where it is short enough."""
    if fits_header(what):
        return header("what", what)
    return section("what", plain_text(plain(what, 1_000)))


def read_rejection(state_values: Mapping[str, Any]) -> str | dict[str, str]:
    """Return the reason from a submitted Reject dialog, or the errors by block id.

    "Not needed", "Not needed: paid twice", or for Other the person's own words alone.
    """
    key = chosen_value(state_values, Field.REASON, Entry.PRESET)
    text = entered_text(state_values, Field.WORDS)
    if key not in REASONS:
        return {Field.REASON: "Please choose one."}
    if len(text) > MAX_WORDS:
        return {Field.WORDS: f"At most {MAX_WORDS} characters, please; these are {len(text)}."}
    if key == "other":
        return text or {Field.WORDS: "Please say why, in a few words."}
    return f"{REASONS[key]}: {text}" if text else REASONS[key]
