"""One rule at a time: which calls it is about, what it must know, when it cannot be told."""

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


def rule(**keys: Any) -> Rule:
    """A rule about everything, narrowed."""
    return Rule(**{**EVERY, **keys})


def fits(made: Rule, effect: str = "write", **known: Any) -> bool | None:
    """Whether a call falls under it."""
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
        # what is settled is not put in doubt
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
def test_every_key_narrows(keys: dict[str, Any], expected: bool | None) -> None:
    """Every key narrows.

    A name that could not be looked up leaves it untold, unless another one settles it.
    """
    assert fits(rule(**keys)) is expected


def test_a_person_outside_of_a_known_group() -> None:
    """Who is in none of the groups is not meant; a group of nobody means nobody."""
    assert fits(rule(requesters=("@staff",)), requester="U2") is False
    assert fits(rule(requesters=("@staff",)), groups={"staff": frozenset()}) is False
    assert fits(rule(requesters=("@staff",)), groups=None) is None
    assert fits(rule(channels=("#ops",)), channels=None) is None


def test_needs_are_collected() -> None:
    """Groups and channels come from requester, channel and conditions; each is collected once.

    Sums come from conditions.
    """
    needs = collect_needed_lookups(
        [
            rule(requesters=("@a", "U1"), channels=("#x", "C1")),
            rule(when='requester in groups.a || requester in groups["b-c"]'),
            rule(
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
    assert collect_needed_lookups([rule()]) == NeededLookups(frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("keys", "about"),
    [
        ({}, True),
        ({"tools": ("x",)}, False),
        ({"effects": ("read",)}, False),
        ({"risks": ("low",)}, False),
        # that depends on the call
        ({"requesters": ("U2",), "channels": ("C2",), "when": "false"}, True),
    ],
)
def test_which_rules_are_asked(keys: dict[str, Any], about: bool) -> None:
    """Which rules have to be asked at all is settled by tool, effect and risk."""
    assert rule(**keys).can_match("refund_order", "write", "medium") is about
    assert rule(effects=("read",)).can_match("refund_order", None, "medium")


def test_stars_name_no_tool() -> None:
    """A pattern of nothing but stars names no tool."""
    assert rule(tools=("refund_*",)).has_specific_pattern_for("refund_order")
    assert rule(tools=("*", "refund_order")).has_specific_pattern_for("refund_order")
    assert not rule(tools=("*", "**")).has_specific_pattern_for("refund_order")


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
def test_what_a_rule_covers(keys: dict[str, Any]) -> None:
    """A rule takes every call of its effects only where nothing else narrows it."""
    assert rule(effects=("write",)).list_fully_covered_effects() == {"write"}
    assert rule(**keys).list_fully_covered_effects() == frozenset()


def test_facts_reach_the_condition() -> None:
    """Sums are exact and the time is the one that was handed in."""
    spent = {SpendingSum("pay", "amount", DAY): Decimal("499.99")}
    over = rule(when='spent("pay", "amount", "24h") + args.amount > 500.0')
    assert fits(over, args={"amount": Decimal("0.01")}, spent=spent) is False
    assert fits(over, args={"amount": Decimal("0.02")}, spent=spent) is True
    night = rule(when='now.getHours("Europe/Berlin") >= 20')
    assert fits(night, now=datetime(2026, 6, 1, 18, 0, tzinfo=UTC)) is True
    assert fits(night, now=datetime(2026, 6, 1, 17, 59, tzinfo=UTC)) is False
