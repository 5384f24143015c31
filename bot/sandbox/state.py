"""The state of the local Slack, guarded by one lock, with a counter and a condition for those who wait on it.

It holds and finds things; it knows no method, event or socket. Hold `world.lock` around every use of its fields.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from typing import Any

from bot.clock import ShiftedClock
from bot.sandbox.people import BOT_USER, TEAM, Channel, Group, Person, Seed
from bot.sandbox.records import ApiCall, Delivery, Message, ResponseUrl, Status, Trigger, View
from bot.sandbox.wire import Json, SlackError


class World:
    """Everything the local Slack knows."""

    def __init__(self, manifest: Json, clock: ShiftedClock, seed: Seed) -> None:
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self.manifest, self.clock = manifest, clock
        self.url = ""
        self.revoked = False  # the bot token is no longer good
        self.ack_seconds = 3.0  # Slack's limit for acknowledgements, and the life of a trigger
        self.bot_token, self.app_token = "xoxb-sandbox-bot", "xapp-1-sandbox-app"
        self.people: dict[str, Person] = {person.name: person for person in seed.people}
        self.by_id: dict[str, Person] = {person.id: person for person in seed.people}
        self.channels: dict[str, Channel] = {channel.id: channel for channel in seed.channels}
        self.groups: dict[str, Group] = {group.handle: group for group in seed.groups}
        self.messages: dict[str, dict[str, Message]] = {}
        self.deliveries: list[Delivery] = []
        self.requests: list[ApiCall] = []
        self.statuses: dict[tuple[str, str], Status] = {}
        self.prompts: dict[str, list[Json]] = {}
        self.sessions: dict[tuple[str, str], Json] = {}
        self.triggers: dict[str, Trigger] = {}
        self.stacks: dict[str, list[View]] = {}
        self.notes: dict[str, list[Json]] = {}
        self.scheduled: dict[str, Json] = {}
        self.last_read: dict[tuple[str, str], str] = {}  # (user id, channel id) -> ts
        self.response_urls: dict[str, ResponseUrl] = {}
        self.seq = 0
        self.watchers: list[Callable[[int, frozenset[str] | None], None]] = []
        self.send: Callable[[Delivery], None] = self.deliveries.append
        self._last_micros = 0
        self._counter = 0

    # time and names

    def now(self) -> float:
        """The sandbox's time, Unix seconds."""
        return self.clock.now().timestamp()

    def next_ts(self) -> str:
        """A new message id from the clock: never the same twice, never smaller than an earlier one."""
        self._last_micros = max(int(self.now() * 1_000_000), self._last_micros + 1)
        return f"{self._last_micros // 1_000_000}.{self._last_micros % 1_000_000:06d}"

    def new_id(self, prefix: str) -> str:
        """An id that no other thing has: the prefix, then capital letters and digits."""
        self._counter += 1
        return f"{prefix}0{self._counter:08X}"

    def new_response_url(self, channel: str, ts: str, user: str) -> str:
        """An address for answers to an interaction with that message."""
        token = secrets.token_hex(12)
        self.response_urls[token] = ResponseUrl(channel, ts, user, self.now() + 1800)
        return f"{self.url}/actions/{TEAM}/{token}"

    # the manifest

    @property
    def scopes(self) -> frozenset[str]:
        """The bot scopes that the app was given."""
        return frozenset(self.manifest.get("oauth_config", {}).get("scopes", {}).get("bot", []))

    @property
    def subscriptions(self) -> frozenset[str]:
        """The bot events that the app asked for."""
        return frozenset(self.manifest.get("settings", {}).get("event_subscriptions", {}).get("bot_events", []))

    @property
    def bot_name(self) -> str:
        """The bot's user name."""
        name = self.manifest.get("features", {}).get("bot_user", {}).get("display_name", "countersign")
        return str(name).lower()

    @property
    def agent_view(self) -> Json | None:
        """The manifest's agent_view, or None where the app is no agent."""
        view: Json | None = self.manifest.get("features", {}).get("agent_view")
        return view

    # finding

    def channel(self, name_or_id: str) -> Channel:
        """The channel of that id or name (with or without #); ValueError when there is none."""
        wanted = name_or_id.removeprefix("#")
        for channel in self.channels.values():
            if wanted in (channel.id, channel.name):
                return channel
        raise ValueError(f"there is no channel {name_or_id}")

    def seen_by_bot(self, channel_id: str) -> Channel:
        """The channel, as far as the bot may know of it; SlackError(channel_not_found) otherwise."""
        channel = self.channels.get(channel_id)
        if channel is None or (channel.kind != "channel" and BOT_USER not in channel.members):
            raise SlackError("channel_not_found")
        return channel

    def dm(self, user: str) -> Channel:
        """The DM between the bot and that user id, made on first use."""
        channel_id = f"D{user[1:]}"
        if channel_id not in self.channels:
            self.channels[channel_id] = Channel(channel_id, "", "im", [user, BOT_USER], created=int(self.now()))
        return self.channels[channel_id]

    def find(self, channel_id: str, ts: str) -> Message | None:
        """The message that methods can address, or None (also for an ephemeral one)."""
        message = self.messages.get(channel_id, {}).get(ts)
        return None if message is None or message.only_for else message

    def replies(self, channel_id: str, root: str) -> list[Message]:
        """What was posted under `root`, oldest first, ephemeral messages left out."""
        stored = self.messages.get(channel_id, {}).values()
        return [m for m in stored if m.root == root and m.ts != root and not m.only_for]

    def visible(self, user: str, channel: Channel) -> list[Message]:
        """What that person sees in the channel, oldest first, replies and own ephemeral messages included."""
        person = self.by_id[user]
        open_to_all = channel.kind == "channel" and not person.is_restricted and person.team_id == TEAM
        if user not in channel.members and not open_to_all:
            return []
        return [m for m in self.messages.get(channel.id, {}).values() if m.only_for in ("", user)]

    def unread(self, user: str, channel: Channel) -> int:
        """How many messages of others came into the channel since that person last opened it."""
        since = self.last_read.get((user, channel.id), "")
        return sum(1 for m in self.visible(user, channel) if m.ts > since and m.body.get("user") != user)

    def read(self, user: str, channel: Channel) -> None:
        """That person has the channel open now."""
        self.last_read[user, channel.id] = self.next_ts()

    # waking

    def touch(self, audience: Iterable[str] | None = None) -> None:
        """Count a change and wake who waits; `audience` are the user ids who can see it (None: everyone)."""
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
                    lines.append(f"{channel_id} {m.ts} in {m.root} {m.body.get('user')}{who}: {m.body['text'][:200]!r}")
            lines += [f"status {s.channel}/{s.thread_ts}: {s.status}" for s in self.statuses.values()]
            lines += [f"view {v.id} of {v.user}: {v.body['callback_id']}" for s in self.stacks.values() for v in s]
            for d in self.deliveries[-12:]:
                what = d.event.get("type") or d.payload.get("type")
                lines.append(f"{d.kind} {what}: {d.outcome}, attempts {d.attempts}")
            for call in self.requests[-12:]:
                answer = call.response or {}
                error = answer.get("error", "ok" if answer else "connection cut")
                details: Any = answer.get("response_metadata", "") if error != "ok" else ""
                lines.append(f"{call.method}: {call.status} {error} {details}")
            return "\n  ".join(lines)
