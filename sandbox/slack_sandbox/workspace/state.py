"""The state of the local Slack, guarded by one lock, with a condition for those who wait.

It holds and finds things; it knows no method, event or socket. Hold `world.lock` around every use
of its fields.
"""

from __future__ import annotations

import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.workspace.apps import App, new_app
from slack_sandbox.workspace.clock import Clock
from slack_sandbox.workspace.people import Channel, Group, Person
from slack_sandbox.workspace.records import (
    ApiCall,
    Delivery,
    Message,
    OAuthCode,
    ResponseUrl,
    Status,
    Trigger,
    View,
)
from slack_sandbox.workspace.seed import workspace_mark

if TYPE_CHECKING:
    from slack_sandbox.workspace.file_record import File
    from slack_sandbox.workspace.seed import Seed

T = TypeVar("T")
_Watcher = Callable[[int, frozenset[str] | None], None]
_SHARED_MOMENT_MICROSECONDS = (
    60_000_000  # with same_ids, a workspace takes another's times that are at most this old
)


@dataclass(eq=False)
class Shared:
    """What all workspaces of one sandbox have in common."""

    clock: Clock
    same_ids: bool = False  # ids and message times are the same in every workspace
    one_event: bool = False  # an event that several installations of an app see is sent only once
    worlds: dict[str, World] = field(default_factory=dict)  # by team id
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""
    ack_seconds: float = 3.0  # Slack's limit for acknowledgements, and the life of a trigger
    deliveries: list[Delivery] = field(default_factory=list)
    requests: list[ApiCall] = field(default_factory=list)
    triggers: dict[str, Trigger] = field(default_factory=dict)
    codes: dict[str, OAuthCode] = field(default_factory=dict)
    response_urls: dict[str, ResponseUrl] = field(default_factory=dict)
    watchers: list[_Watcher] = field(default_factory=list)
    seq: int = 0
    counter: int = 0
    moments: list[int] = field(default_factory=lambda: [0])  # microseconds, already used as ts

    def __post_init__(self) -> None:
        self.condition = threading.Condition(self.lock)
        self.send: Callable[[Delivery], None] = self.deliveries.append
        # whether a test has asked to lose this acknowledgement
        self.loses_ack: Callable[[Delivery], bool] = lambda _: False


class _OfAll(Generic[T]):
    """A field of `World` that is kept in `Shared`, as it is the same for all workspaces."""

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, world: World, _: type) -> T:
        found: T = getattr(world.shared, self.name)
        return found

    def __set__(self, world: World, value: T) -> None:
        setattr(world.shared, self.name, value)


class World:
    """Everything the local Slack knows of one workspace."""

    clock = _OfAll[Clock]()
    lock = _OfAll[threading.RLock]()
    condition = _OfAll[threading.Condition]()
    worlds = _OfAll["dict[str, World]"]()
    url = _OfAll[str]()
    ack_seconds = _OfAll[float]()
    deliveries = _OfAll[list[Delivery]]()
    requests = _OfAll[list[ApiCall]]()
    triggers = _OfAll[dict[str, Trigger]]()
    codes = _OfAll[dict[str, OAuthCode]]()
    response_urls = _OfAll[dict[str, ResponseUrl]]()
    watchers = _OfAll[list[_Watcher]]()
    seq = _OfAll[int]()
    send = _OfAll[Callable[[Delivery], None]]()
    loses_ack = _OfAll[Callable[[Delivery], bool]]()

    def __init__(
        self, manifest: Json, clock: Clock, seed: Seed, shared: Shared | None = None
    ) -> None:
        """The first workspace of `shared` has the app installed; any other only knows it."""
        self.shared = shared or Shared(clock)
        self.team, self.enterprise = seed.team, seed.enterprise
        others = list(self.worlds.values())
        # a mark in new ids, so that they differ from the first workspace's
        is_marked = bool(others) and not self.shared.same_ids
        self.mark = workspace_mark(len(others) + 1) if is_marked else ""
        self.worlds[self.team] = self
        self._counter = self._moment = 0
        self.apps: dict[str, App] = {}
        for known in [a.manifest for a in others[0].apps.values()] if others else [manifest]:
            self._add_app(known, installed=not others)
        self.people: dict[str, Person] = {person.name: person for person in seed.people}
        self.by_id: dict[str, Person] = {person.id: person for person in seed.people}
        self.channels: dict[str, Channel] = {channel.id: channel for channel in seed.channels}
        # id -> name and domain
        self.teams: dict[str, tuple[str, str]] = dict(seed.teams)
        for world in others:
            self.teams |= world.teams
            world.teams[self.team] = seed.teams[self.team]
        self.groups: dict[str, Group] = {group.handle: group for group in seed.groups}
        self.messages: dict[str, dict[str, Message]] = {}
        self.statuses: dict[tuple[str, str], Status] = {}
        self.prompts: dict[str, list[Json]] = {}
        self.sessions: dict[tuple[str, str, str], Json] = {}  # app id, channel id, root ts
        self.stacks: dict[str, list[View]] = {}
        self.homes: dict[tuple[str, str], View] = {}  # (user id, app id) -> the Home tab
        # (user id, place) -> element states in a message
        self.typed: dict[tuple[str, str], Json] = {}
        # (user id, place, block, action) -> options
        self.offered: dict[tuple[str, str, str, str], list[Json]] = {}
        self.notes: dict[str, list[Json]] = {}
        self.scheduled: dict[str, Json] = {}
        self.files: dict[str, File] = {}
        self.uploads: dict[str, str] = {}  # secret in an upload address -> file id
        self.bookmarks: dict[str, list[Json]] = {}  # by channel id
        self.away: set[str] = set()  # user ids whose presence was set to away
        self.last_read: dict[tuple[str, str], str] = {}  # (user id, channel id) -> ts
        self.title = self.app.title  # title of the page
        # what the page suggests to a first-time visitor
        self.guide: Callable[[World], Json] | None = None

    # time and ids

    def now(self) -> float:
        """The sandbox's time, Unix seconds."""
        return self.clock.now().timestamp()

    def next_ts(self) -> str:
        """Return a new message id from the clock, greater than every earlier one here.

        With `same_ids` it is one that another workspace had lately, if there is one.
        """
        now, moments = int(self.now() * 1_000_000), self.shared.moments
        known = bisect_right(moments, max(self._moment, now - _SHARED_MOMENT_MICROSECONDS))
        if self.shared.same_ids and known < len(moments):
            self._moment = moments[known]
        else:
            self._moment = max(now, moments[-1] + 1)
            moments[0 if not self.shared.same_ids else len(moments) :] = [self._moment]
        return f"{self._moment // 1_000_000}.{self._moment % 1_000_000:06d}"

    def new_id(self, prefix: str) -> str:
        """An id that no other thing has: the prefix, then capital letters and digits.

        With `same_ids` another workspace may have it, unless it is of an event or a view.
        """
        self.shared.counter += 1
        self._counter += 1
        own = self.shared.same_ids and prefix not in ("Ev", "V")
        return f"{prefix}0{self._counter if own else self.shared.counter:08X}"

    def new_response_url(self, app: App, channel: str, ts: str, user: str) -> str:
        """An address for the app's answers to an interaction with that message."""
        token = secrets.token_hex(12)
        link = ResponseUrl(channel, ts, user, app.id, self.now() + 1800, app.team)
        self.response_urls[token] = link
        return f"{self.url}/actions/{app.team}/{token}"

    def new_trigger(self, app: App, user: str, view_id: str = "", channel_id: str = "") -> str:
        """Return a trigger for a user's action with the app, valid for three seconds and one use.

        `view_id` is the view and `channel_id` the conversation that they are looking at, "" when
        at none.
        """
        numbers = f"{secrets.randbelow(10**13)}.{secrets.randbelow(10**12)}"
        trigger_id = f"{numbers}.{secrets.token_hex(16)}"
        trigger = Trigger(user, app.id, time.monotonic(), view_id, channel_id, self.team)
        trigger.teams = (self.team, app.team)
        self.triggers[trigger_id] = trigger
        return trigger_id

    # apps

    def install(self, manifest: Json) -> App:
        """Install one more app, in no channel yet; other workspaces know it, and may install it."""
        for world in self.worlds.values():
            world._add_app(manifest, installed=world is self)
        return next(reversed(self.apps.values()))

    def _add_app(self, manifest: Json, *, installed: bool) -> None:
        number = len(self.apps) + 1
        app = new_app(manifest, number, self.team, self.mark, installed=installed)
        self.apps[app.id] = app

    @property
    def app(self) -> App:
        """The first app."""
        return next(iter(self.apps.values()))

    def own(self, app: App | None) -> App:
        """Return that app as it is installed in this workspace; None means the first app."""
        return self.apps[app.id] if app else self.app

    @property
    def known_apps(self) -> list[App]:
        """The apps that are installed here, or were once."""
        return [app for app in self.apps.values() if app.bot_token]

    def app_of_bot(self, user: str) -> App | None:
        """The app whose bot has that user id, or None."""
        return next((app for app in self.known_apps if app.bot_user == user), None)

    def app_of_token(self, token: str) -> App | None:
        """The app that has this bot token or app-level token, in whichever workspace, or None.

        The workspace is the app's `team`; an org-wide token is good for others, too.
        """
        apps = [a for w in self.worlds.values() for a in w.apps.values() if a.has(token)]
        return next((app for app in apps if app.installed), apps[0] if apps else None)

    def author(self, message: Json) -> App | None:
        """The app that posted a message, as it is installed where it did so; None for a person."""
        app_id, user = str(message.get("app_id")), str(message.get("user"))
        channel = self.channels.get(str(message.get("channel")))
        for world in self.sharing(channel) if channel else self.worlds.values():
            if (app := world.apps.get(app_id)) and app.bot_user == user and app.bot_token:
                return app
        return self.apps.get(app_id)

    def sharing(self, channel: Channel) -> list[World]:
        """The workspaces that have this channel, this one first."""
        others = [self.worlds[team] for team in channel.teams if team != self.team]
        return [self, *(world for world in others if channel.id in world.channels)]

    def is_member(self, person: Person) -> bool:
        """Whether a person belongs to this workspace, also as one of the people of its org."""
        return person.team_id == self.team or self.team in person.grid_teams

    def acts_from(self, person: Person) -> str:
        """Return the team id for a person in the payloads of their actions here."""
        here = self.team if self.team in person.grid_teams else person.team_id
        return person.acts_from or here

    def app_of_client(self, client_id: str) -> App | None:
        """The app of that client id, or None."""
        return next((app for app in self.apps.values() if app.client_id == client_id), None)

    def app_of_dm(self, channel: Channel) -> App:
        """The app that a DM is with; ValueError for another kind of conversation."""
        for app in self.apps.values():
            if channel.kind == "im" and app.bot_user in channel.members:
                return app
        raise ValueError(f"{channel.id} is no DM with an app")

    @property
    def org_id(self) -> str:
        """The id of the org that the workspace is in, "" for none."""
        return self.enterprise[0] if self.enterprise else ""

    # look-ups

    def channel(self, name_or_id: str) -> Channel:
        """The channel of that id or name (with or without #); ValueError when there is none."""
        wanted = name_or_id.removeprefix("#")
        for channel in self.channels.values():
            if wanted in (channel.id, channel.name):
                return channel
        raise ValueError(f"there is no channel {name_or_id}")

    def seen_by(self, app: App, channel_id: str) -> Channel:
        """Return the channel if the app's bot may know of it; else channel_not_found."""
        channel = self.channels.get(channel_id)
        if channel is None or (channel.kind != "channel" and app.bot_user not in channel.members):
            raise SlackError("channel_not_found")
        return channel

    def dm(self, user: str, app: App | None = None) -> Channel:
        """The DM between that user id and the app (None: the first one), made on first use."""
        app = app or self.app
        # people of an org have the same id in several workspaces
        mark = self.mark if len(self.by_id[user].grid_teams) > 1 else ""
        between = "" if app is self.app else app.bot_user[1:]
        channel_id = f"D{between}{user[1:]}{mark}"
        if channel_id not in self.channels:
            self.channels[channel_id] = Channel(
                channel_id, "", "im", [user, app.bot_user], created=int(self.now())
            )
        return self.channels[channel_id]

    def find(self, channel_id: str, ts: str) -> Message | None:
        """The message that methods can address, or None (also for an ephemeral one)."""
        message = self.messages.get(channel_id, {}).get(ts)
        return None if message is None or message.only_for else message

    def replies(self, channel_id: str, root: str) -> list[Message]:
        """Return the replies to `root`, oldest first, without ephemeral messages."""
        stored = self.messages.get(channel_id, {}).values()
        return [
            m
            for m in stored  # must be fast: called often, with thousands of messages
            if m.body.get("thread_ts") == root and m.body["ts"] != root and not m.only_for
        ]

    def visible(self, user: str, channel: Channel) -> list[Message]:
        """Return what that person sees in the channel, replies too, oldest first.

        Their own ephemeral messages are included.
        """
        person = self.by_id[user]
        open_to_all = (
            channel.kind == "channel" and not person.is_restricted and self.is_member(person)
        )
        if user not in channel.members and not open_to_all:
            return []
        return [m for m in self.messages.get(channel.id, {}).values() if m.only_for in ("", user)]

    def unread(self, user: str, channel: Channel) -> int:
        """Return how many messages of others came into the channel since that person opened it."""
        since = self.last_read.get((user, channel.id), "")
        return sum(
            1 for m in self.visible(user, channel) if m.ts > since and m.body.get("user") != user
        )

    def read(self, user: str, channel: Channel) -> None:
        """Note that the person opened the channel now: all that is in it counts as read."""
        self.last_read[user, channel.id] = self.next_ts()

    # waking those who wait

    def touch(self, audience: Iterable[str] | None = None) -> None:
        """Count a change and wake those who wait for one.

        `audience` are the user ids who can see it (None: everyone).
        """
        with self.lock:
            self.seq += 1
            seen_by = None if audience is None else frozenset(audience)
            for watcher in list(self.watchers):
                watcher(self.seq, seen_by)
            self.condition.notify_all()

    def dump(self) -> str:
        """Return a text on the present state, for a person who reads a failed test."""
        with self.lock:
            lines: list[str] = [f"clock {self.clock.now().isoformat()}"]
            for channel_id, stored in self.messages.items():
                for m in list(stored.values())[-8:]:
                    who = f" (only for {m.only_for})" if m.only_for else ""
                    lines.append(
                        f"{channel_id} {m.ts} in {m.root} {m.body.get('user')}{who}: "
                        f"{m.body['text'][:200]!r}"
                    )
            lines += [
                f"status {s.channel}/{s.thread_ts}: {s.status}" for s in self.statuses.values()
            ]
            lines += [
                f"view {v.id} of {v.user}: {v.body['callback_id']}"
                for s in self.stacks.values()
                for v in s
            ]
            for d in self.deliveries[-12:]:
                what = d.event.get("type") or d.payload.get("type")
                lines.append(
                    f"{d.kind} {what} for {d.app.name}: {d.outcome}, attempts {d.attempts}"
                )
            for call in self.requests[-12:]:
                answer = call.response or {}
                error = answer.get("error", "ok" if answer else "connection cut")
                details: Any = answer.get("response_metadata", "") if error != "ok" else ""
                lines.append(f"{call.method}: {call.status} {error} {details}")
            return "\n  ".join(lines)
