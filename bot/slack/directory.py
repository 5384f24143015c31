"""Live look-ups of people, user groups and channels in Slack, remembered for at most a minute.

Beside the directory stand the two things done with it as a whole: looking up ahead of a burst of
deliveries, and putting names to the mentions of a text.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.clock import Clock
from bot.policy.authority import Directory, Group, LookupFailedError, Person
from storage import inbox
from storage.models import Delivery

if TYPE_CHECKING:
    from bot.policy.evaluate import Policy

FRESH = timedelta(seconds=60)
MISSING = {
    "user_not_found",
    "users_not_found",
    "channel_not_found",
    "no_such_subteam",
    "user_not_visible",
}
T = TypeVar("T")
_MENTION = re.compile(r"<@([UW][A-Z0-9]{2,})>")


class SlackDirectory:
    """`bot.policy.authority.Directory` over the Web API.

    Thread-safe; failures are never remembered.
    """

    def __init__(self, client: WebClient, clock: Clock) -> None:
        """`client` may retry: every call here only reads."""
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[datetime, Any]] = {}
        self._epoch = 0  # grows with each event that makes something remembered doubtful

    def person(self, user: str) -> Person | None:
        """The person by id."""
        return self._remember(("person", user), lambda: self._person(user))

    def group(self, handle: str) -> Group | None:
        """The user group by handle (without @), with its members."""
        return self._remember(("group", handle), lambda: self._group(handle))

    def members(self, channel: str) -> frozenset[str]:
        """Members of a channel, all pages."""
        return self._remember(("members", channel), lambda: self._members(channel)) or frozenset()

    def channel(self, name: str) -> str | None:
        """A channel's id by #name or id."""
        return self._remember(("channel", name), lambda: self._channel(name))

    def forget(self, kind: str = "", name: str = "") -> None:
        """Drop what is remembered of that kind and name (of all, when empty)."""
        with self._lock:
            self._epoch += 1
            for key in [
                k for k in self._known if (not kind or k[0] == kind) and (not name or k[1] == name)
            ]:
                del self._known[key]

    def warm(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Look up many things side by side, so that a burst of clicks does not wait for each."""
        methods: dict[str, Callable[[str], object]] = {
            "person": self.person,
            "group": self.group,
            "members": self.members,
            "channel": self.channel,
        }
        missing = [(kind, name) for kind, name in set(wanted) if self._fresh((kind, name)) is None]
        if len(missing) < 2:
            return
        with ThreadPoolExecutor(min(8, len(missing))) as pool:
            for future in [pool.submit(methods[kind], name) for kind, name in missing]:
                # a failure is met again, and reported, where the answer is needed
                future.exception()

    def _fresh(self, key: tuple[str, str]) -> tuple[datetime, Any] | None:
        with self._lock:
            found = self._known.get(key)
        return found if found and self._clock.now() - found[0] < FRESH else None

    def _remember(self, key: tuple[str, str], look: Callable[[], T | None]) -> T | None:
        if found := self._fresh(key):
            value: T | None = found[1]
            return value
        with self._lock:
            epoch = self._epoch
        at = self._clock.now()
        try:
            value = look()
        except SlackApiError as error:
            if error.response.get("error") not in MISSING:
                raise LookupFailedError(str(error.response.get("error"))) from error
            value = None
        except Exception as error:
            raise LookupFailedError(type(error).__name__) from error
        with self._lock:
            if epoch == self._epoch:  # else it may have changed while we asked
                self._known[key] = (at, value)
        return value

    def _person(self, user: str) -> Person:
        found: dict[str, Any] = self._client.users_info(user=user)["user"]
        profile = found.get("profile") or {}
        return Person(
            id=found["id"],
            team=found.get("team_id", ""),
            name=found.get("real_name") or profile.get("real_name") or found.get("name") or user,
            is_bot=bool(found.get("is_bot")) or found["id"] == "USLACKBOT",
            is_guest=bool(
                found.get("is_restricted")
                or found.get("is_ultra_restricted")
                or found.get("is_stranger")
            ),
            deleted=bool(found.get("deleted")),
        )

    def _group(self, handle: str) -> Group | None:
        for group in self._client.usergroups_list(include_disabled=False)["usergroups"]:
            if group["handle"] == handle:
                members = self._client.usergroups_users_list(usergroup=group["id"])["users"]
                return Group(group["id"], frozenset(members))
        return None

    def _members(self, channel: str) -> frozenset[str]:
        found: set[str] = set()
        for page in self._client.conversations_members(channel=channel, limit=200):
            found |= set(page["members"])
        return frozenset(found)

    def _channel(self, name: str) -> str | None:
        if not name.startswith("#"):
            return str(self._client.conversations_info(channel=name)["channel"]["id"])
        kinds = "public_channel,private_channel"
        for page in self._client.conversations_list(types=kinds, exclude_archived=True, limit=200):
            for channel in page["channels"]:
                if channel["name"] == name[1:]:
                    return str(channel["id"])
        return None


def look_ahead(
    directory: SlackDirectory, policy: Policy, bot_user: str, arrived: Iterable[Delivery]
) -> None:
    """Look up, side by side, everybody and every group that deciding these deliveries will need."""
    deliveries = list(arrived)
    wanted = {("person", each.user) for each in deliveries if each.user not in ("", bot_user)}
    if any(each.kind in inbox.CLICKS for each in deliveries):
        for gate in policy.asks():
            wanted |= {("group", handle) for handle in gate.approvers.groups}
    directory.warm(wanted)


def with_names(directory: Directory, text: str) -> str:
    """Write each mention with its name (`<@U1>` as `<@U1|Ana Ruiz>`) where Slack knows one."""

    def name(match: re.Match[str]) -> str:
        try:
            person = directory.person(match[1])
        except LookupFailedError:
            person = None
        clean = re.sub(r"[<>|]", "", person.name) if person else ""
        return f"<@{match[1]}|{clean}>" if clean else match[0]

    return _MENTION.sub(name, text)
