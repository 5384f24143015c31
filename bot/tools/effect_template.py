"""Fills in a tool's effect template, with every value as a person would write it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from string import Formatter
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python

_TIME_UNITS = (
    (timedelta(days=1), "day"),
    (timedelta(hours=1), "hour"),
    (timedelta(minutes=1), "minute"),
)


class EffectFormatter(Formatter):
    """Fills in a template like `str.format`, with values in words unless it formats them itself."""

    def __init__(self, name_text: Callable[[str], str]) -> None:
        """`name_text` returns the name for a text that is somebody's id, and others as they are."""
        self._name_text = name_text

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return an argument; a set as a list, of which the template may name a member."""
        value = super().get_value(key, args, kwargs)
        return _sort_members(value) if isinstance(value, Set) else value

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """Return the value for "{value!s}" in words, and for "{value!r}" a text in quotes."""
        if isinstance(value, Enum):
            value = value.value
        if conversion is None:
            return value
        words = format_for_people(value, self._name_text)
        return super().convert_field(words, conversion if isinstance(value, str) else "s")

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return the value in words, and as the template formats it, such as "{price:.2f}"."""
        has_own_format = not (
            value is None
            or isinstance(value, bool | Mapping | Set | Sequence | BaseModel)
            or is_dataclass(value)
        )
        if format_spec and has_own_format:
            return format(value, format_spec)
        return format(format_for_people(value, self._name_text), format_spec)


def format_for_people(value: Any, name_text: Callable[[str], str] = str) -> str:
    """Return a value as a person would write it; `name_text` as `EffectFormatter` has it."""
    match value:
        case None | bool():
            return {None: "none", True: "yes", False: "no"}[value]
        case Enum():
            return format_for_people(value.value, name_text)
        case str():
            return name_text(value)
        case int() | float():
            return str(value)
        case timedelta():
            return _format_time_span(value)
        case bytes() | bytearray():
            return value.decode("utf-8", "replace")
        case Decimal():
            return format(value, "f")
        case datetime():
            return f"{value.date()} {_format_clock_time(value.timetz())}"
        case time():
            return _format_clock_time(value)
        case RootModel():
            return format_for_people(value.root, name_text)
        case Set():
            return _join(_format_member(each, name_text) for each in _sort_members(value))
        case Sequence():
            return _join(_format_member(each, name_text) for each in value)
        case Mapping() | BaseModel():
            return _join(_format_pair(*each, name_text) for each in _list_pairs(value))
        case _ if is_dataclass(value):
            return _join(_format_pair(*each, name_text) for each in _list_pairs(value))
        case _:
            return str(to_jsonable_python(value, fallback=str))


def _join(parts: Iterable[str]) -> str:
    return ", ".join(parts) or "none"


def _sort_members(value: Set[Any]) -> list[Any]:
    return sorted(value, key=str)  # in one order in every process


def _format_member(value: Any, name_text: Callable[[str], str]) -> str:
    """Return a member of a list or object; in brackets if it has several members itself."""
    text = format_for_people(value, name_text)
    return f"({text})" if ", " in text and not isinstance(value, str | bytes) else text


def _format_pair(name: Any, value: Any, name_text: Callable[[str], str]) -> str:
    return f"{format_for_people(name, name_text)}: {_format_member(value, name_text)}"


def _list_pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return what an object holds; a field of a model by its title, else by its name in words."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, BaseModel):
        declared = type(value).model_fields
        titles = {name: each.title for name, each in declared.items()}
        return [(titles.get(name) or name.replace("_", " "), each) for name, each in value]
    return [(each.name.replace("_", " "), getattr(value, each.name)) for each in fields(value)]


def _format_time_span(span: timedelta) -> str:
    """Return a time span exactly, such as "1 day 12 hours", "0.5 seconds" or "-30 minutes"."""
    rest, parts = abs(span), []
    for size, unit in _TIME_UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    if rest or not parts:
        seconds = format(rest / timedelta(seconds=1), ".6f").rstrip("0").rstrip(".")
        parts.append(f"{seconds} second{'' if seconds == '1' else 's'}")
    return f"{'-' if span < timedelta() else ''}{' '.join(parts)}"


def _format_clock_time(at: time) -> str:
    """Return hours and minutes, seconds only if there are any, and the offset from UTC."""
    clock = at.replace(tzinfo=None)
    text = clock.isoformat() if at.second or at.microsecond else clock.isoformat("minutes")
    offset = at.isoformat().removeprefix(clock.isoformat())
    return f"{text} UTC" if offset == "+00:00" else f"{text} {offset}".rstrip()
