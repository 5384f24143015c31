"""People, user groups and channels as Slack has them, looked up and cached for a while.

A person, a group's or channel's members, and the channel that a name means are one minute old at
most. The lists of everybody and of all channels are ten minutes old at most: they only suggest who
could decide, and which channel to look up.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any

from slack_sdk import WebClient

from bot.clock import Clock
from bot.policy.authority import Directory, Group, LookupFailedError, NotYetKnownError, Person
from bot.policy.evaluation import Policy
from bot.signals import Signals
from bot.slack.lookups import LONG, Json, Key, LookupCache, LookupReader, Topic, names_of, person_of
from storage import inbox
from storage.models import Delivery

# People's names for the mentions in a text.

_MENTION = re.compile(r"<@([UW][A-Z0-9]{2,})>")
_LITERAL = ("plain_text", "text")  # what Slack shows as it is written, a mention's marks too


def with_names(directory: Directory, text: str) -> str:
    """Add the name to each mention in a text (`<@U1>` becomes `<@U1|Ana Ruiz>`) if it is known."""

    def name(match: re.Match[str]) -> str:
        found = _name(directory, match[1])
        return f"<@{match[1]}|{found}>" if found else match[0]

    return _MENTION.sub(name, text)


def named_where_literal(directory: Directory, blocks: Any) -> Any:
    """Replace mentions by names in block texts that Slack shows literally.

    There `<@U1>` becomes `@Ana Ruiz`. Other texts, and mentions without a known name, stay as they
    are.
    """
    if isinstance(blocks, list):
        return [named_where_literal(directory, each) for each in blocks]
    if not isinstance(blocks, dict):
        return blocks
    named = {key: named_where_literal(directory, each) for key, each in blocks.items()}
    if named.get("type") in _LITERAL and isinstance(named.get("text"), str):
        named["text"] = _MENTION.sub(partial(_called, directory), named["text"])
    return named


def _called(directory: Directory, mention: re.Match[str]) -> str:
    found = _name(directory, mention[1])
    return f"@{found}" if found else mention[0]


def _name(directory: Directory, person: str) -> str:
    try:
        found = directory.person(person)
    except LookupFailedError:
        return ""
    return re.sub(r"[<>|]", "", found.name) if found else ""


PATIENCE = 60.0  # seconds that a thread which may wait does so for an answer
FEW = 25  # people are looked up one by one; for more, the list of everybody is read
# of a list in which somebody's name or a channel's was not found: then it is read again
NEW = timedelta(seconds=20)
JUST_NOW = timedelta(seconds=5)  # of a list that stands for looking each person up


class SlackDirectory:
    """The implementation of `bot.policy.authority.Directory` with Slack's Web API and a cache.

    Thread-safe. Its look-ups run on their own threads.
    """

    def __init__(self, client: WebClient, clock: Clock, signals: Signals | None = None) -> None:
        """`client` may retry: every call here only reads."""
        self._reader = reader = LookupReader(client)
        self._answers = LookupCache(clock, signals or Signals())
        self._patience = PATIENCE
        self._reading_all = threading.Lock()
        self._unread = -NEW.total_seconds()  # when the list could not be read
        self._asks = {
            Topic.PERSON: self._ask_for_person,
            Topic.GROUPS: reader.groups,
            Topic.MEMBERS: reader.members,
            Topic.CHANNEL: self._ask_for_channel,
            Topic.CHANNELS: reader.channels,
            Topic.PRIVATE: reader.private_channels,
            Topic.PEOPLE: reader.people,
        }

    def within(self, seconds: float) -> SlackDirectory:
        """Return a view of this directory whose calls wait so many seconds at most; 0: never."""
        other = copy(self)
        other._patience = seconds
        return other

    def close(self) -> None:
        """Cancel the look-ups in progress, and begin no more."""
        self._answers.close()

    def is_idle(self) -> bool:
        """Return whether no look-up is in progress."""
        return self._answers.is_idle()

    def person(self, user: str) -> Person | None:
        """Return a person by user id; None if Slack knows none."""
        found: Person | None = self._get(Topic.PERSON, user)
        return found

    def people(self, users: Collection[str]) -> Mapping[str, Person]:
        """Return these people by user id, from the list of everybody or one by one.

        The list is used if it is cached, or if many people would have to be looked up. People
        missing from it are looked up one by one if they are few; many are left out, as they belong
        to other companies.
        """
        listed = self._answers.known((Topic.PEOPLE, ""))
        everybody: Mapping[str, Json] = listed[0] if listed else {}
        missing = [user for user in users if user not in everybody]
        if missing and (len(missing) > FEW or self._is_crowded()):
            everybody = self.everybody()
            missing = [user for user in missing if user not in everybody]
        found = {user: person_of(everybody[user]) for user in users if user in everybody}
        return found | (self._one_by_one(missing) if len(missing) <= FEW else {})

    def named(self, name: str) -> Mapping[str, str]:
        """Return the active people with this name or handle: their handles by user id.

        The list of everybody is read again if the name does not match exactly one person.
        """
        found: Mapping[str, str] = {}
        for anew in (False, True):
            listed = self.everybody(anew=anew)
            found = {
                user: str(each.get("name", ""))
                for user, each in listed.items()
                if name.casefold() in names_of(each)
            }
            if len(found) == 1:
                break
        return found

    def group(self, handle: str) -> Group | None:
        """Return the user group with this handle (without @) and its members; None if unknown."""
        found: Group | None = self._get(Topic.GROUPS).get(handle)
        return found

    def members(self, channel: str) -> frozenset[str]:
        """Return the user ids of a channel's members; empty if Slack knows no such channel."""
        found: frozenset[str] | None = self._get(Topic.MEMBERS, channel)
        return found or frozenset()

    def channel(self, name: str) -> str | None:
        """Return the id of a channel given by #name or id; None if Slack knows none."""
        found: Json | None = self._get(Topic.CHANNEL, name)
        return str(found["id"]) if found else None

    def sees(self, user: str, channel: str) -> bool:
        """Return whether the channel is public or has this member; False if it is unknown."""
        found: Json = self._get(Topic.CHANNEL, channel) or {}
        return bool(found) and (not found.get("is_private") or user in self.members(found["id"]))

    def outsiders_read(self, channel: str) -> bool:
        """Return whether the channel is shared with another company, or is about to be."""
        found: Json = self._get(Topic.CHANNEL, channel) or {}
        return bool(found.get("is_ext_shared") or found.get("is_pending_ext_shared"))

    def channels(self) -> Mapping[str, Json]:
        """Return all unarchived channels that the bot can see, by id, as Slack has them."""
        found: Mapping[str, Json] = self._get(Topic.CHANNELS)
        return found

    def private_channels(self, user: str) -> frozenset[str]:
        """Return the ids of the private channels that both the person and the bot are in."""
        found: frozenset[str] | None = self._get(Topic.PRIVATE, user)
        return found or frozenset()

    def everybody(self, *, anew: bool = False) -> Mapping[str, Json]:
        """Return everybody in the workspace by user id, as Slack has them.

        `anew`: read the list again if it is older than 20 seconds, as a name was missing in it.
        """
        if anew and self._answers.known((Topic.PEOPLE, ""), NEW) is None:
            self._answers.forget(Topic.PEOPLE)
        found: Mapping[str, Json] = self._get(Topic.PEOPLE)
        return found

    def begin(self, keys: Iterable[Key]) -> None:
        """Start these look-ups at the same time, without waiting for answers."""
        for kind, name in keys:
            self._answers.begin((kind, name), self._asks[kind])

    def forget(self) -> None:
        """Drop all cached answers."""
        self._answers.forget()

    def heard(self, event: Mapping[str, Any]) -> bool:
        """Drop or change the cached answers that a Slack event makes outdated.

        Returns False if the event is not about people, groups or channels.
        """
        forget = self._answers.forget
        match event["type"]:
            case "member_joined_channel" | "member_left_channel":
                forget(Topic.MEMBERS, event.get("channel", ""))
                forget(Topic.PRIVATE, event.get("user", ""))
            case "subteam_created" | "subteam_members_changed" | "subteam_updated":
                forget(Topic.GROUPS)
            case "user_change":
                user = event.get("user") or {}
                forget(Topic.PERSON, user.get("id", ""))
                self._answers.change((Topic.PEOPLE, ""), lambda all: {**all, user["id"]: user})
            case str(kind) if kind.startswith(("channel_", "group_")):
                forget(Topic.CHANNEL)
                forget(Topic.CHANNELS)
            case _:
                return False
        return True

    def _get(self, kind: Topic, name: str = "") -> Any:
        return self._answers.get((kind, name), self._asks[kind], self._patience)

    def _one_by_one(self, users: Collection[str]) -> dict[str, Person]:
        self.begin((Topic.PERSON, user) for user in users)
        found: dict[str, Person] = {}
        awaited: list[Future[Any]] = []
        for user in users:
            try:
                person = self.person(user)
            except NotYetKnownError as error:
                awaited += error.answers
            else:
                found |= {user: person} if person else {}
        if awaited:
            raise NotYetKnownError(*awaited)
        return found

    def _is_crowded(self) -> bool:
        """Return whether so many people are being looked up that the list is read instead."""
        return self._answers.under_way(Topic.PERSON) > FEW

    def _ask_for_person(self, user: str) -> Person | None:
        """Return a person from Slack, in a crowd from the list of everybody if they are in it.

        It runs on a look-up thread, which may wait for the list.
        """
        listed = self._answers.known((Topic.PEOPLE, ""), JUST_NOW)
        everybody = listed[0] if listed else self._everybody_now() if self._is_crowded() else {}
        found = everybody.get(user)
        if found is not None:
            return person_of(found)
        asked: Person | None = self._reader.person(user)
        return asked

    def _everybody_now(self) -> Mapping[str, Json]:
        """Return the list of everybody, read once for a crowd; {} if it cannot be read."""
        with self._reading_all:
            if time.monotonic() - self._unread < NEW.total_seconds():
                return {}
            self._answers.drop_older((Topic.PEOPLE, ""), JUST_NOW)
            try:
                return self.within(PATIENCE).everybody()
            except LookupFailedError:
                self._unread = time.monotonic()
                return {}

    def _ask_for_channel(self, name: str) -> Json | None:
        """Return a channel given by #name or id, as Slack has it; None if there is none.

        It runs on a look-up thread, which may wait for the list. The list may be old, so the
        channel found in it is looked up by id to check its name.
        """
        if not name.startswith("#"):
            given: Json | None = self._reader.channel(name)
            return given
        for age in (LONG, NEW):
            if self._answers.known((Topic.CHANNELS, ""), age) is None:
                self._answers.forget(Topic.CHANNELS)
            listed = self.within(PATIENCE).channels()
            found = next((i for i, channel in listed.items() if channel["name"] == name[1:]), None)
            asked: Json | None = self._reader.channel(found) if found else None
            if asked and asked.get("name") == name[1:] and not asked.get("is_archived"):
                return asked
        return None


def look_ahead(
    directory: SlackDirectory, policy: Policy, bot_user: str, arrived: Iterable[Delivery]
) -> None:
    """Start the look-ups that deciding these clicks will need; ignore other deliveries."""
    clicks = [each for each in arrived if each.kind in inbox.CLICKS]
    directory.begin((Topic.PERSON, each.user) for each in clicks if each.user != bot_user)
    if clicks and any(gate.approvers.groups for gate in policy.asks()):
        directory.begin([(Topic.GROUPS, "")])
