"""The inputs of a form: building one for a value, and reading what a person entered in it. Pure.

Unset differs from empty. If None is allowed, an empty input means None, and the empty text or list
is written as in JSON: two double quotes, or two square brackets. If None is not allowed, an empty
input of a text or a list is the empty text or list, and every other input must be filled in.

Reading validates no more than it must. What comes back unchanged is not converted at all:
`parse_entry` returns SlotSentinel.KEEP, so that precision, seconds, time zones and line ends that
an input cannot carry survive an edit of another value.
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

from bot.cards.field_slots import LIST_KINDS, PICKER_BY_KIND, FieldSlot, SlotKind, SlotSentinel
from bot.cards.field_values import format_json_value, is_same_json
from bot.cards.slack_text import count_slack_characters, shorten_text
from bot.tools.names import ID_PATTERN_BY_KIND

MAX_INPUT_CHARS = 3000  # Slack's limit
TEXT_INPUT = "plain_text_input"
EMPTY_TEXT_ENTRY = '""'
EMPTY_LIST_ENTRY = "[]"
_UNSET_OPTION_VALUE = "(unset)"
# What Slack's own inputs surely accept; any other value gets a plain text input.
_PATTERN_BY_KIND = {
    SlotKind.EMAIL: re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII),
    SlotKind.URL: re.compile(r"https?://[!-~]+"),
}
_MAX_EXACT_DIGITS = 15  # a client that computes with doubles would round longer numbers


@dataclass(frozen=True, slots=True)
class FieldInput:
    """The input of a form for one value of the arguments."""

    slot: FieldSlot
    kind: SlotKind  # how it is read: the slot's kind, or JSON or text if the value does not fit
    widget: str  # Slack's element type
    old_value: Any  # the current JSON value; SlotSentinel.ABSENT if there is none
    initial_entry: str | int | None  # what Slack sends if nobody changes the input
    options: tuple[tuple[str, str, Any], ...] = ()  # option value, text, JSON value

    @property
    def may_be_empty(self) -> bool:
        """Whether Slack may accept the input empty.

        A text that must be given may be empty only if it is empty already or has a default.
        """
        if self.options and self.initial_entry is not None:
            return False  # one option is always chosen; "Not set" is one of them
        if (
            self.slot.nullable
            or self.slot.is_within_optional
            or self.old_value is SlotSentinel.ABSENT
        ):
            return True
        schema = self.slot.schema
        if self.kind is SlotKind.TEXT:
            return not schema.get("minLength") and (not self.old_value or "default" in schema)
        return self.kind in LIST_KINDS and not schema.get("minItems")


def build_field_input(slot: FieldSlot, old: Any) -> FieldInput | None:
    """Build the form input for one argument value (a slot); None if it is too long for an input."""
    field = _build_input_of_kind(slot, _choose_fitting_kind(slot, old), old)
    if field.kind is SlotKind.JSON and not _is_short_enough_for_slack(field):
        field = replace(field, initial_entry=_dump_json(old, indent=None))
    return field if _is_short_enough_for_slack(field) else None


def _is_short_enough_for_slack(field: FieldInput) -> bool:
    return (
        not isinstance(field.initial_entry, str)
        or count_slack_characters(field.initial_entry) <= MAX_INPUT_CHARS
    )


def _has_value(old: Any) -> bool:
    return old is not None and old is not SlotSentinel.ABSENT


def _choose_fitting_kind(slot: FieldSlot, old: Any) -> SlotKind:
    """Return the kind of input for a value: that of its field, or one that can hold the value."""
    kind = slot.kind
    if old is SlotSentinel.ABSENT or kind is SlotKind.PRESENCE or (old is None and slot.nullable):
        return kind
    if kind in PICKER_BY_KIND:
        if _are_ids_of_kind(kind, old):
            return kind
        kind = SlotKind.LINES if kind in LIST_KINDS else SlotKind.TEXT
    fits = {
        SlotKind.BOOLEAN: isinstance(old, bool),
        SlotKind.INTEGER: isinstance(old, int) and not isinstance(old, bool),
        SlotKind.FLOAT: isinstance(old, int | float) and not isinstance(old, bool),
        SlotKind.CHOICE: kind is SlotKind.CHOICE
        and any(is_same_json(old, value) for value in _list_allowed_values(slot)),
        SlotKind.LINES: isinstance(old, list) and _can_be_one_item_per_line(old, slot.nullable),
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


def _are_ids_of_kind(kind: SlotKind, old: Any) -> bool:
    """Return whether a menu of people or channels can show this value as chosen."""
    form = ID_PATTERN_BY_KIND["person" if kind in (SlotKind.PERSON, SlotKind.PEOPLE) else "channel"]
    items = old if kind in LIST_KINDS else [old]
    if not isinstance(items, list) or len({*map(str, items)}) < len(items):
        return False
    return all(isinstance(each, str) and form.fullmatch(each) for each in items)


def _can_be_one_item_per_line(items: list[Any], nullable: bool) -> bool:
    """Return whether a list can be written with one item on each line and read back unchanged."""
    if nullable and items == [EMPTY_LIST_ENTRY]:
        return False
    return all(
        isinstance(item, str) and item and item == item.strip() and not re.search(r"[\r\n]", item)
        for item in items
    )


def _build_input_of_kind(slot: FieldSlot, kind: SlotKind, old: Any) -> FieldInput:
    match kind:
        case SlotKind.PRESENCE:
            set_or_not = (("yes", "Set", True), ("no", "Not set", False))
            return FieldInput(
                slot, kind, "radio_buttons", old, "yes" if _has_value(old) else "no", set_or_not
            )
        case SlotKind.BOOLEAN:
            answers = (("yes", "Yes", True), ("no", "No", False), *_list_unset_options(slot))
            return _select_current_option(
                FieldInput(slot, kind, "radio_buttons", old, None, answers)
            )
        case SlotKind.CHOICE:
            return _build_choice_input(slot, old)
        case SlotKind.INTEGER | SlotKind.FLOAT | SlotKind.DECIMAL:
            digits = format_exact_digits(old) if _has_value(old) else ""
            if digits is None:
                return FieldInput(slot, kind, TEXT_INPUT, old, str(old))
            return FieldInput(slot, kind, "number_input", old, digits or None)
        case kind if kind in PICKER_BY_KIND:
            chosen = old if isinstance(old, list) else [old] if _has_value(old) else []
            return FieldInput(slot, kind, PICKER_BY_KIND[kind], old, "\n".join(chosen) or None)
        case SlotKind.DATE | SlotKind.TIME | SlotKind.DATETIME:
            return _build_picker_input(slot, kind, old)
        case SlotKind.JSON:
            unset = old is SlotSentinel.ABSENT or (old is None and slot.nullable)
            return FieldInput(slot, kind, TEXT_INPUT, old, None if unset else _dump_json(old))
        case _:
            return _build_text_input(slot, kind, old)


def _build_text_input(slot: FieldSlot, kind: SlotKind, old: Any) -> FieldInput:
    if not _has_value(old):
        initial = None
    elif kind is SlotKind.LINES:
        initial = "\n".join(old) or (EMPTY_LIST_ENTRY if slot.nullable else None)
    else:
        initial = old or (EMPTY_TEXT_ENTRY if slot.nullable and kind is SlotKind.TEXT else None)
    form = _PATTERN_BY_KIND.get(kind)
    widget = (
        f"{kind}_text_input"
        if form and (initial is None or form.fullmatch(initial))
        else TEXT_INPUT
    )
    return FieldInput(slot, kind, widget, old, initial)


def _build_picker_input(slot: FieldSlot, kind: SlotKind, old: Any) -> FieldInput:
    if kind is SlotKind.DATE:
        day = date.fromisoformat(old).isoformat() if _has_value(old) else None
        return FieldInput(slot, kind, "datepicker", old, day)
    if kind is SlotKind.TIME:
        at = f"{time.fromisoformat(old):%H:%M}" if _has_value(old) else None
        return FieldInput(slot, kind, "timepicker", old, at)
    seconds = _convert_to_picker_seconds(datetime.fromisoformat(old)) if _has_value(old) else None
    if slot.is_naive_datetime or (_has_value(old) and seconds is None):
        return FieldInput(slot, kind, TEXT_INPUT, old, old if _has_value(old) else None)
    return FieldInput(slot, kind, "datetimepicker", old, seconds)


def _convert_to_picker_seconds(moment: datetime) -> int | None:
    """Return the Unix seconds (ten digits) for Slack's picker; None for moments it cannot take."""
    if moment.tzinfo is None:
        return None
    seconds = int(moment.timestamp())
    return seconds if 10**9 <= seconds < 10**10 else None


def format_exact_digits(number: Any) -> str | None:
    """Return the number in plain digits; None if it is not finite or has more than 15 digits."""
    try:
        exact = Decimal(str(number))
    except ArithmeticError:
        return None
    if (
        not exact.is_finite()
        or len(exact.as_tuple().digits) > _MAX_EXACT_DIGITS
        or abs(exact.adjusted()) >= _MAX_EXACT_DIGITS
    ):
        return None
    return f"{exact:f}"


def _dump_json(value: Any, indent: int | None = 2) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _list_unset_options(slot: FieldSlot) -> tuple[tuple[str, str, Any], ...]:
    is_offered = slot.nullable and slot.default is None
    return ((_UNSET_OPTION_VALUE, "Not set", None),) if is_offered else ()


def _select_current_option(field: FieldInput) -> FieldInput:
    """Return the input with the option for its current value selected."""
    chosen = (code for code, _, value in field.options if is_same_json(value, field.old_value))
    return replace(field, initial_entry=next(chosen, None))


def _list_allowed_values(slot: FieldSlot) -> list[Any]:
    return list(slot.schema["enum"]) if "enum" in slot.schema else [slot.schema["const"]]


def _build_choice_input(slot: FieldSlot, old: Any) -> FieldInput:
    """Build a menu of the allowed values, else an input to type one into, else an input for JSON.

    A menu cannot be built for over 100 options, or for ones that look alike once shortened.
    """
    choices = _list_allowed_values(slot)
    written = [" ".join(format_json_value(value, SlotKind.CHOICE).split()) for value in choices]
    if len(set(written)) < len(written):  # two of them look alike in words
        written = [" ".join(format_json_value(value).split()) for value in choices]
    shown = [shorten_text(text, 75) for text in written]
    codes = [
        value if isinstance(value, str) else text
        for value, text in zip(choices, written, strict=True)
    ]
    if len({*codes, _UNSET_OPTION_VALUE}) <= len(codes) or not all(
        code.strip() and count_slack_characters(code) <= 150 for code in codes
    ):
        codes = [str(index) for index in range(len(choices))]
    menu = (*zip(codes, shown, choices, strict=True), *_list_unset_options(slot))
    if len(menu) <= 100 and len(set(shown)) == len(shown):
        return _select_current_option(
            FieldInput(slot, SlotKind.CHOICE, "static_select", old, None, menu)
        )
    if len(set(written)) == len(written):
        typed = tuple(zip(written, shown, choices, strict=True))
        return _select_current_option(
            FieldInput(slot, SlotKind.CHOICE, TEXT_INPUT, old, None, typed)
        )
    return _build_input_of_kind(slot, SlotKind.JSON, old)


_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,4000}")
_DECIMAL_PATTERN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_FLOAT_PATTERN = re.compile(_DECIMAL_PATTERN.pattern + r"([eE][+-]?[0-9]{1,3})?")
_MAX_JSON_DEPTH = 32  # of JSON that a person enters
STATE_KEY_BY_WIDGET = {
    "datepicker": "selected_date",
    "timepicker": "selected_time",
    "datetimepicker": "selected_date_time",
    "users_select": "selected_user",
    "multi_users_select": "selected_users",
    "conversations_select": "selected_conversation",
    "multi_conversations_select": "selected_conversations",
}


class UnreadableEntryError(Exception):
    """Raised for an entry that cannot be read; its text is a sentence for the person."""


def parse_entry(field_input: FieldInput, state: Mapping[str, Any] | None) -> Any:
    """Return the JSON value that was entered; SlotSentinel.KEEP when nothing was changed.

    `state`: the input as Slack sends it; None when it was not sent.

    Raises UnreadableEntryError, with a sentence for the person, if the entry cannot be read.
    """
    if state is None:
        return SlotSentinel.KEEP
    raw = _get_raw_entry(field_input.widget, state)
    if raw == field_input.initial_entry:
        return SlotSentinel.KEEP
    if raw is None:
        return _get_empty_value(field_input)
    if field_input.options:
        return _parse_chosen_option(field_input, raw)
    if field_input.widget == "datetimepicker":
        return _parse_picked_moment(field_input, raw)
    if not isinstance(raw, str):
        raise UnreadableEntryError("This cannot be read.")
    if any("\ud800" <= char <= "\udfff" for char in raw):
        raise UnreadableEntryError("It contains characters that cannot be stored.")
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    if isinstance(field_input.initial_entry, str) and text == field_input.initial_entry.replace(
        "\r\n", "\n"
    ).replace("\r", "\n"):
        return SlotSentinel.KEEP
    return _parse_typed_text(field_input, text)


def _get_raw_entry(widget: str, state: Mapping[str, Any]) -> Any:
    if widget in ("radio_buttons", "static_select"):
        return (state.get("selected_option") or {}).get("value")
    value = state.get(STATE_KEY_BY_WIDGET.get(widget, "value"))
    if isinstance(value, list):  # a list of ids
        value = "\n".join(map(str, value))
    return None if value == "" else value


def _get_empty_value(field: FieldInput) -> Any:
    if field.slot.nullable:
        return field.slot.default  # people see it, and not only that the value is left out
    match field.kind:
        case SlotKind.TEXT:
            return ""
        case kind if kind in LIST_KINDS:
            return []
        case _:
            raise UnreadableEntryError("A value is needed here.")


def _parse_chosen_option(field: FieldInput, raw: Any) -> Any:
    typed = " ".join(str(raw).split()) if field.widget == "plain_text_input" else raw
    for code, _, value in field.options:
        if code == typed:
            return SlotSentinel.KEEP if is_same_json(value, field.old_value) else value
    raise UnreadableEntryError("This is not one of the allowed values.")


def _parse_picked_moment(field: FieldInput, raw: Any) -> str | SlotSentinel:
    """Return the picked moment (ISO 8601) in the time zone the value had before, else in UTC.

    SlotSentinel.KEEP if the minute is the same, since pickers know no seconds.
    """
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw < 10**10:
        raise UnreadableEntryError("This is not a date and time.")
    if isinstance(field.initial_entry, int):
        if raw // 60 == field.initial_entry // 60:
            return SlotSentinel.KEEP
        zone = datetime.fromisoformat(field.old_value).tzinfo
    else:
        zone = UTC
    return datetime.fromtimestamp(raw, zone).isoformat()


def _parse_typed_text(field: FieldInput, text: str) -> Any:
    nullable = field.slot.nullable
    match field.kind:
        case SlotKind.TEXT:
            return "" if nullable and text == EMPTY_TEXT_ENTRY else text
        case kind if kind in LIST_KINDS:
            if nullable and text.strip() == EMPTY_LIST_ENTRY:
                return []
            return [line.strip() for line in text.split("\n") if line.strip()]
        case SlotKind.INTEGER | SlotKind.FLOAT | SlotKind.DECIMAL:
            return _parse_number(field, text.strip())
        case SlotKind.TIME:
            return _parse_time(field, text)
        case SlotKind.JSON:
            value = parse_json_entry(text)
            return SlotSentinel.KEEP if is_same_json(value, field.old_value) else value
        case _:
            return text.strip()


def _parse_number(field: FieldInput, text: str) -> Any:
    pattern, example = {
        SlotKind.INTEGER: (_INTEGER_PATTERN, "This must be a whole number, like 42."),
        SlotKind.DECIMAL: (_DECIMAL_PATTERN, "This must be a number, like 12.50."),
        SlotKind.FLOAT: (_FLOAT_PATTERN, "This must be a number, like 12.5."),
    }[field.kind]
    if not pattern.fullmatch(text):
        raise UnreadableEntryError(example)
    if field.initial_entry is not None and Decimal(str(field.initial_entry)) == Decimal(text):
        return SlotSentinel.KEEP
    if field.kind is SlotKind.DECIMAL:
        return text
    number: int | float = int(text) if field.kind is SlotKind.INTEGER else float(text)
    if isinstance(number, float) and not math.isfinite(number):
        raise UnreadableEntryError("This number is too large.")
    return number


def _parse_time(field: FieldInput, text: str) -> str:
    try:
        picked = time.fromisoformat(text)
    except ValueError:
        raise UnreadableEntryError("This is not a time of day.") from None
    if field.initial_entry is None:
        return picked.isoformat()
    return (
        time.fromisoformat(field.old_value)
        .replace(hour=picked.hour, minute=picked.minute, second=0, microsecond=0)
        .isoformat()
    )


def parse_json_entry(text: str) -> Any:
    """Return the value of a JSON text that a person entered.

    Raises UnreadableEntryError for invalid JSON (with the place), for a key that stands twice in an
    object, and for too deep a nesting, too large a number or characters that cannot be stored.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_build_json_object,
            parse_constant=_refuse_json_constant,
            parse_float=_parse_finite_float,
            parse_int=_parse_bounded_integer,
        )
        deep = _measure_nesting_depth(value) > _MAX_JSON_DEPTH
    except json.JSONDecodeError as error:
        raise UnreadableEntryError(
            f"Not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        ) from None
    except RecursionError:
        deep = True
    if deep:
        raise UnreadableEntryError(f"The JSON is nested more than {_MAX_JSON_DEPTH} levels deep.")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableEntryError("It contains characters that cannot be stored.") from None
    return value


def _build_json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UnreadableEntryError(
                f"The key {json.dumps(key, ensure_ascii=False)[:60]} appears twice in one object."
            )
        found[key] = value
    return found


def _refuse_json_constant(name: str) -> Any:
    raise UnreadableEntryError(f"{name} is not valid JSON.")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnreadableEntryError("A number in it is too large.")
    return number


def _parse_bounded_integer(text: str) -> int:
    if len(text) > 4000:
        raise UnreadableEntryError("A number in it is too large.")
    return int(text)


def _measure_nesting_depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_measure_nesting_depth(item) for item in inside), default=0)
