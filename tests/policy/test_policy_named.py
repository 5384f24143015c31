"""Approvers and conditions with names: what they stand for, and what is told of the rest."""

from __future__ import annotations

import pytest

from bot.policy.evaluation import parse
from tests.policy.builders import facts, problems

NAMED = """
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


def test_names_mean_what_they_stand_for() -> None:
    """A policy with names asks the same people of the same calls as one that is written out."""
    named = parse(NAMED)
    when = named.rules[0].when
    plain = parse(PLAIN.replace('"PUT"', f"'''{when}'''"))
    assert named.digest == plain.digest
    assert "'conditions.large'" in when  # a text is a text
    for amount, hour, rule in ((40, 12, "hard"), (40, 21, "default"), (20, 12, "default")):
        known = facts(args={"amount": amount, "order": "A"}, now=facts().now.replace(hour=hour))
        assert named.get_gate(known).rule == rule


def test_a_change_of_a_name_is_a_change_of_its_rules() -> None:
    """The digest covers what names stand for: it does not stay when their meaning changes."""
    assert parse(NAMED).digest != parse(NAMED.replace("> 30.0", "> 31.0")).digest
    assert parse(NAMED).digest != parse(NAMED.replace('"U0CFO"]', '"U0CEO"]', 1)).digest


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
            "p.toml:17: rule 1 when: names conditions.herd, which does not exist (is hard meant?)",
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
def test_names_that_mean_nothing(was: str, becomes: str, said: str) -> None:
    """What is unknown, circular, misspelt or unused is told at its line."""
    assert was in NAMED
    assert any(said in each for each in problems(NAMED.replace(was, becomes, 1)))


def test_names_that_would_grow_without_end() -> None:
    """Conditions that double one another stop soon, and take no time."""
    lines = ['c0 = "args.amount > 1.0 && args.amount < 9.0"']
    lines += [f'c{n} = "conditions.c{n - 1} && conditions.c{n - 1}"' for n in range(1, 40)]
    rule = '[[rule]]\nverdict = "ask"\nwhen = "conditions.c39"\n'
    text = "[defaults]\napprovers = ['@a']\n[conditions]\n" + "\n".join(lines) + "\n" + rule
    assert any("longer than 1024 bytes" in each for each in problems(text))


def test_a_field_of_that_name_is_a_field() -> None:
    """`args.conditions.large` is an argument's field, whatever has a name."""
    text = NAMED.replace("args.order != 'conditions.large'", "args.conditions.large == 1")
    known = facts(args={"amount": 40, "conditions": {"large": 1}})
    assert parse(text).get_gate(known).rule == "hard"


def test_names_wherever_people_are_listed() -> None:
    """Readers, who may use a template and who may loosen a mode are named by the same names."""
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
