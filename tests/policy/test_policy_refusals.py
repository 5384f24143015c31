"""What the author of a policy that cannot work is told."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.condition_values import Facts
from bot.policy.evaluation import Policy, PolicyError, parse
from bot.policy.gates import Allow, Ask, Deny
from tests.policy.builders import list_problems

WHO = '[defaults]\napprovers = ["U0123", "@shop-leads", "channel"]\n'


def judge_call(policy: Policy, tool: str, effect: str) -> Allow | Ask | Deny:
    """The gate of a call of which nothing else is known."""
    return policy.get_gate(Facts(tool=tool, effect=effect, requester="UBEN00001", args={}))


@pytest.mark.parametrize(
    ("duration", "good"),
    [
        ('"30s"', True),
        ('"90s"', True),
        ('"30m"', True),
        ('"4h"', True),
        ('"30d"', True),
        ('"29s"', False),
        ('"31d"', False),
        ('"721h"', False),
        ('"0m"', False),
        ('"-5m"', False),
        ('"1.5h"', False),
        ('"4 h"', False),
        ('"4H"', False),
        ('"2w"', False),
        ('"٣m"', False),
        ('"4h30m"', False),
        ('""', False),
        ('"forever"', False),
        ("3600", False),
        ("inf", False),
        ("07:30:00", False),
    ],
)
def test_deadlines_are_from_30_seconds_to_30_days(duration: str, good: bool) -> None:
    """A deadline is a whole number with a unit; all else is refused with its line."""
    text = f"{WHO}deadline = {duration}\n"
    if good:
        parse(text)
    else:
        (found,) = list_problems(text)
        assert found.startswith("  p.toml:3: [defaults] deadline: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("approvers = []", "approvers: nobody could decide"),
        ('approvers = ["ana"]', "approvers: 'ana' names nobody"),
        ('approvers = ["@Shop Leads"]', "names nobody"),
        ('approvers = ["*"]', "names nobody"),
        ('approvers = ["U0123", ""]', "names nobody"),
        ('approvers = "U0123"', "write a list"),
        ("approvers = [3]", "write it in quotes"),
        ('post_to = "finance"', "post_to: 'finance' is not a place"),
        ('post_to = "D0123"', "is not a place"),
        ('self_approval = "yes"', "self_approval: write true or false"),
        ("editor_counts = 1", "editor_counts: write true or false"),
        (
            'editors = "everyone"',
            "editors: write 'approvers', 'approvers_and_requester' or 'nobody'",
        ),
        ('approver = ["U0123"]', "approver: unknown key"),
        ('tool = "refund *"', "tool: write the name of a tool"),
        ("tool = []", "tool: write the name of a tool"),
        ('effect = "writes"', "effect: write one of read, write, destructive"),
        ("effect = []", "effect: write one of"),
        ('verdict = "allowed"', "verdict: write 'allow', 'deny', 'ask', 'once' or 'add'"),
        ('name = ""', "name: write plain text"),
        ('name = "default"', "name: the name 'default' is taken"),
        ('reason = "because"', 'reason: means nothing with verdict = "ask"'),
    ],
)
def test_unknown_keys_and_values_are_refused(line: str, said: str) -> None:
    """The refusal names their line, and what to write instead."""
    key = line.split(" ")[0]
    lines = ["[[rule]]", 'tool = "x"', 'verdict = "ask"', 'approvers = ["U0123"]']
    kept = [each for each in lines if not each.startswith(key + " ")]
    text = "\n".join([*WHO.splitlines(), "", *kept, line])
    (found,) = list_problems(text)
    assert found.startswith(f"  p.toml:{len(text.splitlines())}: rule 1 ")
    assert said in found


def test_all_problems_are_told_in_the_files_order() -> None:
    """Each is told with the line of its own key."""
    found = list_problems(
        """colour = "red"
[defaults]
deadline = "soon"

# [[rule]] is a heading only where it is no comment
[[rule]]
name = '''
two
[[rule]]
'''
verdict = "allow"

  [[ rule ]]
  "effect" = ["read", "wrote"]
[[rule]]
verdict = "deny"
"""
    )
    assert [each.split(": ")[:2] for each in found] == [
        ["  p.toml:1", "colour"],
        ["  p.toml:3", "[defaults] deadline"],
        ["  p.toml:7", "rule 1 name"],
        ["  p.toml:13", "rule 2 verdict"],
        ["  p.toml:14", "rule 2 effect"],
    ]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            '[defaults]\ndeadline = "1h"\n',
            1,
            "nobody could decide about calls that no rule matches",
        ),
        ("", 1, "nobody could decide about calls that no rule matches"),
        ('[[rule]]\ntool = "a*"\nverdict = "allow"\n', 1, "nobody could decide about calls"),
        ('[[rule]]\neffect = "write"\nverdict = "allow"\n', 1, "nobody could decide about calls"),
        ('[[rule]]\neffect = "read"\nverdict = "allow"\n', 1, "nobody could decide about calls"),
        (
            '[defaults]\napprovers = []\n[[rule]]\nverdict = "allow"\n',
            2,
            "approvers: nobody could decide",
        ),
        (WHO + '[[rule]]\ntool = "x"\nverdict = "deny"\n', 3, "reason: is missing"),
        (WHO + '[[rule]]\nverdict = "allow"\npost_to = "thread"\n', 5, "post_to: means nothing"),
        (
            WHO + '[[rule]]\nverdict = "allow"\n[[rule]]\ntool = "x"\nverdict = "ask"\n',
            5,
            "can never apply",
        ),
        (
            WHO + '[[rule]]\nname = "a"\ntool = "x"\nverdict = "ask"\n' * 2,
            8,
            "the name 'a' is taken",
        ),
        (WHO + '[rule]\nverdict = "ask"\n', 3, "two brackets"),
        (WHO + "deadline = \n", 3, "this is not TOML"),
        (WHO + 'deadline = "1h\n', 3, "this is not TOML"),
        ("a = " + "[" * 5000, 1, "nested too deeply"),
    ],
)
def test_policies_that_cannot_work_are_refused(text: str, line: int, said: str) -> None:
    """They leave calls to nobody, contradict themselves or are no TOML; their line is named."""
    (found,) = list_problems(text)
    assert found.startswith(f"  p.toml:{line}: ")
    assert said in found


def test_a_rule_that_asks_without_approvers_is_refused() -> None:
    """The problem is told at the rule; there are no default approvers either."""
    text = '[[rule]]\ntool = "x"\nverdict = "ask"\n\n[[rule]]\nverdict = "deny"\nreason = "No."\n'
    (found,) = list_problems(text)
    assert found.startswith("  p.toml:1: rule 1 approvers: nobody could decide")


@pytest.mark.parametrize(
    "rules",
    [
        '[[rule]]\nverdict = "ask"\napprovers = ["U0123"]\n',
        '[[rule]]\neffect = ["write", "destructive"]\nverdict = "deny"\nreason = "Read only."\n',
        '[[rule]]\neffect = "write"\nverdict = "allow"\n[[rule]]\ntool = "**"\nverdict = "allow"\n',
    ],
)
def test_rules_for_all_changes_need_no_default_approvers(rules: str) -> None:
    """Every call that changes something meets a rule."""
    policy = parse(rules)
    assert policy.default is None
    assert {judge_call(policy, "anything", does).rule for does in ("write", "destructive")} <= {
        "rule 1",
        "rule 2",
    }


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_read_or_refused_with_policy_error(before: str, after: str) -> None:
    """The random text stands around a policy that works."""
    with suppress(PolicyError):
        assert parse(f"{before}\n{WHO}{after}").default is not None
