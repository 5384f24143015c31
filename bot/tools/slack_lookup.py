"""What the Slack tools share: look-ups of channels and people, previews, and Slack's errors.

Nothing here changes Slack by itself.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict
from slack_sdk.errors import SlackApiError, SlackClientError, SlackRequestError

from bot import slack_codes
from bot.policy.authority import Directory, LookupFailedError, LookupPendingError
from bot.tools import ToolContext, ToolError
from bot.tools.names import missing_channel_sentence

if TYPE_CHECKING:
    from slack_sdk import WebClient
    from slack_sdk.web import SlackResponse

T = TypeVar("T")
# errors of a request to Slack that got no answer
UNREACHABLE_ERRORS = SlackClientError, OSError, HTTPException, ValueError


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as Slack currently describes it."""

    id: str
    name: str
    private: bool
    external: bool  # shared with another company
    archived: bool
    joined: bool  # the bot is a member
    members: int | None
    topic: str

    def __str__(self) -> str:
        return f"#{self.name} ({self.id})"


@dataclass(frozen=True, slots=True)
class Member:
    """A person as Slack currently describes them."""

    id: str
    handle: str  # without @
    name: str
    names: frozenset[str]  # all names of this person, case-folded
    job: str
    team: str
    teams: frozenset[str]  # the person's workspaces on Enterprise Grid
    guest: bool
    bot: bool
    deleted: bool

    def __str__(self) -> str:
        return f"{self.name} @{self.handle} ({self.id}){' · guest' if self.guest else ''}"


class CachedDirectory(Directory, Protocol):
    """The directory with Slack's lists of channels and people, by id; at most ten minutes old."""

    def list_channels(self) -> Mapping[str, dict[str, Any]]:
        """Return all channels that are not archived and that the bot can see, by id."""

    def list_people(self) -> Mapping[str, dict[str, Any]]:
        """Return everybody in the workspace by id."""

    def list_common_private_channels(self, user: str) -> frozenset[str]:
        """Return the ids of the private channels that both the person and the bot are in."""


class SlackLookup:
    """Looks up channels and people, in the cached directory or live in Slack. Thread-safe."""

    def __init__(self, client: WebClient, directory: CachedDirectory) -> None:
        self._client = client
        self._directory = directory

    def list_channels(self) -> list[Channel]:
        """Return all channels that are not archived and that the bot can see, sorted by name."""
        listed = _ask_slack("its channels", self._directory.list_channels)
        return sorted(map(_build_channel, listed.values()), key=lambda channel: channel.name)

    def get_channel(self, channel_id: str) -> Channel:
        """Return the channel with this id as it is now.

        Raises ToolError if there is none, or if it is a direct conversation.
        """

        def read() -> Any:
            return self._client.conversations_info(channel=channel_id, include_num_members=True)[
                "channel"
            ]

        info = _ask_slack(f"the channel {channel_id}", read, missing_channel_sentence(channel_id))
        if info.get("is_im") or info.get("is_mpim"):
            raise ToolError(f"{channel_id} is a direct conversation, not a channel.")
        return _build_channel(info)

    def list_people(self) -> list[Member]:
        """Return everybody with an active account, without bots, sorted by name."""
        listed = _ask_slack("its people", self._directory.list_people)
        active = [
            each for each in map(_build_member, listed.values()) if not (each.bot or each.deleted)
        ]
        return sorted(active, key=lambda each: each.name.casefold())

    def list_common_private_channels(self, user: str) -> frozenset[str]:
        """Return the ids of the private channels that both the person and the bot are in."""
        return _ask_slack(
            f"where {user} is", lambda: self._directory.list_common_private_channels(user)
        )

    def get_people(self, users: Sequence[str]) -> list[Member]:
        """Return the people with these ids, each once.

        Raises ToolError for an id that is unknown, deactivated or a bot's.
        """
        return [self._get_person(user) for user in dict.fromkeys(users)]

    def list_channel_members(self, channel: Channel) -> frozenset[str]:
        """Return the ids of the users in a channel, at most a minute old."""
        return _ask_slack(
            f"who is in #{channel.name}", lambda: self._directory.list_channel_members(channel.id)
        )

    def _get_person(self, user: str) -> Member:
        person = _build_member(
            _ask_slack(
                user,
                lambda: self._client.users_info(user=user)["user"],
                f"There is nobody with the id {user}.",
            )
        )
        if person.deleted or person.bot:
            raise ToolError(
                f"{person.name} ({user}) is {'deactivated' if person.deleted else 'a bot'}."
            )
        return person


def _ask_slack(what: str, read: Callable[[], T], missing: str | None = None) -> T:
    """Return what `read` gives, turning any failure into a ToolError.

    Its message is `missing` where Slack says that the thing does not exist.
    """
    try:
        return read()
    except SlackApiError as error:
        code = slack_codes.extract_error_code(error)
        if missing and code.endswith(("_not_found", "_not_visible")):
            raise ToolError(missing) from error
        why = code or f"HTTP {error.response.status_code}"
        raise ToolError(f"Slack would not say {what} ({why}); nothing was done.") from error
    except (*UNREACHABLE_ERRORS, LookupFailedError, LookupPendingError) as error:
        raise ToolError(f"Slack could not be asked for {what}; nothing was done.") from error


def _build_channel(info: dict[str, Any]) -> Channel:
    return Channel(
        id=info["id"],
        name=info.get("name", ""),
        private=bool(info.get("is_private")),
        external=bool(info.get("is_ext_shared") or info.get("is_pending_ext_shared")),
        archived=bool(info.get("is_archived")),
        joined=bool(info.get("is_member")),
        members=info.get("num_members"),
        topic=(info.get("topic") or {}).get("value", ""),
    )


def _build_member(user: dict[str, Any]) -> Member:
    profile = user.get("profile") or {}
    names = [
        profile.get("display_name"),
        profile.get("real_name") or user.get("real_name"),
        user.get("name"),
    ]
    known = [name for name in names if name]
    grid = user.get("enterprise_user") or {}
    return Member(
        id=user["id"],
        handle=user.get("name", ""),
        name=known[0] if known else user["id"],
        names=frozenset(name.casefold() for name in known),
        job=profile.get("title", ""),
        team=user.get("team_id") or "",
        teams=frozenset([*(grid.get("teams") or ()), *filter(None, [grid.get("enterprise_id")])]),
        guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
        bot=bool(user.get("is_bot")) or user["id"] == "USLACKBOT",
        deleted=bool(user.get("deleted")),
    )


# What Slack's errors mean: either certainly nothing happened, or the outcome is not known.

# slack_sdk's errors for an answer that is missing, not text, or not a JSON object
UNREADABLE_ANSWER_ERRORS = ValueError, LookupError, AttributeError, SlackRequestError
ERROR_TEXT_BY_CODE = {
    "not_in_channel": "The bot is not in {channel}; somebody there has to invite it first.",
    "channel_not_found": "There is no {channel} that the bot can see.",
    "is_archived": "{channel} is archived.",
    "method_not_supported_for_channel_type": "That cannot be done in {channel}.",
    "name_taken": "There is a channel {channel} already; it may be private or archived.",
    "msg_too_long": "The message is too long for Slack.",
    "too_long": "The topic is too long for Slack.",
    "already_in_channel": "One of them is in {channel} already.",
    "cant_invite": "One of them cannot be invited to {channel}.",
    "cant_invite_self": "The bot cannot invite itself.",
    "user_is_restricted": "A guest cannot be invited to {channel} by the bot.",
    "ura_max_channels": "A single-channel guest is in another channel already.",
    "no_external_invite_permission": "The bot may not invite people of other companies.",
    "org_user_not_in_team": "One of them is not in this workspace.",
    "user_not_found": "Slack does not know one of them.",
    "time_in_past": "That time has passed.",
    "time_too_far": "Slack schedules at most 120 days ahead.",
    "restricted_too_many": "Too many messages are scheduled for {channel} around that time.",
    "messages_tab_disabled": "Messages cannot be sent there.",
    "access_denied": "The workspace's settings do not allow the bot to do that.",
    "no_permission": "The workspace's settings do not allow the bot to do that.",
    "cannot_create_channel": "The workspace's settings do not allow the bot to create channels.",
}
ERROR_TEXT_BY_CODE_PREFIX = {
    "restricted_action": "The settings of {channel} do not allow that.",
    "invalid_name": "Slack does not accept {channel} as a channel's name.",
    "slack_connect_": "Slack does not allow that in a channel shared with another company.",
}


def run_slack_change(doing: str, channel: str, call: Callable[[], SlackResponse]) -> SlackResponse:
    """Run a call that changes something in Slack, and return Slack's answer.

    `doing` and `channel` are words for the error messages. Raises ToolError when Slack refused, so
    that nothing happened; ConnectionError when its answer leaves that open. Errors of the
    connection itself are passed on.
    """
    try:
        return call()
    except SlackApiError as error:
        status, code = int(error.response.status_code), slack_codes.extract_error_code(error)
        if slack_codes.classify_error_code(code, status=status) is slack_codes.ErrorMeaning.UNKNOWN:
            raise ConnectionError(
                f"Slack answered {code or f'HTTP {status}'} while {doing}; whether it happened is "
                "not known."
            ) from error
        raise ToolError(_refusal_sentence(error, code, status, channel)) from error
    except UNREADABLE_ANSWER_ERRORS as error:
        raise ConnectionError(f"Slack's answer while {doing} cannot be read.") from error


def _refusal_sentence(error: SlackApiError, code: str, status: int, channel: str) -> str:
    if status == slack_codes.HTTP_TOO_MANY_REQUESTS or code in slack_codes.RATE_LIMITED_CODES:
        seconds = error.response.headers.get("Retry-After")
        return f"Slack asks to slow down; try again in {seconds or 'some'} seconds."
    if code == "missing_scope":
        return f"The bot lacks the Slack permission {error.response.get('needed') or 'for that'}."
    if code in slack_codes.TOKEN_ERROR_CODES:
        return f"Slack no longer lets the bot in ({code})."
    stems = (text for stem, text in ERROR_TEXT_BY_CODE_PREFIX.items() if code.startswith(stem))
    return ERROR_TEXT_BY_CODE.get(code, next(stems, f"Slack refused ({code}).")).format(
        channel=channel
    )


class SlackArguments(BaseModel):
    """Base of the Slack tools' argument models: refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def get_checked_target_channel(
    lookup: SlackLookup, channel_id: str, context: ToolContext, *, external_ok: bool = True
) -> Channel:
    """Return the channel to act on.

    Raises ToolError if it is private and the requester is not in it, or if it is shared with
    another company and that is not `external_ok`.
    """
    channel = lookup.get_channel(channel_id)
    if channel.private and context.requester not in lookup.list_channel_members(channel):
        # Otherwise the bot would be a way into private channels.
        raise ToolError(missing_channel_sentence(channel_id), field="channel")
    if channel.external and not external_ok:
        raise ToolError(
            f"#{channel.name} is shared with another company; say external_ok if they may read it."
        )
    return channel


def escape_slack_text(text: str) -> str:
    """Return the text with &, < and > escaped for Slack: no mention, broadcast or link remains."""
    return html.escape(text, quote=False)


def build_channel_preview_function(
    lookup: SlackLookup, details: Callable[[Any, Channel, ToolContext], list[str]]
) -> Callable[[Any, ToolContext], str]:
    """Return a preview function that names the channel, followed by the lines of `details`.

    The preview raises ToolError if nothing can be done in the channel.
    """

    def preview(args: Any, context: ToolContext) -> str:
        external_ok = getattr(args, "external_ok", True)
        channel = get_checked_target_channel(lookup, args.channel, context, external_ok=external_ok)
        if channel.archived:
            raise ToolError(f"#{channel.name} is archived.", field="channel")
        if not channel.joined:
            raise ToolError(ERROR_TEXT_BY_CODE["not_in_channel"].format(channel=f"#{channel.name}"))
        count = "" if channel.members is None else f", {channel.members} members"
        kind = " · private" * channel.private
        return "\n".join([f"→ {channel}{count}{kind}", *details(args, channel, context)])

    return preview
