"""Approvers who are not notified: where they may stand, and who is notified after all."""

from __future__ import annotations

from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Stage, combine_gates, dump_gate, load_gate
from tests.policy.builders import problems

WHO = '[defaults]\napprovers = ["@leads"]\nsilent = ["@board", "U0CFO1234"]\n'
RULE = '[[rule]]\nname = "one"\ntool = "x"\nverdict = "%s"\n'
QUIET = Approvers(users=("U0CFO1234",), groups=("leads", "board"), silent=("@board", "U0CFO1234"))


def test_they_are_taken_from_the_defaults_with_their_approvers() -> None:
    """A rule with approvers of its own takes neither."""
    asked, own = parse(
        WHO + RULE % "ask" + RULE.replace("one", "two") % "ask" + 'approvers = ["@a"]'
    ).rules
    assert isinstance(asked.gate, Ask)
    assert asked.gate.approvers == QUIET
    assert load_gate(dump_gate(asked.gate)) == asked.gate
    assert isinstance(own.gate, Ask)
    assert own.gate.approvers == Approvers(groups=("a",))


def test_only_the_others_are_notified() -> None:
    """Of two lists together, whoever is notified by one of them."""
    assert QUIET.notified == Approvers(groups=("leads",))
    both = QUIET | Approvers(groups=("board",))
    assert both.silent == ("U0CFO1234",)
    assert both.notified == Approvers(groups=("leads", "board"))


def test_whether_they_are_notified_changes_no_votes() -> None:
    """The same people are one stage, silent or not, as the card was shown."""
    loud = Approvers(users=QUIET.users, groups=QUIET.groups)
    one, other = (Ask(rule="r", stages=(Stage(approvers=each),)) for each in (QUIET, loud))
    assert combine_gates(one, other).stages == one.stages


def test_names_and_stages() -> None:
    """Names of sets count there too; an addition has silent approvers of its own step alone."""
    text = (
        '[approvers]\nbosses = ["@board"]\n'
        + WHO
        + RULE % "ask"
        + 'stages = [{approvers = ["@a"], silent = ["bosses"]}, {approvers = ["@b"]}]\n'
    )
    [rule] = parse(text).rules
    assert isinstance(rule.gate, Ask)
    assert [each.approvers.silent for each in rule.gate.stages] == [("@board",), ()]
    stray = problems(WHO + RULE % "add" + 'silent = ["@a"]')
    assert "silent: means nothing without approvers here; name them" in stray[0]
    beside = problems(WHO + RULE % "ask" + 'silent = ["@a"]\nstages = [{approvers = ["@b"]}]')
    assert "remove approvers, quorum and silent beside them" in beside[0]
