"""`countersign doctor` on the order of a policy's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from bot.checks.inspection import check_policy_rules
from bot.policy.evaluation import parse
from bot.tools import Effect, Tool, ToolContext, tool

DEFAULTS = '[defaults]\napprovers = ["@shop-leads", "UDAN00001"]\n'


@pytest.mark.parametrize(
    ("first", "second", "is_behind"),
    [
        ('tool = "refund_order"\nverdict = "allow"', 'tool = "refund_order"', True),
        (
            'tool = "refund_*"\nverdict = "allow"',
            'tool = "refund_*"\nwhen = "args.amount > 9"',
            True,
        ),
        (
            'effect = "write"\nverdict = "deny"\nreason = "No."',
            'tool = ["refund_order", "invite"]',
            True,
        ),
        (
            'tool = ["refund_order", "invite"]\nverdict = "once"',
            'tool = "refund_order"\nverdict = "allow"',
            True,
        ),
        ('tool = "refund_order"\nverdict = "ask"', 'tool = ["refund_order", "invite"]', False),
        (
            'tool = "refund_order"\nverdict = "ask"',
            'tool = "refund_*"',
            False,
        ),  # it may match other tools in the future
        (
            'tool = "refund_order"\nwhen = "args.amount > 9"\nverdict = "ask"',
            'tool = "refund_order"',
            False,
        ),
        (
            'tool = "refund_order"\nrequester = "@finance"\nverdict = "ask"',
            'tool = "refund_order"',
            False,
        ),
        ('tool = "refund_order"\nchannel = "#x"\nverdict = "ask"', 'tool = "refund_order"', False),
        (
            'tool = "refund_order"\nverdict = "add"\nveto = 1',
            'tool = "refund_order"',
            False,
        ),
        (
            'tool = "refund_order"\nverdict = "ask"',
            'tool = "refund_order"\nverdict = "deny"\nreason = "No."',
            False,
        ),
        ('effect = "read"\nverdict = "allow"', 'tool = "ledger"', False),
        ('tool = "ledger"\nverdict = "allow"', 'tool = "ledger"', True),
    ],
)
def test_a_rule_that_can_never_apply_is_reported(first: str, second: str, is_behind: bool) -> None:
    """An earlier rule matches all of its calls.

    A read that people are asked about is only allowed by a rule that names it.
    """
    verdict = "" if "verdict" in second else '\nverdict = "ask"'
    policy = parse(
        f'{DEFAULTS}[[rule]]\nname = "first"\n{first}\n[[rule]]\nname = "r"\n{second}{verdict}\n'
    )
    registered = [
        *build_registered_tools("refund_order", "invite", does=Effect.WRITE),
        *build_registered_tools("ledger", does=Effect.READ, needs_approval=True),
    ]
    found = [each for each in check_policy_rules(registered, policy) if "never" in each.text]
    assert [each.subject for each in found] == ["rule 'r'"] * is_behind
    assert all("already matches 'first' above it" in each.text for each in found)


class Amount(BaseModel):
    """The arguments of the tools."""

    amount: int = 1


def build_registered_tools(*names: str, does: Effect, **options: bool) -> list[Tool[Any]]:
    """Build tools with these names, which are otherwise the same."""

    def act(args: Amount, _context: ToolContext) -> str:
        """Act."""
        return str(args.amount)

    made = tool(title="Act", effect="Act", does=does, **options)(act)
    return [replace(made, name=name) for name in names]
