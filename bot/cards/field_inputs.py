"""Which input of a modal holds one value of the arguments, and what stands in it at first. Pure.

Unset differs from empty. Where None is allowed, an empty input means None, and the empty text or
list is written as in JSON: two double quotes, or two square brackets. Where None is not allowed, an
empty input of a text or a list is the empty text or list, and anything else must be filled in.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from bot.cards.field_slots import Kind, Mark, Slot
from bot.cards.field_values import readable, same
from bot.cards.text import plain, slack_length

LONGEST = 3000  # characters Slack takes in an input
TEXT_INPUT = "plain_text_input"
EMPTY_TEXT = '""'
EMPTY_LIST = "[]"
_UNSET = "(unset)"
# What Slack's own inputs are sure to accept; anything else stands in a plain one.
_FORMS = {
    Kind.EMAIL: re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII),
    Kind.URL: re.compile(r"https?://[!-~]+"),
}
_DIGITS = 15  # beyond these, a client that thinks in doubles would round


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the modal."""

    slot: Slot
    kind: Kind  # how it is read: the slot's kind, or JSON or text where the value does not fit that
    widget: str  # Slack's element type
    old: Any  # the JSON value there is; Mark.ABSENT for none
    initial: str | int | None  # what Slack sends when nobody touches it
    options: tuple[tuple[str, str, Any], ...] = ()  # option value, text, JSON value

    @property
    def optional(self) -> bool:
        """Whether Slack may accept it empty; a text that has to be given, only if it is now."""
        if self.options and self.initial is not None:
            return False  # one option is always chosen; "Not set" is one of them
        if self.slot.nullable or self.slot.within_optional or self.old is Mark.ABSENT:
            return True
        schema = self.slot.schema
        if self.kind is Kind.TEXT:
            return not schema.get("minLength") and (not self.old or "default" in schema)
        return self.kind is Kind.LINES and not schema.get("minItems")


def make(slot: Slot, old: Any) -> Input | None:
    """Make the input for a slot and its JSON value; None when the value is too long for one."""
    made = _made(slot, _fitting(slot, old), old)
    if made.kind is Kind.JSON and not _fits(made):
        made = replace(made, initial=_written(old, indent=None))
    return made if _fits(made) else None


def _fits(made: Input) -> bool:
    return not isinstance(made.initial, str) or slack_length(made.initial) <= LONGEST


def _there(old: Any) -> bool:
    return old is not None and old is not Mark.ABSENT


def _fitting(slot: Slot, old: Any) -> Kind:
    """Return the slot's kind if the value fits it, else a kind that can hold the value."""
    kind = slot.kind
    if old is Mark.ABSENT or kind is Kind.PRESENCE or (old is None and slot.nullable):
        return kind
    fits = {
        Kind.BOOLEAN: isinstance(old, bool),
        Kind.INTEGER: isinstance(old, int) and not isinstance(old, bool),
        Kind.FLOAT: isinstance(old, int | float) and not isinstance(old, bool),
        Kind.CHOICE: kind is Kind.CHOICE and any(same(old, value) for value in _choices(slot)),
        Kind.LINES: isinstance(old, list) and _one_a_line(old, slot.nullable),
        Kind.JSON: True,
    }.get(kind, isinstance(old, str))
    if not fits:
        return Kind.JSON
    reader = {
        Kind.DATE: date.fromisoformat,
        Kind.TIME: time.fromisoformat,
        Kind.DATETIME: datetime.fromisoformat,
    }
    try:
        reader.get(kind, str)(old)
    except ValueError:
        return Kind.TEXT
    return kind


def _one_a_line(items: list[Any], nullable: bool) -> bool:
    """Whether the list is the same after a way through one line for each item."""
    if nullable and items == [EMPTY_LIST]:
        return False
    return all(
        isinstance(item, str) and item and item == item.strip() and not re.search(r"[\r\n]", item)
        for item in items
    )


def _made(slot: Slot, kind: Kind, old: Any) -> Input:
    match kind:
        case Kind.PRESENCE:
            set_or_not = (("yes", "Set", True), ("no", "Not set", False))
            return Input(
                slot, kind, "radio_buttons", old, "yes" if _there(old) else "no", set_or_not
            )
        case Kind.BOOLEAN:
            answers = (("yes", "Yes", True), ("no", "No", False), *_unset(slot))
            return _of_options(Input(slot, kind, "radio_buttons", old, None, answers))
        case Kind.CHOICE:
            return _choice(slot, old)
        case Kind.INTEGER | Kind.FLOAT | Kind.DECIMAL:
            digits = exact_digits(old) if _there(old) else ""
            if digits is None:
                return Input(slot, kind, TEXT_INPUT, old, str(old))
            return Input(slot, kind, "number_input", old, digits or None)
        case Kind.DATE | Kind.TIME | Kind.DATETIME:
            return _picker(slot, kind, old)
        case Kind.JSON:
            unset = old is Mark.ABSENT or (old is None and slot.nullable)
            return Input(slot, kind, TEXT_INPUT, old, None if unset else _written(old))
        case _:
            return _typed(slot, kind, old)


def _typed(slot: Slot, kind: Kind, old: Any) -> Input:
    if not _there(old):
        initial = None
    elif kind is Kind.LINES:
        initial = "\n".join(old) or (EMPTY_LIST if slot.nullable else None)
    else:
        initial = old or (EMPTY_TEXT if slot.nullable and kind is Kind.TEXT else None)
    form = _FORMS.get(kind)
    widget = (
        f"{kind}_text_input"
        if form and (initial is None or form.fullmatch(initial))
        else TEXT_INPUT
    )
    return Input(slot, kind, widget, old, initial)


def _picker(slot: Slot, kind: Kind, old: Any) -> Input:
    if kind is Kind.DATE:
        return Input(
            slot,
            kind,
            "datepicker",
            old,
            date.fromisoformat(old).isoformat() if _there(old) else None,
        )
    if kind is Kind.TIME:
        return Input(
            slot,
            kind,
            "timepicker",
            old,
            f"{time.fromisoformat(old):%H:%M}" if _there(old) else None,
        )
    seconds = _pickable(datetime.fromisoformat(old)) if _there(old) else None
    if slot.naive or (_there(old) and seconds is None):
        return Input(slot, kind, TEXT_INPUT, old, old if _there(old) else None)
    return Input(slot, kind, "datetimepicker", old, seconds)


def _pickable(moment: datetime) -> int | None:
    """Return Unix seconds of ten digits, as Slack's picker takes; None for other moments."""
    if moment.tzinfo is None:
        return None
    seconds = int(moment.timestamp())
    return seconds if 10**9 <= seconds < 10**10 else None


def exact_digits(number: Any) -> str | None:
    """Return the number in plain digits; None if it has too many for every client to keep."""
    try:
        exact = Decimal(str(number))
    except ArithmeticError:
        return None
    if (
        not exact.is_finite()
        or len(exact.as_tuple().digits) > _DIGITS
        or abs(exact.adjusted()) >= _DIGITS
    ):
        return None
    return f"{exact:f}"


def _written(value: Any, indent: int | None = 2) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _unset(slot: Slot) -> tuple[tuple[str, str, Any], ...]:
    return ((_UNSET, "Not set", None),) if slot.nullable else ()


def _of_options(made: Input) -> Input:
    """Return the input with the option chosen that stands for the value it has."""
    chosen = (code for code, _, value in made.options if same(value, made.old))
    return replace(made, initial=next(chosen, None))


def _choices(slot: Slot) -> list[Any]:
    return list(slot.schema["enum"]) if "enum" in slot.schema else [slot.schema["const"]]


def _choice(slot: Slot, old: Any) -> Input:
    """Make a menu; an input to type into where there are too many values, or too long ones to tell
    apart; else JSON.
    """
    choices = _choices(slot)
    written = [" ".join(readable(value, Kind.CHOICE).split()) for value in choices]
    if len(set(written)) < len(written):  # two of them read alike in words
        written = [" ".join(readable(value).split()) for value in choices]
    shown = [plain(text, 75) for text in written]
    codes = [
        value if isinstance(value, str) else text
        for value, text in zip(choices, written, strict=True)
    ]
    if len({*codes, _UNSET}) <= len(codes) or not all(
        code.strip() and slack_length(code) <= 150 for code in codes
    ):
        codes = [str(index) for index in range(len(choices))]
    menu = (*zip(codes, shown, choices, strict=True), *_unset(slot))
    if len(menu) <= 100 and len(set(shown)) == len(shown):
        return _of_options(Input(slot, Kind.CHOICE, "static_select", old, None, menu))
    if len(set(written)) == len(written):
        return _of_options(
            Input(
                slot,
                Kind.CHOICE,
                TEXT_INPUT,
                old,
                None,
                tuple(zip(written, shown, choices, strict=True)),
            )
        )
    return _made(slot, Kind.JSON, old)
