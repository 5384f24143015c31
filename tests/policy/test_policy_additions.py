"""Rules that add to other rules' gates make them stricter, never looser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, parse
from bot.policy.gates import Allow, Approvers, Ask, Deny, Escalation, GateAddOn, Stage, tighten_gate
from bot.policy.rules import Rule
from bot.policy.tally import tally_ballots
from storage.states import CallVerb
from tests.policy.builders import (
    approvers,
    asks,
    list_problems,
    make_ballot,
    make_facts,
    stages,
    starts,
)

WHO = '[defaults]\napprovers = ["@leads"]\n'
ADDS = '[[rule]]\nname = "adds"\nverdict = "add"\n'
LEADS, LEGAL, LATE = (
    Stage(approvers=Approvers(groups=(name,))) for name in ("leads", "legal", "late")
)
LENGTHS = st.none() | st.sampled_from([60, 600, 7200])

additions = st.builds(
    GateAddOn,
    rule=st.sampled_from(["night", "contractors"]),
    ask=st.none() | asks,
    stages=st.just(()) | stages,
    deadline=LENGTHS,
    good_for=LENGTHS,
    run_at=st.none() | starts,
    self_approval=st.sampled_from([None, False]),
    editors=st.sampled_from([None, "approvers", "approvers_and_requester", "nobody"]),
    editor_counts=st.sampled_from([None, False]),
    editable=st.none() | st.just(()) | st.just(("a",)),
    veto=st.none() | st.integers(1, 3),
    reasons=st.sampled_from([None, "never", "approve", "reject", "always"]),
    reminders=st.lists(st.sampled_from([30, 60]), max_size=2).map(tuple),
    escalation=st.lists(
        st.builds(Escalation, after=st.sampled_from([60, 600]), approvers=approvers), max_size=2
    ).map(tuple),
)
additions_in_order = st.lists(st.tuples(additions, st.booleans()), max_size=3)
EDITORS = ("nobody", "approvers", "approvers_and_requester")
WORDS = {"never": set(), "approve": {1}, "reject": {2}, "always": {1, 2}}


def judge_refund(text: str, **changed: Any) -> Allow | Ask | Deny:
    """The gate of a refund."""
    return parse(WHO + text).get_gate(make_facts(**changed))


@given(asks, additions_in_order)
def test_additions_loosen_no_term_of_a_gate(
    gate: Ask, adding: list[tuple[GateAddOn, bool]]
) -> None:
    """Each stage keeps its people."""
    found = tighten_gate(gate, adding)
    assert isinstance(found, Ask)
    for old, new in zip(gate.stages, found.stages, strict=False):
        assert (old.approvers, old.quorum <= new.quorum) == (new.approvers, True)
    assert len(found.stages) >= len(gate.stages)
    assert gate.run_at in (None, found.run_at)
    for key in ("deadline", "good_for", "veto", "self_approval", "editor_counts"):
        assert getattr(found, key) <= getattr(gate, key)
    assert EDITORS.index(found.editors) <= EDITORS.index(gate.editors)
    assert gate.editable is None or set(found.editable or ()) <= set(gate.editable)
    assert WORDS[found.reasons] >= WORDS[gate.reasons]
    assert set(found.reminders) >= set(gate.reminders)
    kept = {"rule", "post_to", "remember", "once"}
    shown = gate.copy_without_offers() if found.run_at and found != gate else gate
    assert found.model_dump(include=kept) == shown.model_dump(include=kept)


@given(asks, additions_in_order, st.data())
def test_votes_that_meet_the_tightened_gate_meet_the_first_one(
    gate: Ask, adding: list[tuple[GateAddOn, bool]], data: st.DataObject
) -> None:
    """The first one is the gate before anything was added."""
    found = tighten_gate(gate, adding)
    assert isinstance(found, Ask)
    people = st.sampled_from("ABCDEFGHIJKL")
    drawn = st.lists(
        st.builds(
            make_ballot, people, st.integers(0, len(found.stages) - 1), st.just(CallVerb.APPROVE)
        ),
        max_size=12,
        unique_by=lambda each: each.person,
    )
    cast = sorted(data.draw(drawn), key=lambda each: each.stage)
    if tally_ballots(found, cast).outcome == "approved":
        assert tally_ballots(gate, cast).outcome == "approved"


@given(asks, additions_in_order)
def test_approvers_are_added_only_by_escalations_that_surely_apply(
    gate: Ask, adding: list[tuple[GateAddOn, bool]]
) -> None:
    """They do not decide before their escalation is due."""
    found = tighten_gate(gate, adding)
    assert isinstance(found, Ask)
    sure = [step for addition, known in adding if known for step in addition.escalation]
    assert set(found.escalation) == {*gate.escalation, *sure}
    assert found.get_stage_approvers(0, timedelta()) == gate.get_stage_approvers(0, timedelta())


@given(additions_in_order)
def test_an_allowed_call_is_asked_only_if_an_addition_has_approvers(
    adding: list[tuple[GateAddOn, bool]],
) -> None:
    """It stays allowed otherwise."""
    found = tighten_gate(Allow(rule="free"), adding)
    assert isinstance(found, Ask) == any(addition.ask for addition, _ in adding)


@given(asks, additions_in_order)
def test_adding_the_same_rule_twice_adds_nothing(
    gate: Ask, adding: list[tuple[GateAddOn, bool]]
) -> None:
    """The gate says which rules have added to it."""
    once = tighten_gate(gate, adding)
    assert tighten_gate(once, adding) == once
    assert once == gate or (isinstance(once, Ask) and once.added)


@given(st.lists(st.sampled_from(["allow", "ask", "deny", "add"]), max_size=5), st.data())
def test_rules_that_add_never_allow_more_calls(verdicts: list[str], data: st.DataObject) -> None:
    """They may stand anywhere between the other rules; what was denied stays denied."""
    conditions = st.sampled_from(["", "false", "args.nope > 1", "requester in groups.gone"])
    made = []
    for index, verdict in enumerate(verdicts):
        name = f"{verdict}{index}"
        gates = {
            "allow": Allow(rule=name),
            "deny": Deny(rule=name, reason="no"),
            "ask": data.draw(asks).model_copy(update={"rule": name}),
            "add": data.draw(additions).model_copy(update={"rule": name}),
        }
        about = {"tools": ("*",), "effects": ("read", "write"), "risks": ("medium",)}
        made.append(Rule(name=name, when=data.draw(conditions), gate=gates[verdict], **about))
    default = Ask(rule="default", stages=(LEADS,))
    with_them = Policy(source="p", rules=tuple(made), default=default)
    plain = tuple(rule for rule in made if not isinstance(rule.gate, GateAddOn))
    without = with_them.model_copy(update={"rules": plain})
    before, after = without.get_gate(make_facts()), with_them.get_gate(make_facts())
    order = ("allow", "ask", "deny")
    assert order.index(after.verdict) >= order.index(before.verdict)
    assert not isinstance(before, Deny) or after == before


def test_additions_before_and_after_a_rule_extend_its_gate() -> None:
    """They bring their stages, their escalations and their shorter deadlines."""
    asked = '[[rule]]\nname = "refunds"\ntool = "refund_*"\nverdict = "ask"\ndeadline = "4h"\n'
    night = 'escalation = [{after = "30m", approvers = ["@late"]}]\nreminders = ["10m"]\n'
    legal = ADDS.replace("adds", "legal") + 'approvers = ["@legal"]\ndeadline = "2h"\n'
    gate = judge_refund(ADDS + night + asked + legal)
    assert gate == Ask(
        rule="refunds",
        added=("adds", "legal"),
        stages=(LEADS, LEGAL),
        deadline=7200,
        reminders=(600,),
        escalation=(Escalation(after=1800, approvers=LATE.approvers),),
    )


def test_an_addition_with_approvers_makes_an_allowed_call_ask() -> None:
    """Contractors are asked about what staff may do unasked, with the terms of the addition."""
    text = '[[rule]]\nname = "free"\nverdict = "allow"\n' + ADDS
    text += 'requester = "@finance"\neffect = ["write", "destructive"]\n'
    asked = judge_refund(text + 'approvers = ["@legal"]\ndeadline = "1d"\n')
    assert asked == Ask(rule="adds", stages=(LEGAL,), deadline=86_400)
    for known in ({"requester": "U9"}, {"effect": "read"}):
        assert judge_refund(text + 'approvers = ["@legal"]\n', **known) == Allow(rule="free")
    assert judge_refund(text + 'deadline = "10m"\n') == Allow(
        rule="free"
    )  # no approval whose deadline it could shorten


def test_an_addition_in_doubt_is_stricter_but_adds_no_approvers() -> None:
    """The group of its requesters cannot be looked up."""
    adds = ADDS + 'requester = "@gone"\nveto = 1\ndeadline = "10m"\n'
    adds += 'escalation = [{after = "5m", approvers = ["@late"]}]\n'
    gate = judge_refund(adds)
    assert isinstance(gate, Ask)
    assert (gate.deadline, gate.escalation, gate.added) == (600, (), ("adds",))


def test_a_deny_rule_wins_over_every_addition() -> None:
    """It gives its own reason, wherever the additions stand."""
    deny = '[[rule]]\nname = "no"\nverdict = "deny"\nreason = "Closed."\n'
    assert judge_refund(ADDS + 'approvers = ["@legal"]\n' + deny) == Deny(
        rule="no", reason="Closed."
    )


def test_remembered_approvals_depend_on_the_rule_and_its_additions() -> None:
    """Another condition or escalation of either asks again."""
    night = (
        ADDS
        + 'when = \'now.getHours() >= 20\'\nescalation = [{after = "30m", approvers = ["@late"]}]\n'
    )
    policy = parse(WHO + "remember = [{}]\n" + night)
    day, dark = make_facts(), make_facts(now=make_facts().now.replace(hour=21))
    by_day, by_night = policy.get_gate(day), policy.get_gate(dark)
    assert isinstance(by_day, Ask)
    assert isinstance(by_night, Ask)
    assert by_night.remember == by_day.remember != ()
    known = {policy.find_rule_digest(by_day), policy.find_rule_digest(by_night)}
    assert "" not in known
    assert len(known) == 2
    later = parse(WHO + "remember = [{}]\n" + night.replace("30m", "20m"))
    assert later.find_rule_digest(by_night) == ""
    assert later.find_rule_digest(by_day) == policy.find_rule_digest(by_day)
    assert parse(WHO + "remember = [{}]\n").find_rule_digest(by_night) == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "verdict: adds nothing; say what"),
        ('post_to = "thread"', "post_to: means nothing with verdict"),
        ("remember = [{}]", "remember: means nothing with verdict"),
        ("self_approval = true", "self_approval: would loosen what other rules ask"),
        ("editor_counts = true", "editor_counts: would loosen what other rules ask"),
        ("quorum = 2", "quorum: means nothing without approvers here"),
        ('reason = "x"\nveto = 1', "reason: means nothing with verdict"),
        ('approvers = ["U01"]\nquorum = 2', "quorum: needs more different people than are named"),
        ('deadline = "10m"\nreminders = ["20m"]\napprovers = ["@a"]', "reminders: comes only when"),
    ],
)
def test_additions_that_loosen_or_mean_nothing_are_refused(line: str, said: str) -> None:
    """The refusal names their line."""
    [found] = list_problems(f"{WHO}{ADDS}{line}\n")
    assert f"rule 1 {said}" in found


def test_an_addition_hides_no_rule_and_answers_no_call() -> None:
    """Every call goes on to the rules below it and to [defaults]."""
    text = ADDS + "veto = 1\n" + '[[rule]]\nname = "last"\nverdict = "ask"\n'
    assert parse(WHO + text).get_gate(make_facts()).rule == "last"
    [found] = list_problems(ADDS + 'approvers = ["@a"]\n')
    assert "nobody could decide about calls that no rule matches" in found
    tried = (
        parse(WHO + text).judge_call(Facts(tool="x", effect="write", requester="U", args={})).tried
    )
    assert [each.adds for each in tried] == [True, False]


def test_the_default_gate_includes_matching_additions() -> None:
    """A channel's mode uses it where everything is asked."""
    text = '[[rule]]\nname = "free"\nverdict = "allow"\n' + ADDS + 'reasons = "always"\n'
    text += ADDS.replace("adds", "elsewhere") + 'tool = "other"\nveto = 1\n'
    policy = parse(WHO + text)
    assert policy.get_gate(make_facts()) == Allow(rule="free")
    found = policy.build_default_ask_gate(make_facts())
    assert found == Ask(rule="default", added=("adds",), stages=(LEADS,), reasons="always")
    nobody = '[[rule]]\nverdict = "allow"\n' + ADDS + 'reasons = "always"\n'
    assert parse(nobody).build_default_ask_gate(make_facts()) is None
