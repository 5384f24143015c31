"""The checks of Slack itself: token, scopes, clock, and the channels to which cards are posted.

They post nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from importlib.resources import files
from typing import Any

import yaml
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from bot.checks import check
from bot.clock import Clock, get_lead_over_machine_time, get_machine_time
from bot.config.connection_settings import AttachedFilesMode
from bot.config.settings import Settings
from bot.policy.approver_lists import MANAGER_OF_REQUESTER
from bot.policy.authority import LookupFailedError
from bot.policy.evaluation import Policy
from bot.slack.client import ListWorkspaces, SlackClient
from bot.slack.directory import SlackDirectory
from bot.slack_codes import describe_error_answer, list_granted_scopes
from countersign.durations import format_rough_duration

# errors that slack_sdk raises besides SlackApiError
SLACK_UNREACHABLE_ERRORS = (SlackClientError, HTTPException, OSError)


def build_retrying_client(
    settings: Settings, list_granted: ListWorkspaces | None = None
) -> SlackClient:
    """Return a Slack client for reading, which waits and retries when Slack limits requests.

    `list_granted`: for an organisation's token, returns the workspaces that it may be used in.
    """
    token = settings.slack_bot_token.get_secret_value()
    client = SlackClient(
        token, base_url=settings.slack_api_url, timeout=int(check.CHECK_TIMEOUT_SECONDS)
    )
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=2))
    client.list_granted = list_granted
    return client


def describe_slack_failure(error: Exception) -> str:
    """Return Slack's error code, or what the system says of the network; never a URL or a token."""
    if isinstance(error, SlackApiError):
        return describe_error_answer(error)
    return f"Slack cannot be reached ({describe_network_error(error)})"


def describe_network_error(error: Exception) -> str:
    """Return what the system says of a failed connection, else the kind of the error."""
    cause: object = error
    while isinstance(cause, BaseException):
        if text := getattr(cause, "strerror", None):
            return str(text)
        cause = getattr(cause, "reason", None) or cause.__cause__ or cause.__context__
    return type(error).__name__


MAX_CLOCK_DRIFT_SECONDS = 60.0  # between this machine's clock and Slack's


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace that the bot token is for, and the means to look things up in it."""

    client: WebClient
    directory: SlackDirectory
    team: str
    bot: str = ""  # the bot user's bot id, B…; "" if Slack names none


@dataclass(frozen=True, slots=True)
class SignInAnswer:
    """What Slack answered to the bot token."""

    workspace: Workspace
    name: str  # the bot's name and workspace
    headers: Mapping[str, str]
    asked_at: float  # this machine's time of the question, as Unix seconds
    lead: timedelta  # of the record's time over this machine's


def sign_in_to_slack(
    client: SlackClient, clock: Clock, workspace: str | None = None
) -> SignInAnswer | check.CheckResult:
    """Ask Slack whose token it is; return the answer, or a failed check if there is none.

    `workspace`: the id of this workspace, if it is one of many; the remedy then names it.
    """
    before = get_machine_time(clock)
    try:
        answer = client.auth_test()
    except (SlackApiError, *SLACK_UNREACHABLE_ERRORS) as error:
        remedy = "Correct SLACK_BOT_TOKEN (xoxb-…, OAuth & Permissions)"
        if workspace is not None:
            remedy = (
                "Install Countersign there again, from /slack/install; if nobody wants it there,"
                f" `countersign workspaces remove {workspace}`"
            )
        remedy += ", or check the network and SLACK_API_URL"
        return check.CheckSubject("bot token").fail(describe_slack_failure(error), remedy)
    between = before + (get_machine_time(clock) - before) / 2
    return SignInAnswer(
        Workspace(
            client,
            SlackDirectory(client, clock, list_granted=client.list_granted),
            str(answer["team_id"]),
            str(answer.get("bot_id") or ""),
        ),
        f"@{answer.get('user')} in {answer.get('team')}",
        {str(key).lower(): str(value) for key, value in answer.headers.items()},
        between.timestamp(),
        get_lead_over_machine_time(clock),
    )


def check_token_and_clock(
    found: SignInAnswer, settings: Settings, policy: Policy
) -> Iterator[check.CheckResult]:
    """Yield the checks of the token, of its scopes, and of our clock against Slack's."""
    yield check.CheckSubject("bot token").confirm(found.name)
    yield _check_scopes(found.headers, list_unneeded_scopes(settings, policy))
    yield _check_clock(found.headers, found.asked_at)
    if found.lead.total_seconds() >= MAX_CLOCK_DRIFT_SECONDS:
        ahead = format_rough_duration(found.lead)
        yield check.CheckSubject("clock").warn(
            f"the record's time is {ahead} ahead of this machine's clock, which was set back",
            "Business hours, freezes and run_at come that much early until the bot has been"
            " stopped for as long",
        )


def list_unneeded_scopes(settings: Settings, policy: Policy) -> set[str]:
    """Return the scopes in the manifest that the bot does not need with these settings."""
    found = {"dnd:read"}
    if settings.attached_files is AttachedFilesMode.OFF:
        found.add("files:read")
    return found if MANAGER_OF_REQUESTER in policy.owners else {*found, "users.profile:read"}


def read_manifest_scopes() -> list[str]:
    """Return the scopes that the app manifest asks for."""
    manifest = yaml.safe_load((files("bot") / "manifest.yml").read_text("utf-8"))
    found: list[str] = manifest["oauth_config"]["scopes"]["bot"]
    return found


def _check_scopes(headers: Mapping[str, str], unused: set[str]) -> check.CheckResult:
    """Return the check of the token's scopes, from a header of Slack's, against the manifest's.

    The token may lack those in `unused`.
    """
    about, granted = check.CheckSubject("scopes"), list_granted_scopes(headers)
    if granted is None:
        return about.warn("not compared: Slack named no scopes")
    required = set(read_manifest_scopes())
    if missing := required - granted - unused:
        remedy = "Update the app on its page at Slack with manifest.yml, and install it again"
        return about.fail(f"missing: {', '.join(sorted(missing))}", remedy)
    if more := granted - required:
        remedy = "Remove them: Countersign does not use them"
        return about.warn(f"more than needed: {', '.join(sorted(more))}", remedy)
    without = "".join(f", without {scope}" for scope in sorted(required - granted))
    return about.confirm(f"those of manifest.yml{without}")


def _check_clock(headers: Mapping[str, str], now: float) -> check.CheckResult:
    """Return the check of our clock (`now`, Unix seconds) against the Date of Slack's answer.

    The Date counts whole seconds.
    """
    about = check.CheckSubject("clock")
    try:
        drift = now - parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return about.warn("not compared: Slack's answer had no date")
    if abs(drift) >= MAX_CLOCK_DRIFT_SECONDS:
        remedy = "Set the clock (NTP): deadlines and expiry depend on it"
        return about.fail(
            f"{abs(drift):.0f} s {'ahead of' if drift > 0 else 'behind'} Slack's", remedy
        )
    return about.confirm(f"within {abs(drift) + 1:.0f} s of Slack's")


def check_card_channels(policy: Policy, workspace: Workspace) -> Iterator[check.CheckResult]:
    """Yield checks that cards can be posted to the channels that the policy names for them."""
    places = (each.post_to for each in policy.asks() if each.post_to not in ("thread", "approvers"))
    for place in dict.fromkeys(places):
        yield _check_posting_channel(place, workspace.client, workspace.directory)


def _check_posting_channel(
    place: str, client: WebClient, directory: SlackDirectory
) -> check.CheckResult:
    """Return the check that cards can be posted to a channel that a rule names."""
    about = check.CheckSubject(f"channel {place}")
    try:
        channel_id = directory.find_channel_id(place)
        channel: dict[str, Any] = (
            client.conversations_info(channel=channel_id)["channel"] if channel_id else {}
        )
    except LookupFailedError as error:
        return about.fail(f"Slack cannot be asked ({error})", check.FIX_ERRORS_ABOVE_REMEDY)
    except (SlackApiError, *SLACK_UNREACHABLE_ERRORS) as error:
        return about.fail(describe_slack_failure(error), check.FIX_ERRORS_ABOVE_REMEDY)
    if not channel or channel.get("is_archived"):
        text = "is archived" if channel else "does not exist, or is private without the bot in it"
        return about.fail(text, "Invite the bot, or name another channel in the policy")
    if not channel.get("is_member"):
        return about.fail("the bot is not in it", f"Write /invite @countersign in {place}")
    if channel.get("is_ext_shared"):
        return about.warn(
            "is shared with another company, which would see the cards", "Name another channel"
        )
    return about.confirm("the bot is in it")
