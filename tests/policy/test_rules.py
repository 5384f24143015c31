"""A single rule: the calls it matches, the facts it needs, and when that is in doubt."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from bot.policy.condition_values import Facts, NeededLookups, SpendingSum
from bot.policy.gates import Allow
from bot.policy.rules import Rule, collect_needed_lookups

DAY = 86_400
EVERY: dict[str, Any] = {
    "name": "r",
    "tools": ("*",),
    "effects": ("read", "write", "destructive"),
    "risks": ("low", "medium", "high"),
    "gate": Allow(rule="r"),
}
GROUPS = {"staff": frozenset({"U1"}), "gone": None}
CHANNELS = {"#ops": "C1", "#lost": None}


def make_rule(**keys: Any) -> Rule:
    """A rule about all calls, narrowed by `keys`."""
    return Rule(**{**EVERY, **keys})


def does_match(made: Rule, effect: str = "write", **known: Any) -> bool | None:
    """Whether the rule matches a call; None if that is in doubt."""
    facts: dict[str, Any] = {
        "tool": "refund_order",
        "effect": effect,
        "requester": "U1",
        "args": {"amount": 5},
    }
    facts |= {"channel": "C1", "groups": GROUPS, "channels": CHANNELS}
    told, why = made.match_call(Facts(**{**facts, **known}), effect)
    assert why
    return told


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, True),
        ({"tools": ("refund_order",)}, True),
        ({"tools": ("refund_*",)}, True),
        ({"tools": ("post_*", "*_order")}, True),
        ({"tools": ("refund_orde?",)}, True),
        ({"tools": ("[!r]*",)}, False),
        ({"tools": ("Refund_*",)}, False),
        ({"tools": ("refund",)}, False),
        ({"effects": ("write",)}, True),
        ({"effects": ("read", "destructive")}, False),
        ({"risks": ("medium",)}, True),
        ({"risks": ("low", "high")}, False),
        ({"channels": ("C1",)}, True),
        ({"channels": ("C2", "C1")}, True),
        ({"channels": ("C2",)}, False),
        ({"channels": ("#ops",)}, True),
        ({"channels": ("#lost",)}, None),
        ({"channels": ("#unheard",)}, None),
        ({"channels": ("#lost", "C1")}, True),
        ({"channels": ("#lost", "#ops")}, True),
        ({"requesters": ("U1",)}, True),
        ({"requesters": ("U2",)}, False),
        ({"requesters": ("@staff",)}, True),
        ({"requesters": ("@gone",)}, None),
        ({"requesters": ("@unheard",)}, None),
        ({"requesters": ("@gone", "U1")}, True),
        ({"requesters": ("@gone", "@staff")}, True),
        ({"when": "args.amount == 5"}, True),
        ({"when": "args.amount > 5"}, False),
        ({"when": "args.sum > 5"}, None),
        ({"when": "requester in groups.gone"}, None),
        ({"when": 'spent("a", "b", "1d") > 5'}, None),
        ({"when": "now.getHours() > 5"}, None),
        ({"when": "args.amount"}, None),
        # a key that surely does not match leaves no doubt
        ({"channels": ("C2",), "when": "args.sum > 5"}, False),
        ({"channels": ("#lost",), "requesters": ("U2",)}, False),
        ({"channels": ("#lost",), "when": "args.amount > 5"}, False),
        ({"requesters": ("@gone",), "when": "args.amount > 5"}, False),
        ({"requesters": ("@gone",), "when": "args.amount == 5"}, None),
        ({"channels": ("#lost",), "requesters": ("@staff",)}, None),
        ({"requesters": ("U2",), "channels": ("C1",)}, False),
        ({"tools": ("other",), "requesters": ("@gone",)}, False),
    ],
)
def test_every_key_narrows_a_rule(keys: dict[str, Any], expected: bool | None) -> None:
    """A failed look-up leaves a match in doubt, unless another key rules it out."""
    assert does_match(make_rule(**keys)) is expected


def test_a_person_outside_of_a_known_group_does_not_match() -> None:
    """An empty group matches nobody; a group that is not known leaves doubt."""
    assert does_match(make_rule(requesters=("@staff",)), requester="U2") is False
    assert does_match(make_rule(requesters=("@staff",)), groups={"staff": frozenset()}) is False
    assert does_match(make_rule(requesters=("@staff",)), groups=None) is None
    assert does_match(make_rule(channels=("#ops",)), channels=None) is None


def test_needed_groups_channels_and_sums_are_collected_once() -> None:
    """Sums are named in conditions only."""
    needs = collect_needed_lookups(
        [
            make_rule(requesters=("@a", "U1"), channels=("#x", "C1")),
            make_rule(when='requester in groups.a || requester in groups["b-c"]'),
            make_rule(
                when='spent("pay", "amount", "1d") > 5 || count("pay", "24h") > 5 || '
                'spent("pay", "amount", "24h") > 6'
            ),
        ]
    )
    assert needs == NeededLookups(
        frozenset({"a", "b-c"}),
        frozenset({"#x"}),
        frozenset({SpendingSum("pay", "amount", DAY), SpendingSum("pay", "", DAY)}),
    )
    assert collect_needed_lookups([make_rule()]) == NeededLookups(
        frozenset(), frozenset(), frozenset()
    )


@pytest.mark.parametrize(
    ("keys", "about"),
    [
        ({}, True),
        ({"tools": ("x",)}, False),
        ({"effects": ("read",)}, False),
        ({"risks": ("low",)}, False),
        # these depend on the call
        ({"requesters": ("U2",), "channels": ("C2",), "when": "false"}, True),
    ],
)
def test_tool_effect_and_risk_say_whether_a_rule_can_match(
    keys: dict[str, Any], about: bool
) -> None:
    """The other keys depend on the call."""
    assert make_rule(**keys).can_match("refund_order", "write", "medium") is about
    assert make_rule(effects=("read",)).can_match("refund_order", None, "medium")


def test_a_pattern_of_only_stars_is_not_specific_for_a_tool() -> None:
    """Any other pattern is specific."""
    assert make_rule(tools=("refund_*",)).has_specific_pattern_for("refund_order")
    assert make_rule(tools=("*", "refund_order")).has_specific_pattern_for("refund_order")
    assert not make_rule(tools=("*", "**")).has_specific_pattern_for("refund_order")


@pytest.mark.parametrize(
    "keys",
    [
        {"tools": ("a*",)},
        {"risks": ("low", "high")},
        {"channels": ("C1",)},
        {"requesters": ("U1",)},
        {"when": "true"},
    ],
)
def test_only_a_rule_without_other_keys_covers_its_effects(keys: dict[str, Any]) -> None:
    """It takes every call of them."""
    assert make_rule(effects=("write",)).list_fully_covered_effects() == {"write"}
    assert make_rule(**keys).list_fully_covered_effects() == frozenset()


def test_conditions_see_exact_sums_and_the_time_given() -> None:
    """A condition may read the time in any zone."""
    spent = {SpendingSum("pay", "amount", DAY): Decimal("499.99")}
    over = make_rule(when='spent("pay", "amount", "24h") + args.amount > 500.0')
    assert does_match(over, args={"amount": Decimal("0.01")}, spent=spent) is False
    assert does_match(over, args={"amount": Decimal("0.02")}, spent=spent) is True
    night = make_rule(when='now.getHours("Europe/Berlin") >= 20')
    assert does_match(night, now=datetime(2026, 6, 1, 18, 0, tzinfo=UTC)) is True
    assert does_match(night, now=datetime(2026, 6, 1, 17, 59, tzinfo=UTC)) is False
