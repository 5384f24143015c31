"""The inputs of a form: building one for a value, and reading what a person entered in it. Pure.

Unset differs from empty. If None is allowed, an empty input means None, and the empty text or list
is written as in JSON: two double quotes, or two square brackets. If None is not allowed, an empty
input of a text or a list is the empty text or list, and every other input must be filled in.

Reading validates no more than it must. What comes back unchanged is not converted at all:
`read_input` returns SlotMark.KEEP, so that precision, seconds, time zones and line ends that an
input cannot carry survive an edit of another value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from bot.cards.field_slots import Slot, SlotKind, SlotMark
from bot.cards.field_values import json_value_text, same_json
from bot.cards.slack_text import plain, slack_length

LONGEST = 3000  # characters Slack takes in an input
TEXT_INPUT = "plain_text_input"
EMPTY_TEXT = '""'
EMPTY_LIST = "[]"
_UNSET = "(unset)"
# What Slack's own inputs are sure to accept; anything else stands in a plain one.
_FORMS = {
    SlotKind.EMAIL: re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII),
    SlotKind.URL: re.compile(r"https?://[!-~]+"),
}
_DIGITS = 15  # beyond these, a client that thinks in doubles would round


@dataclass(frozen=True, slots=True)
class Input:
    """The input of a form for one value of the arguments."""

    slot: Slot
    kind: SlotKind  # how it is read: the slot's kind, or JSON or text where the value does not fit
    widget: str  # Slack's element type
    old: Any  # the JSON value there is; SlotMark.ABSENT for none
    initial: str | int | None  # what Slack sends when nobody touches it
    options: tuple[tuple[str, str, Any], ...] = ()  # option value, text, JSON value

    @property
    def optional(self) -> bool:
        """Whether Slack may accept the input empty.

        A text that must be given may be empty only if it is empty already or has a default.
        """
        if self.options and self.initial is not None:
            return False  # one option is always chosen; "Not set" is one of them
        if self.slot.nullable or self.slot.within_optional or self.old is SlotMark.ABSENT:
            return True
        schema = self.slot.schema
        if self.kind is SlotKind.TEXT:
            return not schema.get("minLength") and (not self.old or "default" in schema)
        return self.kind is SlotKind.LINES and not schema.get("minItems")


def make_input(slot: Slot, old: Any) -> Input | None:
    """Build the input for a slot and its JSON value; None if the value is too long for an input."""
    made = _made(slot, _fitting(slot, old), old)
    if made.kind is SlotKind.JSON and not _fits(made):
        made = replace(made, initial=_written(old, indent=None))
    return made if _fits(made) else None


def _fits(made: Input) -> bool:
    return not isinstance(made.initial, str) or slack_length(made.initial) <= LONGEST


def _there(old: Any) -> bool:
    return old is not None and old is not SlotMark.ABSENT


def _fitting(slot: Slot, old: Any) -> SlotKind:
    """Return the slot's kind if the value fits it, else a kind that can hold the value."""
    kind = slot.kind
    if old is SlotMark.ABSENT or kind is SlotKind.PRESENCE or (old is None and slot.nullable):
        return kind
    fits = {
        SlotKind.BOOLEAN: isinstance(old, bool),
        SlotKind.INTEGER: isinstance(old, int) and not isinstance(old, bool),
        SlotKind.FLOAT: isinstance(old, int | float) and not isinstance(old, bool),
        SlotKind.CHOICE: kind is SlotKind.CHOICE
        and any(same_json(old, value) for value in _choices(slot)),
        SlotKind.LINES: isinstance(old, list) and _one_a_line(old, slot.nullable),
        SlotKind.JSON: True,
    }.get(kind, isinstance(old, str))
    if not fits:
        return SlotKind.JSON
    reader = {
        SlotKind.DATE: date.fromisoformat,
        SlotKind.TIME: time.fromisoformat,
        SlotKind.DATETIME: datetime.fromisoformat,
    }
    try:
        reader.get(kind, str)(old)
    except ValueError:
        return SlotKind.TEXT
    return kind


def _one_a_line(items: list[Any], nullable: bool) -> bool:
    """Return whether a list can be written with one item on each line and read back unchanged."""
    if nullable and items == [EMPTY_LIST]:
        return False
    return all(
        isinstance(item, str) and item and item == item.strip() and not re.search(r"[\r\n]", item)
        for item in items
    )


def _made(slot: Slot, kind: SlotKind, old: Any) -> Input:
    match kind:
        case SlotKind.PRESENCE:
            set_or_not = (("yes", "Set", True), ("no", "Not set", False))
            return Input(
                slot, kind, "radio_buttons", old, "yes" if _there(old) else "no", set_or_not
            )
        case SlotKind.BOOLEAN:
            answers = (("yes", "Yes", True), ("no", "No", False), *_unset(slot))
            return _of_options(Input(slot, kind, "radio_buttons", old, None, answers))
        case SlotKind.CHOICE:
            return _choice(slot, old)
        case SlotKind.INTEGER | SlotKind.FLOAT | SlotKind.DECIMAL:
            digits = exact_digits(old) if _there(old) else ""
            if digits is None:
                return Input(slot, kind, TEXT_INPUT, old, str(old))
            return Input(slot, kind, "number_input", old, digits or None)
        case SlotKind.DATE | SlotKind.TIME | SlotKind.DATETIME:
            return _picker(slot, kind, old)
        case SlotKind.JSON:
            unset = old is SlotMark.ABSENT or (old is None and slot.nullable)
            return Input(slot, kind, TEXT_INPUT, old, None if unset else _written(old))
        case _:
            return _typed(slot, kind, old)


def _typed(slot: Slot, kind: SlotKind, old: Any) -> Input:
    if not _there(old):
        initial = None
    elif kind is SlotKind.LINES:
        initial = "\n".join(old) or (EMPTY_LIST if slot.nullable else None)
    else:
        initial = old or (EMPTY_TEXT if slot.nullable and kind is SlotKind.TEXT else None)
    form = _FORMS.get(kind)
    widget = (
        f"{kind}_text_input"
        if form and (initial is None or form.fullmatch(initial))
        else TEXT_INPUT
    )
    return Input(slot, kind, widget, old, initial)


def _picker(slot: Slot, kind: SlotKind, old: Any) -> Input:
    if kind is SlotKind.DATE:
        return Input(
            slot,
            kind,
            "datepicker",
            old,
            date.fromisoformat(old).isoformat() if _there(old) else None,
        )
    if kind is SlotKind.TIME:
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
    """Return the Unix seconds (ten digits) for Slack's picker; None for moments it cannot take."""
    if moment.tzinfo is None:
        return None
    seconds = int(moment.timestamp())
    return seconds if 10**9 <= seconds < 10**10 else None


def exact_digits(number: Any) -> str | None:
    """Return the number in plain digits; None if it is not finite or has more than 15 digits."""
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
    """Return the input with the option chosen that stands for its current value."""
    chosen = (code for code, _, value in made.options if same_json(value, made.old))
    return replace(made, initial=next(chosen, None))


def _choices(slot: Slot) -> list[Any]:
    return list(slot.schema["enum"]) if "enum" in slot.schema else [slot.schema["const"]]


def _choice(slot: Slot, old: Any) -> Input:
    """Build a menu of the allowed values, else an input to type one into, else an input for JSON.

    A menu cannot be built for over 100 options, or for ones that look alike once shortened.
    """
    choices = _choices(slot)
    written = [" ".join(json_value_text(value, SlotKind.CHOICE).split()) for value in choices]
    if len(set(written)) < len(written):  # two of them read alike in words
        written = [" ".join(json_value_text(value).split()) for value in choices]
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
        return _of_options(Input(slot, SlotKind.CHOICE, "static_select", old, None, menu))
    if len(set(written)) == len(written):
        return _of_options(
            Input(
                slot,
                SlotKind.CHOICE,
                TEXT_INPUT,
                old,
                None,
                tuple(zip(written, shown, choices, strict=True)),
            )
        )
    return _made(slot, SlotKind.JSON, old)


_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_FLOAT = re.compile(_DECIMAL.pattern + r"([eE][+-]?[0-9]{1,3})?")
_DEEPEST = 32  # levels of JSON a person may write
_PICKED = {
    "datepicker": "selected_date",
    "timepicker": "selected_time",
    "datetimepicker": "selected_date_time",
}


class UnreadableError(Exception):
    """Raised for an entry that cannot be read; its text is a sentence for the person."""


def read_input(made: Input, state: Mapping[str, Any] | None) -> Any:
    """Return the JSON value that was entered; SlotMark.KEEP when nothing was changed.

    `state`: the input as Slack sends it; None when it was not sent.

    Raises UnreadableError, with a sentence for the person, if the entry cannot be read.
    """
    if state is None:
        return SlotMark.KEEP
    raw = _raw(made.widget, state)
    if raw == made.initial:
        return SlotMark.KEEP
    if raw is None:
        return _emptied(made)
    if made.options:
        return _chosen(made, raw)
    if made.widget == "datetimepicker":
        return _moment(made, raw)
    if not isinstance(raw, str):
        raise UnreadableError("This cannot be read.")
    if any("\ud800" <= char <= "\udfff" for char in raw):
        raise UnreadableError("It holds characters that cannot be stored.")
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    if isinstance(made.initial, str) and text == made.initial.replace("\r\n", "\n").replace(
        "\r", "\n"
    ):
        return SlotMark.KEEP
    return _converted(made, text)


def _raw(widget: str, state: Mapping[str, Any]) -> Any:
    if widget in ("radio_buttons", "static_select"):
        return (state.get("selected_option") or {}).get("value")
    value = state.get(_PICKED.get(widget, "value"))
    return None if value == "" else value


def _emptied(made: Input) -> Any:
    if made.slot.nullable:
        return None
    match made.kind:
        case SlotKind.TEXT:
            return ""
        case SlotKind.LINES:
            return []
        case _:
            raise UnreadableError("A value is needed here.")


def _chosen(made: Input, raw: Any) -> Any:
    typed = " ".join(str(raw).split()) if made.widget == "plain_text_input" else raw
    for code, _, value in made.options:
        if code == typed:
            return SlotMark.KEEP if same_json(value, made.old) else value
    raise UnreadableError("This is not one of the allowed values.")


def _moment(made: Input, raw: Any) -> str | SlotMark:
    """Return the picked moment (ISO 8601) in the time zone the value had before, else in UTC.

    SlotMark.KEEP if the minute is the same, since pickers know no seconds.
    """
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw < 10**10:
        raise UnreadableError("This is not a date and time.")
    if isinstance(made.initial, int):
        if raw // 60 == made.initial // 60:
            return SlotMark.KEEP
        zone = datetime.fromisoformat(made.old).tzinfo
    else:
        zone = UTC
    return datetime.fromtimestamp(raw, zone).isoformat()


def _converted(made: Input, text: str) -> Any:
    nullable = made.slot.nullable
    match made.kind:
        case SlotKind.TEXT:
            return "" if nullable and text == EMPTY_TEXT else text
        case SlotKind.LINES:
            if nullable and text.strip() == EMPTY_LIST:
                return []
            return [line.strip() for line in text.split("\n") if line.strip()]
        case SlotKind.INTEGER | SlotKind.FLOAT | SlotKind.DECIMAL:
            return _number(made, text.strip())
        case SlotKind.TIME:
            return _time(made, text)
        case SlotKind.JSON:
            value = parsed_json(text)
            return SlotMark.KEEP if same_json(value, made.old) else value
        case _:
            return text.strip()


def _number(made: Input, text: str) -> Any:
    form, example = {
        SlotKind.INTEGER: (_INTEGER, "This must be a whole number, like 42."),
        SlotKind.DECIMAL: (_DECIMAL, "This must be a number, like 12.50."),
        SlotKind.FLOAT: (_FLOAT, "This must be a number, like 12.5."),
    }[made.kind]
    if not form.fullmatch(text):
        raise UnreadableError(example)
    if made.initial is not None and Decimal(str(made.initial)) == Decimal(text):
        return SlotMark.KEEP
    if made.kind is SlotKind.DECIMAL:
        return text
    number: int | float = int(text) if made.kind is SlotKind.INTEGER else float(text)
    if isinstance(number, float) and not math.isfinite(number):
        raise UnreadableError("This number is too large.")
    return number


def _time(made: Input, text: str) -> str:
    try:
        picked = time.fromisoformat(text)
    except ValueError:
        raise UnreadableError("This is not a time of day.") from None
    if made.initial is None:
        return picked.isoformat()
    return (
        time.fromisoformat(made.old)
        .replace(hour=picked.hour, minute=picked.minute, second=0, microsecond=0)
        .isoformat()
    )


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text that a person entered.

    Raises UnreadableError for invalid JSON (with the place), for a key that stands twice in an
    object, and for too deep a nesting, too large a number or characters that cannot be stored.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        deep = _depth(value) > _DEEPEST
    except json.JSONDecodeError as error:
        raise UnreadableError(
            f"Not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        ) from None
    except RecursionError:
        deep = True
    if deep:
        raise UnreadableError(f"The JSON is nested more than {_DEEPEST} levels deep.")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError("It holds characters that cannot be stored.") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UnreadableError(
                f"The key {json.dumps(key, ensure_ascii=False)[:60]} stands twice in one object."
            )
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise UnreadableError(f"{name} is not valid JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnreadableError("A number in it is too large.")
    return number


def _integer(text: str) -> int:
    if len(text) > 4000:
        raise UnreadableError("A number in it is too large.")
    return int(text)


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(item) for item in inside), default=0)
