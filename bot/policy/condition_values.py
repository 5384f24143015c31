"""The values of policy conditions, and the operators and methods of CEL over them. PURE.

The values are the facts of a call: exact numbers, texts, booleans, lists, maps and times. Operators
and methods have the names that CEL's grammar gives them.

A number is a fraction, so nothing is ever rounded. An operator takes values of one kind; values of
other kinds, unusable values and results that would grow without bound raise UnknownValueError.
`bot.approvals.call_gates` fills the facts in.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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


@dataclass(frozen=True, slots=True, order=True)
class SpendingSum:
    """A sum (or, without a field, a count) over the calls of one tool within a time window.

    It covers the calls of the same requester, or of anyone, and only those with the same values in
    the fields `same`.
    """

    tool: str
    field: str  # "" counts calls
    window: int  # seconds
    same: tuple[str, ...] = ()  # fields whose values must equal those of the judged call, sorted
    anyone: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a rule may know about a call.

    A fact that could not be looked up is None; a condition that needs it has no answer.
    """

    tool: str
    effect: str
    requester: str
    args: Mapping[str, Any]
    channel: str = ""
    risk: str = "medium"
    client: str = ""  # name of the API key by which a program asks
    now: datetime | None = None
    # what the policy's calendar says about `now`; None if it says nothing
    freezes: Mapping[str, bool] | None = None  # name -> whether it is in force
    in_freeze: bool | None = None
    in_business_hours: bool | None = None
    groups: Mapping[str, frozenset[str] | None] | None = None  # handle without @ -> user ids
    channels: Mapping[str, str | None] | None = None  # #name -> id
    people: Mapping[str, str | None] | None = None  # handle without @ -> user id
    # field -> owners of its value, as found by a function: user ids and @handles
    owners: Mapping[str, tuple[str, ...] | None] | None = None
    spent: Mapping[SpendingSum, Decimal | None] | None = None
    has_signer: bool | None = None  # when a passkey is added: whether anybody else can sign
    arguments: str = ""  # `args` as canonical JSON, if a sum compares them with other calls'


@dataclass(frozen=True, slots=True)
class NeededLookups:
    """The look-ups that rules need beside the call itself."""

    groups: frozenset[str]  # handles without @
    channels: frozenset[str]  # #names
    spent: frozenset[SpendingSum]
    people: frozenset[str] = frozenset()  # handles without @
    owners: frozenset[str] = frozenset()  # fields whose owners a function finds


MAX_ITEMS = 10_000  # in a list or map that a condition reads
MAX_DIGITS = 200  # of a number, before or after the decimal point
MAX_TEXT_CHARS = 100_000  # of a text that a condition builds
_MAX_BITS = 4 * MAX_DIGITS
_UTC_OFFSET_PATTERN = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")


class SlackId(str):
    """The id of a channel, person or group; conditions comparing it with a name have no answer."""

    __slots__ = ()


class UnknownValueError(Exception):
    """Raised when a value is unknown or cannot be used; the text says why.

    The words name kinds and fields, never a value: arguments may be secret.
    """


@dataclass(frozen=True, slots=True)
class UnusableValue:
    """A placeholder in a map for a value that cannot be used: `has` finds it, reading it raises."""

    why: str


def convert_to_fraction(value: int | float | Decimal | Fraction | str) -> Fraction:
    """Return the exact number; a float counts as it is written, so 0.1 is a tenth.

    Raises UnknownValueError beyond MAX_DIGITS.
    """
    if isinstance(value, str | float | Decimal):
        try:
            value = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
        except InvalidOperation:
            raise UnknownValueError("a number is too large or too fine") from None
        if not value.is_finite():
            raise UnknownValueError("only numbers can be computed with")
        if max(abs(value.adjusted()), len(value.as_tuple().digits)) > MAX_DIGITS:
            raise UnknownValueError("a number is too large or too fine")
    return check_number_bounds(Fraction(value))


def check_number_bounds(value: Fraction) -> Fraction:
    """Return `value`; raises UnknownValueError if it has grown beyond MAX_DIGITS."""
    if value.numerator.bit_length() > _MAX_BITS or value.denominator.bit_length() > _MAX_BITS:
        raise UnknownValueError("a number is too large or too fine")
    return value


def convert_to_condition_value(value: Any) -> Any:
    """Return a Python value in the form conditions use; raises UnknownValueError if it has none."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return convert_to_condition_value(value.value)
    if isinstance(value, int | float | Decimal | Fraction):
        return convert_to_fraction(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, SlackId):
        return value
    if isinstance(value, str | date | clock_time | UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {
            str(key): _convert_or_mark_unusable(each)
            for key, each in _check_item_count(value.items(), len(value))
        }
    if isinstance(value, list | tuple):
        return [convert_to_condition_value(each) for each in _check_item_count(value, len(value))]
    if isinstance(value, set | frozenset):
        return sorted(
            (convert_to_condition_value(each) for each in _check_item_count(value, len(value))),
            key=str,
        )
    raise UnknownValueError(f"{type(value).__name__} has no form in a condition")


def _check_item_count(values: Iterable[Any], length: int) -> Iterable[Any]:
    if length > MAX_ITEMS:
        raise UnknownValueError(f"a list or a map has more than {MAX_ITEMS} items")
    return values


def _convert_or_mark_unusable(value: Any) -> Any:
    try:
        return convert_to_condition_value(value)
    except UnknownValueError as error:
        return UnusableValue(str(error))


def require_boolean(value: Any) -> bool:
    """Return `value` if it is True or False; raises UnknownValueError otherwise."""
    if not isinstance(value, bool):
        raise UnknownValueError("a condition is neither true nor false")
    return value


def estimate_traversal_steps(value: Any) -> int:
    """Return how many evaluation steps it takes to go through a value once."""
    return (
        len(value) // 8
        if isinstance(value, str)
        else len(value) // 2
        if isinstance(value, list)
        else 0
    )


def get_field(within: Any, name: str) -> Any:
    """Return `within.name`; raises UnknownValueError if there is none that can be used."""
    if not isinstance(within, dict):
        raise UnknownValueError(f"only a map has a field {name}")
    if name not in within:
        raise UnknownValueError(f"there is no field {name}")
    found = within[name]
    if isinstance(found, UnusableValue):
        raise UnknownValueError(f"a field cannot be used: {found.why}")
    return found


def get_item(within: Any, key: Any) -> Any:
    """Return `within[key]`; raises UnknownValueError if there is none."""
    if isinstance(within, dict) and isinstance(key, str):
        if key not in within:
            raise UnknownValueError("there is no such field in the map")  # not quoted: may be data
        return get_field(within, key)
    if not (isinstance(within, list) and isinstance(key, Fraction)):
        raise UnknownValueError("a list is read by number, a map by text")
    if key.denominator != 1 or not 0 <= key < len(within):
        raise UnknownValueError("there is no such item in the list")
    return within[int(key)]


@lru_cache(256)
def compile_pattern(text: str) -> Any:
    """Return the compiled RE2 expression, whose search time grows with the text only.

    Raises UnknownValueError.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        raise UnknownValueError("this is not a regular expression (RE2)") from None


# the first words of names that mean another zone on each machine, or that only some machines have
_MACHINE_ZONES = frozenset({"localtime", "posixrules", "factory", "posix", "right"})


def validate_time_zone(value: str) -> str:
    """Return the name of a time zone if it is the same on each machine; else raise ValueError."""
    what = "not the same time zone on each machine"
    if value.split("/")[0].lower() not in _MACHINE_ZONES:
        what = "not a time zone"
        with suppress(OSError, ValueError, LookupError):
            ZoneInfo(value)
            return value
    raise ValueError(f"{value!r} is {what}; write one as Europe/Berlin")


@lru_cache(64)
def load_time_zone(name: str) -> tzinfo:
    """Return a time zone by its name ("Europe/Berlin") or its offset from UTC ("+05:30").

    Raises UnknownValueError.
    """
    if found := _UTC_OFFSET_PATTERN.fullmatch(name):
        distance = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(distance if found[1] == "+" else -distance)
    try:
        return ZoneInfo(validate_time_zone(name))
    except ValueError:
        raise UnknownValueError(
            "this is not a time zone; write one as Europe/Berlin or +05:30"
        ) from None


def count_characters_or_items(value: Any) -> Fraction:
    """Return the number of characters of a text, items of a list or group, or fields of a map."""
    if not isinstance(value, str | list | dict | frozenset):
        raise UnknownValueError("only texts, lists, maps and groups have a size")
    return Fraction(len(value))


_SLACK_ID_PATTERN = re.compile(r"[A-Z][A-Z0-9]*")  # Slack's ids look like this; "" is none


def _get_comparable_type(value: Any) -> type:
    if isinstance(value, str):
        return str
    return datetime if isinstance(value, datetime) else type(value)


def _check_id_not_compared_to_name(one: Any, other: Any) -> None:
    """Raise UnknownValueError if an id is compared with a name, as these are never equal."""
    for id_, text in ((one, other), (other, one)):
        if (
            isinstance(id_, SlackId)
            and isinstance(text, str)
            and not _SLACK_ID_PATTERN.fullmatch(text)
        ):
            raise UnknownValueError(
                "an id is compared with a name; write channels.name or people.handle"
            )


def _compare_values(
    left: Any, right: Any, kinds: tuple[type, ...], test: Callable[[Any, Any], bool]
) -> bool:
    if (
        _get_comparable_type(left) is not _get_comparable_type(right)
        or _get_comparable_type(left) not in kinds
    ):
        raise UnknownValueError("these cannot be compared")
    return test(left, right)


def _build_order_operator(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: _compare_values(left, right, (Fraction, str, datetime), test)


def _is_same_scalar(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    _check_id_not_compared_to_name(left, right)
    return _compare_values(left, right, (bool, Fraction, str, datetime), operator.eq)


def _is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            _is_same_scalar(a, b) for a, b in zip(left, right, strict=True)
        )
    return _is_same_scalar(left, right)


def _is_contained_in(value: Any, within: Any) -> bool:
    if isinstance(within, dict | frozenset) and isinstance(value, str):
        return value in within
    if not isinstance(within, list) or isinstance(value, list | dict | frozenset):
        raise UnknownValueError("only a list or a map holds something, and a map only texts")
    if value is None:
        return None in within
    there = [each for each in within if each is not None]
    for each in there:
        _check_id_not_compared_to_name(value, each)
    alike = [each for each in there if _get_comparable_type(each) is _get_comparable_type(value)]
    if value in alike:
        return True
    if len(alike) < len(there):
        raise UnknownValueError("the list contains something that cannot be compared with this")
    return False


def _build_arithmetic_operator(
    work: Callable[[Fraction, Fraction], Fraction],
) -> Callable[[Any, Any], Fraction]:
    def compute(left: Any, right: Any) -> Fraction:
        if not (isinstance(left, Fraction) and isinstance(right, Fraction)):
            raise UnknownValueError("only numbers can be computed with")
        return check_number_bounds(work(left, right))

    return compute


def _add_values(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > MAX_TEXT_CHARS:
            raise UnknownValueError("a text becomes too long")
        return left + right
    return _add_numbers(left, right)


def _divide(left: Fraction, right: Fraction) -> Fraction:
    if not right:
        raise UnknownValueError("this divides by zero")
    return left / right


def _negate(value: Any) -> Any:
    if not isinstance(value, Fraction):
        raise UnknownValueError("only a number has a negative")
    return -value


def _build_text_method(method: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def call(text: Any, part: Any) -> bool:
        if not (isinstance(text, str) and isinstance(part, str)):
            raise UnknownValueError("only texts have this")
        if isinstance(text, SlackId):
            raise UnknownValueError(
                "an id has no parts; compare it with channels.name or people.handle"
            )
        return method(text, part)

    return call


def _build_clock_method(read: Callable[[datetime], int]) -> Callable[..., Fraction]:
    def call(moment: Any, where: Any = "UTC") -> Fraction:
        if not (isinstance(moment, datetime) and isinstance(where, str)):
            raise UnknownValueError("only a time has this")
        return Fraction(read(moment.astimezone(load_time_zone(where))))

    return call


_add_numbers = _build_arithmetic_operator(operator.add)
BINARY_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {  # by their names in the grammar
    "addition_add": _add_values,
    "addition_sub": _build_arithmetic_operator(operator.sub),
    "multiplication_mul": _build_arithmetic_operator(operator.mul),
    "multiplication_div": _build_arithmetic_operator(_divide),
    "multiplication_mod": _build_arithmetic_operator(
        lambda a, b: a - b * math.trunc(_divide(a, b))
    ),
    "relation_lt": _build_order_operator(operator.lt),
    "relation_le": _build_order_operator(operator.le),
    "relation_gt": _build_order_operator(operator.gt),
    "relation_ge": _build_order_operator(operator.ge),
    "relation_eq": _is_equal,
    "relation_ne": lambda a, b: not _is_equal(a, b),
    "relation_in": _is_contained_in,
}
UNARY_OPERATORS: dict[str, Callable[[Any], Any]] = {
    "unary_not": lambda value: not require_boolean(value),
    "unary_neg": _negate,
}
# as CEL counts: from 0 (Sunday is 0), except getDate, from 1
TIMESTAMP_METHODS: dict[str, Callable[..., Any]] = {
    "getDate": _build_clock_method(lambda at: at.day),
    "getDayOfMonth": _build_clock_method(lambda at: at.day - 1),
    "getDayOfWeek": _build_clock_method(lambda at: at.isoweekday() % 7),
    "getDayOfYear": _build_clock_method(lambda at: at.timetuple().tm_yday - 1),
    "getFullYear": _build_clock_method(lambda at: at.year),
    "getHours": _build_clock_method(lambda at: at.hour),
    "getMinutes": _build_clock_method(lambda at: at.minute),
    "getMonth": _build_clock_method(lambda at: at.month - 1),
}
STRING_METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "contains": _build_text_method(operator.contains),
    "endsWith": _build_text_method(str.endswith),
    "matches": _build_text_method(
        lambda text, part: compile_pattern(part).search(text) is not None
    ),
    "startsWith": _build_text_method(str.startswith),
}
METHODS: dict[str, Callable[..., Any]] = {
    "size": count_characters_or_items,
    **STRING_METHODS,
    **TIMESTAMP_METHODS,
}
