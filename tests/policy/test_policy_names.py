"""Named approvers and conditions: what they stand for, and names that mean nothing."""

from __future__ import annotations

import pytest

from bot.policy.evaluation import parse
from tests.policy.builders import list_problems, make_facts

NAMED_POLICY = """
[approvers]
finance = ["@finance", "U0CFO"]
two_houses = ["finance", "@legal", "U0CFO"]

[conditions]
large = "args.amount > 30.0"
night = 'now.getHours() >= 20 || now.getHours() < 7  // of any day'
hard = "conditions.large && !conditions.night"

[defaults]
approvers = ["two_houses"]
escalation = [{after = "30m", approvers = ["finance"]}]

[[rule]]
name = "hard"
when = "conditions.hard && args.order != 'conditions.large'"
verdict = "ask"
stages = [{approvers = ["finance"]}, {approvers = ["channel", "two_houses"]}]
"""
PLAIN = """
[defaults]
approvers = ["@finance", "U0CFO", "@legal"]
escalation = [{after = "30m", approvers = ["@finance", "U0CFO"]}]

[[rule]]
name = "hard"
when = "PUT"
verdict = "ask"
stages = [
  {approvers = ["@finance", "U0CFO"]},
  {approvers = ["channel", "@finance", "U0CFO", "@legal"]},
]
"""


def test_a_policy_with_names_equals_one_written_out() -> None:
    """It asks the same people about the same calls."""
    named = parse(NAMED_POLICY)
    when = named.rules[0].when
    plain = parse(PLAIN.replace('"PUT"', f"'''{when}'''"))
    assert named.digest == plain.digest
    assert "'conditions.large'" in when  # no name is replaced within a text
    for amount, hour, rule in ((40, 12, "hard"), (40, 21, "default"), (20, 12, "default")):
        known = make_facts(
            args={"amount": amount, "order": "A"}, now=make_facts().now.replace(hour=hour)
        )
        assert named.get_gate(known).rule == rule


def test_another_meaning_of_a_name_makes_another_policy() -> None:
    """The digest covers what names stand for."""
    assert parse(NAMED_POLICY).digest != parse(NAMED_POLICY.replace("> 30.0", "> 31.0")).digest
    assert (
        parse(NAMED_POLICY).digest != parse(NAMED_POLICY.replace('"U0CFO"]', '"U0CEO"]', 1)).digest
    )


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (
            '["finance", "@legal"',
            '["finanze", "@legal"',
            "p.toml:4: [approvers] two_houses: 'finanze'",
        ),
        (
            '["two_houses"]',
            '["to_houses"]',
            "p.toml:12: [defaults] approvers: 'to_houses' names nobody",
        ),
        (
            "conditions.hard &&",
            "conditions.herd &&",
            "p.toml:17: rule 1 when: names conditions.herd, which does not exist "
            "(did you mean hard?)",
        ),
        (
            '["@finance", "U0CFO"]',
            '["two_houses"]',
            "p.toml:3: [approvers] finance: refers to itself (finance → two_houses → finance)",
        ),
        (
            '"args.amount > 30.0"',
            '"conditions.hard"',
            "p.toml:7: [conditions] large: refers to itself (large → hard → large)",
        ),
        ('"args.amount > 30.0"', '"amount > 30.0"', "p.toml:7: [conditions] large: names 'amount'"),
        ('"args.amount > 30.0"', "30", "p.toml:7: [conditions] large: write a condition in quotes"),
        ('["@finance", "U0CFO"]', '"@finance"', "p.toml:3: [approvers] finance: write a list"),
        ('["@finance", "U0CFO"]', "[]", "p.toml:3: [approvers] finance: nobody could decide"),
        ('["@finance", "U0CFO"]', "[7]", "p.toml:3: [approvers] finance: write each in quotes"),
        ("[conditions]", "channel = []\n[conditions]", "channel: cannot be a name"),
        ("[conditions]", '[conditions]\nidle = "true"', "[conditions] idle: is used nowhere"),
        ("[conditions]", 'idle = ["@a"]\n[conditions]', "[approvers] idle: is used nowhere"),
        ("[approvers]", "[[approvers]]", "approvers: write a table, headed [approvers]"),
    ],
)
def test_unknown_circular_or_unused_names_are_refused(was: str, becomes: str, said: str) -> None:
    """The refusal names their line."""
    assert was in NAMED_POLICY
    assert any(said in each for each in list_problems(NAMED_POLICY.replace(was, becomes, 1)))


def test_conditions_that_double_each_other_are_refused_quickly() -> None:
    """Written out, forty of them would fill any memory."""
    lines = ['c0 = "args.amount > 1.0 && args.amount < 9.0"']
    lines += [f'c{n} = "conditions.c{n - 1} && conditions.c{n - 1}"' for n in range(1, 40)]
    rule = '[[rule]]\nverdict = "ask"\nwhen = "conditions.c39"\n'
    text = "[defaults]\napprovers = ['@a']\n[conditions]\n" + "\n".join(lines) + "\n" + rule
    assert any("longer than 1024 bytes" in each for each in list_problems(text))


def test_an_argument_field_named_like_a_condition_stays_a_field() -> None:
    """An example is `args.conditions.large`."""
    text = NAMED_POLICY.replace("args.order != 'conditions.large'", "args.conditions.large == 1")
    known = make_facts(args={"amount": 40, "conditions": {"large": 1}})
    assert parse(text).get_gate(known).rule == "hard"


def test_names_may_stand_wherever_people_are_listed() -> None:
    """Readers, users of templates, and people who may loosen a mode are listed, too."""
    lists = """
readers = ["office"]
[approvers]
office = ["@office", "U0BOSS"]
[defaults]
approvers = ["@leads"]
[modes]
loosen = ["office"]
[[template]]
title = "T"
tool = "x"
who = ["office"]
"""
    plain = lists.replace('"office"', '"@office", "U0BOSS"').replace(
        '[approvers]\noffice = ["@office", "U0BOSS"]\n', ""
    )
    assert parse(lists).digest == parse(plain).digest
