"""The pieces of a call that approvers have to see: sentence, arguments, preview, agent's reason.

Pure. A piece that does not fit shows its beginning, and how much is missing;
`fit_pieces_into_limit` names all that is not shown in full. Everything here is rich text with
literal leaves and visible hidden characters, so no value can format, mention, link or pass for a
part of the card.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from bot.cards import block_kit, slack_text
from bot.cards.value_changes import shorten_change
from bot.cards.views import ArgumentValue, CallView
from bot.tools import EffectSource

MAX_HEADER_CHARS = 150  # Slack's limit
MAX_PIECE_CHARS = 2_900  # on a card; longer pieces are shown in Review
MAX_PIECE_NEWLINES = 40  # on a card
MAX_BEGINNING_CHARS = 300  # of a piece that is too long for a card
MAX_SENTENCE_BEGINNING_CHARS = 200  # shorter, as the sentence mostly repeats an argument
MAX_BEGINNING_LINES = 12
MAX_CELL_CHARS = 32  # of an argument that shares a row with another one, with its label
MIN_BEGINNING_CHARS = 60  # with less room, not even its beginning is shown
MAX_COMPACT_ARGUMENT_CHARS = 100  # on a decided card
MAX_COMPACT_MENTIONS = 5  # people or channels of one argument on a decided card
MAX_COMPACT_CHARS = 450  # after that, further arguments are only counted
MAX_AGENT_NAME_CHARS = 80
MAX_NAMED_ARGUMENTS = 3  # of those not shown in full; further ones are counted
IRREVERSIBLE_TEXT = "This cannot be undone."
# why a call is asked that was open when a backup was put back; an edit takes nothing from it
RESTORED_RECORD_NOTE = (
    "the record was put back from an older copy, and this may have been done since"
)
REVERSIBILITY_UNSTATED_TEXT = "It is not known whether this can be undone."
REVERSIBILITY_UNTRUSTED_TEXT = (
    "It is not known whether this can be undone: its server is not trusted to say."
)
_TEXT_BY_EFFECT_SOURCE = {
    EffectSource.BY_AUTHOR: IRREVERSIBLE_TEXT,
    EffectSource.BY_NOBODY: REVERSIBILITY_UNSTATED_TEXT,
    EffectSource.BY_STRANGER: REVERSIBILITY_UNTRUSTED_TEXT,
}
# a value that can be recognised in a sentence without quotation marks
_STANDALONE_WORD_PATTERN = re.compile(r"\w+(?:[.@:/+-]\w+)*")
# a value that can be quoted in a sentence: no quotation marks, odd spaces or mask
_QUOTABLE_PATTERN = re.compile(r'[^“”"•\s]+(?: [^“”"•\s]+)*')
REVERSIBILITY_UNKNOWN_TEXT = "It is not known whether these can be undone"
MAX_CONFIRMATION_CHARS = 240  # of the effects that a confirmation names
MASKED_SUFFIX = " (declared secret, shown to nobody)"
PARTLY_MASKED_SUFFIX = " (masked: declared secret, shown to nobody)"
ALL_ROWS_LABEL = "All rows as a file (approvers)"
ALL_ROWS_HINT_TEXT = f"Not all rows are shown here. The card’s menu (⋯) has “{ALL_ROWS_LABEL}”."
ALL_ROWS_SENT_REPLY = "I’ll send you all rows as a file in a direct message. This access is logged."


class PieceKind(StrEnum):
    """What a piece of a call shows; the value names it to people if it is not shown in full."""

    SENTENCE = "the sentence at the top"
    ARGUMENT = "an argument"
    PREVIEW = "the preview"
    REASON = "why it is asked"


@dataclass(frozen=True)
class CallPiece:
    """One part of a call that a person has to see before approving."""

    kind: PieceKind
    name: str  # the argument's label, else what kind of piece it is
    texts: tuple[str, ...]
    render: Callable[[Sequence[str]], tuple[block_kit.Json, ...]]
    cell: str = ""  # label and value, if they are short enough to share a row with another argument

    @cached_property
    def rendered_elements(self) -> tuple[block_kit.Json, ...]:
        """The whole piece as rich-text elements."""
        return self.render(self.texts)

    @cached_property
    def character_count(self) -> int:
        """The number of characters of the whole piece, as Slack counts them."""
        return block_kit.count_text_characters(list(self.rendered_elements))

    @property
    def is_short_enough_for_card(self) -> bool:
        """Whether the piece is short enough for a card to show all of it."""
        return (
            self.character_count <= MAX_PIECE_CHARS
            and sum(t.count("\n") for t in self.texts) <= MAX_PIECE_NEWLINES
        )

    def render_beginning(self, limit: int) -> tuple[block_kit.Json, ...]:
        """Return as much of the piece as `limit` characters hold, ending in how much is missing.

        Nothing if that would be too little to be of use.
        """
        around = block_kit.count_text_characters(list(self.render(["" for _ in self.texts])))
        most = (
            MAX_SENTENCE_BEGINNING_CHARS if self.kind is PieceKind.SENTENCE else MAX_BEGINNING_CHARS
        )
        each = (min(limit, most) - around) // len(self.texts)
        if each < MIN_BEGINNING_CHARS:
            return ()
        return self.render(
            [slack_text.shorten_text(text, each, MAX_BEGINNING_LINES) for text in self.texts]
        )


@dataclass(frozen=True, slots=True)
class ApprovalConfirmation:
    """The question before approving what may be impossible to undo; plain text."""

    title: str
    text: str
    yes: str


def irreversibility_warning(does: str, stated: EffectSource) -> str:
    """Return the warning that a destructive call cannot, or may not, be undone; "" for others."""
    return _TEXT_BY_EFFECT_SOURCE[stated] if does == "destructive" else ""


def build_approval_confirmation(
    effect: str, final: str = IRREVERSIBLE_TEXT
) -> ApprovalConfirmation:
    """Return the question before approving one call; `final`: see `irreversibility_warning`."""
    return ApprovalConfirmation(
        "Approve this?",
        f"{slack_text.shorten_text(effect, MAX_CONFIRMATION_CHARS)}\n\n{final}",
        "Approve",
    )


def build_joint_approval_confirmation(
    final: Sequence[str], count: int, scope: str = "all", *, unsure: Sequence[str] = ()
) -> ApprovalConfirmation:
    """Return the question before approving `count` calls together.

    `final`: the effects that cannot be undone; `unsure`: those that perhaps cannot be undone;
    `scope`: which calls the button approves, in its own words ("all" or "these").
    """
    parts = [(IRREVERSIBLE_TEXT.removesuffix("."), final), (REVERSIBILITY_UNKNOWN_TEXT, unsure)]
    parts = [(head, each) for head, each in parts if each]
    room = MAX_CONFIRMATION_CHARS // max(len(parts), 1) - (20 if len(parts) > 1 else 0)
    texts = [
        (head, slack_text.shorten_text("\n".join(f"• {one}" for one in each), room))
        for head, each in parts
    ]
    question_text = "\n".join(f"{head}:\n{text}" for head, text in texts)
    return ApprovalConfirmation(f"Approve {scope} {count}?", question_text, f"Approve {scope}")


def show_hidden_characters_or_default(text: str, instead: str) -> str:
    """Return the text with hidden characters made visible; `instead` if nothing can be seen."""
    clear = slack_text.show_hidden_characters(text)
    return clear if clear.strip() else instead


def get_effect_sentence(call: CallView) -> str:
    """Return the effect sentence on one line; if blank, the title; if that is blank, "Action"."""
    title = show_hidden_characters_or_default(" ".join(call.title.split()), "Action")
    effect = show_hidden_characters_or_default(" ".join(call.effect.split()), title)
    return slack_text.isolate_right_to_left_runs(effect)


def get_tool_title(call: CallView, limit: int = MAX_HEADER_CHARS) -> str:
    """Return the tool's title on one line of at most `limit` characters; it says if it was cut."""
    title = show_hidden_characters_or_default(" ".join(call.title.split()), "Action")
    return slack_text.shorten_text(slack_text.isolate_right_to_left_runs(title), limit)


def is_short_enough_for_header(text: str) -> bool:
    """Return whether the text fits into a header block."""
    return slack_text.count_slack_characters(text) <= MAX_HEADER_CHARS and "\n" not in text


def get_call_headline(call: CallView) -> str:
    """Return the text for the header block: the effect if it fits, else the title."""
    effect = get_effect_sentence(call)
    return effect if is_short_enough_for_header(effect) else get_tool_title(call)


def list_edit_parts(call: CallView) -> list[str]:
    """Return who edited the call, and who handed it over to whom: parts of a line of mrkdwn."""
    parts = [
        f"Edited by {slack_text.user_mention(person)}, {slack_text.format_local_time(at)}"
        for person, at in dict(call.edits).items()
    ]
    if call.assignee:
        to, by = map(slack_text.user_mention, (call.assignee, call.assigned_by))
        parts.append(f"🤝 Handed over to {to} by {by}")
    return parts


def argument_secrecy_note(value: ArgumentValue) -> str:
    """Return the remark shown after a secret or partly secret argument; "" for other arguments."""
    return (
        MASKED_SUFFIX if value.is_secret else PARTLY_MASKED_SUFFIX if value.is_partly_secret else ""
    )


def get_argument_label(value: ArgumentValue) -> str:
    """Return the label of an argument, on one line."""
    return show_hidden_characters_or_default(" ".join(value.label.split()), "(no name)")


def build_call_pieces(call: CallView) -> list[CallPiece]:
    """Return all pieces of a call to be seen before approving; the agent's words come last."""
    pieces: list[CallPiece] = []
    effect = get_effect_sentence(call)
    if not is_short_enough_for_header(effect):
        pieces.append(
            _build_single_text_piece(
                PieceKind.SENTENCE,
                effect,
                lambda text: (block_kit.rich_text_line(block_kit.text_leaf(text, bold=True)),),
            )
        )
    pieces.extend(
        _build_argument_piece(value)
        for value in call.values
        if value.is_or_was_set and not is_value_said(value, effect)
    )
    if call.preview.strip():
        title = block_kit.rich_text_line(block_kit.text_leaf("Preview", bold=True))
        pieces.append(
            _build_single_text_piece(
                PieceKind.PREVIEW,
                slack_text.isolate_right_to_left_runs(
                    slack_text.show_hidden_characters(call.preview)
                ),
                lambda text: (title, block_kit.rich_text_preformatted(text)),
            )
        )
    if call.agent_reason.strip():
        says = block_kit.rich_text_line(block_kit.text_leaf(call_reason_label(call), italic=True))
        pieces.append(
            _build_single_text_piece(
                PieceKind.REASON,
                slack_text.show_hidden_characters(call.agent_reason),
                lambda text: (says, block_kit.rich_text_quote(text)),
            )
        )
    return pieces


def is_value_said(value: ArgumentValue, sentence: str) -> bool:
    """Return whether this effect or outcome already says the argument's value, word for word.

    In an effect, only values count that the template of the tool's author puts there.
    """
    edited = value.previous_text is not None
    if edited or not value.is_in_effect or not _QUOTABLE_PATTERN.fullmatch(value.text):
        return False
    said = re.escape(value.text)
    apart = (
        rf"|(?<![^\s(#€$£]){said}(?=[.,;:!?)]?(?:\s|$))"
        if _STANDALONE_WORD_PATTERN.fullmatch(value.text)
        else ""
    )
    return re.search(f'“{said}”|"{said}"{apart}', sentence) is not None


def call_reason_label(call: CallView) -> str:
    """Return the words before a call's reason: "The agent says:", or "Why:" if a person gave it."""
    if not call.agent:
        return "Why:"
    name = slack_text.show_hidden_characters(call.agent)
    return f"{slack_text.shorten_text(name, MAX_AGENT_NAME_CHARS)} says:"


def _build_single_text_piece(
    kind: PieceKind, text: str, draw: Callable[[str], tuple[block_kit.Json, ...]]
) -> CallPiece:
    return CallPiece(kind, kind, (text,), lambda texts: draw(texts[0]))


def _build_argument_piece(value: ArgumentValue) -> CallPiece:
    name = get_argument_label(value)
    label = block_kit.text_leaf(f"{slack_text.isolate_right_to_left_text(name)}:  ", bold=True)
    note = argument_secrecy_note(value)
    mark = [block_kit.text_leaf(note, italic=True)] if note else []
    now = slack_text.isolate_right_to_left_text(
        show_hidden_characters_or_default(value.text, "(blank)")
    )
    was = value.previous_text
    if was is not None:
        was = slack_text.isolate_right_to_left_text(
            show_hidden_characters_or_default(was, "(blank)")
        )
    mentions = {now: value.mentions, **({} if was is None else {was: value.previous_mentions})}
    flat = all("\n" not in text or ids for text, ids in mentions.items()) and not value.is_code

    def leaves(text: str, **style: bool) -> list[block_kit.Json]:
        ids = slack_text.join_mentions(mentions.get(text, ()))
        return block_kit.text_leaves_with_mentions(ids) or [block_kit.text_leaf(text, **style)]

    def draw(texts: Sequence[str]) -> tuple[block_kit.Json, ...]:
        *before, text = texts
        if flat:
            if not before:
                return (block_kit.rich_text_line(label, *leaves(text), *mark),)
            old, new = leaves(before[0], strike=True), leaves(text, bold=True)
            between = block_kit.text_leaf("  →  ")
            return (block_kit.rich_text_line(label, *old, between, *new, *mark),)
        if not before:
            return block_kit.rich_text_line(label, *mark), block_kit.rich_text_preformatted(text)
        return (
            block_kit.rich_text_line(label, block_kit.text_leaf("before", italic=True)),
            block_kit.rich_text_preformatted(before[0]),
            block_kit.rich_text_line(block_kit.text_leaf("now", italic=True), *mark),
            block_kit.rich_text_preformatted(text),
        )

    texts = (now,) if was is None else (was, now)
    cell = f"{slack_text.isolate_right_to_left_text(name)}: {now}"
    # the fields of a nested value, such as an address, stay below each other
    is_short = was is None and not note and flat and slack_text.LABEL_SEPARATOR not in name
    is_short = is_short and not value.mentions
    # its value must not look like another label, or like the gap between columns
    is_short = (
        is_short
        and slack_text.count_slack_characters(cell) <= MAX_CELL_CHARS
        and not re.search(r":\s|\s\s|\t", now)
    )
    return CallPiece(PieceKind.ARGUMENT, name, texts, draw, cell if is_short else "")


@dataclass(frozen=True, slots=True)
class FittedPieces:
    """The pieces of one call that a card has room for, and a sentence about the others."""

    cells: tuple[str, ...]  # short arguments, for two columns
    sentence: tuple[block_kit.Json, ...]  # the effect, if it is too long for the top
    body: tuple[block_kit.Json, ...]  # other arguments and the preview
    reason: tuple[block_kit.Json, ...]  # the agent's words
    missing: str  # "" when everything is shown

    @property
    def is_complete(self) -> bool:
        """Whether all pieces of the call are shown in full."""
        return not self.missing


def fit_pieces_into_limit(
    pieces: Sequence[CallPiece], limit: int, covered: Sequence[str] = (), *, cells: int = 0
) -> FittedPieces:
    """Show each piece that still fits into `limit` characters, in order; of others, the beginning.

    `covered`: the names of pieces that are partly masked here and shown in full to those who may
    decide. `cells`: how many short arguments may stand in two columns; a single one is a line like
    others.
    """
    short = [piece for piece in pieces if piece.cell][:cells]
    beside = {id(piece) for piece in short} if len(short) > 1 else set()
    fitting_cells: list[str] = []
    parts: dict[PieceKind, list[block_kit.Json]] = {kind: [] for kind in PieceKind}
    missing: list[str] = []
    for piece in pieces:
        fits = piece.is_short_enough_for_card and piece.character_count <= limit
        elements = piece.rendered_elements if fits else piece.render_beginning(limit)
        if not fits or piece.name in covered:
            missing.append(piece.name)
        limit -= block_kit.count_text_characters(list(elements))
        if fits and id(piece) in beside:
            fitting_cells.append(piece.cell)
        else:
            parts[piece.kind].extend(elements)
    missing += [name for name in covered if name not in missing]
    body = (*parts[PieceKind.ARGUMENT], *parts[PieceKind.PREVIEW])
    sentence, reason = tuple(parts[PieceKind.SENTENCE]), tuple(parts[PieceKind.REASON])
    missing_note = missing and (
        f"Not in full here: {join_piece_names(missing)}. Review shows all of it to those who may "
        "decide."
    )
    return FittedPieces(tuple(fitting_cells), sentence, body, reason, missing_note or "")


def count_piece_characters_on_card(piece: CallPiece) -> int:
    """Return how many characters of a card the piece can use: all of it, or its beginning."""
    return (
        piece.character_count
        if piece.is_short_enough_for_card
        else block_kit.count_text_characters(list(piece.render_beginning(MAX_BEGINNING_CHARS)))
    )


def join_piece_names(names: Sequence[str]) -> str:
    """Join the names of pieces: "“Text”, 2 more arguments and the preview"; long names are cut."""
    arguments = [name for name in names if name not in frozenset(PieceKind)]
    kept = [slack_text.shorten_text(f"“{name}”", 60) for name in arguments[:MAX_NAMED_ARGUMENTS]]
    if more := len(arguments) - len(kept):
        kept.append(f"{more} more argument{'s' if more > 1 else ''}")
    found = [*kept, *(kind for kind in PieceKind if kind in names)]
    return ", ".join(found[:-1]) + (" and " if found[1:] else "") + found[-1]


def render_arguments_on_one_line(values: Sequence[ArgumentValue]) -> list[block_kit.Json]:
    """Return the arguments as rich text on one line for a decided card, counting those left out.

    An argument that an edit has changed also shows its old value.
    """
    leaves: list[block_kit.Json] = []
    for index, value in enumerate(values):
        if leaves:
            leaves.append(block_kit.text_leaf("  ·  "))
        if block_kit.count_text_characters(leaves) > MAX_COMPACT_CHARS:
            leaves.append(block_kit.text_leaf(f"and {len(values) - index} more", italic=True))
            break
        label = slack_text.shorten_text(get_argument_label(value), 60)
        isolated = slack_text.isolate_right_to_left_text(label)
        leaves.append(block_kit.text_leaf(f"{isolated}: ", bold=True))
        text, was = value.text, value.previous_text
        if was is not None:
            was, text = shorten_change(was, text, MAX_COMPACT_ARGUMENT_CHARS)
            before = _render_compact_value(was, value.previous_mentions, strike=True)
            leaves += [*before, block_kit.text_leaf(" → ")]
        leaves += _render_compact_value(text, value.mentions)
    return leaves


def _render_compact_value(
    text: str, mentions: Sequence[str], **style: bool
) -> list[block_kit.Json]:
    if ids := slack_text.join_mentions(mentions, MAX_COMPACT_MENTIONS):
        return block_kit.text_leaves_with_mentions(ids)
    visible = show_hidden_characters_or_default(" ".join(text.split()), "(blank)")
    short = slack_text.isolate_right_to_left_text(
        slack_text.shorten_text(visible, MAX_COMPACT_ARGUMENT_CHARS)
    )
    return [block_kit.text_leaf(short, **style)]
