"""The operators and methods of conditions, by the names of CEL's grammar. PURE.

Each takes values of one kind; anything else raises Untold, and so does what would grow without
bound.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any

from bot.policy.condition_values import MOST_TEXT, Id, Untold, bounded, pattern, size, truth, zone

_ID = re.compile(r"[A-Z][A-Z0-9]*")  # as Slack's ids look; Id("") is nowhere


def _kind(value: Any) -> type:
    if isinstance(value, str):
        return str
    return datetime if isinstance(value, datetime) else type(value)


def _no_name(one: Any, other: Any) -> None:
    """Raise where an id stands against a name: that would never be equal, and nobody would know."""
    for id_, text in ((one, other), (other, one)):
        if isinstance(id_, Id) and isinstance(text, str) and not _ID.fullmatch(text):
            raise Untold("an id is compared with a name; write channels.name or people.handle")


def _compare(
    left: Any, right: Any, kinds: tuple[type, ...], test: Callable[[Any, Any], bool]
) -> bool:
    if _kind(left) is not _kind(right) or _kind(left) not in kinds:
        raise Untold("these cannot be compared")
    return test(left, right)


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: _compare(left, right, (Fraction, str, datetime), test)


def _alike(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    _no_name(left, right)
    return _compare(left, right, (bool, Fraction, str, datetime), operator.eq)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            _alike(a, b) for a, b in zip(left, right, strict=True)
        )
    return _alike(left, right)


def _contains(wanted: Any, within: Any) -> bool:
    if isinstance(within, dict | frozenset) and isinstance(wanted, str):
        return wanted in within
    if not isinstance(within, list) or isinstance(wanted, list | dict | frozenset):
        raise Untold("only a list or a map holds something, and a map only texts")
    if wanted is None:
        return None in within
    there = [each for each in within if each is not None]
    for each in there:
        _no_name(wanted, each)
    alike = [each for each in there if _kind(each) is _kind(wanted)]
    if wanted in alike:
        return True
    if len(alike) < len(there):
        raise Untold("the list holds what cannot be compared with this")
    return False


def _arithmetic(work: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Any, Any], Fraction]:
    def compute(left: Any, right: Any) -> Fraction:
        if not (isinstance(left, Fraction) and isinstance(right, Fraction)):
            raise Untold("only numbers can be computed with")
        return bounded(work(left, right))

    return compute


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > MOST_TEXT:
            raise Untold("a text becomes too long")
        return left + right
    return _plus(left, right)


def _divided(left: Fraction, right: Fraction) -> Fraction:
    if not right:
        raise Untold("this divides by zero")
    return left / right


def _negated(value: Any) -> Any:
    if not isinstance(value, Fraction):
        raise Untold("only a number has a negative")
    return -value


def _text_method(method: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def call(text: Any, part: Any) -> bool:
        if not (isinstance(text, str) and isinstance(part, str)):
            raise Untold("only texts have this")
        if isinstance(text, Id):
            raise Untold("an id has no parts; compare it with channels.name or people.handle")
        return method(text, part)

    return call


def _clock(read: Callable[[datetime], int]) -> Callable[..., Fraction]:
    def call(moment: Any, where: Any = "UTC") -> Fraction:
        if not (isinstance(moment, datetime) and isinstance(where, str)):
            raise Untold("only a time has this")
        return Fraction(read(moment.astimezone(zone(where))))

    return call


_plus = _arithmetic(operator.add)
BINARY: dict[str, Callable[[Any, Any], Any]] = {  # by the names of the grammar
    "addition_add": _sum,
    "addition_sub": _arithmetic(operator.sub),
    "multiplication_mul": _arithmetic(operator.mul),
    "multiplication_div": _arithmetic(_divided),
    "multiplication_mod": _arithmetic(lambda a, b: a - b * math.trunc(_divided(a, b))),
    "relation_lt": _ordered(operator.lt),
    "relation_le": _ordered(operator.le),
    "relation_gt": _ordered(operator.gt),
    "relation_ge": _ordered(operator.ge),
    "relation_eq": _equal,
    "relation_ne": lambda a, b: not _equal(a, b),
    "relation_in": _contains,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "unary_not": lambda value: not truth(value),
    "unary_neg": _negated,
}
# as CEL counts: from 0, Sunday is 0; only getDate counts from 1
CLOCK: dict[str, Callable[..., Any]] = {
    "getDate": _clock(lambda at: at.day),
    "getDayOfMonth": _clock(lambda at: at.day - 1),
    "getDayOfWeek": _clock(lambda at: at.isoweekday() % 7),
    "getDayOfYear": _clock(lambda at: at.timetuple().tm_yday - 1),
    "getFullYear": _clock(lambda at: at.year),
    "getHours": _clock(lambda at: at.hour),
    "getMinutes": _clock(lambda at: at.minute),
    "getMonth": _clock(lambda at: at.month - 1),
}
TEXTS: dict[str, Callable[[Any, Any], Any]] = {
    "contains": _text_method(operator.contains),
    "endsWith": _text_method(str.endswith),
    "matches": _text_method(lambda text, part: pattern(part).search(text) is not None),
    "startsWith": _text_method(str.startswith),
}
METHODS: dict[str, Callable[..., Any]] = {"size": size, **TEXTS, **CLOCK}
