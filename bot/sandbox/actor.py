"""A person in the local Slack, as tests and the page use them: what they can see and do, and nothing else.

Every method may be called from any thread.
"""

from __future__ import annotations

import copy
from typing import Any

from bot.sandbox import events, interact, messages, views
from bot.sandbox.apps import App
from bot.sandbox.messages import Draft
from bot.sandbox.people import Channel
from bot.sandbox.records import Delivery
from bot.sandbox.state import World
from bot.sandbox.text import typed
from bot.sandbox.wire import Json


class Actor:
    """One person, acting."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.person = world.people[name]
        self.id, self.name = self.person.id, name

    def _channel(self, name_or_id: str) -> Channel:
        channel = self._world.channel(name_or_id)
        if not self._world.visible(self.id, channel) and self.id not in channel.members and channel.kind != "channel":
            raise ValueError(f"{self.name} does not see {name_or_id}")
        return channel

    def _token(self, name: str) -> str | None:
        """What Slack makes of "@name" or "#name" while someone types."""
        world, word = self._world, name[1:].lower()
        if name.startswith("#"):
            found = next((c for c in world.channels.values() if c.name == word and c.kind == "channel"), None)
            return f"<#{found.id}|{found.name}>" if found else None
        app = world.app if word == "bot" else next((a for a in world.apps.values() if a.name == word), None)
        if app:
            return f"<@{app.bot_user}>"
        if word in world.people:
            return f"<@{world.people[word].id}>"
        if word in world.groups:
            return f"<!subteam^{world.groups[word].id}>"
        return f"<!{word}>" if word in ("here", "channel", "everyone") else None

    # talking

    def say(self, channel: str, text: str, thread_ts: str | None = None) -> str:
        """Post a message; "@bot", "@ana", "@shop-leads", "#general", links and addresses become what Slack makes
        of them. Returns its ts; ValueError where this person cannot post."""
        with self._world.lock:
            place = self._channel(channel)
            if self.id not in place.members or self.person.deleted or place.is_archived:
                raise ValueError(f"{self.name} cannot post in {channel}")
            draft = Draft(place, self.id, typed(text, self._token), thread_ts=thread_ts or "")
            return messages.add(self._world, draft).ts

    def dm(self, text: str, thread_ts: str | None = None) -> str:
        """Post in the DM with the first app; returns the message's ts."""
        return self.say(self.dm_channel, text, thread_ts)

    @property
    def dm_channel(self) -> str:
        """The id of this person's DM with the first app."""
        with self._world.lock:
            return self._world.dm(self.id).id

    def open_dm(self, app: App | None = None) -> None:
        """Open the Messages tab of the DM with the app (None: the first one), which sends app_home_opened."""
        with self._world.lock:
            app = app or self._world.app
            channel = self._world.dm(self.id, app)
            event = {"type": "app_home_opened", "user": self.id, "channel": channel.id, "tab": "messages"}
            events.emit(self._world, app, event, channel)
            self._world.touch([self.id])

    # seeing

    def messages(self, channel: str, thread_ts: str | None = None) -> list[Json]:
        """The channel's own messages (without replies in threads), or one thread with its root, oldest first.

        Ephemeral messages for this person are among them, with `is_ephemeral`.
        """
        with self._world.lock:
            seen = self._world.visible(self.id, self._channel(channel))
            if thread_ts is None:
                top = [m for m in seen if m.root == m.ts or m.body.get("subtype") == "thread_broadcast"]
                return [messages.seen(self._world, m) for m in top]
            return [messages.seen(self._world, m) for m in seen if m.root == thread_ts]

    def everything(self, channel: str) -> list[Json]:
        """All that this person sees in the channel, replies in threads included, oldest first."""
        with self._world.lock:
            return [messages.seen(self._world, m) for m in self._world.visible(self.id, self._channel(channel))]

    def notifications(self) -> list[Json]:
        """What Slack would have notified this person of: {channel, ts, thread_ts, text, at}, oldest first."""
        with self._world.lock:
            return copy.deepcopy(self._world.notes.get(self.id, []))

    def view(self) -> Json | None:
        """The modal on top of this person's screen, with what is typed in it, or None."""
        with self._world.lock:
            stack = self._world.stacks.get(self.id, [])
            return views.with_state(stack[-1]) if stack else None

    # clicking

    def click(
        self,
        channel: str,
        message_ts: str,
        action_id: str,
        block_id: str | None = None,
        value: str | None = None,
        selected: Any = None,
        seen: Json | None = None,
    ) -> Delivery:
        """Use an element of a visible message, confirmation included; returns at once with the delivery.

        `value` picks among buttons of one action_id and is what is typed into inputs; `selected` is an option's value
        or an id. `seen` is an older copy of the message, for a click on what is no longer there. ValueError when
        there is no such element.
        """
        world = self._world
        with world.lock:
            channel_id = world.channel(channel).id
            shown = seen
            if shown is None:
                visible = world.visible(self.id, world.channels[channel_id])
                shown = next((messages.seen(world, m) for m in visible if m.ts == message_ts), None)
            if shown is None:
                raise ValueError(f"{self.name} sees no message {message_ts} in {channel}")
            found = interact.find_element(shown.get("blocks", []), action_id, block_id, value, self.id)
            chosen = interact.selection(found[1], value, selected)
            return interact.click(world, self.id, shown, channel_id, found, chosen)

    def click_view(
        self, action_id: str, block_id: str | None = None, value: str | None = None, selected: Any = None
    ) -> Delivery:
        """Use an element of the top modal; returns at once with the delivery. ValueError when it is not there."""
        with self._world.lock:
            view = interact.top(self._world, self.id)
            found = interact.find_element(view.body["blocks"], action_id, block_id, value, self.id)
            chosen = interact.selection(found[1], value, selected)
            return interact.click_view(self._world, view, found, chosen)

    def submit(self, values: Json | None = None) -> Json:
        """Submit the top modal with these element states typed in; waits for the outcome.

        {"outcome": "closed" | "errors" | "updated" | "pushed" | "timeout" | "invalid", "errors": {block_id: text},
        "message": what Slack would say}. "invalid" is an answer of the app that Slack would not take.
        """
        return interact.submit(self._world, self.id, None, values or {})

    def close_view(self, everything: bool = False) -> None:
        """Close the top modal with its Cancel, or all of them with the ×."""
        interact.close_view(self._world, self.id, None, everything=everything)

    def stop_agent(self, channel: str, thread_ts: str) -> Delivery | None:
        """Press Slack's Stop in a thread; None when the app does not subscribe to agent_session_stopped."""
        return interact.stop_agent(self._world, self.id, self._world.channel(channel).id, thread_ts)
