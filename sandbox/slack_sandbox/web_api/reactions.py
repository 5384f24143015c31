"""Reactions on messages, by people and by apps alike, with the events that follow.

It knows messages and events, no Web API and no page; the caller has made sure that the user sees
the message.
"""

from __future__ import annotations

import re

from slack_sandbox.spec.emoji import EMOJI
from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

MAX_EMOJI_PER_MESSAGE = 50  # different emoji
MAX_EMOJI_PER_PERSON = 23  # of one person on one message
_NAME = re.compile(r"([a-z0-9_+-]{1,100})(::skin-tone-[2-6])?")


def react(world: World, message: Message, user: str, name: str) -> None:
    """Add the reaction `name` (an emoji's name without colons) of that user id to a stored message.

    Slack keeps them on the message as [{"name", "users", "count"}], oldest first.
    SlackError(invalid_name, already_reacted, too_many_emoji, too_many_reactions or is_archived).
    Called with the world's lock held.
    """
    found = _NAME.fullmatch(name)
    if found is None or found[1] not in EMOJI:
        raise SlackError("invalid_name")
    if world.channels[message.channel].is_archived:
        raise SlackError("is_archived")
    there: list[Json] = message.body.setdefault("reactions", [])
    entry = next((each for each in there if each["name"] == name), None)
    if entry is not None and user in entry["users"]:
        raise SlackError("already_reacted")
    if sum(user in each["users"] for each in there) >= MAX_EMOJI_PER_PERSON:
        raise SlackError("too_many_reactions")
    if entry is None:
        if len(there) >= MAX_EMOJI_PER_MESSAGE:
            raise SlackError("too_many_emoji")
        entry = {"name": name, "users": [], "count": 0}
        there.append(entry)
    entry["users"].append(user)
    entry["count"] += 1
    _tell(world, "reaction_added", message, user, name)


def unreact(world: World, message: Message, user: str, name: str) -> None:
    """Take that user's reaction away again; SlackError(no_reaction) when it is not there.

    Called with the lock held.
    """
    there: list[Json] = message.body.get("reactions", [])
    entry = next((each for each in there if each["name"] == name and user in each["users"]), None)
    if entry is None:
        raise SlackError("no_reaction")
    entry["users"].remove(user)
    entry["count"] -= 1
    if not entry["users"]:
        there.remove(entry)
    if not there:
        del message.body["reactions"]
    _tell(world, "reaction_removed", message, user, name)


def _tell(world: World, kind: str, message: Message, user: str, name: str) -> None:
    channel = world.channels[message.channel]
    event: Json = {
        "type": kind,
        "user": user,
        "reaction": name,
        "item_user": message.body.get("user", ""),
        "item": {"type": "message", "channel": channel.id, "ts": message.ts},
    }
    events.emit_members(world, event, channel)
    world.touch(messages.audience(channel))
