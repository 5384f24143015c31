"""The dialogs Review, Reject and Send back: views out, submitted state in. Pure.

Also here: which parts of a call are masked for those who may not decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.cards import block_kit, call_blocks, call_pieces, slack_text
from bot.cards.action_names import DialogId, InputBlockId, InputElementId
from bot.cards.button_codec import CallTarget, CardTarget, DialogSubject
from bot.cards.views import ArgumentValue, CallView
from storage.masking import mask_secrets


def mask_call_for_viewers(call: CallView, preview: str | None = None) -> CallView:
    """Return the call as everybody may read it; `preview`: text to show instead of its preview."""
    return replace(
        call,
        effect=mask_secrets(call.effect),
        values=tuple(map(_mask_value, call.values)),
        preview=mask_secrets(call.preview if preview is None else preview),
        agent_reason=mask_secrets(call.agent_reason),
    )


def list_masked_piece_names(whole: CallView, seen: CallView) -> tuple[str, ...]:
    """Return the names of the pieces that differ between the `whole` call and what onlookers see.

    `seen`: the call as onlookers see it.
    """
    names = [call_pieces.PieceKind.SENTENCE] if whole.effect != seen.effect else []
    pairs = zip(whole.values, seen.values, strict=True)
    found = [*names, *(call_pieces.get_argument_label(one) for one, other in pairs if one != other)]
    found += [call_pieces.PieceKind.PREVIEW] if whole.preview != seen.preview else []
    found += [call_pieces.PieceKind.REASON] if whole.agent_reason != seen.agent_reason else []
    return tuple(found)


def list_masked_value_labels(whole: CallView) -> list[str]:
    """Return the labels of the values that onlookers do not see in full."""
    pieces = frozenset(call_pieces.PieceKind)
    return [name for name in whole.masked_pieces if name not in pieces]


def hidden_on_card_note(names: Sequence[str]) -> str:
    """Return the note in a dialog that it shows more than the card.

    `names`: the parts of the call that the card does not show in full.
    """
    return (
        f"🔓 The card does not show all of {call_pieces.join_piece_names(names)}. You can see it "
        "here because you may decide or edit this. This access is logged."
    )


def _mask_value(value: ArgumentValue) -> ArgumentValue:
    before = None if value.previous_text is None else mask_secrets(value.previous_text)
    text = mask_secrets(value.text)
    is_whole = (text, before) == (value.text, value.previous_text)
    if is_whole:
        return value
    return replace(value, text=text, previous_text=before, mentions=(), previous_mentions=())


REJECTION_REASONS = {
    "value": "Wrong amount or value",
    "not_needed": "Not needed",
    "information": "Needs more information",
    "policy": "Against policy",
    "other": "Other",
}


def render_send_back_dialog(target: CallTarget, *, title: str) -> block_kit.Json:
    """Build the dialog that asks what should change in a plan that is sent back.

    `target`: one call of the plan; `title`: the effects of its calls.
    """
    label = "What should change?"
    blocks = [
        _render_dialog_subject(call_pieces.show_hidden_characters_or_default(title, "This plan")),
        block_kit.build_input_block(InputBlockId.WORDS, label, block_kit.build_text_input()),
    ]
    about = DialogSubject(DialogId.SEND_BACK, target)
    return block_kit.dialog_view(
        about, "Send the plan back", blocks, submit="Send back", close="Back"
    )


def render_break_glass_dialog(call: CallView, *, asked: str = "") -> block_kit.Json:
    """Build the dialog to run a call without approval: all of the call, and a required reason.

    `asked`: mrkdwn that says who asked. It can be submitted only if all of the call fits.
    """
    note = block_kit.mrkdwn(
        "🚨 *This runs at once, whatever approval is still missing.* Your name and reason are "
        "shown on the card, and those who could have approved it are asked to look at it "
        "afterwards."
    )
    why = "Why can’t it wait?"
    blocks = _render_review_blocks(call, asked)
    blocks.insert(1, block_kit.section_block("alone", note))
    blocks.append(
        block_kit.build_input_block(InputBlockId.WORDS, why, block_kit.build_text_input())
    )
    about = DialogSubject(DialogId.BREAK_GLASS, call.target)
    title = "Run without approval"
    view = block_kit.dialog_view(about, title, blocks, submit="Run now", close="Back")
    if _fits_dialog(view):
        return view
    return block_kit.dialog_view(about, title, _render_too_long_note(call), close="Close")


def render_objection_dialog(target: CallTarget, title: str) -> block_kit.Json:
    """Build the dialog that asks what is wrong with what ran without approval."""
    blocks = [
        _render_dialog_subject(call_pieces.show_hidden_characters_or_default(title, "This action")),
        block_kit.build_input_block(
            InputBlockId.WORDS,
            "What is wrong?",
            block_kit.build_text_input(),
            hint="For the person who asked and the person who ran it. It undoes nothing.",
        ),
    ]
    about = DialogSubject(DialogId.OBJECT, target)
    return block_kit.dialog_view(about, "Something is wrong", blocks, submit="Send", close="Back")


def render_hand_over_dialog(target: CallTarget, *, title: str) -> block_kit.Json:
    """Build the dialog that hands one call over; `title` is what the call would do."""
    person = {"type": "users_select", "action_id": InputElementId.PERSON}
    hint = "They are notified now, and reminders name them. Everybody who may decide still can."
    block, label = InputBlockId.ASSIGNEE, "Who should decide this?"
    blocks = [
        _render_dialog_subject(call_pieces.show_hidden_characters_or_default(title, "This action")),
        block_kit.build_input_block(block, label, person, hint=hint),
    ]
    about = DialogSubject(DialogId.HAND_OVER, target)
    return block_kit.dialog_view(about, "Hand over", blocks, submit="Hand over", close="Back")


def parse_entered_words(state_values: Mapping[str, Any]) -> str:
    """Return the words entered in a submitted dialog that asks for nothing else; "" for none."""
    return block_kit.get_entered_text(state_values, InputBlockId.WORDS)[
        : block_kit.MAX_DIALOG_TEXT_CHARS
    ]


def render_reject_dialog(
    target: CallTarget | CardTarget,
    *,
    count: int,
    title: str,
    needs_words: bool = False,
    by_agent: bool = True,
) -> block_kit.Json:
    """Build the dialog that asks why calls are rejected; `title` is what would be rejected.

    `needs_words`: choosing a reason is not enough; `by_agent`: an agent proposed them, and is told.
    """
    options = [
        {"text": block_kit.plain_text(label), "value": key}
        for key, label in REJECTION_REASONS.items()
    ]
    preset = {"type": "radio_buttons", "action_id": InputElementId.PRESET, "options": options}
    agent = ", and for the agent" if by_agent else ""
    own_words = block_kit.build_text_input(f"For the person who asked{agent}")
    blocks = [
        _render_dialog_subject(call_pieces.show_hidden_characters_or_default(title, "This action")),
        block_kit.build_input_block(InputBlockId.REASON, "Why?", preset),
        block_kit.build_input_block(
            InputBlockId.WORDS, "In your words", own_words, optional=not needs_words
        ),
    ]
    heading = "Reject" if count == 1 else f"Reject all {count}"
    about = DialogSubject(DialogId.REJECT, target)
    return block_kit.dialog_view(about, heading, blocks, submit="Reject", close="Back")


def _render_dialog_subject(what: str) -> block_kit.Json:
    """Build the block that says what the dialog is about: a header if the text is short enough."""
    if call_pieces.is_short_enough_for_header(what):
        return block_kit.header_block("what", what)
    return block_kit.section_block(
        "what", block_kit.plain_text(slack_text.shorten_text(what, 1_000))
    )


def parse_rejection_reason(state_values: Mapping[str, Any]) -> str | dict[str, str]:
    """Return the reason from a submitted Reject dialog, or the errors by block id.

    "Not needed", "Not needed: paid twice", or for Other the person's own words alone.
    """
    key = block_kit.get_chosen_option_value(
        state_values, InputBlockId.REASON, InputElementId.PRESET
    )
    text = block_kit.get_entered_text(state_values, InputBlockId.WORDS)
    if key not in REJECTION_REASONS:
        return {InputBlockId.REASON: "Please choose one."}
    if len(text) > block_kit.MAX_DIALOG_TEXT_CHARS:
        most = block_kit.MAX_DIALOG_TEXT_CHARS
        return {InputBlockId.WORDS: f"At most {most} characters, please; these are {len(text)}."}
    if key == "other":
        return text or {InputBlockId.WORDS: "Please say why, in a few words."}
    return f"{REJECTION_REASONS[key]}: {text}" if text else REJECTION_REASONS[key]


MAX_CHUNK_CHARS = 2_900  # of one text in a dialog
MAX_VIEW_BLOCKS = 100
MAX_VIEW_BYTES = 250_000


def render_review_dialog(
    call: CallView, *, asked: str = "", bar: str = "", approvers: str = ""
) -> block_kit.Json:
    """Build the Review dialog with all of one call, as those who decide may see it.

    `asked`: mrkdwn that says who asked; `approvers`: who may decide, as mrkdwn. The dialog can be
    submitted, which approves, only if all of the call fits, it is not approved already, and there
    is no `bar`: a plain sentence on why this person may look and not approve.
    """
    may_approve = not bar and call.starts_at is None
    blocks = _render_review_blocks(call, asked, approvers)
    if may_approve:
        blocks += _render_approval_inputs(call)
    elif bar:
        blocks.insert(1, block_kit.section_block("bar", block_kit.plain_text(bar)))
    view = _build_review_view(call, blocks, may_approve)
    if _fits_dialog(view):
        return view
    return _build_review_view(call, _render_too_long_note(call), False)


def _fits_dialog(view: block_kit.Json) -> bool:
    return (
        len(view["blocks"]) <= MAX_VIEW_BLOCKS and len(json.dumps(view)) <= MAX_VIEW_BYTES - 2_000
    )


def _render_too_long_note(call: CallView) -> list[block_kit.Json]:
    size = sum(piece.character_count for piece in call_pieces.build_call_pieces(call))
    sorry = (
        f"This call has {size:,} characters, more than Slack can show in one dialog. What cannot "
        "be seen in full cannot be approved here. Edit it, or reject it and ask for smaller steps."
    )
    return [
        block_kit.section_block("sorry", block_kit.plain_text(f"⚠️ {sorry}")),
        block_kit.context_block("small", [block_kit.plain_text(call_pieces.get_tool_title(call))]),
    ]


def can_review_show_whole_call(call: CallView) -> bool:
    """Return whether the Review dialog has room for a whole call and contains all of its texts."""
    view = render_review_dialog(call)
    if "submit" not in view:
        return False
    shown_texts = set(_iterate_block_texts(view["blocks"]))
    texts = [
        slack_text.isolate_right_to_left_runs(slack_text.show_hidden_characters(call.preview)),
        slack_text.show_hidden_characters(call.agent_reason),
    ]
    texts += [
        slack_text.isolate_right_to_left_text(
            call_pieces.show_hidden_characters_or_default(each.text, "(blank)")
        )
        for each in call.values
        if not each.mentions
    ]
    texts += [each for value in call.values for each in value.mentions]
    return all(
        chunk in shown_texts
        for text in texts
        if text.strip()
        for chunk in slack_text.split_into_chunks(text, MAX_CHUNK_CHARS)
    )


def _iterate_block_texts(drawn: list[block_kit.Json]) -> Iterator[str]:
    """Yield every text in these blocks, in no order."""
    left: list[Any] = [drawn]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            for key in ("text", "user_id", "channel_id"):
                if isinstance(each.get(key), str):
                    yield each[key]
            each = each.values()
        left += [inner for inner in each if isinstance(inner, dict | list)]


def _build_review_view(
    call: CallView, blocks: list[block_kit.Json], may_approve: bool
) -> block_kit.Json:
    submit, close = ("Approve", "Back") if may_approve else ("", "Close")
    about = DialogSubject(DialogId.REVIEW, call.target)
    return block_kit.dialog_view(about, "Review", blocks, submit=submit, close=close)


def _render_review_blocks(
    call: CallView, asked: str = "", approvers: str = ""
) -> list[block_kit.Json]:
    blocks = [block_kit.header_block("head", call_pieces.get_call_headline(call))]
    if call.masked_pieces:
        note = hidden_on_card_note(call.masked_pieces)
        blocks.append(block_kit.context_block("revealed", [block_kit.plain_text(note)]))
    if final := call_pieces.irreversibility_warning(call.does, call.effect_source):
        blocks.append(block_kit.section_block("final", block_kit.mrkdwn(f"⚠️ *{final}*")))
    blocks += [
        block_kit.context_block(f"errand{n}", [block_kit.plain_text(delegation_line)])
        for n, delegation_line in enumerate(
            filter(None, [*call.delegation_lines, call.program_note])
        )
    ]
    if (effect := call_pieces.get_effect_sentence(call)) != call_pieces.get_call_headline(call):
        lines = [
            block_kit.rich_text_line(block_kit.text_leaf(each, bold=True))
            for each in slack_text.split_into_chunks(effect, MAX_CHUNK_CHARS)
        ]
        blocks += _pack_into_rich_text("effect", lines)
    blocks += _pack_into_rich_text("all", _render_values_and_preview(call))
    if call.agent_reason.strip():
        reason = slack_text.split_into_chunks(
            slack_text.show_hidden_characters(call.agent_reason), MAX_CHUNK_CHARS
        )
        label_line = block_kit.rich_text_line(
            block_kit.text_leaf(call_pieces.call_reason_label(call), italic=True)
        )
        blocks += _pack_into_rich_text(
            "reason", [label_line, *map(block_kit.rich_text_quote, reason)]
        )
    until = call_blocks.build_time_parts(call)
    edits = call_pieces.list_edit_parts(call)
    if small := [*filter(None, [asked]), *until, *edits, *filter(None, [approvers])]:
        blocks.append(block_kit.context_block("small", [block_kit.mrkdwn("  ·  ".join(small))]))
    return blocks


def _render_values_and_preview(call: CallView) -> list[block_kit.Json]:
    elements: list[block_kit.Json] = []
    for value in call.values:
        label = call_pieces.get_argument_label(value) + call_pieces.argument_secrecy_note(value)
        if value.previous_text is not None:
            text = call_pieces.show_hidden_characters_or_default(value.previous_text, "(blank)")
            before = slack_text.isolate_right_to_left_text(text)
            elements += _render_long_value(
                f"{label}, before", before, value.previous_mentions, is_code=value.is_code
            )
            label = f"{label}, now"
        text = call_pieces.show_hidden_characters_or_default(value.text, "(blank)")
        shown_text = slack_text.isolate_right_to_left_text(text)
        elements += _render_long_value(label, shown_text, value.mentions, is_code=value.is_code)
    if call.preview.strip():
        preview = slack_text.show_hidden_characters(call.preview)
        elements += _render_long_value("Preview", slack_text.isolate_right_to_left_runs(preview))
    if call.has_more_rows:
        where = block_kit.text_leaf(call_pieces.ALL_ROWS_HINT_TEXT, italic=True)
        elements.append(block_kit.rich_text_line(where))
    return elements


def _render_approval_inputs(call: CallView) -> list[block_kit.Json]:
    """Build the inputs for a note and for how long to remember the approval."""
    blocks = [
        block_kit.build_input_block(
            InputBlockId.NOTE,
            "Note on your approval",
            block_kit.build_text_input(),
            optional=not call.needs_approval_reason,
            hint=f"For the thread{' and for the agent' if call.by_agent else ''}",
        )
    ]
    if call.grant_offers:
        options = [
            {"text": block_kit.plain_text(slack_text.shorten_text(text, 75)), "value": str(number)}
            for number, text in enumerate(call.grant_offers)
        ]
        choose: block_kit.Json = {
            "type": "static_select",
            "action_id": InputElementId.OFFER,
            "options": options,
        }
        choose["placeholder"] = block_kit.plain_text("Only this once")
        label = "Remember this approval for"
        blocks.append(
            block_kit.build_input_block(InputBlockId.REMEMBER, label, choose, optional=True)
        )
    return blocks


def parse_approval_submission(state_values: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return a submitted Review dialog's note, and the chosen grant offer's index or None."""
    chosen = block_kit.get_chosen_option_value(
        state_values, InputBlockId.REMEMBER, InputElementId.OFFER
    )
    is_number = chosen.isascii() and chosen.isdigit() and len(chosen) < 3
    note = block_kit.get_entered_text(state_values, InputBlockId.NOTE)[
        : block_kit.MAX_DIALOG_TEXT_CHARS
    ]
    return note, int(chosen) if is_number else None


def _render_long_value(
    label: str, text: str, mentions: Sequence[str] = (), *, is_code: bool = False
) -> list[block_kit.Json]:
    """Build one argument: on one line, or below its label if it is code or has several lines."""
    parts = slack_text.split_into_chunks(text, MAX_CHUNK_CHARS)
    if mentions or (len(parts) == 1 and "\n" not in text and not is_code):
        head = f"{slack_text.isolate_right_to_left_text(label)}:  "
        mention_leaves = block_kit.text_leaves_with_mentions(slack_text.join_mentions(mentions))
        return [
            block_kit.rich_text_line(
                block_kit.text_leaf(head, bold=True),
                *(mention_leaves or [block_kit.text_leaf(text)]),
            )
        ]
    elements: list[block_kit.Json] = []
    for number, part in enumerate(parts, 1):
        part_suffix = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        elements += [
            block_kit.rich_text_line(block_kit.text_leaf(f"{label}{part_suffix}:", bold=True)),
            block_kit.rich_text_preformatted(part),
        ]
    return elements


def _pack_into_rich_text(name: str, elements: Sequence[block_kit.Json]) -> list[block_kit.Json]:
    """Put the elements into rich_text blocks of about MAX_CHUNK_CHARS characters each."""
    return block_kit.pack_into_rich_text_blocks(
        elements, MAX_CHUNK_CHARS + 100, lambda number: f"{name}:{number}"
    )
