"""What the commands that only look are made of: tools, policy, look-ups and the rows.

Nothing is started. What cannot be looked up, or read, is not known; the core that is made here
says so and never guesses.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.approvals.call_checks import Allowance
from bot.approvals.facts import Sources
from bot.cards.slack_text import visible
from bot.checks.slack import UNREACHABLE, make_client, reason
from bot.clock import Clock, SystemClock
from bot.config.settings import Settings, SettingsError
from bot.config.startup import read_policy
from bot.explain.explanation import ExplanationSources
from bot.explain.typed_call import MistypedError
from bot.identity import Identity
from bot.policy.authority import Authority, Directory, Group, LookupFailedError, Person
from bot.policy.evaluation import CurrentPolicy, PolicyError
from bot.slack.directory import SlackDirectory
from bot.toolbox import ToolsError, make_tools
from bot.tools import Registry
from bot.tools.slack_lookup import CachedDirectory
from countersign.durations import DAY, seconds
from storage.store import ReadOnly, recorded_teams

# People, groups and channels as the command line writes them.


class PlainWords:
    """People by name and id, groups and channels as a policy writes them.

    See `bot.explain.explanation.Words`.
    """

    def __init__(self, directory: Directory) -> None:
        """Names are looked up in `directory`."""
        self._directory = directory

    def person(self, user: str) -> str:
        """Name and id, or the id alone where Slack does not tell."""
        try:
            found = self._directory.person(user)
        except LookupFailedError:
            return user
        return f"{visible(found.name)} ({user})" if found else f"{user} (nobody of that id)"

    def group(self, handle: str) -> str:
        """The handle."""
        return f"@{handle}"

    def channel(self, channel: str) -> str:
        """The channel as it was given."""
        return channel

    def quoted(self, text: str) -> str:
        """The text on one line, hidden characters shown."""
        return visible(" ".join(text.split()))


# A directory in the place of Slack's, where Slack is not asked.


class NotLookedUp:
    """A `bot.policy.authority.Directory` that can tell nothing."""

    def __init__(self, why: str) -> None:
        """`why` goes into every refusal."""
        self.why = why

    def person(self, user: str) -> Person | None:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def people(self, users: Collection[str]) -> Mapping[str, Person]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def named(self, name: str) -> Mapping[str, str]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def group(self, handle: str) -> Group | None:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def members(self, channel: str) -> frozenset[str]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def channel(self, name: str) -> str | None:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def sees(self, user: str, channel: str) -> bool:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def outsiders_read(self, channel: str) -> bool:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def channels(self) -> Mapping[str, dict[str, Any]]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def everybody(self, *, anew: bool = False) -> Mapping[str, dict[str, Any]]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def private_channels(self, user: str) -> frozenset[str]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)


# Durations and moments as they are typed behind an option.

_LONGEST = 99_999 * DAY  # seconds


def duration(text: str) -> timedelta:
    """How long "12h" or "30d" is; the usage tells of anything else."""
    found = seconds(text, "hd")
    if not 0 < found <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write it as 12h or 30d")
    return timedelta(seconds=found)


def moment(text: str) -> datetime:
    """The moment "2026-11-24" or "2026-11-24T22:00" is, in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write it as 2026-11-24 or 2026-11-24T22:00"
        ) from None


BAD_INPUT = 2  # exit code


@dataclass(frozen=True, slots=True)
class ReadOnlyCore:
    """A core that only reads, and what it cannot see."""

    settings: Settings
    store: ReadOnly
    clock: Clock
    policy: CurrentPolicy
    tools: Registry
    directory: CachedDirectory
    authority: Authority
    no_slack: str  # why Slack was not asked; "" where it was
    no_record: str  # why the record was not read; "" where it was

    @property
    def sources(self) -> Sources:
        """What it takes to ask the policy."""
        return Sources(self.policy, self.directory, self.store, self.clock)

    @property
    def grounds(self) -> ExplanationSources:
        """What an explanation is made from."""
        limits = Allowance(self.settings, self.clock)
        return ExplanationSources(self.sources, self.authority, limits)


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
    directory: CachedDirectory = NotLookedUp(no_slack)
    if client and not no_slack:
        directory = SlackDirectory(client, clock)
    tools = make_tools(settings, client, directory)
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
        found = recorded_teams(tx)
    return found[0] if len(found) == 1 else ""
