"""The first three policies of the documentation, and its short examples, do what it says."""

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


def judge_call(policy: Policy, tool: str, effect: str, **known: Any) -> Allow | Ask | Deny:
    """The gate of a call by Ben on a Tuesday at noon, with these arguments."""
    facts: dict[str, Any] = {
        "requester": "UBEN",
        "channel": "C0SUPPORT",
        "now": datetime(2026, 3, 3, 12, tzinfo=UTC),
        "groups": CONTRACTORS,
    }
    more = {key: known.pop(key) for key in tuple(known) if key in Facts.__dataclass_fields__}
    return policy.get_gate(Facts(tool=tool, effect=effect, args=known, **{**facts, **more}))


def get_ask_gate(policy: Policy, tool: str, effect: str = "write", **known: Any) -> Ask:
    """The same, of a call that people decide about."""
    gate = judge_call(policy, tool, effect, **known)
    assert isinstance(gate, Ask)
    return gate


def parse_example(title: str) -> Policy:
    """The first policy in a part of the page."""
    return parse(blocks_in(section(ROOT / "docs" / "policy.md", title), "toml")[0])


def test_the_page_opens_with_three_policies() -> None:
    """Each has a test below, named like it."""
    assert len(FIRST) == 3
    tests = [name for name in globals() if name.startswith("test_")]
    for title in FIRST:
        words = title.lower().replace(",", "").replace(" ", "_")
        assert any(name.startswith(f"test_{words}") for name in tests), title


def test_reading_is_free_changes_are_asked() -> None:
    """One of the channel approves changes within four hours, two what is destructive; never the
    requester or an editor.
    """
    policy = parse(FIRST["Reading is free, changes are asked"])
    assert judge_call(policy, "look_up_order", "read") == Allow(rule="default")
    change, final = (
        get_ask_gate(policy, "refund_order"),
        get_ask_gate(policy, "cancel_order", "destructive"),
    )
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
        ("1.00", None, 2),  # the sum spent is not known
    ],
)
def test_money_with_limits(amount: str, spent: str | None, people: int) -> None:
    """Small sums run, one person approves more, and two above 1000 a day in that currency."""
    policy = parse(FIRST["Money with limits"])
    sums = {DAY: None if spent is None else Decimal(spent)}
    gate = judge_call(policy, "pay", "write", amount=Decimal(amount), currency="EUR", spent=sums)
    assert (gate.required_approvers if isinstance(gate, Ask) else 0) == people
    if isinstance(gate, Ask):
        assert gate.approvers.groups == ("finance", "shop-leads")


def test_finance_and_legal_in_any_order() -> None:
    """They decide in business hours; for contractors one more person approves."""
    policy = parse(FIRST["Finance and legal, in any order"])
    gate = get_ask_gate(policy, "change", "destructive", database="production")
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
    theirs = get_ask_gate(policy, "change", "destructive", database="production", requester="UDAN")
    assert [stage.approvers.groups[0] for stage in theirs.stages] == [
        "finance",
        "legal",
        "database",
    ]
    assert theirs.any_order
    other = get_ask_gate(policy, "change", "destructive", database="staging")
    assert (other.approvers.groups, other.hours) == (("database",), None)


def test_the_example_with_names() -> None:
    """Two of the people for money approve large refunds by night, else one of all approvers."""
    policy = parse_example("Keys")
    night = datetime(2026, 3, 3, 20, tzinfo=UTC)
    two = get_ask_gate(policy, "refund_order", amount=101, now=night)
    assert (two.required_approvers, two.approvers.groups, two.approvers.users) == (
        2,
        ("finance",),
        ("U0CFO",),
    )
    for known in ({"amount": 101}, {"amount": 100, "now": night}):
        one = get_ask_gate(policy, "refund_order", **known)
        assert (one.required_approvers, one.approvers.groups) == (1, ("finance", "shop-leads"))


def test_the_example_with_rules_that_add() -> None:
    """The staff approve a contractor's change of an address; at night those on call may approve."""
    policy = parse_example("Rules that add")
    assert judge_call(policy, "change_address", "write") == Allow(rule="small changes")
    theirs = get_ask_gate(policy, "change_address", requester="UDAN")
    assert (theirs.rule, theirs.approvers.groups) == ("contractors", ("staff",))
    night = datetime(2026, 3, 3, 22, tzinfo=UTC)
    late = get_ask_gate(policy, "refund_order", now=night)
    assert [step.approvers.groups for step in late.escalation] == [("on-call",)]
    assert get_ask_gate(policy, "refund_order").escalation == ()


def test_the_example_with_a_sum() -> None:
    """One customer's week in one currency, by all requesters, takes two of finance above 900."""
    policy = parse_example("Limits over a time")
    week = SpendingSum("pay", "amount", 7 * 86_400, ("currency", "customer"), True)
    for spent, people in (("800", 1), ("801", 2)):
        known = {"amount": 100, "customer": 7, "currency": "EUR", "spent": {week: Decimal(spent)}}
        assert get_ask_gate(policy, "pay", **known).required_approvers == people


def test_the_example_with_business_hours() -> None:
    """Four hours from Friday at 16:00 end on Monday at 12:00."""
    gate = get_ask_gate(parse_example("Time"), "refund_order")
    begun, end = datetime(2026, 11, 20, 15, tzinfo=UTC), datetime(2026, 11, 23, 11, tzinfo=UTC)
    assert gate.compute_due_time(begun, gate.deadline) == end
