"""Rules that add to what other rules say: they make it stricter, never looser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, parse
from bot.policy.gates import (
    Allow,
    Approvers,
    Ask,
    Deny,
    Escalation,
    GateAddOn,
    Stage,
    tighten_gate,
)
from bot.policy.rules import Rule
from bot.policy.tally import tally_ballots
from storage.states import CallVerb
from tests.policy.builders import approvers, asks, ballot, facts, problems, stages, starts

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
some = st.lists(st.tuples(additions, st.booleans()), max_size=3)
EDITORS = ("nobody", "approvers", "approvers_and_requester")
WORDS = {"never": set(), "approve": {1}, "reject": {2}, "always": {1, 2}}


def judged(text: str, **changed: Any) -> Allow | Ask | Deny:
    """What a policy says of a refund."""
    return parse(WHO + text).get_gate(facts(**changed))


@given(asks, some)
def test_nothing_is_loosened(gate: Ask, adding: list[tuple[GateAddOn, bool]]) -> None:
    """Every term is as strict as it was or stricter, and each stage has the same people."""
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


@given(asks, some, st.data())
def test_who_meets_it_meets_what_was_asked_before(
    gate: Ask, adding: list[tuple[GateAddOn, bool]], data: st.DataObject
) -> None:
    """Votes that approve under the composed gate would have approved under the first one alone."""
    found = tighten_gate(gate, adding)
    assert isinstance(found, Ask)
    people = st.sampled_from("ABCDEFGHIJKL")
    drawn = st.lists(
        st.builds(ballot, people, st.integers(0, len(found.stages) - 1), st.just(CallVerb.APPROVE)),
        max_size=12,
        unique_by=lambda each: each.person,
    )
    cast = sorted(data.draw(drawn), key=lambda each: each.stage)
    if tally_ballots(found, cast).outcome == "approved":
        assert tally_ballots(gate, cast).outcome == "approved"


@given(asks, some)
def test_more_people_come_only_by_a_sure_escalation(
    gate: Ask, adding: list[tuple[GateAddOn, bool]]
) -> None:
    """Who may decide in a stage grows by escalations of rules that surely apply, and then only."""
    found = tighten_gate(gate, adding)
    assert isinstance(found, Ask)
    sure = [step for addition, known in adding if known for step in addition.escalation]
    assert set(found.escalation) == {*gate.escalation, *sure}
    assert found.get_stage_approvers(0, timedelta()) == gate.get_stage_approvers(0, timedelta())


@given(some)
def test_what_is_allowed_stays_so_or_is_asked(adding: list[tuple[GateAddOn, bool]]) -> None:
    """What another rule allows is asked where one that adds names who decides, else allowed."""
    found = tighten_gate(Allow(rule="free"), adding)
    assert isinstance(found, Ask) == any(addition.ask for addition, _ in adding)


@given(asks, some)
def test_adding_twice_adds_nothing(gate: Ask, adding: list[tuple[GateAddOn, bool]]) -> None:
    """What a rule has added it does not add again."""
    once = tighten_gate(gate, adding)
    assert tighten_gate(once, adding) == once
    assert once == gate or (isinstance(once, Ask) and once.added)


@given(st.lists(st.sampled_from(["allow", "ask", "deny", "add"]), max_size=5), st.data())
def test_a_rule_that_adds_never_frees_a_call(verdicts: list[str], data: st.DataObject) -> None:
    """With rules that add anywhere between the others, allowed is only what was allowed before,
    and denied is all that was denied.
    """
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
    before, after = without.get_gate(facts()), with_them.get_gate(facts())
    order = ("allow", "ask", "deny")
    assert order.index(after.verdict) >= order.index(before.verdict)
    assert not isinstance(before, Deny) or after == before


def test_a_stage_and_an_escalation() -> None:
    """Rules above and below the one that asks add their stage, their people and their haste."""
    asked = '[[rule]]\nname = "refunds"\ntool = "refund_*"\nverdict = "ask"\ndeadline = "4h"\n'
    night = 'escalation = [{after = "30m", approvers = ["@late"]}]\nreminders = ["10m"]\n'
    legal = ADDS.replace("adds", "legal") + 'approvers = ["@legal"]\ndeadline = "2h"\n'
    gate = judged(ADDS + night + asked + legal)
    assert gate == Ask(
        rule="refunds",
        added=("adds", "legal"),
        stages=(LEADS, LEGAL),
        deadline=7200,
        reminders=(600,),
        escalation=(Escalation(after=1800, approvers=LATE.approvers),),
    )


def test_an_allowed_call_is_asked() -> None:
    """A stage for contractors holds for what staff may do unasked, with the terms it names."""
    text = '[[rule]]\nname = "free"\nverdict = "allow"\n' + ADDS
    text += 'requester = "@finance"\neffect = ["write", "destructive"]\n'
    asked = judged(text + 'approvers = ["@legal"]\ndeadline = "1d"\n')
    assert asked == Ask(rule="adds", stages=(LEGAL,), deadline=86_400)
    for known in ({"requester": "U9"}, {"effect": "read"}):
        assert judged(text + 'approvers = ["@legal"]\n', **known) == Allow(rule="free")
    assert judged(text + 'deadline = "10m"\n') == Allow(rule="free")  # there is nothing to hasten


def test_what_cannot_be_told_adds_no_people() -> None:
    """While a group cannot be looked up, its rule makes it stricter and lets nobody else decide."""
    adds = ADDS + 'requester = "@gone"\nveto = 1\ndeadline = "10m"\n'
    adds += 'escalation = [{after = "5m", approvers = ["@late"]}]\n'
    gate = judged(adds)
    assert isinstance(gate, Ask)
    assert (gate.deadline, gate.escalation, gate.added) == (600, (), ("adds",))


def test_a_deny_wins_over_all_that_is_added() -> None:
    """What a rule denies stays denied with its own reason, wherever rules that add stand."""
    deny = '[[rule]]\nname = "no"\nverdict = "deny"\nreason = "Closed."\n'
    assert judged(ADDS + 'approvers = ["@legal"]\n' + deny) == Deny(rule="no", reason="Closed.")


def test_a_remembered_approval_is_bound_to_what_was_added() -> None:
    """What may be remembered is known by the rule that asks and by all that add to it."""
    night = (
        ADDS
        + 'when = \'now.getHours() >= 20\'\nescalation = [{after = "30m", approvers = ["@late"]}]\n'
    )
    policy = parse(WHO + "remember = [{}]\n" + night)
    day, dark = facts(), facts(now=facts().now.replace(hour=21))
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
def test_what_a_rule_cannot_add(line: str, said: str) -> None:
    """What would loosen, or mean nothing, is refused with its line."""
    [found] = problems(f"{WHO}{ADDS}{line}\n")
    assert f"rule 1 {said}" in found


def test_it_hides_no_rule_and_answers_no_call() -> None:
    """A rule that adds to everything leaves every call to the rules below and to [defaults]."""
    text = ADDS + "veto = 1\n" + '[[rule]]\nname = "last"\nverdict = "ask"\n'
    assert parse(WHO + text).get_gate(facts()).rule == "last"
    [found] = problems(ADDS + 'approvers = ["@a"]\n')
    assert "nobody could decide about calls that no rule matches" in found
    tried = (
        parse(WHO + text).judge_call(Facts(tool="x", effect="write", requester="U", args={})).tried
    )
    assert [each.adds for each in tried] == [True, False]


def test_what_is_asked_though_it_is_allowed_is_as_strict() -> None:
    """Where a channel's mode has everything asked, the defaults get what matching rules add."""
    text = '[[rule]]\nname = "free"\nverdict = "allow"\n' + ADDS + 'reasons = "always"\n'
    text += ADDS.replace("adds", "elsewhere") + 'tool = "other"\nveto = 1\n'
    policy = parse(WHO + text)
    assert policy.get_gate(facts()) == Allow(rule="free")
    found = policy.build_default_ask_gate(facts())
    assert found == Ask(rule="default", added=("adds",), stages=(LEADS,), reasons="always")
    nobody = '[[rule]]\nverdict = "allow"\n' + ADDS + 'reasons = "always"\n'
    assert parse(nobody).build_default_ask_gate(facts()) is None
