"""What the Slack tools read: channels and people, by name or id. It changes nothing in Slack.

Every failure to read is a ToolError, for nothing has happened yet when something is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar

from slack_sdk.errors import SlackApiError, SlackClientError

from bot.policy.authority import Directory, LookupFailedError
from bot.tools import ToolError

if TYPE_CHECKING:  # the client is given, never made here
    from slack_sdk import WebClient

T = TypeVar("T")
CHANNEL_ID = re.compile(r"[CG](?=[A-Z0-9]*\d)[A-Z0-9]{5,}")
PERSON_ID = re.compile(r"[UW](?=[A-Z0-9]*\d)[A-Z0-9]{5,}")
DIRECT = re.compile(r"@.*|[DUW](?=[A-Z0-9]*\d)[A-Z0-9]{5,}")
MENTION = re.compile(r"<[#@]([A-Z0-9]+)(?:\|[^>]*)?>")
PAGE = 200


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as Slack describes it now."""

    id: str
    name: str
    private: bool
    external: bool  # people of other companies are in it
    archived: bool
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
    guest: bool
    bot: bool
    deleted: bool

    def __str__(self) -> str:
        return f"{self.name} @{self.handle} ({self.id}){' · guest' if self.guest else ''}"


class Lookup:
    """Reads over an injected client and the directory of members. Thread-safe: it keeps nothing."""

    def __init__(self, client: WebClient, directory: Directory) -> None:
        self._client = client
        self._directory = directory

    def channels(self) -> list[Channel]:
        """All channels that are not archived and that the bot can see, by name."""
        kinds = "public_channel,private_channel"

        def read() -> list[Channel]:
            pages = self._client.conversations_list(types=kinds, exclude_archived=True, limit=PAGE)
            return [_channel(each) for page in pages for each in page["channels"]]

        return sorted(_asked("its channels", read), key=lambda channel: channel.name)

    def channel(self, wanted: str) -> Channel:
        """The channel given as #name, name, id or mention; ToolError when there is none or it is a
        conversation.
        """
        name = _bare(wanted)
        if DIRECT.fullmatch(name):
            raise ToolError(f"{wanted} is not a channel; direct messages are not possible here.")
        if CHANNEL_ID.fullmatch(name):
            channel_id = name
        else:
            name = name.removeprefix("#").lower()
            found = [channel.id for channel in self.channels() if channel.name == name]
            if not found:
                raise ToolError(f"There is no channel #{name} that the bot can see.")
            channel_id = found[0]

        def read() -> Any:
            return self._client.conversations_info(channel=channel_id, include_num_members=True)[
                "channel"
            ]

        info = _asked(
            f"the channel {wanted}", read, f"There is no channel {wanted} that the bot can see."
        )
        if info.get("is_im") or info.get("is_mpim"):
            raise ToolError(f"{wanted} is a direct conversation, not a channel.")
        return _channel(info)

    def people(self) -> list[Member]:
        """Everybody whose account is active, without bots, by name."""

        def read() -> list[Member]:
            pages = self._client.users_list(limit=PAGE)
            return [_member(each) for page in pages for each in page["members"]]

        active = [each for each in _asked("its people", read) if not (each.bot or each.deleted)]
        return sorted(active, key=lambda each: each.name.casefold())

    def persons(self, wanted: list[str]) -> list[Member]:
        """The people given as @handle, name, id or mention, each once; ToolError names who is not
        one person.
        """
        everybody: list[Member] | None = None
        found: dict[str, Member] = {}
        for each in wanted:
            name = _bare(each)
            if PERSON_ID.fullmatch(name):
                person = self._by_id(each, name)
            else:
                everybody = self.people() if everybody is None else everybody
                person = _only(
                    each,
                    [one for one in everybody if name.removeprefix("@").casefold() in one.names],
                )
            found[person.id] = person
        return list(found.values())

    def members(self, channel: Channel) -> frozenset[str]:
        """The user ids in a channel, at most a minute old."""
        return _asked(f"who is in #{channel.name}", lambda: self._directory.members(channel.id))

    def _by_id(self, wanted: str, user: str) -> Member:
        person = _member(
            _asked(
                f"{wanted}",
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


def _bare(wanted: str) -> str:
    text = wanted.strip()
    mention = MENTION.fullmatch(text)
    return mention.group(1) if mention else text


def _only(wanted: str, found: list[Member]) -> Member:
    if not found:
        raise ToolError(f"There is nobody called {wanted}.")
    if len(found) > 1:
        raise ToolError(f"{wanted} may be {' or '.join(map(str, found))}: say which by id.")
    return found[0]


def _channel(info: dict[str, Any]) -> Channel:
    return Channel(
        id=info["id"],
        name=info.get("name", ""),
        private=bool(info.get("is_private")),
        external=bool(info.get("is_ext_shared") or info.get("is_pending_ext_shared")),
        archived=bool(info.get("is_archived")),
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
        team=user.get("team_id", ""),
        guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
        bot=bool(user.get("is_bot")) or user["id"] == "USLACKBOT",
        deleted=bool(user.get("deleted")),
    )
