"""The dialogs Review, Reject and Send back: views out, submitted state in. Pure.

Before them: which parts of a call are masked for those who may not decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.cards.action_names import Dialog, Entry, Field
from bot.cards.block_kit import (
    Json,
    context,
    header,
    line,
    mrkdwn,
    pack_rich_text,
    plain_text,
    preformatted,
    quote,
    section,
    words,
)
from bot.cards.button_codec import CallTarget, CardTarget, DialogSubject, encode_dialog
from bot.cards.call_pieces import (
    WHERE_ALL_ROWS,
    PieceKind,
    effect_of,
    finality,
    fits_header,
    headline,
    join_names,
    label_of,
    pieces_of,
    secrecy,
    shown,
    title_of,
    who_says,
)
from bot.cards.slack_text import (
    format_deadline,
    isolate_leftward,
    isolate_leftward_runs,
    mention,
    plain,
    slack_length,
    visible,
)
from bot.cards.views import CallView, Value
from storage.masking import mask_secrets

# What everybody who sees a card may read of a call: secrets are masked that approvers may see.


def mask_for_viewers(call: CallView, preview: str | None = None) -> CallView:
    """Return the call as everybody may read it; `preview`: text to show instead of its preview."""
    return replace(
        call,
        effect=mask_secrets(call.effect),
        values=tuple(map(_masked, call.values)),
        preview=mask_secrets(call.preview if preview is None else preview),
        agent_reason=mask_secrets(call.agent_reason),
    )


def name_covered(whole: CallView, seen: CallView) -> tuple[str, ...]:
    """Return the names of what differs between the `whole` call and what onlookers have `seen`."""
    names = [PieceKind.SENTENCE] if whole.effect != seen.effect else []
    pairs = zip(whole.values, seen.values, strict=True)
    found = [*names, *(label_of(one) for one, other in pairs if one != other)]
    found += [PieceKind.PREVIEW] if whole.preview != seen.preview else []
    found += [PieceKind.REASON] if whole.agent_reason != seen.agent_reason else []
    return tuple(found)


def revealed_note(names: Sequence[str]) -> str:
    """Return the note in a dialog that it shows more than the card; `names`: see `name_covered`."""
    return (
        f"🔓 The card does not show all of {join_names(names)}. You can see it here because you "
        "may decide or edit this. This access is logged."
    )


def _masked(value: Value) -> Value:
    before = None if value.before is None else mask_secrets(value.before)
    text = mask_secrets(value.text)
    is_whole = (text, before) == (value.text, value.before)
    return value if is_whole else replace(value, text=text, before=before)


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
    """Build an input block of a dialog; `hint` stands below the input in small print."""
    block: Json = {
        "type": "input",
        "block_id": field,
        "label": plain_text(label),
        "element": element,
        "optional": optional,
    }
    return {**block, "hint": plain_text(hint)} if hint else block


def text_element(placeholder: str = "") -> Json:
    """Build a text element for a few lines of a person's own words."""
    element: Json = {
        "type": "plain_text_input",
        "action_id": Entry.TEXT,
        "multiline": True,
        "max_length": MAX_WORDS,
    }
    return {**element, "placeholder": plain_text(placeholder)} if placeholder else element


def entered_text(state_values: Mapping[str, Any], field: Field) -> str:
    """Return the text that was entered in this input, without blanks around it."""
    return str(_state(state_values, field, Entry.TEXT).get("value") or "").strip()


def chosen_value(state_values: Mapping[str, Any], field: Field, entry: Entry) -> str:
    """Return the value of the option chosen in this input; "" for none."""
    option = _state(state_values, field, entry).get("selected_option") or {}
    return str(option.get("value", ""))


def _state(state_values: Mapping[str, Any], field: Field, entry: Entry) -> Mapping[str, Any]:
    block = state_values.get(field)
    element = block.get(entry) if isinstance(block, Mapping) else None
    return element if isinstance(element, Mapping) else {}


def send_back_modal(target: CallTarget, *, title: str) -> Json:
    """Build the dialog for a remark on a plan.

    `target`: one call of the plan; `title`: the effects of its calls.
    """
    label = "What should change?"
    return {
        "type": "modal",
        "callback_id": Dialog.SEND_BACK,
        "title": plain_text("Send the plan back"),
        "submit": plain_text("Send back"),
        "close": plain_text("Back"),
        "private_metadata": encode_dialog(DialogSubject(Dialog.SEND_BACK, target)),
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
    """Build the dialog that asks why calls are rejected; `title` is what would be rejected.

    `needs_words`: choosing a reason is not enough; `by_agent`: an agent proposed them, and is told.
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
        "private_metadata": encode_dialog(DialogSubject(Dialog.REJECT, target)),
        "blocks": [
            _top(shown(title, "This action")),
            input_block(Field.REASON, "Why?", preset),
            input_block(Field.WORDS, "In your words", own_words, optional=not needs_words),
        ],
    }


def _top(what: str) -> Json:
    """Build the block that says what the dialog is about: a header if the text is short enough."""
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


CHUNK = 2_900  # characters of one text in a dialog
MAX_BLOCKS = 100
MAX_BYTES = 250_000


def review_modal(call: CallView, *, bar: str = "") -> Json:
    """Build the Review dialog with all of one call, as those who decide may see it.

    The dialog can be submitted, which approves, only if all of the call fits and there is no `bar`:
    a plain sentence on why this person may look and not approve.
    """
    may_approve = not bar
    blocks = _review_blocks(call)
    if may_approve:
        blocks += _choices(call)
    else:
        blocks.insert(1, section("bar", plain_text(bar)))
    view = _view(call, blocks, may_approve)
    if len(blocks) <= MAX_BLOCKS and len(json.dumps(view)) <= MAX_BYTES - 2_000:
        return view
    size = sum(piece.size for piece in pieces_of(call))
    sorry = (
        f"This call has {size:,} characters, more than Slack can show in one dialog. What cannot "
        "be seen in full cannot be approved here. Edit it, or reject it and ask for smaller steps."
    )
    blocks = [
        section("sorry", plain_text(f"⚠️ {sorry}")),
        context("small", [plain_text(title_of(call))]),
    ]
    return _view(call, blocks, False)


def shows_all(call: CallView) -> bool:
    """Return whether the Review dialog has room for a whole call and contains all of its texts."""
    view = review_modal(call)
    if "submit" not in view:
        return False
    there = set(_texts(view["blocks"]))
    texts = [isolate_leftward_runs(visible(call.preview)), visible(call.agent_reason)]
    texts += [isolate_leftward(shown(each.text, "(blank)")) for each in call.values]
    return all(chunk in there for text in texts if text.strip() for chunk in chunks(text))


def _texts(drawn: list[Json]) -> Iterator[str]:
    """Yield every text in these blocks, in no order."""
    left: list[Any] = [drawn]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if isinstance(each.get("text"), str):
                yield each["text"]
            each = each.values()
        left += [inner for inner in each if isinstance(inner, dict | list)]


def _view(call: CallView, blocks: list[Json], may_approve: bool) -> Json:
    view: Json = {
        "type": "modal",
        "callback_id": Dialog.REVIEW,
        "title": plain_text("Review"),
        "close": plain_text("Back" if may_approve else "Close"),
        "private_metadata": encode_dialog(DialogSubject(Dialog.REVIEW, call.target)),
        "blocks": blocks,
    }
    if may_approve:
        view["submit"] = plain_text("Approve")
    return view


def _review_blocks(call: CallView) -> list[Json]:
    blocks = [header("head", headline(call))]
    if call.covered:
        blocks.append(context("revealed", [plain_text(revealed_note(call.covered))]))
    if final := finality(call.does, call.stated):
        blocks.append(section("final", mrkdwn(f"⚠️ *{final}*")))
    blocks += [context(f"errand{n}", [plain_text(said)]) for n, said in enumerate(call.chain)]
    blocks += [context("program", [plain_text(call.program)])] if call.program else []
    if effect_of(call) != headline(call):
        blocks += _rich(
            "effect", [line(words(chunk, bold=True)) for chunk in chunks(effect_of(call))]
        )
    elements: list[Json] = []
    for value in call.values:
        label = label_of(value) + secrecy(value)
        if value.before is not None:
            elements += _long(f"{label}, before", isolate_leftward(shown(value.before, "(blank)")))
            label = f"{label}, now"
        elements += _long(label, isolate_leftward(shown(value.text, "(blank)")))
    if call.preview.strip():
        elements += _long("Preview", isolate_leftward_runs(visible(call.preview)))
    if call.has_rows:
        elements.append(line(words(WHERE_ALL_ROWS, italic=True)))
    blocks += _rich("all", elements)
    small = [plain_text(title_of(call)), plain_text(f"#{call.digest[:8]}")]
    if call.edited_by:
        small.append(mrkdwn(f"Edited by {mention(call.edited_by)}"))
    if call.deadline:
        small.append(mrkdwn(f"⏳ Decide by {format_deadline(call.deadline)}"))
    blocks.append(context("small", small))
    if call.agent_reason.strip():
        said = [quote(chunk) for chunk in chunks(visible(call.agent_reason))]
        blocks += _rich(
            "reason",
            [line(words(who_says(call), italic=True)), *said],
        )
    return blocks


def _choices(call: CallView) -> list[Json]:
    """Build the inputs for a note and for how long to remember the approval."""
    blocks = [
        input_block(
            Field.NOTE,
            "Note",
            text_element(),
            optional=not call.needs_words,
            hint=f"For the thread{' and for the agent' if call.by_agent else ''}",
        )
    ]
    if call.offers:
        options = [
            {"text": plain_text(plain(text, 75)), "value": str(number)}
            for number, text in enumerate(call.offers)
        ]
        choose: Json = {"type": "static_select", "action_id": Entry.OFFER, "options": options}
        choose["placeholder"] = plain_text("Only this once")
        label = "Remember this approval for"
        blocks.append(input_block(Field.REMEMBER, label, choose, optional=True))
    return blocks


def read_approval(state_values: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return the note of a submitted dialog, and the index of the offer to remember, or None."""
    chosen = chosen_value(state_values, Field.REMEMBER, Entry.OFFER)
    is_number = chosen.isascii() and chosen.isdigit() and len(chosen) < 3
    note = entered_text(state_values, Field.NOTE)[:MAX_WORDS]
    return note, int(chosen) if is_number else None


def _long(label: str, text: str) -> list[Json]:
    """Build one argument: on one line, or below its label, in numbered parts if it is very long."""
    parts = chunks(text)
    if len(parts) == 1 and "\n" not in text:
        return [line(words(f"{isolate_leftward(label)}:  ", bold=True), words(text))]
    elements: list[Json] = []
    for number, part in enumerate(parts, 1):
        of = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        elements += [line(words(f"{label}{of}:", bold=True)), preformatted(part)]
    return elements


def chunks(text: str, limit: int = CHUNK) -> list[str]:
    """Split the text into pieces that Slack counts as at most `limit` characters each.

    Joined again the pieces are the text.
    """
    if slack_length(text) <= limit:
        return [text]
    pieces: list[str] = []
    start = used = 0
    for index, char in enumerate(text):
        size = slack_length(char)
        if used + size > limit:
            pieces.append(text[start:index])
            start, used = index, 0
        used += size
    return [*pieces, text[start:]]


def _rich(name: str, elements: Sequence[Json]) -> list[Json]:
    """Put the elements into rich_text blocks of about one full text each."""
    return pack_rich_text(elements, CHUNK + 100, lambda number: f"{name}:{number}")
