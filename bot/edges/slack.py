"""The edge to Slack: what hears it, and what answers questions about approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slack_bolt import App as BoltApp
from slack_sdk import WebClient

from bot.approvals.answers.answering import QuestionAnswers
from bot.approvals.modes.switching import Modes
from bot.explain.grounds import Grounds
from bot.policy.directory import Directory
from bot.slack.client import SlackClient
from bot.slack.commands.commands import Commands
from bot.slack.commands.questions import Answerer
from bot.slack.dialogs.answers import AnswerDialogs
from bot.slack.dialogs.delegation import DelegationDialogs
from bot.slack.dialogs.dialogs import Dialogs
from bot.slack.dialogs.doors import RequestDoors
from bot.slack.dialogs.requests import RequestDialogs
from bot.slack.listeners import Listeners

if TYPE_CHECKING:
    from bot.core import Core


def make_commands(core: Core, posting: SlackClient, hurried: Directory) -> Commands:
    """Make what answers questions about approvals."""
    grounds = Grounds(core.sources(), core.authority, core.limits())
    forms = RequestDialogs(core.store, core.over(hurried).forms())
    doors = RequestDoors(forms, posting, core.identity.team)
    modes = Modes(core.store, core.clock, core.policy, core.authority, core.signals.post)
    answerer = Answerer(grounds, core.grants(), core.tools, doors, modes, core.desk())
    return Commands(answerer, posting, core.identity.team)


def make_listeners(
    core: Core, bolt: BoltApp, commands: Commands, client: WebClient, hurried: Directory
) -> Listeners:
    """Hang what hears Slack on the Bolt app; `hurried` looks people up for dialogs."""
    store, clock, signals, team = core.store, core.clock, core.signals, core.identity.team
    asking = core.over(hurried)
    may, edits = asking.permissions(), asking.edits()
    answers = AnswerDialogs(QuestionAnswers(store, asking.authority), clock, hurried)
    families = (
        RequestDialogs(asking.store, asking.forms()),
        answers,
        DelegationDialogs(asking.desk().delegations()),
    )
    dialogs = Dialogs(store, clock, core.tools, hurried, signals.post, may, edits, families)
    return Listeners(
        store,
        clock,
        team,
        signals,
        app=bolt,
        client=client,
        dialogs=dialogs,
        commands=commands,
        hears=asking.authority.hears,
    )
