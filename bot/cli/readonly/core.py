"""What the commands that only look are made of: tools, policy, look-ups and the rows.

Nothing is started. What cannot be looked up, or read, is not known; the core that is made here
says so and never guesses.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.approvals.call_checks import Allowance
from bot.approvals.facts import Sources
from bot.checks.slack_client import UNREACHABLE, make_client, reason
from bot.cli.readonly.directory import NotLookedUp
from bot.clock import Clock, SystemClock
from bot.config.settings import Settings, SettingsError
from bot.config.startup import read_policy
from bot.explain.grounds import Grounds
from bot.explain.typed_call import MistypedError
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.current import CurrentPolicy
from bot.policy.evaluate import PolicyError
from bot.slack.lookups.directory import SlackDirectory
from bot.toolbox import ToolsError, toolbox
from bot.tools import Registry
from bot.tools.slack.lookup import Names
from storage.read_only import ReadOnly, teams

BAD_INPUT = 2  # exit code


@dataclass(frozen=True, slots=True)
class ReadOnlyCore:
    """A core that only reads, and what it cannot see."""

    settings: Settings
    store: ReadOnly
    clock: Clock
    policy: CurrentPolicy
    tools: Registry
    directory: Names
    authority: Authority
    no_slack: str  # why Slack was not asked; "" where it was
    no_record: str  # why the record was not read; "" where it was

    @property
    def sources(self) -> Sources:
        """What it takes to ask the policy."""
        return Sources(self.policy, self.directory, self.store, self.clock)

    @property
    def grounds(self) -> Grounds:
        """What an explanation is made from."""
        limits = Allowance(self.settings, self.clock)
        return Grounds(self.sources, self.authority, limits)


def opened(
    what: str, dotenv_path: Path, complain: Callable[[object], int], policy: Path | None = None
) -> ReadOnlyCore | int:
    """Make one that can read the record, from where a command is given.

    Without a record `what` cannot be done: has `complain` say so, and returns the exit code.
    """
    try:
        found = read_only_core(os.environ, dotenv_path, policy, SystemClock())
    except MistypedError as error:
        complain(error)
        return BAD_INPUT
    return complain(f"{what}: {found.no_record}.") if found.no_record else found


def read_only_core(
    environ: Mapping[str, str], dotenv_path: Path | None, policy: Path | None, clock: Clock
) -> ReadOnlyCore:
    """Make one; `policy` takes the place of the policy in force.

    Raises MistypedError for settings, a policy or tools that cannot be used.
    """
    # what is not known is said where it matters
    logging.getLogger("countersign").addHandler(logging.NullHandler())
    try:
        return _make(environ, dotenv_path, policy, clock)
    except (PolicyError, SettingsError) as error:
        raise MistypedError("; ".join(error.problems)) from None
    except ToolsError as error:
        raise MistypedError(str(error)) from None


def _make(
    environ: Mapping[str, str], dotenv_path: Path | None, policy: Path | None, clock: Clock
) -> ReadOnlyCore:
    """Make one; tokens may be missing: then nobody is looked up.

    Raises SettingsError, PolicyError, and what the tools' modules raise.
    """
    environ = dict(environ)
    if policy is not None:
        environ["COUNTERSIGN_POLICY"] = str(policy)
        read_policy(policy)  # before the settings: its own complaint is the better one
    settings = Settings.load(environ, dotenv_path, reading=True)
    client = make_client(settings) if settings.slack_bot_token.get_secret_value() else None
    store = ReadOnly(settings.database_url)
    no_record = store.trouble()
    identity, no_slack = _identity(client) if client else (None, "Slack is not configured")
    if identity is None:
        identity = Identity("" if no_record else _only_team(store), "", "")
    directory: Names = NotLookedUp(no_slack)
    if client and not no_slack:
        directory = SlackDirectory(client, clock)
    tools = toolbox(settings, client, directory)
    asking = frozenset(each.name for each in tools if each.asks)
    written = read_policy(settings.policy_path).model_copy(update={"asking": asking})
    return ReadOnlyCore(
        settings=settings,
        store=store,
        clock=clock,
        tools=tools,
        directory=directory,
        policy=CurrentPolicy(written),
        authority=Authority(directory, identity.team),
        no_slack=no_slack,
        no_record=no_record,
    )


def _identity(client: WebClient) -> tuple[Identity | None, str]:
    """Return who the bot is, or why that is not known."""
    try:
        me = client.auth_test()
    except (SlackApiError, *UNREACHABLE) as error:
        return None, reason(error)
    return Identity.told(me.get), ""


def _only_team(store: ReadOnly) -> str:
    """The workspace of the record, where there is one.

    Without Slack nobody else says which it is.
    """
    with store.read() as tx:
        found = teams(tx)
    return found[0] if len(found) == 1 else ""
