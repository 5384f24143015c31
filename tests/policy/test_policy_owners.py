"""Approvers by relation: the owner of an argument's value, and the requester's manager."""

from __future__ import annotations

from typing import Any

import pytest

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Judgement, PolicyError, parse
from bot.policy.gates import Approvers, Ask, dump_gate, load_gate

DEFAULTS = '[defaults]\napprovers = ["@leads"]\n'
OWNERS = """
[owners.service]
payments = ["@payments", "U0CFO1234"]
search = ["@search"]
7 = ["@seven"]
"""
RULE = """
[[rule]]
name = "owners"
tool = "deploy"
verdict = "ask"
approvers = ["owner of args.service"]
"""

MANAGER = '[manager]\nfield = "Manager"\n'
MANAGED = RULE.replace("owner of args.service", "manager of requester")


def judge_deployment(text: str, **args: Any) -> Judgement:
    """The judgement of a deployment with these arguments."""
    facts = Facts(tool="deploy", effect="write", requester="UBEN00001", args=args)
    return parse(DEFAULTS + text, "policy.toml").judge_call(facts)


@pytest.mark.parametrize(
    ("service", "who", "note"),
    [
        (
            "payments",
            Approvers(groups=("payments",), users=("U0CFO1234",)),
            "the owner of args.service is U0CFO1234, @payments",
        ),
        ("search", Approvers(groups=("search",)), "the owner of args.service is @search"),
        (7, Approvers(groups=("seven",)), "the owner of args.service is @seven"),
        *(
            (each, Approvers(), "nobody: it is not in [owners.service]")
            for each in ("Payments", "", None, True, ["search"], {"search": 1})
        ),
    ],
)
def test_the_owner_of_an_arguments_value_decides(service: Any, who: Approvers, note: str) -> None:
    """Nobody decides about a value without owners: not the defaults, nor the owners of others."""
    found = judge_deployment(OWNERS + RULE, service=service)
    assert isinstance(found.gate, Ask)
    assert found.gate.stages[0].approvers == who
    assert found.notes[0].endswith(note)
    assert load_gate(dump_gate(found.gate)) == found.gate


def test_nobody_may_approve_a_call_without_the_owned_field() -> None:
    """The rule still matches."""
    gate = judge_deployment(OWNERS + RULE).gate
    assert isinstance(gate, Ask)
    assert gate.approvers == Approvers()


def test_owners_may_stand_in_stages_and_escalations() -> None:
    """They may stand beside other approvers, and named approvers may be owners."""
    rule = """
[approvers]
money = ["@finance"]

[owners.service]
payments = ["money"]

[[rule]]
verdict = "ask"
tool = "deploy"
stages = [
    { approvers = ["owner of args.service", "@platform"] },
    { approvers = ["@board"] },
]
escalation = [{ after = "10m", approvers = ["owner of args.service"] }]
"""
    gate = judge_deployment(rule, service="payments").gate
    assert isinstance(gate, Ask)
    assert [each.approvers.groups for each in gate.stages] == [("platform", "finance"), ("board",)]
    assert gate.escalation[0].approvers.groups == ("finance",)
    gate = judge_deployment(rule, service="other").gate
    assert isinstance(gate, Ask)
    assert [each.approvers.groups for each in gate.stages] == [("platform",), ("board",)]
    assert gate.escalation[0].approvers == Approvers()


def test_a_rule_may_add_the_owner_as_an_approver() -> None:
    """A value without an owner is not let through by that."""
    adding = RULE.replace('"ask"', '"add"') + '[[rule]]\nverdict = "allow"\ntool = "deploy"\n'
    gate = judge_deployment(OWNERS + adding, service="search").gate
    assert isinstance(gate, Ask)
    assert gate.approvers.groups == ("search",)
    gate = judge_deployment(OWNERS + adding, service="none").gate
    assert isinstance(gate, Ask)
    assert gate.approvers == Approvers()


def test_approvals_by_owners_are_not_remembered() -> None:
    """The next call may have another owner; other owners make another policy."""
    remember = '[defaults]\napprovers = ["@leads"]\nremember = [{}]\n'
    facts = Facts(tool="deploy", effect="write", requester="U0BEN1234", args={"service": "search"})
    gate = parse(remember + OWNERS + ADDED).judge_call(facts).gate
    assert isinstance(gate, Ask)
    assert gate.remember == ()
    one, other = (parse(DEFAULTS + text + RULE) for text in (OWNERS, OWNERS.replace("@s", "@t")))
    assert one.digest != other.digest
    [who, _] = one.asks()
    assert set(who.approvers.groups) == {"payments", "search", "seven"}


ADDED = RULE.replace('verdict = "ask"', 'verdict = "add"') + '[[rule]]\nverdict = "allow"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RULE, "rule 1 approvers: there is no [owners.service]; add it"),
        (OWNERS.replace("service", "servis") + RULE, "(did you mean servis?)"),
        (OWNERS, "[owners] service: is used nowhere"),
        (OWNERS.replace('["@search"]', "[]") + RULE, "nobody could decide"),
        (OWNERS.replace('["@search"]', '["channel"]') + RULE, "name people and groups only"),
        (OWNERS.replace('["@search"]', '["owner of args.x"]') + RULE, "names nobody"),
        (OWNERS + RULE.replace("args.service", "service"), "'owner of service' names nobody"),
        (OWNERS + RULE + "remember = [{}]\n", "nothing is remembered"),
        (MANAGED, "rule 1 approvers: there is no [manager]; add it"),
        (MANAGER, "manager: is used nowhere"),
        (MANAGER + MANAGED + "remember = [{}]\n", "nothing is remembered"),
        (MANAGER.replace("field", "fields") + MANAGED, "unknown key (did you mean field?)"),
        (OWNERS + RULE.replace('"ask"', '"once"'), "nothing is remembered"),
    ],
)
def test_owners_that_could_never_work_are_refused(text: str, said: str) -> None:
    """They are refused when the file is read, with what to do."""
    with pytest.raises(PolicyError) as refused:
        parse(DEFAULTS + text, "policy.toml")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "top", ['readers = ["owner of args.x"]\n', '[modes]\nloosen = ["owner of args.x"]\n']
)
def test_owners_are_refused_outside_of_rules(top: str) -> None:
    """Elsewhere there are no arguments, and the defaults are for all tools."""
    with pytest.raises(PolicyError, match="names nobody"):
        parse(top + DEFAULTS)
    with pytest.raises(PolicyError, match="name owners in a rule"):
        parse(DEFAULTS.replace("@leads", "owner of args.service") + OWNERS + RULE)


@pytest.mark.parametrize(
    ("found", "who", "note"),
    [
        (("UANA00001",), Approvers(users=("UANA00001",)), "is UANA00001"),
        ((), Approvers(), "is nobody: Slack's profile field 'Manager' names no person"),
        (None, Approvers(), "is nobody: Slack's profile field 'Manager' names no person"),
    ],
)
def test_the_manager_of_the_requester_decides(
    found: tuple[str, ...] | None, who: Approvers, note: str
) -> None:
    """Only rules that name the manager look them up; without one nobody may decide."""
    facts = Facts(
        tool="deploy",
        effect="write",
        requester="UBEN00001",
        args={},
        owners={"manager of requester": found},
    )
    policy = parse(DEFAULTS + MANAGER + MANAGED)
    found_gate = policy.judge_call(facts)
    assert isinstance(found_gate.gate, Ask)
    assert found_gate.gate.approvers == who
    assert found_gate.notes[0].startswith(f"the manager of requester {note}")
    assert policy.get_needed_lookups("deploy", "write", "low").owners == {"manager of requester"}
    assert not policy.get_needed_lookups("other", "write", "low").owners
    [asked, _] = policy.asks()
    assert asked.approvers == Approvers(owners=("manager of requester",))
