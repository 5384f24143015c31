"""What the commands that only look are made of: tools, policy, live look-ups and the rows, with
nothing started.

What cannot be looked up, or read, is not known; the core that is made here says so and never
guesses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from dotenv import dotenv_values
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from bot.clock import Clock
from bot.core import Core
from bot.explain.typed_call import MistypedError
from bot.identity import Identity
from bot.policy.authority import Authority, Directory, Group, LookupFailedError, Person
from bot.policy.evaluate import PolicyError
from bot.settings import Settings, SettingsError
from bot.slack.directory import SlackDirectory
from bot.startup import read_policy
from bot.toolbox import toolbox
from storage.reading import ReadOnly, teams

BAD_INPUT = 2  # exit code
PATIENCE = 15  # seconds for one look-up
# What a look needs no value of its own for; never used, and never sent anywhere.
_ABSENT = {
    "SLACK_BOT_TOKEN": "xoxb-absent",
    "SLACK_APP_TOKEN": "xapp-absent",
    "OPENAI_API_KEY": "absent",
}
# what slack_sdk raises besides SlackApiError
_UNREACHABLE = (SlackClientError, HTTPException, OSError)


class NotLookedUp:
    """A `bot.policy.authority.Directory` that can tell nothing."""

    def __init__(self, why: str) -> None:
        """`why` goes into every refusal."""
        self.why = why

    def person(self, user: str) -> Person | None:
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


@dataclass(frozen=True, slots=True)
class ReadOnlyCore:
    """A core that only reads, and what it cannot see."""

    core: Core
    no_slack: str  # why Slack was not asked; "" where it was
    no_record: str  # why the record was not read; "" where it was


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
    except (ImportError, TypeError, ValueError) as error:
        raise MistypedError(f"the tools cannot be used: {error}; see COUNTERSIGN_TOOLS") from None


def _make(
    environ: Mapping[str, str], dotenv_path: Path | None, policy: Path | None, clock: Clock
) -> ReadOnlyCore:
    """Make one; tokens may be missing: then nobody is looked up.

    Raises SettingsError, PolicyError, and what the tools' modules raise.
    """
    from_file = dotenv_values(dotenv_path, interpolate=False) if dotenv_path else {}
    given = {
        name: value
        for name, value in (*from_file.items(), *environ.items())
        if value and value.strip()
    }
    if policy is not None:
        given["COUNTERSIGN_POLICY"] = str(policy)
        read_policy(policy)  # before the settings: its own complaint is the better one
    settings = Settings.load({**_ABSENT, **given})
    client = WebClient(
        settings.slack_bot_token.get_secret_value(),
        base_url=settings.slack_api_url,
        timeout=PATIENCE,
    )
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=2))
    live = SlackDirectory(client, clock)
    tools = toolbox(settings, client, live)
    asking = frozenset(each.name for each in tools if each.asks)
    store = ReadOnly(settings.database_path)
    no_record = store.trouble()
    identity, no_slack = _identity(client, "SLACK_BOT_TOKEN" in given)
    if identity is None:
        identity = Identity("" if no_record else _only_team(store), "", "")
    directory: Directory = NotLookedUp(no_slack) if no_slack else live
    core = Core(
        settings=settings,
        store=store,
        clock=clock,
        tools=tools,
        identity=identity,
        directory=directory,
        key=b"",
        policy=read_policy(settings.policy_path).model_copy(update={"asking": asking}),
        authority=Authority(directory, identity.team),
    )
    return ReadOnlyCore(core, no_slack, no_record)


def _identity(client: WebClient, configured: bool) -> tuple[Identity | None, str]:
    """Who the bot is, or why that is not known."""
    if not configured:
        return None, "Slack is not configured"
    try:
        me = client.auth_test()
    except SlackApiError as error:
        return None, f"Slack answers {error.response.get('error') or 'with an error'}"
    except _UNREACHABLE as error:
        return None, f"Slack cannot be reached ({type(error).__name__})"
    return Identity(str(me["team_id"]), str(me["user_id"]), str(me.get("bot_id") or "")), ""


def _only_team(store: ReadOnly) -> str:
    """The workspace of the record, where there is one.

    Without Slack nobody else says which it is.
    """
    with store.read() as tx:
        found = teams(tx)
    return found[0] if len(found) == 1 else ""
