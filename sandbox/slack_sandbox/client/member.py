"""A person as a member of the workspace: where they are, what they write, change and react to.

The half of `Actor` that has nothing to do with apps. Every method may be called from any thread.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping

from slack_sandbox.blockkit.text import typed
from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import assistants, conversations_admin, file_store, reactions
from slack_sandbox.workspace import choices, events, messages
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.people import MANAGER_FIELD, Channel
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

MAX_STATUS_CHARS = 100
_EMOJI = re.compile(r":[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?:")
_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9])"
_HOURS = re.compile(rf"{_TIME}-{_TIME}")


class Member:
    """One person as a member of the workspace."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.person = world.people[name]
        self.id, self.name = self.person.id, name

    def _channel(self, name_or_id: str) -> Channel:
        """The channel, if this person may know of it; ValueError else."""
        channel = self._world.channel(name_or_id)
        if channel.kind != "channel" and self.id not in channel.members:
            raise ValueError(f"{self.name} does not see {name_or_id}")
        return channel

    def _member_of(self, name_or_id: str) -> Channel:
        """The channel, if this person can write there; ValueError else."""
        channel = self._channel(name_or_id)
        if self.id not in channel.members or self.person.deleted or channel.is_archived:
            raise ValueError(f"{self.name} cannot post in {name_or_id}")
        return channel

    def _message(self, channel: Channel, ts: str) -> Message:
        message = self._world.find(channel.id, ts)
        if message is None:
            raise ValueError(f"{self.name} sees no message {ts} in {channel.id}")
        return message

    def _token(self, name: str) -> str | None:
        """Return the token into which Slack turns "@name" or "#name" as this person types, or None.

        The token of a private channel has no name.
        """
        world, word = self._world, name[1:].lower()
        if name.startswith("#"):
            named = (
                c
                for c in world.channels.values()
                if c.name == word and choices.sees(world, self.id, c)
            )
            channel = next(named, None)
            return (
                f"<#{channel.id}|{channel.name if channel.kind == 'channel' else ''}>"
                if channel
                else None
            )
        app = (
            world.app
            if word == "bot"
            else next((a for a in world.known_apps if a.name == word), None)
        )
        if app:
            return f"<@{app.bot_user}>"
        if word in world.people:
            return f"<@{world.people[word].id}>"
        if word in world.groups:
            return f"<!subteam^{world.groups[word].id}>"
        return f"<!{word}>" if word in ("here", "channel", "everyone") else None

    # writing

    def say(self, channel: str, text: str, thread_ts: str | None = None) -> str:
        """Post a message and return its ts; ValueError if this person cannot post.

        "@bot", "@ana", "@shop-leads", "#general", links and addresses become what Slack makes of
        them.
        """
        with self._world.lock:
            return messages.add(self._world, self._draft(channel, text, thread_ts)).ts

    def share(
        self, channel: str, text: str, files: Mapping[str, bytes], thread_ts: str | None = None
    ) -> str:
        """Post a message with files, whose bytes are given by their names; as `say` does."""
        with self._world.lock:
            draft = self._draft(channel, text, thread_ts)
            shared = [
                file_store.uploaded(self._world, name, self.id, data)
                for name, data in files.items()
            ]
            return file_store.share(self._world, shared, draft).ts

    def _draft(self, channel: str, text: str, thread_ts: str | None) -> Draft:
        place = self._member_of(channel)
        root = assistants.latest(self._world, place)
        thread_ts = thread_ts or (root.ts if root else "")
        return Draft(place, self.id, typed(text, self._token), thread_ts=thread_ts)

    def files_of(self, channel: str, ts: str) -> list[Json]:
        """Return the files of a message that this person sees, as the message has them."""
        with self._world.lock:
            files: list[Json] = self._message(self._channel(channel), ts).body.get("files", [])
            return copy.deepcopy(files)

    def delete_file(self, file_id: str) -> None:
        """Delete one's own file: its messages keep a tombstone; ValueError for anyone else's."""
        with self._world.lock:
            file = self._world.files.get(file_id)
            if file is None or file.user != self.id or file.deleted:
                raise ValueError(f"{file_id} is not a file of {self.name}")
            file_store.delete(self._world, file)

    def edit(self, channel: str, ts: str, text: str) -> None:
        """Give one's own message another text; ValueError for anyone else's."""
        with self._world.lock:
            message = self._own(channel, ts)
            messages.edit(
                self._world,
                message,
                text=typed(text, self._token),
                blocks=[],
                by=self.id,
                marked=True,
            )

    def delete(self, channel: str, ts: str) -> None:
        """Delete one's own message; ValueError for anyone else's."""
        with self._world.lock:
            messages.remove(self._world, self._own(channel, ts))

    def _own(self, channel: str, ts: str) -> Message:
        message = self._message(self._member_of(channel), ts)
        if message.body.get("user") != self.id or message.body.get("subtype") not in (
            None,
            "file_share",
            "thread_broadcast",
        ):
            raise ValueError(f"{ts} is not a message of {self.name}")
        return message

    def react(self, channel: str, ts: str, name: str) -> None:
        """Add a reaction (an emoji's name without colons); ValueError if Slack refuses it."""
        self._reaction(reactions.react, channel, ts, name)

    def unreact(self, channel: str, ts: str, name: str) -> None:
        """Take one's own reaction away; ValueError (no_reaction) when there is none."""
        self._reaction(reactions.unreact, channel, ts, name)

    def _reaction(
        self, change: Callable[[World, Message, str, str], None], channel: str, ts: str, name: str
    ) -> None:
        with self._world.lock:
            message = self._message(self._member_of(channel), ts)
            try:
                change(self._world, message, self.id, name)
            except SlackError as error:
                raise ValueError(error.code) from None

    def set_status(self, emoji: str = "", text: str = "", until: int = 0) -> None:
        """Show an emoji (":palm_tree:") and a text beside one's name; without both, clear them.

        `until`: Unix seconds, 0 for good. Apps get user_change. ValueError for what Slack's client
        does not take.
        """
        with self._world.lock:
            if emoji and not _EMOJI.fullmatch(emoji):
                raise ValueError(f"{emoji!r} is not an emoji; write it as :palm_tree:")
            if len(text) > MAX_STATUS_CHARS:
                raise ValueError(f"a status has at most {MAX_STATUS_CHARS} characters")
            if until and until <= self._world.now():
                raise ValueError("a status ends in the future")
            if self.person.deleted:
                raise ValueError(f"{self.name} is deactivated")
            self.person.status_emoji = emoji or (":speech_balloon:" if text else "")
            self.person.status_text = text
            self.person.status_expiration = until if emoji or text else 0
            self.person.updated = int(self._world.now())
            events.user_changed(self._world, self.id)
            self._world.touch()

    def set_do_not_disturb(self, until: int = 0, hours: str = "") -> None:
        """Pause one's notifications `until` then (Unix seconds), or in the `hours` of every day.

        `hours`: "22:00-07:00" in one's time zone. Without both, nothing is paused any more.
        ValueError for what Slack's client does not take.
        """
        with self._world.lock:
            now, found = int(self._world.now()), _HOURS.fullmatch(hours)
            if until and until <= now:
                raise ValueError("a pause ends in the future")
            if hours and not found:
                raise ValueError(f"{hours!r} are not hours; write them as 22:00-07:00")
            at = [int(part) for part in found.groups()] if found else []
            quiet = (at[0] * 60 + at[1], at[2] * 60 + at[3]) if at else None
            if quiet and quiet[0] == quiet[1]:
                raise ValueError("the hours must not end when they begin")
            self.person.paused = (now, until) if until else None
            self.person.quiet_hours = quiet
            self._world.touch()

    def set_manager(self, *names: str) -> None:
        """Name people of the sandbox in the profile field "Manager"; clear it if none are given."""
        with self._world.lock:
            value = ",".join(self._world.people[name].id for name in names)
            self.person.fields = {MANAGER_FIELD: value} if value else {}
            self.person.updated = int(self._world.now())
            events.user_changed(self._world, self.id)
            self._world.touch()

    # membership and presence in channels

    def join(self, channel: str) -> None:
        """Come into a public channel; ValueError if this person cannot."""
        with self._world.lock:
            place = self._channel(channel)
            if (
                not choices.sees(self._world, self.id, place)
                or place.is_archived
                or self.person.deleted
            ):
                raise ValueError(f"{self.name} cannot join {channel}")
            if self.id in place.members:
                raise ValueError(f"{self.name} is in {channel} already")
            conversations_admin.add_member(self._world, place, self.id)

    def leave(self, channel: str) -> None:
        """Leave a channel; ValueError for #general, DMs, and where this person is not."""
        with self._world.lock:
            place = self._channel(channel)
            if (
                self.id not in place.members
                or place.kind in ("im", "mpim")
                or place.name == "general"
            ):
                raise ValueError(f"{self.name} cannot leave {channel}")
            messages.post_system(
                self._world, place, self.id, "channel_leave", f"<@{self.id}> has left the channel"
            )
            place.members.remove(self.id)
            events.member_event(self._world, "member_left_channel", self.id, place)
            self._world.touch()

    def read(self, channel: str) -> None:
        """Open a channel: all that is in it counts as read."""
        with self._world.lock:
            self._world.read(self.id, self._channel(channel))
            self._world.touch([self.id])

    # reading

    def messages(self, channel: str, thread_ts: str | None = None) -> list[Json]:
        """Return a channel's own messages, or one thread with its root, oldest first.

        Ephemeral messages for this person are among them, with `is_ephemeral`.
        """
        with self._world.lock:
            seen = self._world.visible(self.id, self._channel(channel))
            if thread_ts is None:
                top = [
                    m for m in seen if m.root == m.ts or m.body.get("subtype") == "thread_broadcast"
                ]
                return [messages.seen(self._world, m) for m in top]
            return [messages.seen(self._world, m) for m in seen if m.root == thread_ts]

    def everything(self, channel: str) -> list[Json]:
        """Return all messages that this person sees in the channel, also replies, oldest first."""
        with self._world.lock:
            return [
                messages.seen(self._world, m)
                for m in self._world.visible(self.id, self._channel(channel))
            ]

    def notifications(self) -> list[Json]:
        """Return what Slack would have notified this person of, oldest first.

        Each is {channel, ts, thread_ts, text, at}.
        """
        with self._world.lock:
            return copy.deepcopy(self._world.notes.get(self.id, []))
