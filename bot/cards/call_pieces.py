"""The pieces of a call that approvers have to see: sentence, arguments, preview, agent's reason.

Pure. A piece that does not fit shows its beginning, and how much is missing; `fill` names all that
is not shown in full. Everything here is rich text with literal leaves and went through `visible`,
so no value can format, mention, link or pass for a part of the card.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from bot.cards.block_kit import Json, line, preformatted, quote, weight, words
from bot.cards.slack_text import (
    WITHIN,
    isolate_leftward,
    isolate_leftward_runs,
    plain,
    slack_length,
    visible,
)
from bot.cards.views import CallView, Value
from bot.tools.effect_source import EffectSource

HEADER_LIMIT = 150  # Slack's, for a header
PIECE_LIMIT = 2_900  # characters of one piece on a card; more belongs into Review
LINE_LIMIT = 40  # line ends of one piece on a card
BEGINNING = 300  # characters of a piece that does not fit a card
BEGINNING_SENTENCE = 200  # of the sentence: it mostly repeats an argument
BEGINNING_LINES = 12
SHORT = 32  # characters of an argument that stands beside another one, with its label
LEAST = 60  # characters of a beginning; with less room there is none
COMPACT_LIMIT = 100  # characters of one argument on a decided card
COMPACT_TOTAL = 450  # after so many, further arguments are only counted
AGENT = 80  # characters of the name of whoever proposed a call
NAMED = 3  # arguments named among what is not shown in full; more are counted
FINAL = "This cannot be undone."
UNSAID = "Its author did not say whether this can be undone."
UNTRUSTED = "It is not known whether this can be undone: its server is not trusted to say."
_BY = {
    EffectSource.BY_AUTHOR: FINAL,
    EffectSource.BY_NOBODY: UNSAID,
    EffectSource.BY_STRANGER: UNTRUSTED,
}
UNSURE = "It is not known whether these can be undone"
SURE_LIMIT = 240  # characters of what that is about, where it is asked a second time
SHOWN_TO_NOBODY = " (declared secret, shown to nobody)"
PARTLY_SHOWN = " (what is masked was declared secret, shown to nobody)"
ALL_ROWS = "All rows as a file (approvers)"
WHERE_ALL_ROWS = f"Not all rows are shown here. The menu of the card (⋯) has “{ALL_ROWS}”."
ROWS_SENT = "I’ll send you all rows as a file in a direct message. This access is logged."


class PieceKind(StrEnum):
    """What a piece shows; the value names the piece if it is not shown in full."""

    SENTENCE = "the sentence at the top"
    ARGUMENT = "an argument"
    PREVIEW = "the preview"
    REASON = "why it is asked"


@dataclass(frozen=True)
class Piece:
    """One part of a call that a person has to see before approving."""

    kind: PieceKind
    name: str  # the argument's label, else what kind of piece it is
    texts: tuple[str, ...]
    draw: Callable[[Sequence[str]], tuple[Json, ...]]
    cell: str = ""  # an argument so short that two of them fit beside one another

    @cached_property
    def elements(self) -> tuple[Json, ...]:
        """The whole piece as rich-text elements."""
        return self.draw(self.texts)

    @cached_property
    def size(self) -> int:
        """The number of characters of the whole piece, as Slack counts them."""
        return weight(list(self.elements))

    @property
    def fits_a_card(self) -> bool:
        """Whether the piece is short enough for a card to show all of it."""
        return self.size <= PIECE_LIMIT and sum(t.count("\n") for t in self.texts) <= LINE_LIMIT

    def beginning(self, room: int) -> tuple[Json, ...]:
        """Return as much of the piece as `room` characters hold, ending in how much is missing.

        Nothing if that would be too little to be of use.
        """
        around = weight(list(self.draw(["" for _ in self.texts])))
        most = BEGINNING_SENTENCE if self.kind is PieceKind.SENTENCE else BEGINNING
        each = (min(room, most) - around) // len(self.texts)
        if each < LEAST:
            return ()
        return self.draw([plain(text, each, BEGINNING_LINES) for text in self.texts])


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The question before approving what may be impossible to undo; plain text."""

    title: str
    text: str
    yes: str


def finality(does: str, stated: EffectSource) -> str:
    """Return the warning that a destructive call cannot, or may not, be undone; "" for others."""
    return _BY[stated] if does == "destructive" else ""


def confirmation_of(effect: str, final: str = FINAL) -> Confirmation:
    """Return the question before approving one call; `final`: the warning of `finality`."""
    return Confirmation("Approve this?", f"{plain(effect, SURE_LIMIT)}\n\n{final}", "Approve")


def confirmation_of_all(
    effects: Sequence[str], count: int, which: str = "all", *, unsure: Sequence[str] = ()
) -> Confirmation:
    """Return the question before approving `count` calls together.

    `effects` are those that cannot be undone; `unsure`, those of which that is not known.
    """
    parts = [(FINAL.removesuffix("."), effects), (UNSURE, unsure)]
    parts = [(head, each) for head, each in parts if each]
    room = SURE_LIMIT // max(len(parts), 1) - (20 if len(parts) > 1 else 0)
    texts = [(head, plain("\n".join(f"• {one}" for one in each), room)) for head, each in parts]
    what = "\n".join(f"{head}:\n{text}" for head, text in texts)
    return Confirmation(f"Approve {which} {count}?", what, f"Approve {which}")


def shown(text: str, instead: str) -> str:
    """Return the text with hidden characters made visible; `instead` if nothing can be seen."""
    clear = visible(text)
    return clear if clear.strip() else instead


def effect_of(call: CallView) -> str:
    """Return the effect sentence on one line; if blank, the title; if that is blank, "Action"."""
    effect = shown(" ".join(call.effect.split()), shown(" ".join(call.title.split()), "Action"))
    return isolate_leftward_runs(effect)


def title_of(call: CallView, limit: int = HEADER_LIMIT) -> str:
    """Return the tool's title on one line of at most `limit` characters; it says if it was cut."""
    return plain(isolate_leftward_runs(shown(" ".join(call.title.split()), "Action")), limit)


def fits_header(text: str) -> bool:
    """Return whether the text fits into a header block."""
    return slack_length(text) <= HEADER_LIMIT and "\n" not in text


def headline(call: CallView) -> str:
    """Return the text for the header block: the effect if it fits, else the title."""
    effect = effect_of(call)
    return effect if fits_header(effect) else title_of(call)


def secrecy(value: Value) -> str:
    """Return the remark behind an argument that is secret, or of which a part is; "" for others."""
    return SHOWN_TO_NOBODY if value.secret else PARTLY_SHOWN if value.partly else ""


def label_of(value: Value) -> str:
    """Return the label of an argument, on one line."""
    return shown(" ".join(value.label.split()), "(no name)")


def pieces_of(call: CallView) -> list[Piece]:
    """Return all pieces to be seen before approving, in order; the agent's words come last."""
    pieces: list[Piece] = []
    effect = effect_of(call)
    if not fits_header(effect):
        pieces.append(_piece(PieceKind.SENTENCE, effect, lambda text: (line(_bold(text)),)))
    pieces.extend(_argument(value) for value in call.values if value.says_something)
    if call.preview.strip():
        title = line(words("Preview", bold=True))
        pieces.append(
            _piece(
                PieceKind.PREVIEW,
                isolate_leftward_runs(visible(call.preview)),
                lambda text: (title, preformatted(text)),
            )
        )
    if call.agent_reason.strip():
        says = line(words(who_says(call), italic=True))
        pieces.append(
            _piece(PieceKind.REASON, visible(call.agent_reason), lambda text: (says, quote(text)))
        )
    return pieces


def who_says(call: CallView) -> str:
    """Return what stands before the reason for a call: "The agent says:", or "Why:" of a person."""
    return f"{plain(visible(call.agent), AGENT)} says:" if call.agent else "Why:"


def _piece(kind: PieceKind, text: str, draw: Callable[[str], tuple[Json, ...]]) -> Piece:
    return Piece(kind, kind, (text,), lambda texts: draw(texts[0]))


def _bold(text: str) -> Json:
    return words(text, bold=True)


def _argument(value: Value) -> Piece:
    name = label_of(value)
    label = words(f"{isolate_leftward(name)}:  ", bold=True)
    mark = [words(secrecy(value), italic=True)] if secrecy(value) else []
    now = isolate_leftward(shown(value.text, "(blank)"))
    was = None if value.before is None else isolate_leftward(shown(value.before, "(blank)"))
    flat = "\n" not in now + (was or "")

    def draw(texts: Sequence[str]) -> tuple[Json, ...]:
        *before, text = texts
        if flat:
            change = [words(before[0], strike=True), words("  →  ")] if before else []
            return (line(label, *change, words(text, bold=True) if before else words(text), *mark),)
        if not before:
            return line(label, *mark), preformatted(text)
        return (
            line(label, words("before", italic=True)),
            preformatted(before[0]),
            line(words("now", italic=True), *mark),
            preformatted(text),
        )

    texts = (now,) if was is None else (was, now)
    cell = f"{isolate_leftward(name)}: {now}"
    # what belongs together, as an address does, stays together
    is_short = was is None and not secrecy(value) and flat and WITHIN not in name
    # nothing in it may look like a label, or like the gap between two of them
    is_short = is_short and slack_length(cell) <= SHORT and not re.search(r":\s|\s\s|\t", now)
    return Piece(PieceKind.ARGUMENT, name, texts, draw, cell if is_short else "")


@dataclass(frozen=True, slots=True)
class FilledPieces:
    """The pieces of one call that a card has room for, and a sentence about the others."""

    cells: tuple[str, ...]  # short arguments, for two columns
    sentence: tuple[Json, ...]  # where it is too long for the top, as rich-text elements
    body: tuple[Json, ...]  # other arguments and the preview
    reason: tuple[Json, ...]  # the agent's words
    missing: str  # "" when everything is shown

    @property
    def complete(self) -> bool:
        """Whether all pieces of the call are shown in full."""
        return not self.missing


def fill(
    pieces: Sequence[Piece], room: int, covered: Sequence[str] = (), *, cells: int = 0
) -> FilledPieces:
    """Show each piece that still fits into `room` characters, in order; of others, the beginning.

    `covered` names what the pieces show less of than those who decide may see. `cells`: how many
    short arguments may stand in two columns; a single one is a line like others.
    """
    short = [piece for piece in pieces if piece.cell][:cells]
    beside = {id(piece) for piece in short} if len(short) > 1 else set()
    found: list[str] = []
    parts: dict[PieceKind, list[Json]] = {kind: [] for kind in PieceKind}
    missing: list[str] = []
    for piece in pieces:
        whole = piece.fits_a_card and piece.size <= room
        elements = piece.elements if whole else piece.beginning(room)
        if not whole or piece.name in covered:
            missing.append(piece.name)
        room -= weight(list(elements))
        if whole and id(piece) in beside:
            found.append(piece.cell)
        else:
            parts[piece.kind].extend(elements)
    missing += [name for name in covered if name not in missing]
    body = (*parts[PieceKind.ARGUMENT], *parts[PieceKind.PREVIEW])
    sentence, reason = tuple(parts[PieceKind.SENTENCE]), tuple(parts[PieceKind.REASON])
    return FilledPieces(tuple(found), sentence, body, reason, _missing(missing))


def wanted(piece: Piece) -> int:
    """Return how many characters of a card the piece can use: all of it, or its beginning."""
    return piece.size if piece.fits_a_card else weight(list(piece.beginning(BEGINNING)))


def _missing(short: Sequence[str]) -> str:
    if not short:
        return ""
    return f"Not in full here: {join_names(short)}. Review shows all of it to those who may decide."


def join_names(names: Sequence[str]) -> str:
    """Join the names of pieces: "“Text”, 2 more arguments and the preview"; long names are cut."""
    arguments = [name for name in names if name not in frozenset(PieceKind)]
    kept = [plain(f"“{name}”", 60) for name in arguments[:NAMED]]
    if more := len(arguments) - len(kept):
        kept.append(f"{more} more argument{'s' if more > 1 else ''}")
    found = [*kept, *(kind for kind in PieceKind if kind in names)]
    return ", ".join(found[:-1]) + (" and " if found[1:] else "") + found[-1]


def compact(values: Sequence[Value]) -> list[Json]:
    """Return the arguments as rich text on one line for a decided card, counting those left out.

    An argument that an edit has changed also shows its old value.
    """
    leaves: list[Json] = []
    for index, value in enumerate(values):
        if leaves:
            leaves.append(words("  ·  "))
        if weight(leaves) > COMPACT_TOTAL:
            leaves.append(words(f"and {len(values) - index} more", italic=True))
            break
        label = plain(shown(" ".join(value.label.split()), "(no name)"), 60)
        text = plain(shown(" ".join(value.text.split()), "(blank)"), COMPACT_LIMIT)
        was = []
        if value.before is not None:
            before = plain(shown(" ".join(value.before.split()), "(blank)"), COMPACT_LIMIT)
            was = [words(isolate_leftward(before), strike=True), words(" → ")]
        leaves += [
            words(f"{isolate_leftward(label)}: ", bold=True),
            *was,
            words(isolate_leftward(text)),
        ]
    return leaves
