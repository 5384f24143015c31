"""Silent approvers: people who may decide and are not notified."""

from __future__ import annotations

from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Stage, combine_gates, dump_gate, load_gate
from tests.policy.builders import list_problems

WHO = '[defaults]\napprovers = ["@leads"]\nsilent = ["@board", "U0CFO1234"]\n'
RULE = '[[rule]]\nname = "one"\ntool = "x"\nverdict = "%s"\n'
QUIET = Approvers(users=("U0CFO1234",), groups=("leads", "board"), silent=("@board", "U0CFO1234"))


def test_silent_approvers_are_inherited_with_the_approvers() -> None:
    """A rule with approvers of its own inherits neither."""
    asked, own = parse(
        WHO + RULE % "ask" + RULE.replace("one", "two") % "ask" + 'approvers = ["@a"]'
    ).rules
    assert isinstance(asked.gate, Ask)
    assert asked.gate.approvers == QUIET
    assert load_gate(dump_gate(asked.gate)) == asked.gate
    assert isinstance(own.gate, Ask)
    assert own.gate.approvers == Approvers(groups=("a",))


def test_only_approvers_who_are_not_silent_are_notified() -> None:
    """Two lists together notify everybody whom one of them notifies."""
    assert QUIET.notified == Approvers(groups=("leads",))
    both = QUIET | Approvers(groups=("board",))
    assert both.silent == ("U0CFO1234",)
    assert both.notified == Approvers(groups=("leads", "board"))


def test_the_same_people_are_one_stage_silent_or_not() -> None:
    """The card showed them as one."""
    loud = Approvers(users=QUIET.users, groups=QUIET.groups)
    one, other = (Ask(rule="r", stages=(Stage(approvers=each),)) for each in (QUIET, loud))
    assert combine_gates(one, other).stages == one.stages


def test_names_and_stages_may_have_silent_approvers() -> None:
    """An addition has silent approvers only in its own stage."""
    text = (
        '[approvers]\nbosses = ["@board"]\n'
        + WHO
        + RULE % "ask"
        + 'stages = [{approvers = ["@a"], silent = ["bosses"]}, {approvers = ["@b"]}]\n'
    )
    [rule] = parse(text).rules
    assert isinstance(rule.gate, Ask)
    assert [each.approvers.silent for each in rule.gate.stages] == [("@board",), ()]
    stray = list_problems(WHO + RULE % "add" + 'silent = ["@a"]')
    assert "silent: means nothing without approvers here; name them" in stray[0]
    beside = list_problems(WHO + RULE % "ask" + 'silent = ["@a"]\nstages = [{approvers = ["@b"]}]')
    assert "remove approvers, quorum and silent beside them" in beside[0]
