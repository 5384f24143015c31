"""Random conditions agree with the CEL library, and compute exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import celpy
import pytest
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.condition import Condition, ConditionError
from tests.policy.builders import is_true, make_facts

ARGS = {
    "a": 3,
    "b": -2,
    "word": "ab",
    "flag": True,
    "list": [1, 2, 3],
    "words": ["ab", "c"],
    "map": {"x": 1},
}
_LIBRARY = celpy.Environment()

_numbers = st.deferred(
    lambda: (
        st.sampled_from(
            [
                "args.a",
                "args.b",
                "args.map.x",
                "args.list[0]",
                "args.list[9]",
                "args.gone",
                "0",
                "2",
                "7",
            ]
        )
        | st.builds("({} {} {})".format, _numbers, st.sampled_from("+-*%"), _numbers)
        | st.builds("(-{})".format, _numbers)
        | st.builds("size({})".format, _lists | _texts)
    )
)
_texts = st.deferred(
    lambda: (
        st.sampled_from(["args.word", "args.words[1]", "args.gone", "'ab'", r"'\x61'", '""'])
        | st.builds("({} + {})".format, _texts, _texts)
    )
)
_lists = st.deferred(
    lambda: (
        st.sampled_from(["args.list", "[1, 2]", "args.gone", "[]"])
        | st.builds("args.list.filter(x, x {} {})".format, st.sampled_from(["<", "!="]), _plain)
        | st.builds("args.list.map(x, x + {})".format, _plain)
    )
)
# an error in filter, map or exists_one escapes the library's ||
_plain = st.sampled_from(["args.a", "args.b", "2"])
_conditions = st.deferred(
    lambda: (
        st.sampled_from(
            ["true", "false", "args.flag", "args.gone", "has(args.a)", "has(args.gone)"]
        )
        | st.builds(
            "({} {} {})".format,
            _numbers,
            st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
            _numbers,
        )
        | st.builds("({} {} {})".format, _texts, st.sampled_from(["<", ">", "==", "!="]), _texts)
        | st.builds("({} in {})".format, _numbers, _lists)
        | st.builds(
            "args.word.{}({})".format,
            st.sampled_from(["startsWith", "endsWith", "contains"]),
            _texts,
        )
        | st.builds(
            "args.list.{}(x, x {} {})".format,
            st.sampled_from(["all", "exists", "exists_one"]),
            st.sampled_from(["<", ">", "=="]),
            _plain,
        )
        | st.builds("({} {} {})".format, _conditions, st.sampled_from(["&&", "||"]), _conditions)
        | st.builds("(!{})".format, _conditions)
        | st.builds("({} ? {} : {})".format, _conditions, _conditions, _conditions)
    )
)


def _evaluate_with_cel(source: str) -> Any:
    try:
        found = _LIBRARY.program(_LIBRARY.compile(source)).evaluate({"args": json_to_cel(ARGS)})
    except CELEvalError:
        return "an error"
    return bool(found) if isinstance(found, celpy.celtypes.BoolType) else "something else"


@given(_conditions)
def test_evaluated_conditions_agree_with_the_cel_library(source: str) -> None:
    """Our strictness only adds errors."""
    if len(source) > 1000:
        return
    try:
        told = Condition(source).is_true_for(make_facts(args=ARGS))
    except ConditionError:
        return
    assert told is _evaluate_with_cel(source), source


_amounts = st.decimals(-(10**6), 10**6, places=4) | st.integers(-(10**20), 10**20)


@given(_amounts, _amounts, _amounts, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_sums_products_and_quotients_compare_exactly(a: Any, b: Any, c: Any, sign: str) -> None:
    """They compare as fractions do, to the last digit, also right at a limit."""
    args, (x, y, z) = {"a": a, "b": b, "c": c}, (Fraction(each) for each in (a, b, c))
    python = {
        "<": x.__lt__,
        "<=": x.__le__,
        ">": x.__gt__,
        ">=": x.__ge__,
        "==": x.__eq__,
        "!=": x.__ne__,
    }[sign]
    assert is_true(f"args.a {sign} args.b", args=args) is bool(python(y))
    limit = {**args, "limit": Decimal(a) + Decimal(b)}
    assert is_true("args.a + args.b == args.limit && !(args.a + args.b > args.limit)", args=limit)
    assert is_true(
        "args.a + args.b + 0.0001 > args.limit && args.a + args.b - 0.0001 < args.limit", args=limit
    )
    if z:
        assert is_true(
            "args.a / args.c * args.c == args.a && (args.a * args.b) / args.c == args.a * "
            "(args.b / args.c)",
            args=args,
        )


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.decimals()
    | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(_values, _values, st.sampled_from(["==", "<", "in", "+", "||", "&&", "%"]))
def test_any_values_and_operator_give_a_boolean_or_an_error(
    left: Any, right: Any, sign: str
) -> None:
    """A condition and its opposite are never both true."""
    args, says = {"l": left, "r": right}, []
    for source in (f"args.l {sign} args.r", f"!(args.l {sign} args.r)"):
        try:
            says.append(Condition(source).is_true_for(make_facts(args=args)))
        except ConditionError:
            says.append(None)
    assert says in ([True, False], [False, True], [None, None])


_scraps = st.sampled_from(
    [
        "args",
        ".",
        "a",
        "(",
        ")",
        "[",
        "]",
        ",",
        "'",
        '"',
        "\\",
        "1e9",
        "-0x",
        "||",
        "&&",
        "!",
        "in",
        "x",
        "?",
        ":",
        "map",
        "all",
        "has",
        "'a'",
    ]
)


@given(st.text(max_size=30) | st.lists(_scraps, max_size=12).map(" ".join))
def test_any_text_is_a_condition_or_a_condition_error(source: str) -> None:
    """Nothing else is raised, neither by reading nor by evaluating it."""
    try:
        condition = Condition(source)
    except ConditionError:
        return
    try:
        assert condition.is_true_for(make_facts(args=ARGS)) in (True, False)
    except ConditionError:
        return


def test_conditions_are_errors_where_cel_alone_says_true() -> None:
    """The library hides an error behind ||, and finds every list operation over a text true."""
    for source in (
        "args.gone || true",
        "true || args.gone == 1 || args.gone",
        "args.word.all(x, true)",
    ):
        assert _evaluate_with_cel(source) is True
    for source in ("args.gone || true", "args.word.all(x, true)"):
        with pytest.raises(ConditionError):
            is_true(source, args=ARGS)
