"""The keys of a policy's rules and defaults, and the gates they make."""

from __future__ import annotations

import pytest

from bot.policy.business_hours import StartTime
from bot.policy.condition_values import Facts
from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Escalation, GrantOffer, Stage
from tests.policy.builders import list_problems, make_facts

RULE = '[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01", "U02", "U03"]\n'
WHO = '[defaults]\napprovers = ["@shop-leads"]\n'


def get_ask_gate(text: str, tool: str = "x", effect: str = "write") -> Ask:
    """The gate of a call of which nothing else is known."""
    gate = parse(text).get_gate(Facts(tool=tool, effect=effect, requester="U09", args={}))
    assert isinstance(gate, Ask)
    return gate


def test_every_key_of_a_rule_that_asks_reaches_its_gate() -> None:
    """One rule has all of them."""
    gate = get_ask_gate(
        WHO
        + """
        [[rule]]
        name = "everything"
        tool = "x"
        verdict = "ask"
        stages = [
          {approvers = ["U01", "@ops"], quorum = 2}, {approvers = ["channel", "requester", "W02"]},
        ]
        veto = 3
        post_to = "#ops"
        deadline = "2h"
        good_for = "10m"
        run_at = "sat 22:05 Europe/Berlin"
        reminders = ["1h", "30m", "60m"]
        urgent = true
        escalation = [{after = "90m", approvers = ["@late"]}, {after = "45m", approvers = ["U04"]}]
        self_approval = true
        editors = "nobody"
        editor_counts = true
        editable = ["amount", "note"]
        reasons = "always" """
    )
    assert gate == Ask(
        rule="everything",
        stages=(
            Stage(approvers=Approvers(users=("U01",), groups=("ops",)), quorum=2),
            Stage(approvers=Approvers(users=("W02",), channel=True, requester=True)),
        ),
        veto=3,
        post_to="#ops",
        deadline=7200,
        good_for=600,
        run_at=StartTime(zone="Europe/Berlin", minutes=22 * 60 + 5, day=6),
        reminders=(1800, 3600),
        urgent=True,
        escalation=(
            Escalation(after=2700, approvers=Approvers(users=("U04",))),
            Escalation(after=5400, approvers=Approvers(groups=("late",))),
        ),
        self_approval=True,
        editors="nobody",
        editor_counts=True,
        editable=("amount", "note"),
        reasons="always",
    )
    assert gate.list_notification_delay_seconds() == [1800, 2700, 3600, 5400]


def test_remember_and_once_offer_to_remember_approvals() -> None:
    """Offers have their own defaults; `once` remembers exactly these arguments."""
    offers = 'remember = [{}, {fields = ["a"], where = "everywhere", lasts = "30d", uses = 1000}]\n'
    gate = get_ask_gate(RULE + offers + WHO)
    assert gate.remember == (
        GrantOffer(fields=None, where="thread", lasts=86_400, uses=10),
        GrantOffer(fields=("a",), where="everywhere", lasts=30 * 86_400, uses=1000),
    )
    once = get_ask_gate(RULE.replace('"ask"', '"once"') + WHO)
    assert once.once is not None
    assert (once.once.fields, once.once.where, once.remember) == (None, "everywhere", ())


@pytest.mark.parametrize("effect", ["destructive", "made-up"])
def test_destructive_calls_are_never_remembered(effect: str) -> None:
    """Calls of an unknown effect are not either, also under a rule for several effects."""
    text = '[[rule]]\nverdict = "{}"\napprovers = ["@a"]\n'
    offering = get_ask_gate(text.format("ask") + "remember = [{}]\n", effect=effect)
    once = get_ask_gate(text.format("once"), effect=effect)
    assert (offering.remember, offering.once, once.remember, once.once) == ((), None, (), None)


def test_calls_that_need_two_people_are_not_remembered() -> None:
    """The offers of [defaults] do not reach such a rule."""
    text = WHO + 'remember = [{}]\n[[rule]]\ntool = "x"\nverdict = "ask"\nquorum = 2\n'
    assert get_ask_gate(text).remember == ()
    assert len(get_ask_gate(text, tool="y").remember) == 1


def test_a_rule_with_own_approvers_inherits_no_quorum_or_stages() -> None:
    """It inherits the other keys of [defaults]."""
    text = """
    [defaults]
    stages = [{approvers = ["@a"]}, {approvers = ["@b"]}]
    veto = 2
    reminders = ["10m"]
    [[rule]]
    tool = "own"
    verdict = "ask"
    approvers = ["@c"]
    [[rule]]
    tool = "inherited"
    verdict = "ask"
    reminders = []
    """
    own, inherited = get_ask_gate(text, "own"), get_ask_gate(text, "inherited")
    assert own.stages == (Stage(approvers=Approvers(groups=("c",))),)
    assert (own.veto, own.reminders) == (2, (600,))
    assert [stage.approvers.groups for stage in inherited.stages] == [("a",), ("b",)]
    assert inherited.reminders == ()
    counted = '[defaults]\napprovers = ["@a"]\nquorum = 2\n[[rule]]\ntool = "x"\nverdict = "ask"\n'
    assert get_ask_gate(counted).stages[0].quorum == 2
    assert get_ask_gate(counted + "quorum = 3\n").stages[0].quorum == 3
    assert get_ask_gate(counted + 'approvers = ["@b"]\n').stages[0].quorum == 1


def test_inherited_reminders_after_a_rules_deadline_are_dropped() -> None:
    """A quorum may be met by people who come in by escalation."""
    short = get_ask_gate(
        f'{WHO}reminders = ["30m"]\n[[rule]]\ntool = "x"\nverdict = "ask"\ndeadline = "10m"\n'
    )
    assert (short.reminders, short.list_notification_delay_seconds()) == ((1800,), [])
    late = '[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01"]\nquorum = 2\n'
    late += 'escalation = [{after = "30m", approvers = ["U02"]}]\n'
    assert get_ask_gate(late + WHO).required_approvers == 2


def test_stages_may_be_tables_of_their_own() -> None:
    """A mistake in one is told at the line of its rule or later."""
    text = (
        WHO + '\n[[rule]]\ntool = "x"\nverdict = "ask"\n[[rule.stages]]\napprovers = '
        '["@a"]\n[[rule.stages]]\n'
    )
    gate = get_ask_gate(text + 'approvers = ["@b"]\nquorum = 2\n')
    assert [(stage.approvers.groups, stage.quorum) for stage in gate.stages] == [
        (("a",), 1),
        (("b",), 2),
    ]
    (found,) = list_problems(text + "approvers = []\n")
    assert found.startswith("  p.toml:4: rule 1 stages: nobody could decide")


def test_after_rejection_of_a_rule_overrides_the_defaults() -> None:
    """Only a rule that allows may have it."""
    rule = '[[rule]]\ntool = "x"\nverdict = "{}"\n'
    allows = rule.format("allow")
    defaults = WHO + 'after_rejection = "allow"\n'
    found = [
        parse(text).get_gate(make_facts(tool="x"))
        for text in (WHO + allows, defaults + allows, defaults + allows + 'after_rejection = "ask"')
    ]
    assert [getattr(gate, "after_rejection", "") for gate in found] == ["ask", "allow", "ask"]
    [problem] = list_problems(WHO + rule.format("ask") + 'after_rejection = "allow"')
    assert 'means nothing with verdict = "ask"; remove it' in problem
