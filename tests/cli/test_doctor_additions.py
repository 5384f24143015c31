"""What `countersign doctor` finds in rules that deny, add and count."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.doctor.checks import check_rules_against_tools
from bot.config.settings import Settings
from bot.policy.evaluation import parse
from tests.cli.test_doctor_policy import DEFAULTS, people, rules


def test_a_denied_tool_that_is_not_there(settings: Settings) -> None:
    """A rule that denies what is not there denies nothing: it fails, with the line it stands in."""
    text = f'{DEFAULTS}[[rule]]\nname = "r"\nverdict = "deny"\nreason = "No."\n'
    policy = parse(text + 'tool = ["cancel_ordr", "refund_*"]\n')
    [line] = [str(each) for each in check_rules_against_tools(settings, policy)]
    assert line.startswith(
        "fail  rule 'r': it denies cancel_ordr, which is no tool (line 7). Correct the name (is"
    )


def test_what_rules_add_is_looked_at(settings: Settings) -> None:
    """Groups that only a rule which adds names are looked up, and so is what it makes of others."""
    policy = '[defaults]\napprovers = ["UANA00001"]\n[[rule]]\nname = "more"\nverdict = "add"\n'
    found = people(settings, f'{policy}escalation = [{{after = "5m", approvers = ["@lost"]}}]\n')
    assert "there is no such user group" in found["approvers @lost"][0].text
    both = f'{policy}stages = [{{approvers = ["@finance"]}}, {{approvers = ["UCLEO0001"]}}]\n'
    found = people(settings, both)
    assert any("but only" in each.text for each in found["rule 'more'"])


def test_a_sum_over_several_currencies(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amounts of a tool that has a currency are not added up whatever it is, without a word."""
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
    [line] = rules(paying, rule.format(""))
    assert line.startswith("warn  rule 'r': it sums amount of pay across currencies")
    assert 'Add "same currency" after the window' in line
    [line] = rules(paying, rule.format(', "same currency"'))
    assert line.startswith("ok    rules: ")
