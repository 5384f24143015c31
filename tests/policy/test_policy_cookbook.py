"""The cookbook's policies do what the sentences around them say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from bot.policy.condition_values import Facts, SlackId, SpendingSum
from bot.policy.evaluation import Policy, parse
from bot.policy.gates import Allow, Approvers, Ask, Deny
from tests.policy.recipes import RECIPES

MONDAY = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # noon in London, 13:00 in Berlin
SPENT, COUNT = (
    SpendingSum("refund_order", "amount", 86_400),
    SpendingSum("refund_order", "", 86_400),
)
EFFECTS = {
    "pay": "write",
    "refund_order": "write",
    "cancel_order": "destructive",
    "look_up_order": "read",
    "change_address": "write",
    "query": "read",
    "change": "destructive",
    "deploy": "write",
    "migrate_orders": "write",
    "delete_rows": "destructive",
    "invite": "write",
    "post_message": "write",
    "schedule_message": "write",
}


JudgeCall = Callable[..., Allow | Ask | Deny]


def parse_recipe(title: str) -> Policy:
    """That recipe, as a bot with databases reads it."""
    return parse(RECIPES[title], title).model_copy(update={"asking": frozenset({"query"})})


def make_judge(title: str) -> JudgeCall:
    """Return a function that says what the recipe makes of a call by Ben in #support at noon, on a
    day without refunds yet.
    """
    read = parse_recipe(title)

    def gate(tool: str, **known: Any) -> Allow | Ask | Deny:
        facts: dict[str, Any] = {
            "tool": tool,
            "effect": EFFECTS[tool],
            "requester": "UBEN",
            "channel": "C0SUPPORT",
            "now": MONDAY,
            "channels": {"#support": "C0SUPPORT", "#general": "C0GENERAL", "#random": "C0RANDOM"},
            "spent": {SPENT: Decimal(0), COUNT: Decimal(0)},
        }
        more = {key: known.pop(key) for key in tuple(known) if key in Facts.__dataclass_fields__}
        return read.get_gate(Facts(**{**facts, "args": known, **more}))

    return gate


def get_approvers(gate: Allow | Ask | Deny) -> Approvers:
    """The approvers of all stages."""
    assert isinstance(gate, Ask)
    return gate.approvers


def test_the_cookbook_has_fifteen_policies() -> None:
    """Each has its own test below, named like it."""
    assert len(RECIPES) == 15
    tests = [name for name in globals() if name.startswith("test_")]
    for title in RECIPES:
        start = f"test_{title.lower().replace(' ', '_')}"
        assert any(name.startswith(start) for name in tests), title


def test_refunds_with_a_daily_limit() -> None:
    """Small ones run, the leads approve larger ones, and finance those above 500 a day, to the
    cent.
    """
    gate = make_judge("Refunds with a daily limit")
    assert gate("refund_order", amount=Decimal("50.00")).verdict == "allow"
    assert get_approvers(gate("refund_order", amount=Decimal("50.01"))).groups == ("shop-leads",)
    full = {SPENT: Decimal("460.00")}
    assert gate("refund_order", amount=Decimal("40.00"), spent=full).verdict == "allow"
    over = gate("refund_order", amount=Decimal("40.01"), spent=full)
    assert get_approvers(over).groups == ("finance",)
    assert isinstance(over, Ask)
    assert over.deadline == 4 * 3600
    assert get_approvers(
        gate("refund_order", amount=Decimal("0.01"), spent={SPENT: None})
    ).groups == ("finance",)


def test_the_production_database_is_not_changed_at_weekends() -> None:
    """Two people approve changes on other days in Berlin; queries of production take one."""
    gate = make_judge("The production database")
    changing = gate("change", database="production", sql="…")
    assert isinstance(changing, Ask)
    assert (changing.stages[0].quorum, changing.approvers.groups) == (2, ("database",))
    assert (changing.editors, changing.deadline) == ("approvers", 1800)
    friday_night, sunday_night = (
        datetime(2026, 3, 6, 23, 30, tzinfo=UTC),
        datetime(2026, 3, 8, 23, 30, tzinfo=UTC),
    )
    assert gate("change", database="production", now=friday_night) == Deny(
        rule="weekend", reason="Production is not changed at the weekend."
    )
    # Monday in Berlin
    assert gate("change", database="production", now=sunday_night).verdict == "ask"
    assert gate("change", database="production", now=None).verdict == "deny"
    assert gate("query", database="shop").verdict == "allow"
    asked = gate("query", database="production")
    assert (get_approvers(asked).groups, isinstance(asked, Ask) and asked.stages[0].quorum) == (
        ("database",),
        1,
    )
    assert gate("query").verdict == "ask"


def test_access_to_a_channel() -> None:
    """Members let people into open channels, the office into others; more than five people take two
    of it.
    """
    gate = make_judge("Access to a channel")
    assert get_approvers(
        gate("invite", args={"channel": SlackId("C0GENERAL"), "people": ["dan"]})
    ).channel
    for name in ("C0BOARD", "C0FINANCE"):
        asked = gate("invite", args={"channel": SlackId(name), "people": ["dan"]})
        assert (get_approvers(asked).groups, get_approvers(asked).channel) == (("office",), False)
    many = gate("invite", args={"channel": SlackId("C0GENERAL"), "people": list("abcdef")})
    assert isinstance(many, Ask)
    assert (many.approvers.groups, many.stages[0].quorum) == (("office",), 2)
    assert get_approvers(
        gate("invite", args={"channel": SlackId("C0GENERAL"), "people": list("abcde")})
    ).channel


def test_announcements_by_channel() -> None:
    """Members approve those in their own channel, the communications team others; @channel is
    denied.
    """
    gate = make_judge("Announcements")
    ours = gate("post_message", args={"channel": SlackId("C0SUPPORT"), "text": "We open at nine."})
    assert isinstance(ours, Ask)
    assert (ours.approvers.channel, ours.deadline) == (True, 1800)
    assert ours == gate(
        "schedule_message", args={"channel": SlackId("C0SUPPORT"), "text": "We open at nine."}
    )
    elsewhere = gate("post_message", args={"channel": SlackId("C0GENERAL"), "text": "News"})
    assert isinstance(elsewhere, Ask)
    assert (elsewhere.approvers.groups, elsewhere.post_to, elsewhere.reminders) == (
        ("comms",),
        "#comms",
        (3600,),
    )
    from_elsewhere = gate(
        "post_message", channel="C0GENERAL", args={"channel": SlackId("C0SUPPORT"), "text": "Hi"}
    )
    assert get_approvers(from_elsewhere).groups == ("comms",)
    for text in ("Hi @channel", "<!here> now", "@Everyone!"):
        assert (
            gate("post_message", args={"channel": SlackId("C0SUPPORT"), "text": text}).verdict
            == "deny"
        )


def test_directors_who_need_not_be_asked() -> None:
    """They may approve any payment, and are notified only of the large ones."""
    gate = make_judge("Directors who need not be asked")
    both = Approvers(groups=("finance", "directors"), silent=("@directors",))
    assert get_approvers(gate("pay", amount=Decimal(10000))) == both
    assert get_approvers(gate("pay", amount=Decimal(10000))).notified == Approvers(
        groups=("finance",)
    )
    assert get_approvers(gate("pay", amount=Decimal(10001))) == Approvers(
        groups=("finance", "directors")
    )


def test_expenses_by_manager() -> None:
    """Small ones run, the manager approves others, and finance the large ones as well."""
    gate = make_judge("Expenses by manager")
    facts: dict[str, Any] = {"owners": {"manager of requester": ("UCLEO0001",)}}
    assert isinstance(gate("pay", amount=Decimal(50), **facts), Allow)
    cleo = Approvers(users=("UCLEO0001",))
    assert get_approvers(gate("pay", amount=Decimal(51), **facts)) == cleo
    large = gate("pay", amount=Decimal(1001), **facts)
    assert isinstance(large, Ask)
    assert [each.approvers for each in large.stages] == [cleo, Approvers(groups=("finance",))]
    assert get_approvers(gate("pay", amount=Decimal(51))) == Approvers()


def test_two_stages_by_direct_message() -> None:
    """The leads approve first, then finance, with a reminder after a day."""
    gate = make_judge("Two stages")("cancel_order")
    assert isinstance(gate, Ask)
    assert [stage.approvers.groups for stage in gate.stages] == [("shop-leads",), ("finance",)]
    assert (gate.post_to, gate.reminders, gate.deadline, gate.veto) == (
        "approvers",
        (86_400,),
        2 * 86_400,
        1,
    )
    assert get_approvers(make_judge("Two stages")("refund_order")).groups == ("shop-leads",)


@pytest.mark.parametrize(
    ("hour", "night"),
    [(18, False), (19, True), (23, True), (0, True), (5, True), (6, False), (12, False)],
)
def test_escalation_at_night(hour: int, night: bool) -> None:
    """People on call approve by night, the managers after a while; Berlin is an hour ahead of UTC
    in winter.
    """
    gate = make_judge("Escalation at night")("refund_order", now=MONDAY.replace(hour=hour))
    assert isinstance(gate, Ask)
    assert gate.approvers.groups == (("on-call",) if night else ("shop-leads",))
    if night:
        assert (gate.list_notification_delay_seconds(), gate.deadline) == ([600, 1800], 5400)
        assert gate.escalation[0].approvers.groups == ("managers",)


def test_an_incident_needs_one_person_on_call() -> None:
    """They may break glass for what takes two, but not for the deletion of data."""
    gate = make_judge("An incident")
    asked = gate("cancel_order")
    assert isinstance(asked, Ask)
    assert (asked.approvers.groups, asked.required_approvers) == (("platform",), 2)
    assert asked.break_glass == Approvers(groups=("on-call",))
    deleting = gate("delete_rows")
    assert isinstance(deleting, Ask)
    assert (deleting.approvers.groups, deleting.break_glass) == (("database",), None)


def test_contractors_are_asked_or_refused() -> None:
    """Staff go on unasked; while the group is not known, everybody counts as a contractor."""
    gate = make_judge("Contractors")
    staff, contractor = {"contractors": frozenset({"UDAN"})}, {"contractors": frozenset({"UBEN"})}
    for known, expected in (
        (staff, ("allow", "allow", "ask")),
        (contractor, ("ask", "ask", "deny")),
    ):
        tools = ("refund_order", "change_address", "cancel_order")
        assert tuple(gate(tool, groups=known).verdict for tool in tools) == expected
    fifth, sixth = {COUNT: Decimal(4)}, {COUNT: Decimal(5)}
    assert gate("refund_order", groups=contractor, spent=fifth).verdict == "ask"
    assert gate("refund_order", groups=contractor, spent=sixth).verdict == "deny"
    assert gate("refund_order", groups=staff, spent=sixth).verdict == "allow"
    lost: dict[str, Any] = {"contractors": None}
    assert gate("cancel_order", groups=lost).verdict == "deny"
    assert gate("refund_order", groups=lost).verdict == "ask"
    assert gate("refund_order", groups=lost, spent=sixth).verdict == "deny"


def test_a_freeze_at_the_end_of_the_year() -> None:
    """It denies destructive calls, and the managers approve others; at other times business hours
    decide.
    """
    gate = make_judge("A freeze at the end of the year")
    eve = datetime(2026, 12, 18, 22, 59, tzinfo=UTC)
    frozen, over = datetime(2026, 12, 18, 23, 0, tzinfo=UTC), datetime(2027, 1, 4, 9, tzinfo=UTC)
    assert gate("cancel_order", now=frozen).verdict == "deny"
    asked = gate("refund_order", now=frozen)
    assert isinstance(asked, Ask)
    assert (get_approvers(asked).groups, asked.required_approvers) == (("managers",), 2)
    for tool in ("cancel_order", "refund_order"):
        assert get_approvers(gate(tool, now=eve)).groups == ("on-call",)
        assert get_approvers(gate(tool, now=over)).groups == ("platform",)
        assert gate(tool, now=None).verdict == ("deny" if tool == "cancel_order" else "ask")
    assert gate("look_up_order", now=frozen).verdict == "allow"


def test_a_migration_at_night() -> None:
    """Two people approve it by day, and it starts at ten; people on call need not wait."""
    asked = make_judge("A migration at night")("migrate_orders")
    assert isinstance(asked, Ask)
    assert (get_approvers(asked).groups, asked.required_approvers) == (("platform",), 2)
    assert str(asked.run_at) == "22:00 Europe/Berlin"
    assert asked.break_glass == Approvers(groups=("on-call",))


def test_deployments_by_service() -> None:
    """The owners of the service approve, and the platform team as well where data may be lost."""
    gate = make_judge("Deployments by service")
    asked = gate("deploy", service="website", migrates=False)
    assert isinstance(asked, Ask)
    assert [each.approvers.groups for each in asked.stages] == [("web", "search")]
    asked = gate("deploy", service="payments", migrates=True)
    assert isinstance(asked, Ask)
    assert [each.approvers.groups for each in asked.stages] == [("payments",), ("platform",)]
    assert get_approvers(gate("deploy", service="billing", migrates=False)) == Approvers()
    assert get_approvers(gate("refund_order")).groups == ("platform",)


def test_a_team_of_one() -> None:
    """The requester approves in a direct message, within ten minutes if it is destructive."""
    gate = make_judge("A team of one")
    change, final = gate("refund_order"), gate("cancel_order")
    assert isinstance(change, Ask)
    assert isinstance(final, Ask)
    assert (change.deadline, final.deadline) == (3600, 600)
    for each in (change, final):
        assert (each.approvers, each.post_to) == (Approvers(requester=True), "approvers")


def test_a_paused_tool() -> None:
    """Refunds are denied, small ones too; everything else is as before."""
    gate = make_judge("A paused tool")
    denied = gate("refund_order", amount=5)
    assert isinstance(denied, Deny)
    assert denied.reason.startswith("Refunds are paused")
    assert get_approvers(gate("cancel_order")).groups == ("shop-leads",)
