"""The three policies to begin with, and the examples of single words, do as is said of them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from bot.policy.condition_values import Facts, SpendingSum
from bot.policy.evaluation import Policy, parse
from bot.policy.gates import Allow, Ask, Deny
from tests.pages import ROOT, blocks_in, section
from tests.policy.recipes import FIRST

DAY = SpendingSum("pay", "amount", 86_400, ("currency",), True)
CONTRACTORS = {"contractors": frozenset({"UDAN"})}


def judged(policy: Policy, tool: str, effect: str, **known: Any) -> Allow | Ask | Deny:
    """What a policy says of a call by Ben on a Tuesday at noon, with these arguments."""
    facts: dict[str, Any] = {
        "requester": "UBEN",
        "channel": "C0SUPPORT",
        "now": datetime(2026, 3, 3, 12, tzinfo=UTC),
        "groups": CONTRACTORS,
    }
    more = {key: known.pop(key) for key in tuple(known) if key in Facts.__dataclass_fields__}
    return policy.get_gate(Facts(tool=tool, effect=effect, args=known, **{**facts, **more}))


def asked(policy: Policy, tool: str, effect: str = "write", **known: Any) -> Ask:
    """The same, of a call that people decide about."""
    gate = judged(policy, tool, effect, **known)
    assert isinstance(gate, Ask)
    return gate


def example(title: str) -> Policy:
    """The first policy in a part of the page."""
    return parse(blocks_in(section(ROOT / "docs" / "policy.md", title), "toml")[0])


def test_there_are_three() -> None:
    """The page opens with three policies, and each has a test below, named like it."""
    assert len(FIRST) == 3
    tests = [name for name in globals() if name.startswith("test_")]
    for title in FIRST:
        words = title.lower().replace(",", "").replace(" ", "_")
        assert any(name.startswith(f"test_{words}") for name in tests), title


def test_reading_is_free_changes_are_asked() -> None:
    """Reads run, changes ask the channel for four hours, what cannot be undone asks two of it.

    Never who asked or edited.
    """
    policy = parse(FIRST["Reading is free, changes are asked"])
    assert judged(policy, "look_up_order", "read") == Allow(rule="default")
    change, final = asked(policy, "refund_order"), asked(policy, "cancel_order", "destructive")
    assert (change.approvers.channel, change.required_approvers, change.deadline) == (
        True,
        1,
        4 * 3600,
    )
    assert (final.approvers.channel, final.required_approvers, final.deadline) == (
        True,
        2,
        4 * 3600,
    )
    assert not any(each.self_approval or each.editor_counts for each in (change, final))


@pytest.mark.parametrize(
    ("amount", "spent", "people"),
    [
        ("50.00", "0", 0),
        ("50.01", "0", 1),
        ("50.00", "950.00", 0),
        ("50.00", "950.01", 2),
        ("0.01", "1000.00", 2),
        ("2000.00", "0", 2),
        ("1.00", None, 2),  # what was spent is not known
    ],
)
def test_money_with_limits(amount: str, spent: str | None, people: int) -> None:
    """Small sums run, more asks one, and above 1000 a day in that currency two are asked."""
    policy = parse(FIRST["Money with limits"])
    sums = {DAY: None if spent is None else Decimal(spent)}
    gate = judged(policy, "pay", "write", amount=Decimal(amount), currency="EUR", spent=sums)
    assert (gate.required_approvers if isinstance(gate, Ask) else 0) == people
    if isinstance(gate, Ask):
        assert gate.approvers.groups == ("finance", "shop-leads")


def test_finance_and_legal_in_any_order() -> None:
    """One of each, whoever comes first, in business hours; for contractors one more."""
    policy = parse(FIRST["Finance and legal, in any order"])
    gate = asked(policy, "change", "destructive", database="production")
    assert [stage.approvers.groups for stage in gate.stages] == [("finance",), ("legal",)]
    assert (gate.any_order, gate.deadline, gate.list_notification_delay_seconds()) == (
        True,
        8 * 3600,
        [4 * 3600],
    )
    friday, monday = datetime(2026, 11, 20, 15, tzinfo=UTC), datetime(2026, 11, 23, 15, tzinfo=UTC)
    assert gate.compute_due_time(friday, gate.deadline) == monday  # 16:00 in Berlin
    assert gate.hours is not None
    assert date(2026, 12, 24) in gate.hours.holidays
    theirs = asked(policy, "change", "destructive", database="production", requester="UDAN")
    assert [stage.approvers.groups[0] for stage in theirs.stages] == [
        "finance",
        "legal",
        "database",
    ]
    assert theirs.any_order
    other = asked(policy, "change", "destructive", database="staging")
    assert (other.approvers.groups, other.hours) == (("database",), None)


def test_names_as_they_are_shown() -> None:
    """Of large refunds by night two of the people for money decide, else one of all deciders."""
    policy = example("Keys")
    night = datetime(2026, 3, 3, 20, tzinfo=UTC)
    two = asked(policy, "refund_order", amount=101, now=night)
    assert (two.required_approvers, two.approvers.groups, two.approvers.users) == (
        2,
        ("finance",),
        ("U0CFO",),
    )
    for known in ({"amount": 101}, {"amount": 100, "now": night}):
        one = asked(policy, "refund_order", **known)
        assert (one.required_approvers, one.approvers.groups) == (1, ("finance", "shop-leads"))


def test_rules_that_add_as_they_are_shown() -> None:
    """A contractor's change of an address asks the staff; at night those on call may help."""
    policy = example("Rules that add")
    assert judged(policy, "change_address", "write") == Allow(rule="small changes")
    theirs = asked(policy, "change_address", requester="UDAN")
    assert (theirs.rule, theirs.approvers.groups) == ("contractors", ("staff",))
    night = datetime(2026, 3, 3, 22, tzinfo=UTC)
    late = asked(policy, "refund_order", now=night)
    assert [step.approvers.groups for step in late.escalation] == [("on-call",)]
    assert asked(policy, "refund_order").escalation == ()


def test_a_sum_as_it_is_shown() -> None:
    """One customer's week in one currency, whoever asks, takes two of finance above 900."""
    policy = example("Limits over a time")
    week = SpendingSum("pay", "amount", 7 * 86_400, ("currency", "customer"), True)
    for spent, people in (("800", 1), ("801", 2)):
        known = {"amount": 100, "customer": 7, "currency": "EUR", "spent": {week: Decimal(spent)}}
        assert asked(policy, "pay", **known).required_approvers == people


def test_business_hours_as_they_are_shown() -> None:
    """Four hours from Friday at 16:00 end on Monday at 12:00."""
    gate = asked(example("Time"), "refund_order")
    begun, end = datetime(2026, 11, 20, 15, tzinfo=UTC), datetime(2026, 11, 23, 11, tzinfo=UTC)
    assert gate.compute_due_time(begun, gate.deadline) == end
