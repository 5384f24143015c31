"""The check of the operator, who decides at the terminal: is there such a person, may they."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.checks.check import Check, fail, ok, warn
from bot.checks.people import unfit
from bot.policy.authority import Authority, is_colleague
from bot.policy.directory import LookupFailedError
from bot.surfaces.private_socket import LONGEST_PATH
from bot.terminal.terminal_messages import socket_path

if TYPE_CHECKING:
    from bot.checks.slack import Workspace
    from bot.config.settings import Settings
    from bot.policy.evaluate import Policy

ABOUT = "operator"
REMEDY = "Set COUNTERSIGN_OPERATOR to an approver's Slack user id, or unset it"


def check_operator(settings: Settings, policy: Policy, workspace: Workspace) -> list[Check]:
    """Look at whom the settings name as the operator; nothing where they name none."""
    if settings.operator is None:
        return []
    found = _person(settings.operator, policy, workspace)
    path = socket_path(settings.database_path).absolute()
    if len(str(path).encode()) <= LONGEST_PATH:
        return [found]
    text = f"{path} is too long for a socket, so no command reaches the bot"
    return [found, fail(ABOUT, text, "Keep the database under a shorter path")]


def _person(operator: str, policy: Policy, workspace: Workspace) -> Check:
    directory, team = workspace.directory, workspace.team
    try:
        person = directory.person(operator)
        if person is None or not is_colleague(person, team):
            return fail(ABOUT, unfit(person, team), REMEDY)
        may = _may_decide(operator, policy, Authority(directory, team))
    except LookupFailedError as error:
        return fail(ABOUT, f"Slack cannot be asked ({error})", "Correct what is wrong above first")
    if not may:
        return warn(ABOUT, f"{person.name} is an approver under no rule", REMEDY)
    return ok(ABOUT, f"{person.name} decides at the terminal, too")


def _may_decide(operator: str, policy: Policy, authority: Authority) -> bool:
    """Whether some rule lets the operator decide; who is in a channel is told when it is asked."""
    for ask in policy.asks():
        for who in (ask.approvers, *(step.approvers for step in ask.escalation)):
            if who.channel or who.requester:
                return True
            if operator in authority.able(ask, who, requester="", channel=""):
                return True
    return False
