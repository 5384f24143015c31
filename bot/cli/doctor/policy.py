"""The look at the policy's rules, with the tools that these settings turn on."""

from __future__ import annotations

from collections.abc import Iterator

from bot.approvals.form_offers import misfitting
from bot.checks import rules
from bot.checks.check import Check, fail, warn
from bot.cli.readonly.directory import NotLookedUp
from bot.config.settings import Settings
from bot.policy.evaluate import Policy
from bot.toolbox import ToolsError, toolbox


def check_rules(settings: Settings, policy: Policy) -> Iterator[Check]:
    """Whether each rule is about a tool there is, and what runs with nobody asked."""
    try:
        tools = toolbox(settings, None, NotLookedUp("rules are compared without Slack"))
    except ToolsError as error:
        yield warn(
            "rules",
            f"not compared with the tools: {error}",
            "Correct what is wrong with them first",
        )
        return
    misfits = misfitting(policy, tools)
    yield from (fail("templates", each, "Countersign does not start with it") for each in misfits)
    for each in rules.check_rules(tools, policy):
        if not (misfits and each.about == "rules"):
            yield each
