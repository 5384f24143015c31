"""What a call would do, in pieces: its sentence, arguments, the tool's preview, the agent's words.

Pure. A piece is shown whole or not at all; `fill` says what found room and what did not. Everything
here is rich text with literal leaves and went through `visible`, so no value can format, mention,
link or pass for a part of the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.messages.parts import Json, line, preformatted, quote, weight, words
from bot.messages.text import plain, slack_length, visible
from bot.messages.views import CallView, Value

HEADER_LIMIT = 150  # Slack's, for a header
PIECE_LIMIT = 2_900  # characters of one piece on a card; more belongs into Review
LINE_LIMIT = 40  # line ends of one piece on a card
COMPACT_LIMIT = 100  # characters of one argument on a decided card
COMPACT_TOTAL = 450  # after so many, further arguments are only counted


class PieceKind(StrEnum):
    """What a piece shows; the values name it where it found no room."""

    SENTENCE = "the full sentence"
    ARGUMENT = "the argument"
    PREVIEW = "the preview"
    REASON = "what the agent says"


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing a person has to see before approving."""

    kind: PieceKind
    elements: tuple[Json, ...]
    lines: int = 0

    @property
    def size(self) -> int:
        """The number of characters, as Slack counts them."""
        return weight(list(self.elements))

    @property
    def fits_a_card(self) -> bool:
        """Whether it is short enough to be read on a card at all."""
        return self.size <= PIECE_LIMIT and self.lines <= LINE_LIMIT


def shown(text: str, instead: str) -> str:
    """Return the text with hidden characters made visible; `instead` where nothing can be seen."""
    clear = visible(text)
    return clear if clear.strip() else instead


def effect_of(call: CallView) -> str:
    """Return the effect sentence on one line; the title, then a bare word, where it is blank."""
    return shown(" ".join(call.effect.split()), shown(" ".join(call.title.split()), "Action"))


def title_of(call: CallView, limit: int = HEADER_LIMIT) -> str:
    """Return the tool's title on one line, at most `limit` characters; a cut is said."""
    return plain(shown(" ".join(call.title.split()), "Action"), limit)


def fits_header(text: str) -> bool:
    """Return whether the text can stand big at the top."""
    return slack_length(text) <= HEADER_LIMIT and "\n" not in text


def headline(call: CallView) -> str:
    """Return what stands big at the top: the effect where it fits a header, else the title."""
    effect = effect_of(call)
    return effect if fits_header(effect) else title_of(call)


def pieces_of(call: CallView) -> list[Piece]:
    """List all that has to be seen before approving, in order; the agent's words come last."""
    pieces: list[Piece] = []
    effect = effect_of(call)
    if not fits_header(effect):
        pieces.append(Piece(PieceKind.SENTENCE, (line(words(effect, bold=True)),)))
    pieces.extend(_argument(value) for value in call.values)
    if call.preview.strip():
        text = visible(call.preview)
        pieces.append(
            Piece(
                PieceKind.PREVIEW,
                (line(words("Preview", bold=True)), preformatted(text)),
                text.count("\n"),
            )
        )
    if call.agent_reason.strip():
        text = visible(call.agent_reason)
        pieces.append(
            Piece(
                PieceKind.REASON,
                (line(words("The agent says:", italic=True)), quote(text)),
                text.count("\n"),
            )
        )
    return pieces


def _argument(value: Value) -> Piece:
    label = words(f"{shown(' '.join(value.label.split()), '(no name)')}:  ", bold=True)
    text = shown(value.text, "(blank)")
    if value.before is None:
        if "\n" not in text:
            return Piece(PieceKind.ARGUMENT, (line(label, words(text)),))
        return Piece(PieceKind.ARGUMENT, (line(label), preformatted(text)), text.count("\n"))
    before = shown(value.before, "(blank)")
    if "\n" not in text + before:
        change = (words(before, strike=True), words("  →  "), words(text, bold=True))
        return Piece(PieceKind.ARGUMENT, (line(label, *change),))
    elements = (
        line(label, words("before", italic=True)),
        preformatted(before),
        line(words("now", italic=True)),
    )
    return Piece(
        PieceKind.ARGUMENT, (*elements, preformatted(text)), text.count("\n") + before.count("\n")
    )


@dataclass(frozen=True, slots=True)
class Filled:
    """The pieces of one call that found room, and what is said about the others."""

    body: tuple[Json, ...]  # sentence, arguments and preview, as rich-text elements
    reason: tuple[Json, ...]  # the agent's words
    missing: str  # "" when everything is shown

    @property
    def complete(self) -> bool:
        """Whether all of it is shown."""
        return not self.missing


def fill(pieces: Sequence[Piece], room: int) -> Filled:
    """Show each piece that still fits into `room` characters, in order, whole."""
    body: list[Json] = []
    reason: list[Json] = []
    hidden: list[PieceKind] = []
    for piece in pieces:
        if piece.fits_a_card and piece.size <= room:
            room -= piece.size
            (reason if piece.kind is PieceKind.REASON else body).extend(piece.elements)
        else:
            hidden.append(piece.kind)
    total = sum(piece.kind is PieceKind.ARGUMENT for piece in pieces)
    return Filled(tuple(body), tuple(reason), _missing(hidden, total))


def _missing(hidden: Sequence[PieceKind], total: int) -> str:
    if not hidden:
        return ""
    sentences = []
    cut = hidden.count(PieceKind.ARGUMENT)
    if cut and total > 1:
        verb = "is" if total - cut == 1 else "are"
        sentences.append(f"{total - cut} of {total} arguments {verb} shown; the rest is in Review")
    if others := [
        kind
        for kind in PieceKind
        if kind in hidden and (kind is not PieceKind.ARGUMENT or total == 1)
    ]:
        text = ", ".join(others[:-1]) + (" and " if others[1:] else "") + others[-1]
        verb = "is" if len(others) == 1 else "are"
        sentences.append(f"{text[0].upper()}{text[1:]} {verb} in Review")
    return ". ".join(sentences) + "."


def compact(values: Sequence[Value]) -> list[Json]:
    """Return the arguments on one line for a decided card; what is left out is counted."""
    leaves: list[Json] = []
    for index, value in enumerate(values):
        if leaves:
            leaves.append(words("  ·  "))
        if weight(leaves) > COMPACT_TOTAL:
            leaves.append(words(f"and {len(values) - index} more", italic=True))
            break
        label = plain(shown(" ".join(value.label.split()), "(no name)"), 60)
        text = plain(shown(" ".join(value.text.split()), "(blank)"), COMPACT_LIMIT)
        leaves += [words(f"{label}: ", bold=True), words(text)]
    return leaves
