"""Random policies: a deny wins in any order, and doubt allows nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy
from bot.policy.gates import Allow, Approvers, Ask, Deny, Stage
from bot.policy.rules import Rule

EFFECTS = ("read", "write", "destructive")
CONDITIONS = [
    "",
    "true",
    "false",
    "args.amount > 10",
    "args.nope > 10",
    "requester in groups.staff",
    "args.amount",
]
CONDITIONS += ["requester in groups.gone", "has(args.amount) && args.amount == 10"]
ASK = Ask(rule="default", stages=(Stage(approvers=Approvers(groups=("leads",))),))


def sample_some(values: tuple[str, ...]) -> Any:
    """One or more of the values."""
    return st.lists(st.sampled_from(values), min_size=1, unique=True).map(tuple)


@st.composite
def rules(draw: Any) -> Rule:
    """Any rule."""
    name = draw(st.text(alphabet="abcdef", min_size=1, max_size=4))
    gates = [Allow(rule=name), Deny(rule=name, reason="no"), ASK.model_copy(update={"rule": name})]
    return Rule(
        name=name,
        tools=draw(sample_some(("*", "pay", "pay_*", "look"))),
        effects=draw(sample_some(EFFECTS)),
        risks=draw(sample_some(("low", "medium", "high"))),
        channels=draw(st.sampled_from([(), ("C1",), ("#ops",), ("#lost",)])),
        requesters=draw(st.sampled_from([(), ("U1",), ("U2",), ("@staff",), ("@gone",)])),
        when=draw(st.sampled_from(CONDITIONS)),
        gate=draw(st.sampled_from(gates)),
    )


policies = st.builds(
    Policy,
    source=st.just("random"),
    rules=st.lists(rules(), max_size=6).map(tuple),
    default=st.sampled_from([None, ASK]),
    asking=st.sampled_from([frozenset(), frozenset({"pay"})]),
)
calls = st.builds(
    Facts,
    tool=st.sampled_from(["pay", "pay_all", "look", "other"]),
    effect=st.sampled_from([*EFFECTS, "unheard of"]),
    requester=st.sampled_from(["U1", "U2", "U3"]),
    args=st.sampled_from([{}, {"amount": 5}, {"amount": 10}, {"amount": 11}, {"amount": "11"}]),
    channel=st.sampled_from(["C1", "C2"]),
    risk=st.sampled_from(["low", "medium", "high"]),
    groups=st.sampled_from([None, {"staff": frozenset({"U1"}), "gone": None}]),
    channels=st.sampled_from([None, {"#ops": "C1", "#lost": None}]),
)


@given(policies, calls)
def test_a_deny_rule_that_matches_or_may_match_denies(policy: Policy, facts: Facts) -> None:
    """Otherwise a call is denied only because nobody could decide."""
    effect = facts.effect if facts.effect in EFFECTS else "destructive"
    denying = [
        rule
        for rule in policy.rules
        if isinstance(rule.gate, Deny) and rule.match_call(facts, effect)[0] is not False
    ]
    gate = policy.get_gate(facts)
    if denying:
        assert isinstance(gate, Deny)
        assert gate.rule == denying[0].name
    elif isinstance(gate, Deny):
        assert (gate.rule, policy.default) == ("default", None)


@given(policies, calls)
def test_only_a_rule_that_surely_matches_first_allows_a_call(policy: Policy, facts: Facts) -> None:
    """Reads that no rule is about are the exception."""
    gate = policy.get_gate(facts)
    if not isinstance(gate, Allow):
        return
    assert facts.effect in EFFECTS
    told = [(rule, rule.match_call(facts, facts.effect)[0]) for rule in policy.rules]
    if gate.rule == "default" and not any(fits for _, fits in told):
        assert facts.effect == "read"
        assert facts.tool not in policy.asking
        assert all(fits is False for _, fits in told)
        return
    before = []
    for rule, fits in told:
        if (
            rule.gate == gate
            and fits is True
            and (facts.tool not in policy.asking or rule.has_specific_pattern_for(facts.tool))
        ):
            break
        before.append((rule, fits))
    else:
        raise AssertionError("no rule allows it")
    assert all(fits is False for rule, fits in before if isinstance(rule.gate, Ask))
    assert all(fits is not None for rule, fits in before)


@given(policies, calls, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_change_a_denial(
    policy: Policy, facts: Facts, random: Any
) -> None:
    """They are shuffled."""
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    denied = any(
        isinstance(each, Deny) and each.rule != "default" for each in [policy.get_gate(facts)]
    )
    after = policy.model_copy(update={"rules": tuple(shuffled)}).get_gate(facts)
    assert not denied or isinstance(after, Deny)


@given(policies, calls)
def test_an_allow_rule_in_front_opens_no_denied_call(policy: Policy, facts: Facts) -> None:
    """Its own rule still denies it."""
    before = policy.get_gate(facts)
    everything = Rule(
        name="all",
        tools=("*",),
        effects=EFFECTS,
        risks=("low", "medium", "high"),
        gate=Allow(rule="all"),
    )
    after = policy.model_copy(update={"rules": (everything, *policy.rules)}).get_gate(facts)
    if isinstance(before, Deny) and before.rule != "default":
        assert after == before


@given(policies, calls)
def test_a_judgement_lists_the_tried_rules_with_reasons(policy: Policy, facts: Facts) -> None:
    """They come in order, up to the one that denied."""
    judged = policy.judge_call(facts)
    assert [each.rule for each in judged.tried] == [
        rule.name for rule in policy.rules[: len(judged.tried)]
    ]
    if len(judged.tried) < len(policy.rules):
        assert isinstance(judged.gate, Deny)
    assert all(each.why for each in judged.tried)
