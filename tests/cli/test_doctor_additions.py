"""`countersign doctor` on rules that deny, add and count."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.doctor.checks import check_rules_against_tools
from bot.config.settings import Settings
from bot.policy.evaluation import parse
from tests.cli.test_doctor_policy import DEFAULTS, check_people, check_rule


def test_a_rule_that_denies_an_unknown_tool_fails(settings: Settings) -> None:
    """Such a rule denies nothing; the error has its line."""
    text = f'{DEFAULTS}[[rule]]\nname = "r"\nverdict = "deny"\nreason = "No."\n'
    policy = parse(text + 'tool = ["cancel_ordr", "refund_*"]\n')
    [line] = [str(each) for each in check_rules_against_tools(settings, policy)]
    assert line.startswith(
        "fail  rule 'r': it denies cancel_ordr, which is no tool (line 7). Correct the name ("
        "did you mean cancel_order?"
    )


def test_groups_and_stages_that_a_rule_adds_are_checked(settings: Settings) -> None:
    """So is whether the stages that it adds can be completed."""
    policy = '[defaults]\napprovers = ["UANA00001"]\n[[rule]]\nname = "more"\nverdict = "add"\n'
    found = check_people(
        settings, f'{policy}escalation = [{{after = "5m", approvers = ["@lost"]}}]\n'
    )
    assert "there is no such user group" in found["approvers @lost"][0].text
    both = f'{policy}stages = [{{approvers = ["@finance"]}}, {{approvers = ["UCLEO0001"]}}]\n'
    found = check_people(settings, both)
    assert any("but only" in each.text for each in found["rule 'more'"])


def test_a_sum_across_currencies_is_a_warning(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is none if the sum is limited to the same currency."""
    code = """
from pydantic import BaseModel
from bot.tools import Effect, tool
class Payment(BaseModel):
    amount: int
    currency: str = "EUR"
@tool(title="Pay", effect="Pay", does=Effect.WRITE)
def pay(args: Payment, context: object) -> str:
    return ""
"""
    (tmp_path / "pay_tools.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    paying = settings.model_copy(update={"tool_modules": ("pay_tools",)})
    rule = 'tool = "pay"\nwhen = \'spent("pay", "amount", "24h"{}) > 100.0\''
    [line] = check_rule(paying, rule.format(""))
    assert line.startswith("warn  rule 'r': it sums amount of pay across currencies")
    assert 'Add "same currency" after the window' in line
    [line] = check_rule(paying, rule.format(', "same currency"'))
    assert line.startswith("ok    rules: ")
