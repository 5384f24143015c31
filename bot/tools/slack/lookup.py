"""What the Slack tools read: channels and people, by name or id. It changes nothing in Slack.

Every failure to read is a ToolError, for nothing has happened yet when something is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from slack_sdk.errors import SlackApiError, SlackClientError

from bot.policy.directory import Directory, LookupFailedError
from bot.tools import ToolError
from bot.tools.names import no_channel

if TYPE_CHECKING:  # the client is given, never made here
    from slack_sdk import WebClient

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


class Names(Directory, Protocol):
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


class Lookup:
    """Reads over the directory, and a client for what has to be as it is now. Thread-safe."""

    def __init__(self, client: WebClient, directory: Names) -> None:
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

        info = _asked(f"the channel {channel_id}", read, no_channel(channel_id))
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
