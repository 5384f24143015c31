"""The calls that read people, user groups and channels, and what is kept of their answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.policy.directory import Group, LookupFailedError, NotLetInError, Person
from bot.slack_codes import TOKEN, code_of

PAGE = 999  # Slack wants less than a thousand
MISSING = (
    "user_not_found",
    "users_not_found",
    "channel_not_found",
    "user_not_visible",
)
Json = dict[str, Any]
T = TypeVar("T")


def _told(read: Callable[[Reader, str], T]) -> Callable[[Reader, str], T | None]:
    """None where Slack says that there is no such thing; LookupFailedError for any failure."""

    @wraps(read)
    def asked(reader: Reader, name: str) -> T | None:
        try:
            return read(reader, name)
        except SlackApiError as error:
            code = code_of(error)
            if code in MISSING:
                return None
            failure = NotLetInError if code in TOKEN else LookupFailedError
            raise failure(code or "no answer") from error

    return asked


class Reader:
    """Reads; any thread. Every method takes what is asked for, which lists do not need."""

    def __init__(self, client: WebClient) -> None:
        """`client` may retry."""
        self._client = client

    @_told
    def person(self, user: str) -> Person:
        """One person."""
        return person_of(self._client.users_info(user=user)["user"])

    @_told
    def people(self, _: str) -> dict[str, Json]:
        """Everybody in the workspace, by id."""
        pages = self._client.users_list(limit=PAGE)
        return {each["id"]: each for page in pages for each in page["members"]}

    @_told
    def groups(self, _: str) -> dict[str, Group]:
        """Every user group, by its handle."""
        found = self._client.usergroups_list(include_disabled=False, include_users=True)
        return {
            each["handle"]: Group(each["id"], frozenset(each.get("users") or ()))
            for each in found["usergroups"]
        }

    @_told
    def members(self, channel: str) -> frozenset[str]:
        """Who is in a channel."""
        pages = self._client.conversations_members(channel=channel, limit=PAGE)
        return frozenset(user for page in pages for user in page["members"])

    @_told
    def channel(self, channel: str) -> Json:
        """One channel by id."""
        found: Json = self._client.conversations_info(channel=channel)["channel"]
        return found

    @_told
    def channels(self, _: str) -> dict[str, Json]:
        """All channels that the bot can see, by id."""
        kinds = "public_channel,private_channel"
        pages = self._client.conversations_list(types=kinds, exclude_archived=True, limit=PAGE)
        return {each["id"]: each for page in pages for each in page["channels"]}

    @_told
    def private_channels(self, user: str) -> frozenset[str]:
        """The private channels that the person and the bot are in."""
        pages = self._client.users_conversations(user=user, types="private_channel", limit=PAGE)
        return frozenset(each["id"] for page in pages for each in page["channels"])


def names_of(found: Json) -> frozenset[str]:
    """Return what an active person goes by, case-folded; nothing for a bot or one who has left."""
    if found.get("deleted") or found.get("is_bot") or found["id"] == "USLACKBOT":
        return frozenset()
    profile = found.get("profile") or {}
    real = profile.get("real_name") or found.get("real_name")
    names = (profile.get("display_name"), real, found.get("name"))
    return frozenset(str(each).casefold() for each in names if each)


def _moment(seconds: object) -> datetime | None:
    """Return when a status ends; None where it does not say, in whatever way."""
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def person_of(found: Json) -> Person:
    """Return what matters of a Slack user."""
    profile = found.get("profile") or {}
    return Person(
        id=found["id"],
        team=found.get("team_id") or "",
        name=found.get("real_name") or profile.get("real_name") or found.get("name") or found["id"],
        is_bot=bool(found.get("is_bot")) or found["id"] == "USLACKBOT",
        is_guest=bool(
            found.get("is_restricted")
            or found.get("is_ultra_restricted")
            or found.get("is_stranger")
        ),
        deleted=bool(found.get("deleted")),
        teams=frozenset((found.get("enterprise_user") or {}).get("teams") or ()),
        status=str(profile.get("status_emoji") or "").strip(":"),
        status_until=_moment(profile.get("status_expiration")),
    )
