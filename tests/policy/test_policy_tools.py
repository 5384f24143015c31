"""A policy beside the existing tools: what it denies or sums up has to exist."""

from __future__ import annotations

import pytest

from bot.policy.evaluation import PolicyError, parse

TOOLS = {"pay": frozenset({"amount", "to"}), "refund_order": frozenset({"amount"})}
WHO = '[defaults]\napprovers = ["@leads"]\n'
DENY = '[[rule]]\ntool = {}\nverdict = "deny"\nreason = "No."\n'
ASK = '[[rule]]\nname = "limit"\nverdict = "ask"\nwhen = \'{}\'\n'


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            DENY.format('"refund_ordr"'),
            "p.toml:4: rule 'rule 1' tool: it denies refund_ordr, which is no tool; correct the "
            "name (did you mean refund_order?), or remove the rule",
        ),
        (
            DENY.format('["pay", "lost", "p*"]'),
            "it denies lost, which is no tool; correct the name, or remove the rule; if programs "
            "ask for it, write the pattern lost*",
        ),
        (
            DENY.format('"refund_ordr*"'),
            "it denies refund_ordr*, which no tool is called; correct the pattern (did you mean "
            "refund_order?)",
        ),
        (DENY.format('["pay", "*fund_oder"]'), "it denies *fund_oder, which no tool is called"),
        (DENY.format('["refumd_?rder"]'), "(did you mean refund_order?)"),
        (
            ASK.format('count("pays", "1h") > 3'),
            "p.toml:6: rule 'limit' when: it sums up pays, which is no tool; correct it "
            "(did you mean pay",
        ),
        (
            ASK.format('spent("pay", "sum", "1h") > 3'),
            "rule 'limit' when: it sums up sum, which pay lacks",
        ),
    ],
)
def test_a_denied_tool_or_sum_that_does_not_exist_is_refused(rule: str, said: str) -> None:
    """The refusal names its line and the nearest name."""
    with pytest.raises(PolicyError) as found:
        parse(WHO + rule, "p.toml").bind_to_tools(TOOLS, frozenset())
    [problem] = found.value.problems
    assert said in problem


@pytest.mark.parametrize(
    "rule",
    [
        DENY.format('["pay", "refund_*"]'),
        DENY.format('"delete_*"'),  # for tools that may be added
        DENY.format('["pay", "r*", "claude_*", "pa?", "*"]'),
        '[[rule]]\ntool = "lost"\nverdict = "ask"\n',  # the doctor warns of it
        ASK.format('spent("pay", "amount", "1h") + count("refund_order", "1h") > 3'),
    ],
)
def test_existing_tools_and_patterns_are_accepted(rule: str) -> None:
    """Rules that ask about a missing tool are accepted as well."""
    policy = parse(WHO + rule).bind_to_tools(TOOLS, frozenset({"pay"}))
    assert (policy.tools, policy.asking) == (TOOLS, {"pay"})
    assert policy.digest == parse(WHO + rule).digest
