"""What conditions compute with: exact numbers, texts, truth, lists, maps and times. PURE.

A number is a fraction, so nothing is ever rounded. What cannot be used raises Untold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from datetime import time as clock_time
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import re2  # type: ignore[import-untyped] # ships no types

# What a policy may know of a call when it judges it.


@dataclass(frozen=True, slots=True, order=True)
class Spent:
    """A sum (or, without a field, a count) over the calls of one tool within a window: those of the
    same requester, or of anyone, and only those that have the same values in some fields.
    """

    tool: str
    field: str  # "" counts calls
    window: int  # seconds
    same: tuple[str, ...] = ()  # fields whose values are as in the call that is judged, sorted
    anyone: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a rule may know of a call.

    What could not be had is None, and what needs it cannot be told.
    """

    tool: str
    effect: str
    requester: str
    args: Mapping[str, Any]
    channel: str = ""
    risk: str = "medium"
    client: str = ""  # the name of the key by which a program asks
    now: datetime | None = None
    groups: Mapping[str, frozenset[str] | None] | None = None  # handle without @ -> user ids
    channels: Mapping[str, str | None] | None = None  # #name -> id
    people: Mapping[str, str | None] | None = None  # handle without @ -> user id
    spent: Mapping[Spent, Decimal | None] | None = None
    arguments: str = ""  # `args` as canonical JSON, where a sum compares them with those of others


@dataclass(frozen=True, slots=True)
class Needs:
    """What rules need to know beside the call itself."""

    groups: frozenset[str]  # handles without @
    channels: frozenset[str]  # #names
    spent: frozenset[Spent]
    people: frozenset[str] = frozenset()  # handles without @


MOST_ITEMS = 10_000  # of a list or a map that a condition is asked about
MOST_DIGITS = 200  # of a number, before or after the point
MOST_TEXT = 100_000  # characters of a text that a condition puts together
_MOST_BITS = 4 * MOST_DIGITS
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")


class Id(str):
    """The id of a channel, a person or a group; comparing it with a name is said loudly."""

    __slots__ = ()


class Untold(Exception):
    """Why something cannot be told.

    The words name kinds and fields, never a value: arguments may be secret.
    """


@dataclass(frozen=True, slots=True)
class Unusable:
    """Stands in a map for what cannot be used: `has` finds it, reading it raises."""

    why: str


def number(value: int | float | Decimal | Fraction | str) -> Fraction:
    """The exact number; a float counts as it is written, so 0.1 is a tenth.

    Raises Untold beyond MOST_DIGITS.
    """
    if isinstance(value, str | float | Decimal):
        try:
            value = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
        except InvalidOperation:
            raise Untold("a number is too large or too fine") from None
        if not value.is_finite():
            raise Untold("what is not a number cannot be computed with")
        if max(abs(value.adjusted()), len(value.as_tuple().digits)) > MOST_DIGITS:
            raise Untold("a number is too large or too fine")
    return bounded(Fraction(value))


def bounded(value: Fraction) -> Fraction:
    """Return `value`; raises Untold where it has grown beyond MOST_DIGITS."""
    if value.numerator.bit_length() > _MOST_BITS or value.denominator.bit_length() > _MOST_BITS:
        raise Untold("a number is too large or too fine")
    return value


def value_of(value: Any) -> Any:
    """A Python value as a condition sees it. Raises Untold for what has no such form."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return value_of(value.value)
    if isinstance(value, int | float | Decimal | Fraction):
        return number(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, Id):
        return value
    if isinstance(value, str | date | clock_time | UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _kept(each) for key, each in _few(value.items(), len(value))}
    if isinstance(value, list | tuple):
        return [value_of(each) for each in _few(value, len(value))]
    if isinstance(value, set | frozenset):
        return sorted((value_of(each) for each in _few(value, len(value))), key=str)
    raise Untold(f"{type(value).__name__} has no form in a condition")


def _few(values: Iterable[Any], length: int) -> Iterable[Any]:
    if length > MOST_ITEMS:
        raise Untold(f"a list or a map has more than {MOST_ITEMS} items")
    return values


def _kept(value: Any) -> Any:
    try:
        return value_of(value)
    except Untold as error:
        return Unusable(str(error))


def truth(value: Any) -> bool:
    """`value`, which must be true or false itself."""
    if not isinstance(value, bool):
        raise Untold("what stands for a condition is neither true nor false")
    return value


def weight(value: Any) -> int:
    """How much work it is to go through a value once, in steps."""
    return (
        len(value) // 8
        if isinstance(value, str)
        else len(value) // 2
        if isinstance(value, list)
        else 0
    )


def field(within: Any, name: str) -> Any:
    """`within.name`."""
    if not isinstance(within, dict):
        raise Untold(f"only a map has a field {name}")
    if name not in within:
        raise Untold(f"there is no field {name}")
    found = within[name]
    if isinstance(found, Unusable):
        raise Untold(f"a field cannot be used: {found.why}")
    return found


def item(within: Any, key: Any) -> Any:
    """`within[key]`."""
    if isinstance(within, dict) and isinstance(key, str):
        if key not in within:
            raise Untold("there is no such field in the map")  # the key may be a value
        return field(within, key)
    if not (isinstance(within, list) and isinstance(key, Fraction)):
        raise Untold("a list is read by number, a map by text")
    if key.denominator != 1 or not 0 <= key < len(within):
        raise Untold("there is no such item in the list")
    return within[int(key)]


@lru_cache(256)
def pattern(text: str) -> Any:
    """The expression, ready to search with, in time that grows with the text only.

    Raises Untold.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        raise Untold("this is no regular expression (RE2)") from None


@lru_cache(64)
def zone(name: str) -> tzinfo:
    """A time zone by its name ("Europe/Berlin") or its distance from UTC ("+05:30").

    Raises Untold.
    """
    if found := _OFFSET.fullmatch(name):
        distance = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(distance if found[1] == "+" else -distance)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise Untold("this is no time zone; write one as Europe/Berlin or +05:30") from None


def size(value: Any) -> Fraction:
    """Characters of a text, items of a list, fields of a map."""
    if not isinstance(value, str | list | dict | frozenset):
        raise Untold("only texts, lists, maps and groups have a size")
    return Fraction(len(value))
