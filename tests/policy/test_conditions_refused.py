"""Conditions that are refused when the policy is read."""

from __future__ import annotations

import pytest

from bot.policy.condition import MACROS, Condition
from tests.policy.builders import get_parse_error


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "is not CEL"),
        ("// nothing", "is not CEL"),
        ("args.amount >", "line 1"),
        ("true\n&& ]", "line 2"),
        ("true; false", "is not CEL"),
        ("args.ünder == 1", "is not CEL"),
        ("args.amount = 1", "is not CEL"),
        ("true /* or not */", "is not CEL"),
        ("'a'true", "is not CEL; compare"),
        ("import os", "is not CEL"),
        ("'C:\\' == ''", "is not CEL"),
        ("nope > 1", "names 'nope'"),
        ("x > 1 && args.codes.all(x, true)", "names 'x'"),
        ("os == 1", "names 'os'"),
        ("args.codes.all(x, true) && x > 1", "names 'x'"),
        ("celpy == 1", "names 'celpy'"),
        ("int == int", "names 'int'"),
        ("__import__('os') == 1", "calls __import__()"),
        ("type(args) == 1", "calls type()"),
        ("dyn(1) == 1", "calls dyn()"),
        ("int('5') == 5", "calls int()"),
        ("timestamp('2026-01-01T00:00:00Z') < now", "calls timestamp()"),
        ("args.codes.reduce(r, i, 0, r + i) == 6", "calls .reduce()"),
        ("args.codes.min() == 1", "calls .min()"),
        ("args.order.format(1) == ''", "calls .format()"),
        ("args.order.spent('a', 'b') > 1", "calls .spent()"),
        ("has(1)", "needs a field"),
        ("has(args)", "needs a field"),
        ("has(1 / 0)", "needs a field"),
        ("has()", "one value"),
        ("!has(groups.gone)", "needs a field"),
        ("!has(args.codes[9])", "needs a field"),
        ("has(args.a, args.b)", "one value"),
        ("!has(args.codes.map(x, 1))", "needs a field"),
        ("size() == 1", "one value"),
        ("size(1, 2) == 1", "one value"),
        ("groups == 1", "as a whole"),
        ("size(groups) == 1", "as a whole"),
        ("'a' in groups", "as a whole"),
        ("groups[tool] == 1", "literal group"),
        ("requester in groups[1]", "literal group"),
        ("requester in groups['fin' + 'ance']", "literal group"),
        ("requester in groups[args.group]", "literal group"),
        ("groups.all(g, true)", "as a whole"),
        ("requester == people[args.who]", "literal person"),
        ("spent(tool, 'amount', '24h') > 1", "words in quotes"),
        ("spent('refund', args.field, '24h') > 1", "words in quotes"),
        ("spent('refund', 'amount') > 1", "words in quotes"),
        ("count('refund', '1h', '2h') > 1", "means nothing there"),
        ("count('refund', 1) > 1", "words in quotes"),
        ("count('refund', '1h', tool) > 1", "words in quotes"),
        ("spent() > 1", "words in quotes"),
        ("spent('re' + 'fund', 'amount', '24h') > 1", "words in quotes"),
        ("spent('refund order', 'amount', '24h') > 1", "names of a tool"),
        ("spent('refund', '', '24h') > 1", "names of a tool"),
        (".args.amount > 1", "creates objects"),
        ("{'a': 1}.a == 1", "creates objects"),
        ("args{a: 1}.a == 1", "creates objects"),
        (".type(args) == 1", "creates objects"),
        ("b'a' == b'a'", "bytes"),
        ("'''a\nb''' == 'ab'", "several lines"),
        ("'''a\rb''' == 'ab'", "several lines"),
        (r"'\d' == 'd'", "backslash"),
        (r"'\777' == ''", "backslash"),
        (r"""args.order == r"C:\"""", "backslash"),
        (r"r'''C:\''' == args.order", "backslash"),
        (r"args.order.matches('^\d+$')", "backslash"),
        ("args.order.matches('(')", "RE2"),
        ("args.order.matches('(?=a)')", "RE2"),
        (r"args.order.matches(r'(a)\1')", "RE2"),
        ("args.order.matches('((a{100}){100}){100}')", "RE2"),
        ("args.order.matches(1)", "in quotes"),
        ("args.order.matches(args.order)", "in quotes"),
        ("now.getHours('No/Where') == 1", "time zone"),
        ("now.getHours('../../etc/passwd') == 1", "time zone"),
        ("now.getHours('/etc/localtime') == 1", "time zone"),
        ("now.getHours('+25:00') == 1", "time zone"),
        ("now.getHours(args.order) == 1", "in quotes"),
        ("now.getHours('UTC', 'UTC') == 1", "too many"),
        ("args.order.startsWith() ", "too few"),
        ("args.order.size(1) == 1", "too many"),
        ("args.codes.all(x)", "new name"),
        ("args.codes.map(x, true, x) == []", "new name"),
        ("args.codes.all()", "new name"),
        ("args.codes.all(x > 0, true)", "new name"),
        ("args.codes.all(x.y, true)", "new name"),
        ("[1].all('x', true)", "new name"),
        ("1e201 > 1", "too large"),
        ("1e-201 > 0", "too large"),
        ("1e999999999 > 1", "too large"),
        ("1e99999999999999999999 > 1", "too large"),
        (f"{'9' * 300} > 1", "too large"),
        (f"0x{'f' * 300} > 1", "too large"),
        ("!" * 65 + "true", "too deeply"),
        ("!" * 900 + "true", "too deeply"),
        ("-" * 900 + "1 < 2", "too deeply"),
        ("[" * 300 + "]" * 300 + " == 1", "too deeply"),
        ("args" + ".a" * 400 + " == 1", "too deeply"),
        ("1" + "+1" * 500 + " > 1", "too deeply"),
    ],
)
def test_conditions_that_can_never_work_are_refused(source: str, why: str) -> None:
    """The policy cannot be loaded with one of them."""
    assert why in get_parse_error(source)


@pytest.mark.parametrize(
    "name", ["args", "requester", "channel", "tool", "effect", "risk", "groups", "now"]
)
def test_variables_of_list_operations_cannot_hide_a_fact(name: str) -> None:
    """So `requester` is always the person who made the request."""
    assert "new name" in get_parse_error(f"args.codes.all({name}, true)")


@pytest.mark.parametrize("outer", sorted(MACROS))
@pytest.mark.parametrize("inner", sorted(MACROS))
def test_list_operations_cannot_be_nested(outer: str, inner: str) -> None:
    """They cannot in brackets or a call either; they may stand one after the other."""
    for within in (
        "args.codes.{0}(y, y > 1)",
        "([args.codes].{0}(y, true))",
        "size(x.{0}(y, true)) > 1",
        "[x].{0}(y, x == y)",
    ):
        assert "inside another" in get_parse_error(
            f"args.codes.{outer}(x, {within.format(inner)} == true)"
        )
    assert Condition(
        f"args.codes.filter(x, x > 1).{inner}(x, x > 1) == true && args.codes.{outer}(x, x > 1) "
        "== true"
    )
