"""People, user groups and channels as Slack has them, looked up and cached for a while.

A person, a group's or channel's members, and the channel that a name means are one minute old at
most. The lists of everybody and of all channels are ten minutes old at most: they only suggest who
could decide, and which channel to look up.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from datetime import timedelta
from itertools import chain
from typing import Any

from slack_sdk import WebClient

from bot.cards import slack_text
from bot.clock import Clock
from bot.config.entry_points import call_owner_function
from bot.policy import authority
from bot.policy.approver_lists import MANAGER_OF_REQUESTER
from bot.policy.evaluation import Policy
from bot.signals import Signals
from bot.slack import lookups
from storage import inbox
from storage.record import Delivery

# People's names for the mentions in a text.

MAX_NAME_CHARS = 80  # Slack's limit in profiles
MAX_MRKDWN_CHARS = 3_000  # Slack's limit for one text of a block
_USER_MENTION_PATTERN = re.compile(r"<@([UW][A-Z0-9]{2,})>")
# text types that Slack shows literally, also the markup of a mention
_LITERAL_TEXT_TYPES = (
    "plain_text",
    "text",
)


def add_names_to_mentions(directory: authority.Directory, text: str) -> str:
    """Add the name to each mention in a text (`<@U1>` becomes `<@U1|Ana Ruiz>`) if it is known."""

    def name(match: re.Match[str]) -> str:
        found = find_display_name(directory, match[1])
        return f"<@{match[1]}|{found}>" if found else match[0]

    return _USER_MENTION_PATTERN.sub(name, text)


_NOTIFYING_MENTION_PATTERN = re.compile(
    r"<@(?P<user>[UW][A-Z0-9]{2,})(?:\|[^>]*)?>|<!subteam\^(?P<group>S[A-Z0-9]+)(?:\|[^>]*)?>"
)
_FORMATTED_TEXT_TYPES = ("mrkdwn", "markdown")  # block texts in which a mention notifies


def replace_other_mentions(
    directory: authority.Directory, blocks: Any, notified: Collection[str]
) -> Any:
    """Replace the mentions of all but the `notified` people and groups by names.

    A message that Slack posts then notifies nobody else. A mention without a known name stays, and
    so do all mentions in a text that would become too long for its block.
    """
    if isinstance(blocks, list):
        return [replace_other_mentions(directory, each, notified) for each in blocks]
    if not isinstance(blocks, dict):
        return blocks
    user = blocks.get("user_id")
    if blocks.get("type") == "user" and user not in notified:
        name = slack_text.sanitise_as_plain_text(
            find_display_name(directory, str(user)), MAX_NAME_CHARS
        )
        replaced = {key: each for key, each in blocks.items() if key != "user_id"}
        return {**replaced, "type": "text", "text": name} if name else blocks
    replaced = {
        key: replace_other_mentions(directory, each, notified) for key, each in blocks.items()
    }
    if replaced.get("type") in _FORMATTED_TEXT_TYPES and isinstance(replaced.get("text"), str):
        text = replace_other_mentions_in_text(directory, replaced["text"], notified)
        fits = (
            replaced["type"] != "mrkdwn" or len(text.encode("utf-16-le")) // 2 <= MAX_MRKDWN_CHARS
        )
        replaced["text"] = text if fits else replaced["text"]
    return replaced


def replace_other_mentions_in_text(
    directory: authority.Directory, text: str, notified: Collection[str] = ()
) -> str:
    """Replace the mentions of all but the `notified` people and groups in mrkdwn by names."""

    def name(match: re.Match[str]) -> str:
        if (match["user"] or match["group"]) in notified:
            return match[0]
        if match["group"]:
            return "a user group"
        found = find_display_name(directory, match["user"])
        return slack_text.sanitise_for_mrkdwn(found, MAX_NAME_CHARS) if found else match[0]

    return _NOTIFYING_MENTION_PATTERN.sub(name, text)


def format_field_error(directory: authority.Directory, text: str, limit: int = 2_900) -> str:
    """Return mrkdwn as plain text for an error in a dialog, with names."""
    return slack_text.shorten_to_words(
        slack_text.strip_mrkdwn(add_names_to_mentions(directory, text)), limit
    )


def replace_mentions_in_plain_text(directory: authority.Directory, blocks: Any) -> Any:
    """Replace mentions by names in block texts that Slack shows literally.

    There `<@U1>` becomes `@Ana Ruiz`. Other texts, and mentions without a known name, stay as they
    are.
    """
    if isinstance(blocks, list):
        return [replace_mentions_in_plain_text(directory, each) for each in blocks]
    if not isinstance(blocks, dict):
        return blocks

    def name(mention: re.Match[str]) -> str:
        found = find_display_name(directory, mention[1])
        return f"@{found}" if found else mention[0]

    replaced = {
        key: replace_mentions_in_plain_text(directory, each) for key, each in blocks.items()
    }
    if replaced.get("type") in _LITERAL_TEXT_TYPES and isinstance(replaced.get("text"), str):
        replaced["text"] = _USER_MENTION_PATTERN.sub(name, replaced["text"])
    return replaced


def find_display_name(directory: authority.Directory, name_id: str) -> str:
    """Return the name of a person or of a public channel; "" if it is not known now."""
    try:
        if name_id.startswith(("C", "G")):
            return directory.find_public_channel_name(name_id)
        found = directory.find_person(name_id)
    except authority.LookupFailedError:
        return ""
    return re.sub(r"[<>|]", "", found.name) if found else ""


DEFAULT_TIMEOUT_SECONDS = 60.0  # for a thread that may wait for an answer
MAX_SINGLE_LOOKUPS = 25  # for more people than this, the list of everybody is read
# between two readings of a list because a person's or channel's name was not found in it
MIN_REFRESH_INTERVAL = timedelta(seconds=20)
EVERYBODY_KEY = (lookups.LookupKind.PEOPLE, "")  # key of the look-up of the whole list
MAX_FRESH_LIST_AGE = timedelta(seconds=5)  # of a list used instead of looking up each person


class SlackDirectory:
    """The implementation of `bot.policy.authority.Directory` with Slack's Web API and a cache.

    Thread-safe. Its look-ups run on their own threads.
    """

    def __init__(
        self,
        client: WebClient,
        clock: Clock,
        signals: Signals | None = None,
        scopes: Collection[str] = (),
        list_granted: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """`client` may retry: every call here only reads. `scopes`: those known to be granted.

        `list_granted`: returns the workspaces to which an organisation gave the bot access; None if
        the bot is installed in a single workspace.
        """
        self._list_granted = list_granted
        self._reader = reader = lookups.SlackLookupClient(client)
        self._answers = lookups.LookupCache(clock, signals or Signals())
        self._timeout_seconds = DEFAULT_TIMEOUT_SECONDS
        self._may_read_quiet_hours = "dnd:read" in scopes
        self._list_lock = threading.Lock()
        self._list_failed_at = -MIN_REFRESH_INTERVAL.total_seconds()  # when reading it last failed
        self._asks = {
            lookups.LookupKind.PERSON: self._read_person,
            lookups.LookupKind.QUIET_HOURS: reader.read_quiet_hours,
            lookups.LookupKind.GROUPS: reader.read_groups,
            lookups.LookupKind.MEMBERS: reader.read_channel_members,
            lookups.LookupKind.CHANNEL: self._read_channel,
            lookups.LookupKind.CHANNELS: reader.read_channels,
            lookups.LookupKind.PRIVATE: reader.read_common_private_channels,
            lookups.LookupKind.PEOPLE: reader.read_everybody,
            lookups.LookupKind.MANAGER: reader.read_manager,
            lookups.LookupKind.OWNERS: lambda name: call_owner_function(*json.loads(name)),
        }

    def with_timeout(self, seconds: float) -> SlackDirectory:
        """Return this directory with another time-out for its look-ups; 0: they never wait."""
        other = copy(self)
        other._timeout_seconds = seconds
        return other

    def close(self) -> None:
        """Cancel the look-ups in progress, and begin no more."""
        self._answers.close()

    def is_idle(self) -> bool:
        """Return whether no look-up is in progress."""
        return self._answers.is_idle()

    def find_person(self, user: str) -> authority.Person | None:
        """Return a person by user id; None if Slack knows none."""
        found: authority.Person | None = self._look_up(lookups.LookupKind.PERSON, user)
        return found

    def find_people(self, users: Collection[str]) -> Mapping[str, authority.Person]:
        """Return these people by user id, from the list of everybody or one by one.

        The list is used if it is cached, or if many people would have to be looked up. People
        missing from it are looked up one by one if they are few; many are left out, as they belong
        to other companies.
        """
        cached_list = self._answers.find_cached_answer(EVERYBODY_KEY)
        everybody: Mapping[str, lookups.Json] = cached_list[0] if cached_list else {}
        missing = [user for user in users if user not in everybody]
        if missing and (len(missing) > MAX_SINGLE_LOOKUPS or self._has_many_person_lookups()):
            everybody = self.list_people()
            missing = [user for user in missing if user not in everybody]
        granted = self._list_granted and self._list_granted()
        people = {
            user: lookups.build_person_from_slack_user(everybody[user], granted)
            for user in users
            if user in everybody
        }
        return people | (
            self._look_up_each_person(missing) if len(missing) <= MAX_SINGLE_LOOKUPS else {}
        )

    def find_people_by_name(self, name: str) -> Mapping[str, str]:
        """Return the active people with this name or handle: their handles by user id.

        The list of everybody is read again if the name does not match exactly one person.
        """
        matches: Mapping[str, str] = {}
        for refresh in (False, True):
            everybody = self.list_people(refresh=refresh)
            matches = {
                user: str(each.get("name", ""))
                for user, each in everybody.items()
                if name.casefold() in lookups.get_casefolded_names(each)
            }
            if len(matches) == 1:
                break
        return matches

    def find_quiet_hours(self, users: Collection[str]) -> Mapping[str, authority.QuietHours]:
        """Return the do-not-disturb hours, now or next, of these people by user id.

        Empty for more than MAX_QUIET_HOURS_USERS people, without the scope `dnd:read`, and if Slack
        cannot be asked.
        """
        if not self._may_read_quiet_hours or not 0 < len(users) <= lookups.MAX_QUIET_HOURS_USERS:
            return {}
        try:
            quiet_hours = self._look_up(lookups.LookupKind.QUIET_HOURS, ",".join(sorted(users)))
        except authority.LookupFailedError:
            return {}
        return quiet_hours or {}

    def find_group(self, handle: str) -> authority.Group | None:
        """Return the user group with this handle (without @) and its members; None if unknown."""
        found: authority.Group | None = self._look_up(lookups.LookupKind.GROUPS).get(handle)
        return found

    def list_channel_members(self, channel: str) -> frozenset[str]:
        """Return the user ids of a channel's members; empty if Slack knows no such channel."""
        found: frozenset[str] | None = self._look_up(lookups.LookupKind.MEMBERS, channel)
        return found or frozenset()

    def find_channel_id(self, name: str) -> str | None:
        """Return the id of a channel given by #name or id; None if Slack knows none."""
        found: lookups.Json | None = self._look_up(lookups.LookupKind.CHANNEL, name)
        return str(found["id"]) if found else None

    def can_see_channel(self, user: str, channel: str) -> bool:
        """Return whether the channel is public or has this member; False if it is unknown."""
        found: lookups.Json = self._look_up(lookups.LookupKind.CHANNEL, channel) or {}
        return bool(found) and (
            not found.get("is_private") or user in self.list_channel_members(found["id"])
        )

    def find_public_channel_name(self, channel: str) -> str:
        """Return the #name of a public channel given by its id; "" for any other."""
        found: lookups.Json = self._look_up(lookups.LookupKind.CHANNEL, channel) or {}
        return f"#{found['name']}" if found.get("name") and not found.get("is_private") else ""

    def is_externally_shared_channel(self, channel: str) -> bool:
        """Return whether the channel is shared with another company, or is about to be."""
        found: lookups.Json = self._look_up(lookups.LookupKind.CHANNEL, channel) or {}
        return bool(found.get("is_ext_shared") or found.get("is_pending_ext_shared"))

    def find_owners(self, field: str, function: str, value: str | int) -> tuple[str, ...]:
        """Return the user ids and "@group" handles of the owners of this value of a field."""
        kind = (
            lookups.LookupKind.MANAGER
            if field == MANAGER_OF_REQUESTER
            else lookups.LookupKind.OWNERS
        )
        found: tuple[str, ...] | None = self._look_up(kind, json.dumps([function, value]))
        return found or ()

    def list_channels(self) -> Mapping[str, lookups.Json]:
        """Return all unarchived channels that the bot can see, by id, as Slack has them."""
        found: Mapping[str, lookups.Json] = self._look_up(lookups.LookupKind.CHANNELS)
        return found

    def list_common_private_channels(self, user: str) -> frozenset[str]:
        """Return the ids of the private channels that have this person and the bot as members."""
        found: frozenset[str] | None = self._look_up(lookups.LookupKind.PRIVATE, user)
        return found or frozenset()

    def list_people(self, *, refresh: bool = False) -> Mapping[str, lookups.Json]:
        """Return everybody in the workspace by user id, as Slack has them.

        `refresh`: read the list again if it is older than 20 seconds, as a name was missing in it.
        """
        if (
            refresh
            and self._answers.find_cached_answer(EVERYBODY_KEY, MIN_REFRESH_INTERVAL) is None
        ):
            self._answers.drop_answers(lookups.LookupKind.PEOPLE)
        found: Mapping[str, lookups.Json] = self._look_up(lookups.LookupKind.PEOPLE)
        return found

    def start_lookups(self, keys: Iterable[lookups.LookupKey]) -> None:
        """Start these look-ups at the same time, without waiting for answers."""
        for kind, name in keys:
            self._answers.start_lookup((kind, name), self._asks[kind])

    def clear_cache(self) -> None:
        """Drop all cached answers."""
        self._answers.drop_answers()

    def update_cache_from_event(self, event: Mapping[str, Any]) -> bool:
        """Drop or change the cached answers that a Slack event makes outdated.

        Returns False if the event is not about people, groups or channels.
        """
        forget = self._answers.drop_answers
        match event["type"]:
            case "member_joined_channel" | "member_left_channel":
                forget(lookups.LookupKind.MEMBERS, event.get("channel", ""))
                forget(lookups.LookupKind.PRIVATE, event.get("user", ""))
            case "subteam_created" | "subteam_members_changed" | "subteam_updated":
                forget(lookups.LookupKind.GROUPS)
            case "user_change":
                user = event.get("user") or {}
                forget(lookups.LookupKind.PERSON, user.get("id", ""))
                forget(lookups.LookupKind.MANAGER)
                self._answers.update_cached(EVERYBODY_KEY, lambda all: {**all, user["id"]: user})
            case str(kind) if kind.startswith(("channel_", "group_")):
                forget(lookups.LookupKind.CHANNEL)
                forget(lookups.LookupKind.CHANNELS)
            case _:
                return False
        return True

    def _look_up(self, kind: lookups.LookupKind, name: str = "") -> Any:
        return self._answers.get_or_look_up_answer(
            (kind, name), self._asks[kind], self._timeout_seconds
        )

    def _look_up_each_person(self, users: Collection[str]) -> dict[str, authority.Person]:
        self.start_lookups((lookups.LookupKind.PERSON, user) for user in users)
        people: dict[str, authority.Person] = {}
        pending: list[authority.LookupPendingError] = []
        for user in users:
            try:
                person = self.find_person(user)
            except authority.LookupPendingError as error:
                pending.append(error)
            else:
                people |= {user: person} if person else {}
        if pending:
            answers = chain.from_iterable(each.answers for each in pending)
            raise authority.LookupPendingError(*answers)
        return people

    def _has_many_person_lookups(self) -> bool:
        """Return whether so many people are being looked up that the list is read instead."""
        return self._answers.count_pending(lookups.LookupKind.PERSON) > MAX_SINGLE_LOOKUPS

    def _read_person(self, user: str) -> authority.Person | None:
        """Look a person up in Slack; if many are looked up at once, in the list of everybody.

        A person missing from that list is looked up alone. Runs on a look-up thread, which may wait
        for the list.
        """
        cached_list = self._answers.find_cached_answer(EVERYBODY_KEY, MAX_FRESH_LIST_AGE)
        everybody: Mapping[str, lookups.Json] = cached_list[0] if cached_list else {}
        if not cached_list and self._has_many_person_lookups():
            everybody = self._read_everybody_once()
        slack_user: lookups.Json | None = everybody.get(user) or self._reader.read_person(user)
        granted = self._list_granted and self._list_granted()
        return lookups.build_person_from_slack_user(slack_user, granted) if slack_user else None

    def _read_everybody_once(self) -> Mapping[str, lookups.Json]:
        """Return the list of everybody, read once for many look-ups; {} if it cannot be read."""
        with self._list_lock:
            if time.monotonic() - self._list_failed_at < MIN_REFRESH_INTERVAL.total_seconds():
                return {}
            self._answers.drop_answer_if_older(EVERYBODY_KEY, MAX_FRESH_LIST_AGE)
            try:
                return self.with_timeout(DEFAULT_TIMEOUT_SECONDS).list_people()
            except authority.LookupFailedError:
                self._list_failed_at = time.monotonic()
                return {}

    def _read_channel(self, name: str) -> lookups.Json | None:
        """Return a channel given by #name or id, as Slack has it; None if there is none.

        Runs on a look-up thread, which may wait for the list. The list may be old, so the channel
        found in it is looked up by id to check its name.
        """
        if not name.startswith("#"):
            channel_by_id: lookups.Json | None = self._reader.read_channel(name)
            return channel_by_id
        for age in (lookups.MAX_LIST_AGE, MIN_REFRESH_INTERVAL):
            if self._answers.find_cached_answer((lookups.LookupKind.CHANNELS, ""), age) is None:
                self._answers.drop_answers(lookups.LookupKind.CHANNELS)
            channels = self.with_timeout(DEFAULT_TIMEOUT_SECONDS).list_channels()
            matching_ids = [i for i, channel in channels.items() if channel["name"] == name[1:]]
            # several workspaces of an organisation may have such a channel: only an id is clear
            candidate: lookups.Json | None = (
                self._reader.read_channel(matching_ids[0]) if len(matching_ids) == 1 else None
            )
            if candidate and candidate.get("name") == name[1:] and not candidate.get("is_archived"):
                return candidate
        return None


def start_click_lookups(
    directory: SlackDirectory, policy: Policy, bot_user: str, deliveries: Iterable[Delivery]
) -> None:
    """Start the look-ups that deciding these clicks will need; ignore other deliveries."""
    clicks = [each for each in deliveries if each.kind in inbox.CLICK_KINDS]
    directory.start_lookups(
        (lookups.LookupKind.PERSON, each.user) for each in clicks if each.user != bot_user
    )
    if clicks and any(gate.approvers.groups for gate in policy.asks()):
        directory.start_lookups([(lookups.LookupKind.GROUPS, "")])
