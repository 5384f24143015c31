"""Approvers by relation: the owner of an argument, from a table; other values are nobody's."""

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


def judged(text: str, **args: Any) -> Judgement:
    """What such a policy says of a deployment with these arguments."""
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
def test_the_owner_of_the_value_decides(service: Any, who: Approvers, note: str) -> None:
    """And nobody about another value: not the defaults, and not the owners of others."""
    found = judged(OWNERS + RULE, service=service)
    assert isinstance(found.gate, Ask)
    assert found.gate.stages[0].approvers == who
    assert found.notes[0].endswith(note)
    assert load_gate(dump_gate(found.gate)) == found.gate


def test_a_call_without_the_field_is_nobodys() -> None:
    """The rule fits, and who decides is not known."""
    gate = judged(OWNERS + RULE).gate
    assert isinstance(gate, Ask)
    assert gate.approvers == Approvers()


def test_owners_in_stages_escalations_and_beside_others() -> None:
    """Wherever a rule says who decides, owners can be named; sets of approvers can be owners."""
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
    gate = judged(rule, service="payments").gate
    assert isinstance(gate, Ask)
    assert [each.approvers.groups for each in gate.stages] == [("platform", "finance"), ("board",)]
    assert gate.escalation[0].approvers.groups == ("finance",)
    gate = judged(rule, service="other").gate
    assert isinstance(gate, Ask)
    assert [each.approvers.groups for each in gate.stages] == [("platform",), ("board",)]
    assert gate.escalation[0].approvers == Approvers()


def test_a_rule_that_adds_the_owner() -> None:
    """What would run unasked asks the owner; a value without one is not let through by that."""
    adding = RULE.replace('"ask"', '"add"') + '[[rule]]\nverdict = "allow"\ntool = "deploy"\n'
    gate = judged(OWNERS + adding, service="search").gate
    assert isinstance(gate, Ask)
    assert gate.approvers.groups == ("search",)
    gate = judged(OWNERS + adding, service="none").gate
    assert isinstance(gate, Ask)
    assert gate.approvers == Approvers()


def test_nothing_is_remembered() -> None:
    """The next call may have another owner; and another owner makes another policy."""
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
        (OWNERS.replace("service", "servis") + RULE, "(is servis meant?)"),
        (OWNERS, "[owners] service: is used nowhere"),
        (OWNERS.replace('["@search"]', "[]") + RULE, "nobody could decide"),
        (OWNERS.replace('["@search"]', '["channel"]') + RULE, "name people and groups only"),
        (OWNERS.replace('["@search"]', '["owner of args.x"]') + RULE, "names nobody"),
        (OWNERS + RULE.replace("args.service", "service"), "'owner of service' names nobody"),
        (OWNERS + RULE + "remember = [{}]\n", "nothing is remembered"),
        (MANAGED, "rule 1 approvers: there is no [manager]; add it"),
        (MANAGER, "manager: is used nowhere"),
        (MANAGER + MANAGED + "remember = [{}]\n", "nothing is remembered"),
        (MANAGER.replace("field", "fields") + MANAGED, "unknown key (is field meant?)"),
        (OWNERS + RULE.replace('"ask"', '"once"'), "nothing is remembered"),
    ],
)
def test_what_could_never_work_is_refused(text: str, said: str) -> None:
    """When the file is read, with what to do."""
    with pytest.raises(PolicyError) as refused:
        parse(DEFAULTS + text, "policy.toml")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "top", ['readers = ["owner of args.x"]\n', '[modes]\nloosen = ["owner of args.x"]\n']
)
def test_owners_stand_only_where_a_call_is_decided(top: str) -> None:
    """Elsewhere there are no arguments; and the defaults are for tools of all kinds."""
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
def test_the_manager_of_the_requester(
    found: tuple[str, ...] | None, who: Approvers, note: str
) -> None:
    """As it was looked up, which only rules that ask for it need; without one nobody is meant."""
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
