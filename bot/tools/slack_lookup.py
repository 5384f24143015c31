"""What the Slack tools share: how a channel is named, found, allowed and previewed.

It changes nothing in Slack.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict
from slack_sdk.errors import SlackApiError, SlackClientError, SlackRequestError

from bot.policy.authority import Directory, LookupFailedError
from bot.slack_codes import CODE, LIMITED, TOKEN, TOO_MANY, Meaning, code_of, meaning_of
from bot.tools import ToolContext, ToolError
from bot.tools.names import no_channel_sentence

if TYPE_CHECKING:
    from slack_sdk import WebClient
    from slack_sdk.web import SlackResponse


# What the Slack tools read: channels and people, by name or id. It changes nothing in Slack.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as Slack describes it now."""

    id: str
    name: str
    private: bool
    external: bool  # people of other companies are in it
    archived: bool
    joined: bool  # the bot is in it
    members: int | None
    topic: str

    def __str__(self) -> str:
        return f"#{self.name} ({self.id})"


@dataclass(frozen=True, slots=True)
class Member:
    """A person as Slack describes them now."""

    id: str
    handle: str  # without @
    name: str
    names: frozenset[str]  # all they go by, case-folded
    job: str
    team: str
    teams: frozenset[str]  # on Enterprise Grid
    guest: bool
    bot: bool
    deleted: bool

    def __str__(self) -> str:
        return f"{self.name} @{self.handle} ({self.id}){' · guest' if self.guest else ''}"


class CachedDirectory(Directory, Protocol):
    """The directory with its lists, by id, as Slack has them; at most ten minutes old."""

    def channels(self) -> Mapping[str, dict[str, Any]]:
        """All channels that are not archived and that the bot can see."""
        ...

    def everybody(self, *, anew: bool = False) -> Mapping[str, dict[str, Any]]:
        """Everybody in the workspace; `anew` where a name was missing."""
        ...

    def private_channels(self, user: str) -> frozenset[str]:
        """The private channels that the person and the bot are in."""
        ...


class SlackLookup:
    """Reads over the directory, and a client for what has to be as it is now. Thread-safe."""

    def __init__(self, client: WebClient, directory: CachedDirectory) -> None:
        """Keeps nothing; the directory remembers."""
        self._client = client
        self._directory = directory

    def channels(self) -> list[Channel]:
        """All channels that are not archived and that the bot can see, by name."""
        listed = _asked("its channels", self._directory.channels)
        return sorted(map(_channel, listed.values()), key=lambda channel: channel.name)

    def channel(self, channel_id: str) -> Channel:
        """The channel of that id as it is now; ToolError where there is none or it is a
        conversation.
        """

        def read() -> Any:
            return self._client.conversations_info(channel=channel_id, include_num_members=True)[
                "channel"
            ]

        info = _asked(f"the channel {channel_id}", read, no_channel_sentence(channel_id))
        if info.get("is_im") or info.get("is_mpim"):
            raise ToolError(f"{channel_id} is a direct conversation, not a channel.")
        return _channel(info)

    def people(self, *, anew: bool = False) -> list[Member]:
        """Everybody whose account is active, without bots, by name."""
        listed = _asked("its people", lambda: self._directory.everybody(anew=anew))
        active = [each for each in map(_member, listed.values()) if not (each.bot or each.deleted)]
        return sorted(active, key=lambda each: each.name.casefold())

    def private_of(self, user: str) -> frozenset[str]:
        """The ids of the private channels that the person is in, and the bot."""
        return _asked(f"where {user} is", lambda: self._directory.private_channels(user))

    def persons(self, users: Sequence[str]) -> list[Member]:
        """The people of these ids, each once; ToolError where one is not there, left or a bot."""
        return [self._by_id(user) for user in dict.fromkeys(users)]

    def members(self, channel: Channel) -> frozenset[str]:
        """The user ids in a channel, at most a minute old."""
        return _asked(f"who is in #{channel.name}", lambda: self._directory.members(channel.id))

    def _by_id(self, user: str) -> Member:
        person = _member(
            _asked(
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


def _asked(what: str, read: Callable[[], T], missing: str | None = None) -> T:
    """What `read` gives; ToolError with `missing` where Slack says there is no such thing, and for
    any failure.
    """
    try:
        return read()
    except SlackApiError as error:
        code = str(error.response.get("error"))
        if missing and code.endswith(("_not_found", "_not_visible")):
            raise ToolError(missing) from error
        raise ToolError(f"Slack would not say {what} ({code}); nothing was done.") from error
    except (SlackClientError, LookupFailedError, OSError, HTTPException, ValueError) as error:
        raise ToolError(f"Slack could not be asked for {what}; nothing was done.") from error


def _channel(info: dict[str, Any]) -> Channel:
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


def _member(user: dict[str, Any]) -> Member:
    profile = user.get("profile") or {}
    names = [
        profile.get("display_name"),
        profile.get("real_name") or user.get("real_name"),
        user.get("name"),
    ]
    known = [name for name in names if name]
    return Member(
        id=user["id"],
        handle=user.get("name", ""),
        name=known[0] if known else user["id"],
        names=frozenset(name.casefold() for name in known),
        job=profile.get("title", ""),
        team=user.get("team_id") or "",
        teams=frozenset((user.get("enterprise_user") or {}).get("teams") or ()),
        guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
        bot=bool(user.get("is_bot")) or user["id"] == "USLACKBOT",
        deleted=bool(user.get("deleted")),
    )


# What Slack's refusals mean: certainly nothing happened, in a sentence, or nobody knows.

# what slack_sdk raises where an answer is no text, no JSON object, or none at all
UNREADABLE = ValueError, LookupError, AttributeError, SlackRequestError
SENTENCES = {
    "not_in_channel": "The bot is not in {channel}; somebody there has to invite it first.",
    "channel_not_found": "There is no {channel} that the bot can see.",
    "is_archived": "{channel} is archived.",
    "method_not_supported_for_channel_type": "That cannot be done in {channel}.",
    "name_taken": "There is a channel {channel} already; it may be private or archived.",
    "msg_too_long": "The message is too long for Slack.",
    "too_long": "The topic is too long for Slack.",
    "already_in_channel": "Somebody of them is in {channel} already.",
    "cant_invite": "One of them cannot be invited to {channel}.",
    "cant_invite_self": "The bot cannot invite itself.",
    "user_is_restricted": "A guest cannot be invited to {channel} by the bot.",
    "ura_max_channels": "A single-channel guest is in another channel already.",
    "no_external_invite_permission": "The bot may not invite people of other companies.",
    "org_user_not_in_team": "One of them is not in this workspace.",
    "user_not_found": "Slack does not know one of them.",
    "time_in_past": "That time is over.",
    "time_too_far": "Slack schedules at most 120 days ahead.",
    "restricted_too_many": "Too many messages are scheduled for {channel} around that time.",
    "messages_tab_disabled": "Messages cannot be sent there.",
    "access_denied": "The workspace's settings do not allow the bot to do that.",
    "no_permission": "The workspace's settings do not allow the bot to do that.",
    "cannot_create_channel": "The workspace's settings do not allow the bot to create channels.",
}
STEMS = {
    "restricted_action": "The settings of {channel} do not allow that.",
    "invalid_name": "Slack does not take {channel} as a channel's name.",
    "slack_connect_": "Slack does not allow that in a channel shared with another company.",
}


def change_slack(doing: str, channel: str, call: Callable[[], SlackResponse]) -> SlackResponse:
    """Slack's answer to a call that changes something; `doing` and `channel` are for the sentences.

    Raises ToolError when Slack refused, so that nothing happened; ConnectionError when its answer
    leaves that open. What the connection itself raises rises as it is.
    """
    try:
        return call()
    except SlackApiError as error:
        status, code = int(error.response.status_code), code_of(error)
        if meaning_of(code, status=status) is Meaning.UNKNOWN:
            told = code if CODE.fullmatch(code) else f"HTTP {status}"
            raise ConnectionError(
                f"Slack answered {told} while {doing}; whether it happened is not known."
            ) from error
        raise ToolError(_sentence(error, code, status, channel)) from error
    except UNREADABLE as error:
        raise ConnectionError(f"Slack's answer while {doing} cannot be read.") from error


def _sentence(error: SlackApiError, code: str, status: int, channel: str) -> str:
    if status == TOO_MANY or code in LIMITED:
        seconds = error.response.headers.get("Retry-After")
        return f"Slack asks to slow down; try again in {seconds or 'some'} seconds."
    if code == "missing_scope":
        return f"The bot lacks the Slack permission {error.response.get('needed') or 'for that'}."
    if code in TOKEN:
        return f"Slack no longer lets the bot in ({code})."
    stems = (text for stem, text in STEMS.items() if code.startswith(stem))
    return SENTENCES.get(code, next(stems, f"Slack refused ({code}).")).format(channel=channel)


class SlackArguments(BaseModel):
    """What all argument models share: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def target_channel(
    lookup: SlackLookup, channel_id: str, context: ToolContext, *, external_ok: bool = True
) -> Channel:
    """The channel to act on; ToolError where the requester has no place in it or outsiders would
    read along.
    """
    channel = lookup.channel(channel_id)
    if channel.private and context.requester not in lookup.members(channel):
        # Else the bot would be a way into private channels.
        raise ToolError(no_channel_sentence(channel_id))
    if channel.external and not external_ok:
        raise ToolError(
            f"#{channel.name} is shared with another company; say external_ok if they may read it."
        )
    return channel


def escape_text(text: str) -> str:
    """As Slack wants it: with these three characters replaced nothing in it is a mention, a
    broadcast or a link.
    """
    return html.escape(text, quote=False)


def channel_preview(
    lookup: SlackLookup, details: Callable[[Any, Channel, ToolContext], list[str]]
) -> Callable[[Any, ToolContext], str]:
    """A preview that says which channel is meant, then `details`.

    ToolError where nothing could be done in it.
    """

    def preview(args: Any, context: ToolContext) -> str:
        external_ok = getattr(args, "external_ok", True)
        channel = target_channel(lookup, args.channel, context, external_ok=external_ok)
        if channel.archived:
            raise ToolError(f"#{channel.name} is archived.")
        if not channel.joined:
            raise ToolError(SENTENCES["not_in_channel"].format(channel=f"#{channel.name}"))
        count = "" if channel.members is None else f", {channel.members} members"
        kind = " · private" * channel.private
        return "\n".join([f"→ {channel}{count}{kind}", *details(args, channel, context)])

    return preview
