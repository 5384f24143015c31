"""What read-only commands work with: tools, policy, look-ups and the record.

Nothing is started. What cannot be looked up or read is unknown; the core says so and never guesses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.approvals.call_checks import UsageLimits
from bot.approvals.call_gates import PolicyFactSources
from bot.cards.slack_text import show_hidden_characters
from bot.checks.slack import SLACK_UNREACHABLE_ERRORS, build_retrying_client, describe_slack_failure
from bot.clock import Clock, SystemClock
from bot.config.connection_settings import get_page_host
from bot.config.settings import Settings
from bot.config.startup import read_policy
from bot.explain.explanation import ExplanationSources
from bot.policy.authority import Authority, Directory, LookupFailedError
from bot.policy.evaluation import CurrentPolicy
from bot.slack.directory import SlackDirectory
from bot.toolbox import build_tool_registry
from bot.tools import Registry
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.console import DOTENV, CommandError, print_error, print_line
from countersign.durations import DAY, format_count, parse_duration
from storage.examination import ExaminationResult
from storage.record import ReadOnlyStore
from storage.store import list_recorded_teams


class PlainMentionStyle:
    """Names of people, groups and channels as plain text.

    See `bot.explain.explanation.MentionStyle`.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def format_person(self, user: str) -> str:
        """Return a person's name and id; the id alone if Slack cannot be asked."""
        try:
            found = self._directory.find_person(user)
        except LookupFailedError:
            return user
        if found is None:
            return f"{user} (no such person)"
        return f"{show_hidden_characters(found.name)} ({user})"

    def format_group(self, handle: str) -> str:
        """Return a group's handle, with its @."""
        return f"@{handle}"

    def format_channel(self, channel: str) -> str:
        """Return the channel as it was given."""
        return channel

    def quote_text(self, text: str) -> str:
        """Return the text on one line, with hidden characters shown."""
        return show_hidden_characters(" ".join(text.split()))


class FailingSlackDirectory:
    """A `bot.policy.authority.Directory` in which every look-up fails."""

    def __init__(self, why: str) -> None:
        self.why = why

    def _raise_error(self, *_: object, **__: object) -> Any:
        raise LookupFailedError(self.why)

    _fail: Callable[..., Any] = _raise_error  # subclasses may narrow the parameters
    find_person = find_people = find_people_by_name = find_group = list_channel_members = _fail
    find_channel_id = can_see_channel = is_externally_shared_channel = list_channels = (
        list_people
    ) = _fail
    list_common_private_channels = find_owners = find_public_channel_name = _fail
    find_quiet_hours = _fail


def build_tools_without_slack(settings: Settings) -> Registry:
    """Return the tools that these settings turn on, unable to call Slack; raises ToolsError."""
    return build_tool_registry(
        settings, None, FailingSlackDirectory("the tools check does not call Slack")
    )


_MAX_DURATION_SECONDS = 99_999 * DAY


def parse_duration_option(text: str) -> timedelta:
    """Return the duration "12h" or "30d" stands for; raises ArgumentTypeError for other text."""
    found = parse_duration(text, "hd")
    if not 0 < found <= _MAX_DURATION_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write it as 12h or 30d")
    return timedelta(seconds=found)


def parse_time_option(text: str) -> datetime:
    """Return the UTC time of "2026-11-24" or "2026-11-24T22:00", which may have an offset.

    Raises ArgumentTypeError for other text.
    """
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write it as 2026-11-24 or 2026-11-24T22:00"
        ) from None


def check_imagined_time(at: datetime) -> datetime:
    """Return a moment for which a policy is tried; raises ValueError at the calendar's ends."""
    if not 1900 <= at.year <= 9000:
        raise ValueError("is too far away; name a year from 1900 to 9000")
    return at


@dataclass(frozen=True, slots=True)
class ReadOnlyCore:
    """The bot's parts for reading only (store, policy, tools, …), and why some are unusable."""

    settings: Settings
    store: ReadOnlyStore
    clock: Clock
    policy: CurrentPolicy
    tools: Registry
    directory: CachedDirectory
    authority: Authority
    slack_problem: str  # why Slack was not asked; "" if it was
    record_problem: str  # why the record was not read; "" if it was

    @property
    def sources(self) -> PolicyFactSources:
        """What evaluating the policy reads: the policy, the directory, the store and the clock."""
        host = get_page_host(self.settings.url)
        return PolicyFactSources(self.policy, self.directory, self.store, self.clock, host)

    @property
    def explanation_sources(self) -> ExplanationSources:
        """What `explain_call` reads: fact sources, approvers, limits."""
        limits = UsageLimits(self.settings, self.clock)
        return ExplanationSources(self.sources, self.authority, limits)


def open_core(policy: Path | None = None) -> ReadOnlyCore:
    """Return the bot's parts for reading only, with a record that can be read.

    Raises CommandError for one that cannot be.
    """
    found = build_read_only_core(policy, SystemClock())
    if found.record_problem:
        raise CommandError(f"The record cannot be read: {found.record_problem}.")
    return found


def build_read_only_core(
    policy: Path | None, clock: Clock, directory: CachedDirectory | None = None
) -> ReadOnlyCore:
    """Return the bot's parts for reading only, built by the settings of the environment.

    `policy`, if given, replaces the policy in force. If a `directory` is given, it is asked in
    place of Slack, and the record is not read. Without it and without a Slack token, nobody is
    looked up. Raises SettingsError, PolicyError, ToolsError.
    """
    environ = dict(os.environ)
    if policy is not None:
        environ["COUNTERSIGN_POLICY"] = str(policy)
        read_policy(policy)  # before the settings, since its error message says more
    settings = Settings.load(environ, DOTENV, reading=True)
    asks_slack = directory is None and bool(settings.slack_bot_token.get_secret_value())
    client = build_retrying_client(settings) if asks_slack else None
    store = ReadOnlyStore(settings.database_url)
    no_record = "it is not needed" if directory else store.describe_read_problem()
    team, no_slack = _ask_for_team(client) if client else ("", "Slack is not configured")
    if no_slack and not no_record:
        team = settings.workspace or _find_only_team(store)
    if client and not no_slack:
        directory = SlackDirectory(client, clock)
    directory = directory or FailingSlackDirectory(no_slack)
    tools = build_tool_registry(settings, client, directory)
    asking = frozenset(each.name for each in tools if each.needs_approval)
    written = read_policy(settings.policy_path).model_copy(update={"asking": asking})
    return ReadOnlyCore(
        settings=settings,
        store=store,
        clock=clock,
        tools=tools,
        directory=directory,
        policy=CurrentPolicy(written),
        authority=Authority(directory, team),
        slack_problem=no_slack,
        record_problem=no_record,
    )


def _ask_for_team(client: WebClient) -> tuple[str, str]:
    """Return the id of the bot's workspace and ""; "" and the reason if Slack does not tell."""
    try:
        return str(client.auth_test()["team_id"]), ""
    except (SlackApiError, *SLACK_UNREACHABLE_ERRORS) as error:
        return "", describe_slack_failure(error)


def _find_only_team(store: ReadOnlyStore) -> str:
    """Return the id of the record's workspace; "" if it has none or several.

    Without Slack nothing else says which workspace is meant.
    """
    with store.read() as tx:
        found = list_recorded_teams(tx)
    return found[0] if len(found) == 1 else ""


def print_examination(found: ExaminationResult, key: str, when: str = "") -> None:
    """Print what an examination of the record found; `key` is the id of the signing key."""
    for each in found.remarks:
        print_line(f"Note: {each}.")
    for each in found.problems:
        print_error(f"NOT SOUND{when}: {each}.")
    if not found.problems:
        print_line(f"Sound: {format_count(found.head.seq, 'row')}. The key in use is {key}.")
