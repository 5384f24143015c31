"""Conditions of policy rules: what they can say, and that doubt never makes one true."""

from __future__ import annotations

import enum
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from bot.policy.condition import Condition, ConditionError, SpendingSum, parse_window_seconds
from tests.policy.builders import (
    ARGS,
    DAY,
    get_evaluation_error,
    get_parse_error,
    is_true,
    make_facts,
)


class Colour(enum.Enum):
    RED = "red"


TRUE = [
    "args.amount > 39.99 && !(requester in groups.staff)",
    'spent("refund_order", "amount", "24h") + args.amount > 499.98',
    'count("refund_order", "24h") == 7 && count("refund_order", "24h") + 1 > 7',
    'tool == "refund_order" && effect == "write" && risk == "medium" && channel == "C1" && '
    'requester == "U1"',
    'requester in groups.finance && requester in groups["finance"] && !("U9" in groups.finance)',
    "groups.finance.size() == 2 && groups.finance.exists(who, who == requester)",
    "args.codes.all(x, x > 0) && args.codes.exists(x, x == 3) && args.codes.exists_one(x, x > 2)",
    "!args.codes.exists_one(x, x > 1)",
    "args.codes.filter(x, x > 1).map(x, x * 2) == [4, 6] && [3, 1, 2].filter(x, x > 1) == [3, 2]",
    "args.nothing.all(x, x > 0) && !args.nothing.exists(x, x > 0)",
    'args.address.all(key, key in ["city", "floor"]) && args.address.size() == 2',
    'args.address.city == "Ulm" && args["address"]["floor"] == 2 && "city" in args.address',
    "args.codes[0] == 1 && args.codes[2] == 3 && size(args.codes) == 3",
    'args.order.startsWith("A-") && args.order.endsWith("00") && args.order.contains("-1") && '
    "args.order.size() == 5",
    r'args.order.matches("^A-[0-9]+$") && args.order.matches(r"\d{3}") && '
    r'!args.order.matches("^\\d")',
    "now.getHours() == 12 && now.getMinutes() == 5 && now.getDayOfWeek() == 0 && "
    "now.getFullYear() == 2026",
    "now.getDate() == 1 && now.getDayOfMonth() == 0 && now.getMonth() == 2 && "
    "now.getDayOfYear() == 59",
    'now.getHours("Europe/Berlin") == 13 && now.getHours("+05:30") == 17 && '
    'now.getMinutes("-00:30") == 35',
    "now < args.due && args.due != now",
    "args.urgent ? args.count == 3 : args.nope",
    "args.count == 1 ? false : args.codes[args.urgent ? 2 : 3] == 3 ? true : false",
    "args.note == null && has(args.note) && !has(args.nope) && args.amount != null",
    "has(args.address.city) && !has(args.address.street)",
    '"ann" in args.names && !("eve" in args.names) && 2 in args.codes && !(9 in args.codes) && '
    "null in [1, null]",
    "args.names == ['ann', 'bob'] && args.names != ['bob', 'ann'] && args.codes != [1]",
    "-args.count == -3 && args.count-1 == 2 && -7 % 3 == -1 && 7 % -3 == 1 && 0x10 == 16 && 5u "
    "== 5 && !!args.urgent",
    r"""'it\'s' == "it's" && "\u00fc\x41\101\t" == 'üAA	' && r'\n' == "\\n" """,
    r"""'C:\\' == "C:\x5c" && r'''a\b''' == 'a\\b' && '''it's''' == "it's" """,
    """"a" + 'b' == "ab" && "b" > 'a'""",
    '"http://x" == "http://x" // what follows is not read',
]


@pytest.mark.parametrize("source", TRUE)
def test_true_conditions_hold_and_their_opposites_do_not(source: str) -> None:
    """These conditions use each operator, function and fact at least once."""
    groups = {"finance": frozenset({"U1", "U2"}), "staff": frozenset({"U3"})}
    assert is_true(source, groups=groups) is True
    assert is_true(f"!({source}\n)", groups=groups) is False


def test_people_of_a_group_are_gone_through_in_order() -> None:
    """So an answer never differs between processes."""
    groups = {"ops": frozenset(f"U{number}" for number in range(8))}
    assert is_true("groups.ops.map(who, who) == " + str(sorted(groups["ops"])), groups=groups)


def test_the_sums_and_groups_a_condition_needs_are_collected() -> None:
    """They are found wherever they stand in it, each once, when it is read."""
    found = Condition(
        'spent("a", "b", "1d") > 1 || (count("c", "30m") > 2 && requester in groups.x) || '
        'args.l.all(y, y in groups["y-z"] && spent("a", "b", "24h") > y)'
    )
    assert found.spent == {SpendingSum("a", "b", DAY), SpendingSum("c", "", 1800)}
    assert found.groups == {"x", "y-z"}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("args.nope == 1", "there is no field nope"),
        ("args.address.city.size == 1", "only a map"),
        ("args.secret == 1", "has no form"),
        ("args.amount.real > 1", "only a map"),
        ("args.nope.x", "no field"),
        ('"100" > 5', "compared"),
        ("args.order > 5", "compared"),
        ("args.order == 100", "compared"),
        ("args.urgent == 1", "compared"),
        ("args.urgent > false", "compared"),
        ("args.note > 5", "compared"),
        ("args.codes == ['1', '2', '3']", "compared"),
        ("args.address == args.address", "compared"),
        ("[[1]] == [[1]]", "compared"),
        ("args.codes < args.codes", "compared"),
        ("now == 5", "compared"),
        ('!("1" in args.codes)', "cannot be compared"),
        ("!(true in args.codes)", "cannot be compared"),
        ("!(1 in args.address)", "holds"),
        ('"a" in args.order', "holds"),
        ("!(1 in groups.finance)", "holds"),
        ("!([1] in [[1]])", "holds"),
        ("args.codes + args.codes == args.codes", "only numbers"),
        ("args.order - 1 > 0", "only num"),
        ('args.order + 1 == "A"', "only numbers"),
        ("-args.order == 1", "negat"),
        ("args.amount / 0 > 1", "zero"),
        ("args.amount % 0.0 > 1", "zero"),
        ("args.codes[3] == 1", "no such item"),
        ("args.codes[-1] == 3", "no such item"),
        ("args.codes[0.5] == 1", "no such item"),
        ('args.codes["0"] == 1', "read by"),
        ("args.__class__ == 1", "no field"),
        ("args[tool] == 1", "no such field"),
        ("args[1] == 1", "read by"),
        ("groups.finance[0] == 'U1'", "read by"),
        ("size(args.count) == 1", "size"),
        ('args.count.startsWith("3")', "only texts"),
        ("args.order.startsWith(1)", "only texts"),
        ("args.order.getHours() == 1", "only a time"),
        ("args.order.all(x, true)", "only a list"),
        ("args.note.exists(x, true)", "only a list"),
        ("!has(args.nope.deeper)", "no field"),
        ("!has(args.order.deeper)", "only a map"),
        ("args", "neither"),
        ("1", "neither"),
        ('"true"', "neither"),
        ("null", "neither"),
        ("args.codes", "neither"),
        ("1 ? true : true", "neither"),
        ("1 || true", "neither"),
        ("false || 'x'", "neither"),
        ("1 && true", "neither"),
        ("true && 1", "neither"),
        ("!(false || 0)", "neither"),
        ("!1", "neither"),
        ("args.codes.all(x, 1)", "neither"),
        ("args.codes.exists(x, x)", "neither"),
        ("args.codes.filter(x, 1) == []", "neither"),
        ("args.codes.exists_one(x, x)", "neither"),
        ("!args.codes.all(x, x == 1 ? 1 : false)", "neither"),
    ],
)
def test_missing_fields_and_mixed_types_are_errors(source: str, why: str) -> None:
    """They are however much of the condition would have been true."""
    assert why in get_evaluation_error(source)


@pytest.mark.parametrize(
    "source",
    [
        "requester in groups.gone",
        "!(requester in groups.gone)",
        "!(requester in groups.never_asked)",
        "groups.gone.size() == 0",
        "groups.gone.all(x, false)",
        'spent("lost", "amount", "24h") < 1.0',
        'spent("refund_order", "amount", "23h") < 1000.0',
        'count("other", "24h") == 0',
        "now.getHours() < 25",
    ],
)
def test_a_fact_that_is_not_known_is_an_error(source: str) -> None:
    """A group, sum or time that could not be had is not taken as none, zero or empty."""
    assert "not known" in get_evaluation_error(source, now=None)
    assert "not known" in get_evaluation_error('count("refund_order", "24h") == 7', spent=None)


@pytest.mark.parametrize(
    "error",
    ["args.nope", "args.nope == 1", "1 / 0 == 1", "requester in groups.gone", "args.count > '1'"],
)
def test_an_error_in_a_condition_never_becomes_true(error: str) -> None:
    """An error on the left stays one; one on the right matters only if it is reached."""
    for source in (
        f"{error} || true",
        f"false || {error}",
        f"{error} && true",
        f"true && {error}",
        f"{error} && false",
        f"!({error})",
        f"{error} ? true : true",
        f"false ? true : {error}",
        f"(false || {error}) || true",
        f"false || {error} || true",
        f"[1, 2].all(x, x == 1 || {error})",
        f"[1].exists(x, {error}) || true",
        f"[1, 2].exists(x, x == 3 || {error})",
        f"[{error}].size() == 1",
    ):
        assert get_evaluation_error(source)
    for source in (
        f"true || {error}",
        f"!(false && {error})",
        f"true ? true : {error}",
        f"[1, 2].exists(x, x == 1 || {error})",
        f"![1, 2].all(x, x == 2 && {error})",
    ):
        assert is_true(source)


def test_a_value_conditions_cannot_use_is_not_missing() -> None:
    """`has` finds it, and comparing it is an error."""
    assert is_true('has(args.secret) && "secret" in args && args.size() == 12')
    assert "bytes has no form" in get_evaluation_error("args.secret == null")


def test_values_of_tool_models_are_read_as_they_are_written() -> None:
    """Enums, dates, UUIDs, sets and tuples are what they are in JSON."""
    args: dict[str, Any] = {
        "c": Colour.RED,
        "d": date(2026, 3, 1),
        "u": UUID(int=1),
        "n": datetime(2026, 3, 1, 12),
        "s": {"b", "a"},
        "t": (1, 2),
        "f": float("nan"),
        "i": Decimal("Infinity"),
        "deep": {"list": [1, b"x"]},
    }
    assert is_true(
        'args.c == "red" && args.d == "2026-03-01" && args.s == ["a", "b"] && args.t == [1, 2]',
        args=args,
    )
    assert is_true('args.n.getHours() == 12 && args.u.endsWith("0001")', args=args)
    for name in ("f", "i", "deep.list"):
        assert "cannot be used" in get_evaluation_error(f"args.{name} == 1", args=args)


def test_evaluation_errors_never_show_argument_values() -> None:
    """They name types and fields."""
    secret = {"token": "hunter2", "map": {"hunter2": b""}}
    for source in (
        "args.token.x == 1",
        "args.token > 1",
        "args.token[0] == 1",
        "args.token ? true : true",
        "args[args.token].x == 1",
        "args.map[args.token] == 1",
        "args.token.all(x, true)",
        "[args.token] == [1]",
    ):
        assert "hunter2" not in get_evaluation_error(source, args=secret)


@pytest.mark.parametrize(
    "window", ["", "24", "0h", "01h", "91d", "59s", "1.5h", "24H", "-1h", "1h ", "99999m1", "٣h"]
)
def test_only_whole_minutes_hours_or_days_are_windows(window: str) -> None:
    """They last from one minute to 90 days."""
    with pytest.raises(ValueError, match="not a window"):
        parse_window_seconds(window)
    assert "not a window" in get_parse_error(f'count("refund_order", "{window}") > 1')
    assert (
        parse_window_seconds("1m"),
        parse_window_seconds("24h"),
        parse_window_seconds("90d"),
    ) == (60, DAY, 90 * DAY)


def test_evaluating_a_condition_changes_nothing() -> None:
    """The answer is the same whatever it was evaluated with in between."""
    condition = Condition("args.codes.exists(x, x == args.count) && requester in groups.finance")
    for _ in range(3):
        assert condition.is_true_for(make_facts())
        assert not condition.is_true_for(make_facts(args={**ARGS, "count": 4}))
        with pytest.raises(ConditionError):
            condition.is_true_for(make_facts(groups={}))
        with pytest.raises(ConditionError):
            condition.is_true_for(make_facts(args={"codes": [1]}))
    assert ARGS["codes"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("source", "fields", "reads_all"),
    [
        ('args.a > 1 && has(args.b) && args["c"].size() > 0', {"a", "b", "c"}, False),
        (
            'args.codes.all(code, code != args.count) && requester != "U1"',
            {"codes", "count"},
            False,
        ),
        ("args[args.kind] == 1", {"kind"}, True),
        ('args.all(name, name != "a") || args.b', {"b"}, True),
        ("size(args) == 2", set(), True),
        ('"a" in args', set(), True),
    ],
)
def test_the_argument_fields_a_condition_reads_are_known(
    source: str, fields: set[str], reads_all: bool
) -> None:
    """A field not named by a literal may be any of them."""
    condition = Condition(source)
    assert "args" in condition.names
    assert (condition.fields, condition.reads_all_fields) == (fields, reads_all)


def test_only_fields_of_the_arguments_count_as_asked_for() -> None:
    """A field inside another one has nothing to do with an argument of its name."""
    assert Condition("has(args.note) && has(args.address.city)").asked == {"note"}
