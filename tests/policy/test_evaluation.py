"""What a policy file means, and what its digest covers."""

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


def judge_call(policy: Policy, tool: str, effect: str) -> Allow | Ask | Deny:
    """The gate of a call of which nothing else is known."""
    return policy.get_gate(Facts(tool=tool, effect=effect, requester="UBEN00001", args={}))


def test_without_rules_reads_run_and_changes_ask_the_defaults() -> None:
    """The gate has the documented options."""
    policy = parse(WHO)
    assert judge_call(policy, "look_up_order", "read") == Allow(rule="default")
    asked = Ask(
        rule="default",
        stages=(
            Stage(approvers=Approvers(users=("U0123",), groups=("shop-leads",), channel=True)),
        ),
    )
    assert judge_call(policy, "refund_order", "write") == asked
    assert judge_call(policy, "cancel_order", "destructive") == asked
    assert (asked.post_to, asked.deadline, asked.self_approval) == ("thread", 3600, False)
    assert (asked.editors, asked.editor_counts) == ("approvers_and_requester", False)


def test_the_first_matching_rule_applies() -> None:
    """It matches by name and effect, also reads; no later rule overrides a deny."""
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
    assert judge_call(policy, "refund_order", "write") == Deny(
        rule="rule 1", reason="Not this week."
    )
    asked = judge_call(policy, "refund_order", "destructive")
    assert isinstance(asked, Ask)
    assert (asked.rule, asked.deadline) == ("rule 2", 172_800)
    assert judge_call(policy, "look_up_order", "read") == asked
    assert judge_call(policy, "cancel_order", "destructive") == Allow(rule="the rest of orders")
    # upper and lower case differ
    assert judge_call(policy, "Cancel_Order", "destructive").rule == "default"


def test_a_rules_options_override_the_defaults_one_by_one() -> None:
    """The other defaults stay."""
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
    assert judge_call(policy, "x", "write") == Ask(
        rule="rule 1",
        stages=(Stage(approvers=Approvers(users=("W0123",))),),
        post_to="C0FINANCE",
        deadline=90,
        editors="nobody",
        editor_counts=True,
    )
    default = judge_call(policy, "y", "write")
    assert isinstance(default, Ask)
    assert (default.post_to, default.self_approval, default.approvers.groups) == (
        "#ops",
        True,
        ("leads",),
    )
    assert [each.rule for each in policy.asks()] == ["rule 1", "default"]


@given(st.text().filter(lambda each: each not in ("read", "write", "destructive")))
def test_an_unknown_effect_is_never_allowed_unasked(effect: str) -> None:
    """The rules may say what they like about other effects."""
    everything = '[[rule]]\nverdict = "allow"\n'
    assert judge_call(parse(everything), "x", effect).verdict == "deny"
    assert judge_call(parse(WHO + everything), "x", effect).verdict == "ask"
    strict = '[[rule]]\neffect = "destructive"\nverdict = "deny"\nreason = "no"\n'
    assert judge_call(parse(WHO + strict), "x", effect).verdict == "deny"


def test_the_digest_covers_templates_wherever_they_stand() -> None:
    """A template says what may be requested with a form."""
    template = '[[template]]\ntitle = "Note"\ntool = "note"\nfixed = {{ text = "{}" }}\n'
    one, other = (parse(WHO + template.format(text)) for text in ("a", "b"))
    assert one.digest != other.digest
    assert one.digest != parse(WHO).digest
    assert one.digest == parse(template.format("a") + WHO).digest


def test_the_digest_changes_with_options_but_not_with_layout() -> None:
    """It covers what the rules mean."""
    assert parse(WHO).digest == parse("# a comment\n" + WHO.replace(" = ", "="), "elsewhere").digest
    assert (
        len(
            {parse(WHO + extra).digest for extra in ("", 'deadline = "2h"', "editor_counts = true")}
        )
        == 3
    )
    # the order of a set differs between processes
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
        ('when = \'count("refund_order", "1h", "same note") > 1\'', {"note"}),
        ('when = \'client == "shop" || requester == "U1"\'', {"client", "requester"}),
        ('requester = "U012345"\nchannel = "C0123456"', {"requester", "channel"}),
        ("when = 'in_business_hours'", {"evening"}),
        ("when = '!freezes.night'", {"evening"}),
        ("when = 'now.getHours() == 12'", {"evening", "minute"}),
    ],
)
def test_the_facts_key_covers_the_effect_and_what_rules_read(keys: str, apart: set[str]) -> None:
    """Calls that differ in nothing else have the same key."""
    tables = (HOURS if "business" in keys else "") + (FREEZES if "freezes" in keys else "")
    policy = parse(f'{WHO}{tables}[[rule]]\ntool = "refund_*"\n{keys}\nverdict = "ask"\n')
    key = policy.build_facts_key()
    assert {name for name, other in OTHERS.items() if key(other) != key(CALL)} == {"effect", *apart}
