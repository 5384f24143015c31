"""The dialogs beside the card: Review (all of a call) and Reject (why). Pure: views out, submitted
state in.

The edit dialog is made from a tool's argument model and lives in `fields`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bot.messages.actions import (
    CallTarget,
    CardTarget,
    Dialog,
    Entry,
    Field,
    Submission,
    encode_dialog,
)
from bot.messages.cards.parts import (
    Json,
    context,
    header,
    line,
    mrkdwn,
    plain_text,
    preformatted,
    quote,
    rich,
    section,
    weight,
    words,
)
from bot.messages.cards.values import effect_of, fits_header, headline, pieces_of, shown, title_of
from bot.messages.text import mention, plain, slack_length, visible, when
from bot.messages.views import CallView

CHUNK = 2_900  # characters of one text in a dialog
MAX_BLOCKS = 100
MAX_BYTES = 250_000
REASONS = {
    "value": "Wrong amount or value",
    "not_needed": "Not needed",
    "information": "Needs more information",
    "policy": "Against policy",
    "other": "Other",
}
MAX_WORDS = 500

__all__ = [
    "REASONS",
    "read_approval",
    "read_feedback",
    "read_rejection",
    "reject_modal",
    "review_modal",
    "send_back_modal",
]


def review_modal(call: CallView, *, may_approve: bool = True) -> Json:
    """A dialog with all of one call.

    It can be submitted (approved) only if all of it fits and `may_approve`.
    """
    blocks = _review_blocks(call) + (_choices(call) if may_approve else [])
    view = _view(call, blocks, may_approve)
    if len(blocks) <= MAX_BLOCKS and len(json.dumps(view)) <= MAX_BYTES - 2_000:
        return view
    size = sum(piece.size for piece in pieces_of(call))
    sorry = (
        f"This call has {size:,} characters, more than Slack can show in one dialog. What cannot be seen in full "
        "cannot be approved here. Edit it, or reject it and ask for smaller steps."
    )
    blocks = [
        section("sorry", plain_text(f"⚠️ {sorry}")),
        context("small", [plain_text(title_of(call))]),
    ]
    return _view(call, blocks, False)


def _view(call: CallView, blocks: list[Json], may_approve: bool) -> Json:
    view: Json = {
        "type": "modal",
        "callback_id": Dialog.REVIEW,
        "title": plain_text("Review"),
        "close": plain_text("Back" if may_approve else "Close"),
        "private_metadata": encode_dialog(Submission(Dialog.REVIEW, call.target)),
        "blocks": blocks,
    }
    if may_approve:
        view["submit"] = plain_text("Approve")
    return view


def _review_blocks(call: CallView) -> list[Json]:
    blocks = [header("head", headline(call))]
    if call.does == "destructive":
        blocks.append(section("final", mrkdwn("⚠️ *This cannot be undone.*")))
    if effect_of(call) != headline(call):
        blocks += _packed(
            "effect", [line(words(chunk, bold=True)) for chunk in chunks(effect_of(call))]
        )
    elements: list[Json] = []
    for value in call.values:
        label = shown(" ".join(value.label.split()), "(no name)")
        if value.before is not None:
            elements += _long(f"{label}, before", shown(value.before, "(blank)"))
            label = f"{label}, now"
        elements += _long(label, shown(value.text, "(blank)"))
    if call.preview.strip():
        elements += _long("Preview", visible(call.preview))
    blocks += _packed("all", elements)
    small = [plain_text(title_of(call)), plain_text(f"#{call.digest[:8]}")]
    if call.edited_by:
        small.append(mrkdwn(f"Edited by {mention(call.edited_by)}"))
    if call.deadline:
        small.append(mrkdwn(f"⏳ Decide by {when(call.deadline)}"))
    blocks.append(context("small", small))
    if call.agent_reason.strip():
        said = [quote(chunk) for chunk in chunks(visible(call.agent_reason))]
        blocks += _packed("reason", [line(words("The agent says:", italic=True)), *said])
    return blocks


def _choices(call: CallView) -> list[Json]:
    """A note, and what is to be remembered."""
    note = {
        "type": "plain_text_input",
        "action_id": Entry.TEXT,
        "multiline": True,
        "max_length": MAX_WORDS,
    }
    blocks: list[Json] = [
        {
            "type": "input",
            "block_id": Field.NOTE,
            "label": plain_text("Note"),
            "element": note,
            "optional": not call.needs_words,
            "hint": plain_text("For the thread and for the agent"),
        }
    ]
    if call.offers:
        options = [
            {"text": plain_text(plain(text, 75)), "value": str(number)}
            for number, text in enumerate(call.offers)
        ]
        choose: Json = {"type": "static_select", "action_id": Entry.OFFER, "options": options}
        choose["placeholder"] = plain_text("Only this once")
        label = plain_text("Remember this approval for")
        blocks.append(
            {
                "type": "input",
                "block_id": Field.REMEMBER,
                "label": label,
                "element": choose,
                "optional": True,
            }
        )
    return blocks


def read_approval(state_values: Mapping[str, Any]) -> tuple[str, int | None]:
    """The note, and the number of the offer that is to be remembered, of a submitted Review dialog."""
    note = str(_entered(state_values, Field.NOTE, Entry.TEXT).get("value") or "").strip()[
        :MAX_WORDS
    ]
    chosen = str(
        (_entered(state_values, Field.REMEMBER, Entry.OFFER).get("selected_option") or {}).get(
            "value", ""
        )
    )
    return note, int(chosen) if chosen.isdigit() and len(chosen) < 3 else None


def send_back_modal(target: CallTarget, *, title: str) -> Json:
    """The dialog that asks what the new plan should do otherwise; `target` is one of its calls."""
    what = shown(title, "This plan")
    top = (
        header("what", what)
        if fits_header(what)
        else section("what", plain_text(plain(what, 1_000)))
    )
    words_of = {
        "type": "plain_text_input",
        "action_id": Entry.TEXT,
        "multiline": True,
        "max_length": MAX_WORDS,
    }
    label = plain_text("What should the new plan do otherwise?")
    return {
        "type": "modal",
        "callback_id": Dialog.SEND_BACK,
        "title": plain_text("Send the plan back"),
        "submit": plain_text("Send back"),
        "close": plain_text("Back"),
        "private_metadata": encode_dialog(Submission(Dialog.SEND_BACK, target)),
        "blocks": [
            top,
            {"type": "input", "block_id": Field.WORDS, "label": label, "element": words_of},
        ],
    }


def read_feedback(state_values: Mapping[str, Any]) -> str:
    """The words of a submitted Send-back dialog; "" for none."""
    return str(_entered(state_values, Field.WORDS, Entry.TEXT).get("value") or "").strip()[
        :MAX_WORDS
    ]


def _long(label: str, text: str) -> list[Json]:
    """One argument: on its line if short, else below its label, in numbered parts where it takes
    several.
    """
    parts = chunks(text)
    if len(parts) == 1 and "\n" not in text:
        return [line(words(f"{label}:  ", bold=True), words(text))]
    elements: list[Json] = []
    for number, part in enumerate(parts, 1):
        of = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        elements += [line(words(f"{label}{of}:", bold=True)), preformatted(part)]
    return elements


def chunks(text: str, limit: int = CHUNK) -> list[str]:
    """The text in pieces that Slack counts at most `limit` characters each.

    Joined again they are the text.
    """
    pieces: list[str] = []
    start = used = 0
    for index, char in enumerate(text):
        size = slack_length(char)
        if used + size > limit:
            pieces.append(text[start:index])
            start, used = index, 0
        used += size
    return [*pieces, text[start:]]


def _packed(block_id: str, elements: list[Json]) -> list[Json]:
    """The elements in rich_text blocks of at most one full text each."""
    blocks: list[Json] = []
    current: list[Json] = []
    for element in elements:
        if current and weight(current) + weight(element) > CHUNK + 100:
            blocks.append(rich(f"{block_id}:{len(blocks)}", current))
            current = []
        current.append(element)
    return [*blocks, rich(f"{block_id}:{len(blocks)}", current)] if current else blocks


def reject_modal(
    target: CallTarget | CardTarget, *, count: int, title: str, needs_words: bool = False
) -> Json:
    """The dialog that asks why; `title` is what would be rejected.

    `needs_words`: choosing a reason is not enough.
    """
    what = shown(title, "This action")
    top = (
        header("what", what)
        if fits_header(what)
        else section("what", plain_text(plain(what, 1_000)))
    )
    options = [{"text": plain_text(label), "value": key} for key, label in REASONS.items()]
    preset = {"type": "radio_buttons", "action_id": Entry.PRESET, "options": options}
    free = {
        "type": "plain_text_input",
        "action_id": Entry.TEXT,
        "multiline": True,
        "max_length": MAX_WORDS,
        "placeholder": plain_text("For the person who asked, and for the agent"),
    }
    return {
        "type": "modal",
        "callback_id": Dialog.REJECT,
        "title": plain_text("Reject" if count == 1 else f"Reject all {count}"),
        "submit": plain_text("Reject"),
        "close": plain_text("Back"),
        "private_metadata": encode_dialog(Submission(Dialog.REJECT, target)),
        "blocks": [
            top,
            {
                "type": "input",
                "block_id": Field.REASON,
                "label": plain_text("Why?"),
                "element": preset,
            },
            {
                "type": "input",
                "block_id": Field.WORDS,
                "optional": not needs_words,
                "label": plain_text("In your words"),
                "element": free,
            },
        ],
    }


def read_rejection(state_values: Mapping[str, Any]) -> str | dict[str, str]:
    """The reason from a submitted Reject dialog's `view.state.values`, or the errors by block id.

    "Not needed", "Not needed: paid twice", or for Other the person's own words alone.
    """
    preset = _entered(state_values, Field.REASON, Entry.PRESET).get("selected_option") or {}
    text = str(_entered(state_values, Field.WORDS, Entry.TEXT).get("value") or "").strip()
    key = str(preset.get("value", ""))
    if key not in REASONS:
        return {Field.REASON: "Please choose one."}
    if len(text) > MAX_WORDS:
        return {Field.WORDS: f"At most {MAX_WORDS} characters, please; these are {len(text)}."}
    if key == "other":
        return text or {Field.WORDS: "Please say why, in a few words."}
    return f"{REASONS[key]}: {text}" if text else REASONS[key]


def _entered(
    state_values: Mapping[str, Any], block_id: Field, action_id: Entry
) -> Mapping[str, Any]:
    block = state_values.get(block_id)
    element = block.get(action_id) if isinstance(block, Mapping) else None
    return element if isinstance(element, Mapping) else {}
