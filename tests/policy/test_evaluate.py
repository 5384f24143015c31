"""The policy file: what it means, and what its author is told when it cannot work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, parse
from bot.policy.gates import Allow, Approvers, Ask, Deny, Stage

WHO = '[defaults]\napprovers = ["U0123", "@shop-leads", "channel"]\n'


def gate(policy: Policy, tool: str, effect: str) -> Allow | Ask | Deny:
    """What it says of a call of which nothing else is known."""
    return policy.get_gate(Facts(tool=tool, effect=effect, requester="UBEN00001", args={}))


def test_defaults_without_a_rule() -> None:
    """Without a rule reads are allowed, and all else asks the default approvers.

    It does so with the documented options.
    """
    policy = parse(WHO)
    assert gate(policy, "look_up_order", "read") == Allow(rule="default")
    asked = Ask(
        rule="default",
        stages=(
            Stage(approvers=Approvers(users=("U0123",), groups=("shop-leads",), channel=True)),
        ),
    )
    assert gate(policy, "refund_order", "write") == asked
    assert gate(policy, "cancel_order", "destructive") == asked
    assert (asked.post_to, asked.deadline, asked.self_approval) == ("thread", 3600, False)
    assert (asked.editors, asked.editor_counts) == ("approvers_and_requester", False)


def test_the_first_match_applies() -> None:
    """The first rule that fits by name and effect applies, also to reads.

    No later one overrides a deny.
    """
    policy = parse(
        WHO
        + """
        [[rule]]
        tool = "refund_*"
        effect = "write"
        verdict = "deny"
        reason = "Not this week."
        [[rule]]
        tool = ["refund_*", "look_up_order"]
        verdict = "ask"
        deadline = "2d"
        [[rule]]
        name = "the rest of orders"
        tool = "*_order"
        verdict = "allow"
        """
    )
    assert gate(policy, "refund_order", "write") == Deny(rule="rule 1", reason="Not this week.")
    asked = gate(policy, "refund_order", "destructive")
    assert isinstance(asked, Ask)
    assert (asked.rule, asked.deadline) == ("rule 2", 172_800)
    assert gate(policy, "look_up_order", "read") == asked
    assert gate(policy, "cancel_order", "destructive") == Allow(rule="the rest of orders")
    # names are compared as they are
    assert gate(policy, "Cancel_Order", "destructive").rule == "default"


def test_options_win_over_defaults() -> None:
    """A rule's own options win over [defaults], one by one."""
    policy = parse(
        """
        [defaults]
        approvers = ["@leads"]
        deadline = "90s"
        editors = "nobody"
        self_approval = true
        post_to = "#ops"
        editor_counts = true
        [[rule]]
        tool = "x"
        verdict = "ask"
        approvers = ["W0123", "W0123"]
        post_to = "C0FINANCE"
        self_approval = false
        """
    )
    assert gate(policy, "x", "write") == Ask(
        rule="rule 1",
        stages=(Stage(approvers=Approvers(users=("W0123",))),),
        post_to="C0FINANCE",
        deadline=90,
        editors="nobody",
        editor_counts=True,
    )
    default = gate(policy, "y", "write")
    assert isinstance(default, Ask)
    assert (default.post_to, default.self_approval, default.approvers.groups) == (
        "#ops",
        True,
        ("leads",),
    )
    assert [each.rule for each in policy.asks()] == ["rule 1", "default"]


@given(st.text().filter(lambda each: each not in ("read", "write", "destructive")))
def test_unknown_effects_are_never_allowed(effect: str) -> None:
    """An effect class that nobody knows is never allowed unasked, whatever other rules say."""
    everything = '[[rule]]\nverdict = "allow"\n'
    assert gate(parse(everything), "x", effect).verdict == "deny"
    assert gate(parse(WHO + everything), "x", effect).verdict == "ask"
    strict = '[[rule]]\neffect = "destructive"\nverdict = "deny"\nreason = "no"\n'
    assert gate(parse(WHO + strict), "x", effect).verdict == "deny"


def test_the_digest_covers_the_templates() -> None:
    """What may be asked with a form is part of what the policy means, wherever it stands."""
    template = '[[template]]\ntitle = "Note"\ntool = "note"\nfixed = {{ text = "{}" }}\n'
    one, other = (parse(WHO + template.format(text)) for text in ("a", "b"))
    assert one.digest != other.digest
    assert one.digest != parse(WHO).digest
    assert one.digest == parse(template.format("a") + WHO).digest


def test_the_digest_covers_the_meaning() -> None:
    """The digest covers what the rules mean: layout does not change it, any option does."""
    assert parse(WHO).digest == parse("# a comment\n" + WHO.replace(" = ", "="), "elsewhere").digest
    assert (
        len(
            {parse(WHO + extra).digest for extra in ("", 'deadline = "2h"', "editor_counts = true")}
        )
        == 3
    )
    # a set, which every process writes in an order of its own
    tools = frozenset({"query", "tables"})
    assert parse(WHO).model_copy(update={"asking": tools}).digest == parse(WHO).digest


CALL = Facts(
    tool="refund_order",
    effect="write",
    requester="U1",
    args={"amount": 1, "note": "x"},
    channel="C1",
    now=datetime(2026, 3, 2, 12, tzinfo=UTC),
)
OTHERS = {
    "amount": replace(CALL, args={"amount": True, "note": "x"}),
    "note": replace(CALL, args={"amount": 1}),
    "requester": replace(CALL, requester="U2"),
    "channel": replace(CALL, channel="C2"),
    "client": replace(CALL, client="shop"),
    "effect": replace(CALL, effect="read"),
    "evening": replace(CALL, now=datetime(2026, 3, 2, 20, tzinfo=UTC)),
    "minute": replace(CALL, now=datetime(2026, 3, 2, 12, 1, tzinfo=UTC)),
}
FREEZES = "[freezes]\nnight = { from = 2026-03-02T18:00:00Z, to = 2026-03-03T06:00:00Z }\n"
HOURS = '[hours]\nzone = "UTC"\nopens = "09:00"\ncloses = "17:00"\n'


@pytest.mark.parametrize(
    ("keys", "apart"),
    [
        ("", set()),
        ("when = 'args.amount > 1'", {"amount"}),
        ("when = 'size(args) > 1'", {"amount", "note"}),
        ('when = \'client == "shop" || requester == "U1"\'', {"client", "requester"}),
        ('requester = "U012345"\nchannel = "C0123456"', {"requester", "channel"}),
        ("when = 'in_business_hours'", {"evening"}),
        ("when = '!freezes.night'", {"evening"}),
        ("when = 'now.getHours() == 12'", {"evening", "minute"}),
    ],
)
def test_calls_are_told_apart_by_what_the_rules_read(keys: str, apart: set[str]) -> None:
    """Their effect always does; what no rule reads does not."""
    tables = (HOURS if "business" in keys else "") + (FREEZES if "freezes" in keys else "")
    policy = parse(f'{WHO}{tables}[[rule]]\ntool = "refund_*"\n{keys}\nverdict = "ask"\n')
    key = policy.build_facts_key()
    assert {name for name, other in OTHERS.items() if key(other) != key(CALL)} == {"effect", *apart}
