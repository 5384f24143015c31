"""What conditions compute with: exact numbers, texts, truth, lists, times, and the operators on them. PURE.

Every operator takes values of one kind; anything else raises TypeError, which CEL's evaluation turns into an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from datetime import time as clock_time
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from enum import Enum
from typing import Any
from uuid import UUID

from celpy import celtypes
from celpy.evaluation import CELEvalError, base_functions

_EXACT = Context(prec=200, traps=[InvalidOperation, DivisionByZero, Overflow])
MOST_ITEMS = 10_000  # of a list or a map that a condition is asked about


class Number(Decimal):
    """Any number; never a float, so 0.1 + 0.2 == 0.3."""


def value_of(value: Any) -> Any:
    """A Python value as CEL sees it; what has no such form is left out of its map, so that using it raises."""
    if value is None or isinstance(value, Number | celtypes.BoolType):
        return value
    if isinstance(value, Enum):
        return value_of(value.value)
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, int | float | Decimal):
        number = Number(str(value) if isinstance(value, float) else value)
        if not number.is_finite():
            raise ValueError("not a number")
        return number
    if isinstance(value, str):
        return celtypes.StringType(value)
    if isinstance(value, datetime):
        return celtypes.TimestampType(value if value.tzinfo else value.replace(tzinfo=UTC))
    if isinstance(value, date | clock_time | UUID):
        return celtypes.StringType(str(value))
    if isinstance(value, Mapping):
        return celtypes.MapType({celtypes.StringType(str(k)): v for k, v in _kept(value.items())})
    if isinstance(value, list | tuple | set | frozenset):
        if len(value) > MOST_ITEMS:
            raise ValueError("too many items")
        return celtypes.ListType([value_of(each) for each in value])
    raise ValueError(f"{type(value).__name__} has no form in a condition")


def _kept(items: Any) -> Any:
    for number, (key, value) in enumerate(items):
        if number >= MOST_ITEMS:
            raise ValueError("too many fields")
        try:
            yield key, value_of(value)
        except ValueError:
            continue


def _same_kind(left: Any, right: Any) -> None:
    for kind in (Number, celtypes.BoolType, celtypes.StringType, celtypes.TimestampType, celtypes.ListType):
        if isinstance(left, kind) and isinstance(right, kind):
            return
    raise TypeError("these cannot be compared")


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        if found := _error(left, right):
            return found
        _same_kind(left, right)
        if isinstance(left, celtypes.BoolType | celtypes.ListType):
            raise TypeError("these have no order")
        return celtypes.BoolType(test(left, right))

    return compare


def _equal(left: Any, right: Any) -> Any:
    if found := _error(left, right):
        return found
    if left is None or right is None:
        return celtypes.BoolType(left is right)
    _same_kind(left, right)
    if isinstance(left, celtypes.ListType):
        same = len(left) == len(right) and all(_equal(a, b) for a, b in zip(left, right, strict=True))
        return celtypes.BoolType(same)
    return celtypes.BoolType(left == right)


def _unequal(left: Any, right: Any) -> Any:
    found = _equal(left, right)
    return found if isinstance(found, Exception) else celtypes.BoolType(not found)


def _contains(item: Any, within: Any) -> Any:
    if found := _error(item, within):
        return found
    if isinstance(within, celtypes.MapType):
        return celtypes.BoolType(item in within)
    if not isinstance(within, celtypes.ListType):
        raise TypeError("only a list or a map holds something")
    return celtypes.BoolType(any(type(each) is type(item) and _equal(each, item) for each in within))


def _arithmetic(work: Callable[[Any, Any], Any], *, texts: bool = False) -> Callable[[Any, Any], Any]:
    def compute(left: Any, right: Any) -> Any:
        if found := _error(left, right):
            return found
        if isinstance(left, Number) and isinstance(right, Number):
            with localcontext(_EXACT):
                return Number(work(left, right))
        if texts and isinstance(left, celtypes.StringType) and isinstance(right, celtypes.StringType):
            return celtypes.StringType(left + right)
        raise TypeError("only numbers can be computed with")

    return compute


def _error(*values: Any) -> Any:
    return next((each for each in values if isinstance(each, CELEvalError)), None)


def _truth(value: Any) -> Any:
    if not isinstance(value, celtypes.BoolType | CELEvalError):
        raise TypeError("neither true nor false")
    return value


def _either(left: Any, right: Any) -> Any:
    """From left to right: an error on the left stays one, and what is on the right counts only if it is reached."""
    return left if isinstance(_truth(left), Exception) or left else _truth(right)


def _both(left: Any, right: Any) -> Any:
    return left if isinstance(_truth(left), Exception) or not left else _truth(right)


def _not(value: Any) -> Any:
    return value if isinstance(_truth(value), Exception) else celtypes.BoolType(not value)


def _negative(value: Any) -> Any:
    if isinstance(value, Exception):
        return value
    if not isinstance(value, Number):
        raise TypeError("only a number has a negative")
    return Number(-value)


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(_truth(condition), Exception):
        return condition
    return yes if condition else no


def _item(within: Any, key: Any) -> Any:
    if found := _error(within, key):
        return found
    if isinstance(within, celtypes.ListType) and isinstance(key, Number) and key == int(key) and key >= 0:
        return within[int(key)]
    if isinstance(within, celtypes.MapType) and isinstance(key, celtypes.StringType):
        return within[key]
    raise TypeError("a list is read by number, a map by text")


def _size(value: Any) -> Any:
    if isinstance(value, Exception):
        return value
    if not isinstance(value, celtypes.StringType | celtypes.ListType | celtypes.MapType):
        raise TypeError("this has no size")
    return Number(len(value))


def _numbered(method: Any) -> Callable[..., Any]:
    """A method of the library's, its integer as a Number."""

    def call(*values: Any) -> Any:
        found = method(*values)
        return Number(int(found)) if isinstance(found, int) and not isinstance(found, celtypes.BoolType) else found

    return call


def _text_method(method: Any) -> Callable[..., Any]:
    def call(text: Any, part: Any) -> Any:
        if not (isinstance(text, celtypes.StringType) and isinstance(part, celtypes.StringType)):
            raise TypeError("only texts have this")
        return method(text, part)

    return call


OPERATORS: dict[str, Any] = {
    "!_": _not,
    "-_": _negative,
    "_+_": _arithmetic(lambda a, b: a + b, texts=True),
    "_-_": _arithmetic(lambda a, b: a - b),
    "_*_": _arithmetic(lambda a, b: a * b),
    "_/_": _arithmetic(lambda a, b: a / b),
    "_%_": _arithmetic(lambda a, b: a % b),
    "_<_": _ordered(lambda a, b: a < b),
    "_<=_": _ordered(lambda a, b: a <= b),
    "_>_": _ordered(lambda a, b: a > b),
    "_>=_": _ordered(lambda a, b: a >= b),
    "_==_": _equal,
    "_!=_": _unequal,
    "_in_": _contains,
    "_||_": _either,
    "_&&_": _both,
    "_?_:_": _chosen,
    "_[_]": _item,
}
_CLOCK = (
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMinutes",
    "getMonth",
)
METHODS: dict[str, Any] = {
    "size": _size,
    "contains": _text_method(lambda text, part: celtypes.BoolType(str(part) in str(text))),
    "startsWith": _text_method(lambda text, part: celtypes.BoolType(str(text).startswith(str(part)))),
    "endsWith": _text_method(lambda text, part: celtypes.BoolType(str(text).endswith(str(part)))),
    "matches": _text_method(base_functions["matches"]),
    **{name: _numbered(base_functions[name]) for name in _CLOCK},
}
