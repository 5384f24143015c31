"""What a person put into one input, as the JSON value it means.

Pure; it validates no more than it must to read.

What comes back unchanged is not converted at all: `read` answers Mark.KEEP, so that precision,
seconds, time zones and line ends that an input cannot carry survive an edit of something else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

from bot.cards.field_inputs import EMPTY_LIST, EMPTY_TEXT, Input
from bot.cards.field_slots import Kind, Mark
from bot.cards.field_values import same

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
    """What was entered means nothing here; the text is a sentence for the person who entered it."""


def read(made: Input, state: Mapping[str, Any] | None) -> Any:
    """Return the JSON value that was entered; Mark.KEEP when nothing was changed.

    `state`: the input as Slack sends it; None when it was not sent.

    UnreadableError with a sentence for the person where it cannot be read.
    """
    if state is None:
        return Mark.KEEP
    raw = _raw(made.widget, state)
    if raw == made.initial:
        return Mark.KEEP
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
        return Mark.KEEP
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
        case Kind.TEXT:
            return ""
        case Kind.LINES:
            return []
        case _:
            raise UnreadableError("A value is needed here.")


def _chosen(made: Input, raw: Any) -> Any:
    typed = " ".join(str(raw).split()) if made.widget == "plain_text_input" else raw
    for code, _, value in made.options:
        if code == typed:
            return Mark.KEEP if same(value, made.old) else value
    raise UnreadableError("This is not one of the allowed values.")


def _moment(made: Input, raw: Any) -> str | Mark:
    """Return the picked moment, in the time zone the value had before, else in UTC.

    Pickers know no seconds.
    """
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw < 10**10:
        raise UnreadableError("This is not a date and time.")
    if isinstance(made.initial, int):
        if raw // 60 == made.initial // 60:
            return Mark.KEEP
        zone = datetime.fromisoformat(made.old).tzinfo
    else:
        zone = UTC
    return datetime.fromtimestamp(raw, zone).isoformat()


def _converted(made: Input, text: str) -> Any:
    nullable = made.slot.nullable
    match made.kind:
        case Kind.TEXT:
            return "" if nullable and text == EMPTY_TEXT else text
        case Kind.LINES:
            if nullable and text.strip() == EMPTY_LIST:
                return []
            return [line.strip() for line in text.split("\n") if line.strip()]
        case Kind.INTEGER | Kind.FLOAT | Kind.DECIMAL:
            return _number(made, text.strip())
        case Kind.TIME:
            return _time(made, text)
        case Kind.JSON:
            value = parsed_json(text)
            return Mark.KEEP if same(value, made.old) else value
        case _:
            return text.strip()


def _number(made: Input, text: str) -> Any:
    form, example = {
        Kind.INTEGER: (_INTEGER, "This must be a whole number, like 42."),
        Kind.DECIMAL: (_DECIMAL, "This must be a number, like 12.50."),
        Kind.FLOAT: (_FLOAT, "This must be a number, like 12.5."),
    }[made.kind]
    if not form.fullmatch(text):
        raise UnreadableError(example)
    if made.initial is not None and Decimal(str(made.initial)) == Decimal(text):
        return Mark.KEEP
    if made.kind is Kind.DECIMAL:
        return text
    number: int | float = int(text) if made.kind is Kind.INTEGER else float(text)
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
    """Return the value that the JSON text means.

    UnreadableError for what is no JSON (with the place), and for keys that stand twice.
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
