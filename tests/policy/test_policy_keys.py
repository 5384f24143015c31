"""Every key of a policy's gates and rules: what it comes to, and what is said if it cannot."""

from __future__ import annotations

import pytest

from bot.policy.business_hours import StartTime
from bot.policy.condition_values import Facts
from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Escalation, GrantOffer, Stage
from tests.policy.builders import facts, problems

RULE = '[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01", "U02", "U03"]\n'
WHO = '[defaults]\napprovers = ["@shop-leads"]\n'


def asked(text: str, tool: str = "x", effect: str = "write") -> Ask:
    """The gate of a call of which nothing else is known."""
    gate = parse(text).get_gate(Facts(tool=tool, effect=effect, requester="U09", args={}))
    assert isinstance(gate, Ask)
    return gate


def test_every_option_of_a_gate() -> None:
    """All that a rule that asks can say, said at once, and what its gate then holds."""
    gate = asked(
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


def test_what_may_be_remembered() -> None:
    """Offers as they are written, with their own defaults.

    `once` remembers these very arguments by itself.
    """
    offers = 'remember = [{}, {fields = ["a"], where = "everywhere", lasts = "30d", uses = 1000}]\n'
    gate = asked(RULE + offers + WHO)
    assert gate.remember == (
        GrantOffer(fields=None, where="thread", lasts=86_400, uses=10),
        GrantOffer(fields=("a",), where="everywhere", lasts=30 * 86_400, uses=1000),
    )
    once = asked(RULE.replace('"ask"', '"once"') + WHO)
    assert once.once is not None
    assert (once.once.fields, once.once.where, once.remember) == (None, "everywhere", ())


@pytest.mark.parametrize("effect", ["destructive", "made-up"])
def test_what_cannot_be_undone_is_never_remembered(effect: str) -> None:
    """A rule for several effects offers to remember no destructive call.

    Nor does it for one of an effect nobody knows.
    """
    text = '[[rule]]\nverdict = "{}"\napprovers = ["@a"]\n'
    offering = asked(text.format("ask") + "remember = [{}]\n", effect=effect)
    once = asked(text.format("once"), effect=effect)
    assert (offering.remember, offering.once, once.remember, once.once) == ((), None, (), None)


def test_what_takes_several_is_not_remembered_by_one() -> None:
    """Offers of [defaults] do not reach a rule that needs two people."""
    text = WHO + 'remember = [{}]\n[[rule]]\ntool = "x"\nverdict = "ask"\nquorum = 2\n'
    assert asked(text).remember == ()
    assert len(asked(text, tool="y").remember) == 1


def test_who_decides_is_said_in_one_place() -> None:
    """A rule with approvers or stages of its own takes neither quorum nor stages from [defaults].

    The rest it does.
    """
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
    own, inherited = asked(text, "own"), asked(text, "inherited")
    assert own.stages == (Stage(approvers=Approvers(groups=("c",))),)
    assert (own.veto, own.reminders) == (2, (600,))
    assert [stage.approvers.groups for stage in inherited.stages] == [("a",), ("b",)]
    assert inherited.reminders == ()
    counted = '[defaults]\napprovers = ["@a"]\nquorum = 2\n[[rule]]\ntool = "x"\nverdict = "ask"\n'
    assert asked(counted).stages[0].quorum == 2
    assert asked(counted + "quorum = 3\n").stages[0].quorum == 3
    assert asked(counted + 'approvers = ["@b"]\n').stages[0].quorum == 1


def test_what_is_inherited_is_not_held_against_a_rule() -> None:
    """A shorter deadline of a rule leaves inherited reminders unsaid.

    Enough people come in by escalation.
    """
    short = asked(
        f'{WHO}reminders = ["30m"]\n[[rule]]\ntool = "x"\nverdict = "ask"\ndeadline = "10m"\n'
    )
    assert (short.reminders, short.list_notification_delay_seconds()) == ((1800,), [])
    late = '[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01"]\nquorum = 2\n'
    late += 'escalation = [{after = "30m", approvers = ["U02"]}]\n'
    assert asked(late + WHO).required_approvers == 2


def test_tables_of_their_own() -> None:
    """Stages and escalations may be tables of their own.

    What is wrong with one is told at its rule or later.
    """
    text = (
        WHO + '\n[[rule]]\ntool = "x"\nverdict = "ask"\n[[rule.stages]]\napprovers = '
        '["@a"]\n[[rule.stages]]\n'
    )
    gate = asked(text + 'approvers = ["@b"]\nquorum = 2\n')
    assert [(stage.approvers.groups, stage.quorum) for stage in gate.stages] == [
        (("a",), 1),
        (("b",), 2),
    ]
    (found,) = problems(text + "approvers = []\n")
    assert found.startswith("  p.toml:4: rule 1 stages: nobody could decide")


def test_what_holds_after_a_rejection() -> None:
    """A rule's own word goes before that of [defaults]; a rule that does not allow has none."""
    rule = '[[rule]]\ntool = "x"\nverdict = "{}"\n'
    allows = rule.format("allow")
    defaults = WHO + 'after_rejection = "allow"\n'
    found = [
        parse(text).get_gate(facts(tool="x"))
        for text in (WHO + allows, defaults + allows, defaults + allows + 'after_rejection = "ask"')
    ]
    assert [getattr(gate, "after_rejection", "") for gate in found] == ["ask", "allow", "ask"]
    [problem] = problems(WHO + rule.format("ask") + 'after_rejection = "allow"')
    assert 'means nothing with verdict = "ask"; remove it' in problem
