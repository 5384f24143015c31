"""The state of the local Slack, guarded by one lock, with a condition for those who wait.

It holds and finds things; it knows no method, event or socket. Hold `world.lock` around every use
of its fields.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.workspace.apps import App, new_app
from slack_sandbox.workspace.clock import Clock
from slack_sandbox.workspace.people import TEAM, Channel, Group, Person
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

if TYPE_CHECKING:
    from slack_sandbox.workspace.file_record import File
    from slack_sandbox.workspace.seed import Seed


class World:
    """Everything the local Slack knows."""

    def __init__(self, manifest: Json, clock: Clock, seed: Seed) -> None:
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self.clock = clock
        self.url = ""
        self.apps: dict[str, App] = {}
        self.install(manifest)
        self.ack_seconds = 3.0  # Slack's limit for acknowledgements, and the life of a trigger
        self.people: dict[str, Person] = {person.name: person for person in seed.people}
        self.by_id: dict[str, Person] = {person.id: person for person in seed.people}
        self.channels: dict[str, Channel] = {channel.id: channel for channel in seed.channels}
        self.teams = seed.teams  # id -> name and domain
        self.groups: dict[str, Group] = {group.handle: group for group in seed.groups}
        self.messages: dict[str, dict[str, Message]] = {}
        self.deliveries: list[Delivery] = []
        self.requests: list[ApiCall] = []
        self.statuses: dict[tuple[str, str], Status] = {}
        self.prompts: dict[str, list[Json]] = {}
        self.sessions: dict[tuple[str, str, str], Json] = {}  # app id, channel id, root ts
        self.triggers: dict[str, Trigger] = {}
        self.stacks: dict[str, list[View]] = {}
        self.homes: dict[tuple[str, str], View] = {}  # (user id, app id) -> the Home tab
        # (user id, place) -> element states in a message
        self.typed: dict[tuple[str, str], Json] = {}
        # (user id, place, block, action) -> options
        self.offered: dict[tuple[str, str, str, str], list[Json]] = {}
        self.notes: dict[str, list[Json]] = {}
        self.scheduled: dict[str, Json] = {}
        self.files: dict[str, File] = {}
        self.uploads: dict[str, str] = {}  # the secret of an upload's address -> file id
        self.bookmarks: dict[str, list[Json]] = {}  # by channel id
        self.away: set[str] = set()  # user ids whose presence was set to away
        self.last_read: dict[tuple[str, str], str] = {}  # (user id, channel id) -> ts
        self.codes: dict[str, OAuthCode] = {}
        self.response_urls: dict[str, ResponseUrl] = {}
        self.title = self.app.title  # the page's name
        # what the page suggests to a first-time visitor
        self.guide: Callable[[World], Json] | None = None
        self.seq = 0
        self.watchers: list[Callable[[int, frozenset[str] | None], None]] = []
        self.send: Callable[[Delivery], None] = self.deliveries.append
        # whether an acknowledgement got lost on its way
        self.loses_ack: Callable[[Delivery], bool] = lambda _: False
        self._last_micros = 0
        self._counter = 0

    # time and names

    def now(self) -> float:
        """The sandbox's time, Unix seconds."""
        return self.clock.now().timestamp()

    def next_ts(self) -> str:
        """Return a new message id from the clock, greater than every earlier one."""
        self._last_micros = max(int(self.now() * 1_000_000), self._last_micros + 1)
        return f"{self._last_micros // 1_000_000}.{self._last_micros % 1_000_000:06d}"

    def new_id(self, prefix: str) -> str:
        """An id that no other thing has: the prefix, then capital letters and digits."""
        self._counter += 1
        return f"{prefix}0{self._counter:08X}"

    def new_response_url(self, app: App, channel: str, ts: str, user: str) -> str:
        """An address for the app's answers to an interaction with that message."""
        token = secrets.token_hex(12)
        self.response_urls[token] = ResponseUrl(channel, ts, user, app.id, self.now() + 1800)
        return f"{self.url}/actions/{TEAM}/{token}"

    def new_trigger(self, app: App, user: str, view_id: str = "", channel_id: str = "") -> str:
        """A trigger for that user's action with the app, good for three seconds and one use.

        `view_id` is the view and `channel_id` the conversation that they are looking at, "" when
        at none.
        """
        numbers = f"{secrets.randbelow(10**13)}.{secrets.randbelow(10**12)}"
        trigger_id = f"{numbers}.{secrets.token_hex(16)}"
        self.triggers[trigger_id] = Trigger(user, app.id, time.monotonic(), view_id, channel_id)
        return trigger_id

    # apps

    def install(self, manifest: Json) -> App:
        """One more app, in no channel yet."""
        app = new_app(manifest, len(self.apps) + 1)
        self.apps[app.id] = app
        return app

    @property
    def app(self) -> App:
        """The first app."""
        return next(iter(self.apps.values()))

    def app_of_bot(self, user: str) -> App | None:
        """The app whose bot has that user id, or None."""
        return next((app for app in self.apps.values() if app.bot_user == user), None)

    def app_of_token(self, token: str) -> App | None:
        """The app that has this bot token or app-level token, or None."""
        return next((app for app in self.apps.values() if app.has(token)), None)

    def app_of_client(self, client_id: str) -> App | None:
        """The app of that client id, or None."""
        return next((app for app in self.apps.values() if app.client_id == client_id), None)

    def app_of_dm(self, channel: Channel) -> App:
        """The app that a DM is with; ValueError for another kind of conversation."""
        for app in self.apps.values():
            if channel.kind == "im" and app.bot_user in channel.members:
                return app
        raise ValueError(f"{channel.id} is no DM with an app")

    # finding

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
        channel_id = f"D{user[1:]}" if app is self.app else f"D{app.bot_user[1:]}{user[1:]}"
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
        """What was posted under `root`, oldest first, ephemeral messages left out."""
        stored = self.messages.get(channel_id, {}).values()
        return [
            m
            for m in stored  # asked often, in channels with thousands of them
            if m.body.get("thread_ts") == root and m.body["ts"] != root and not m.only_for
        ]

    def visible(self, user: str, channel: Channel) -> list[Message]:
        """Return what that person sees in the channel, replies too, oldest first.

        Their own ephemeral messages are included.
        """
        person = self.by_id[user]
        open_to_all = (
            channel.kind == "channel" and not person.is_restricted and person.team_id == TEAM
        )
        if user not in channel.members and not open_to_all:
            return []
        return [m for m in self.messages.get(channel.id, {}).values() if m.only_for in ("", user)]

    def unread(self, user: str, channel: Channel) -> int:
        """How many messages of others came into the channel since that person last opened it."""
        since = self.last_read.get((user, channel.id), "")
        return sum(
            1 for m in self.visible(user, channel) if m.ts > since and m.body.get("user") != user
        )

    def read(self, user: str, channel: Channel) -> None:
        """That person has the channel open now."""
        self.last_read[user, channel.id] = self.next_ts()

    # waking

    def touch(self, audience: Iterable[str] | None = None) -> None:
        """Count a change and wake who waits.

        `audience` are the user ids who can see it (None: everyone).
        """
        with self.lock:
            self.seq += 1
            seen_by = None if audience is None else frozenset(audience)
            for watcher in list(self.watchers):
                watcher(self.seq, seen_by)
            self.condition.notify_all()

    def dump(self) -> str:
        """What there is, for a person who reads a failed test."""
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
