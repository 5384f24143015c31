"""What is put on messages and channels: reactions.*, pins.*, and what the page shows of it.

Reactions and pins live in the message's body, as Slack shows them. Called with the world's lock
held.
"""

from __future__ import annotations

import re

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import bookmarks, reactions
from slack_sandbox.web_api.arguments import Args, page
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

MAX_PINS = 100  # in one channel
_TS = re.compile(r"\d{1,12}\.\d{6}")


def message_of(world: World, args: Args) -> Message:
    """The message that `channel` and `timestamp` name, in a conversation that the app may see."""
    if not args.has("channel") or not args.text("timestamp"):
        raise SlackError("no_item_specified")
    channel = world.seen_by(args.app, args.text("channel"))
    timestamp = args.text("timestamp")
    if not _TS.fullmatch(timestamp):
        raise SlackError("bad_timestamp")
    message = world.find(channel.id, timestamp)
    if message is None:
        raise SlackError("message_not_found")
    return message


# reactions


def add_reaction(world: World, args: Args) -> Json:
    """reactions.add: in public channels also where the app is no member."""
    message = message_of(world, args)
    reactions.react(world, message, args.app.bot_user, args.text("name").strip(":"))
    return {}


def remove_reaction(world: World, args: Args) -> Json:
    """reactions.remove: the app's own."""
    name = args.text("name").strip(":")
    if args.has("file") or args.has("file_comment"):
        raise SlackError("file_not_found")  # only messages can have reactions
    reactions.unreact(world, message_of(world, args), args.app.bot_user, name)
    return {}


def _shown(world: World, args: Args, message: Message) -> Json:
    shown = messages.show(world, message, args.app.bot_user)
    return {"type": "message", "channel": message.channel, "message": shown}


def get_reactions(world: World, args: Args) -> Json:
    """reactions.get: the message with its reactions."""
    if args.has("file") or args.has("file_comment"):
        raise SlackError("file_not_found")
    return _shown(world, args, message_of(world, args))


def list_reactions(world: World, args: Args) -> Json:
    """reactions.list: the messages that a user (else the app itself) reacted to, newest first."""
    user = args.text("user") or args.app.bot_user
    if user not in world.by_id and world.app_of_bot(user) is None:
        raise SlackError("user_not_found")
    found = [
        message
        for channel in world.channels.values()
        if args.app.bot_user in channel.members
        for message in world.messages.get(channel.id, {}).values()
        if any(user in each["users"] for each in message.body.get("reactions", []))
    ]
    shown, cursor = page(sorted(found, key=lambda message: message.ts, reverse=True), args)
    items = [_shown(world, args, message) for message in shown]
    return {"items": items, "response_metadata": {"next_cursor": cursor}}


# pins


def pinned(world: World, channel: Channel) -> list[Message]:
    """The pinned messages of a channel, the latest pinned first."""
    stored = world.messages.get(channel.id, {}).values()
    found = [message for message in stored if message.body.get("pinned_to")]
    return sorted(found, key=lambda message: message.body["pinned_info"]["pinned_ts"], reverse=True)


def add_pin(world: World, args: Args) -> Json:
    """pins.add."""
    message = message_of(world, args)
    channel = world.channels[message.channel]
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    if message.body.get("pinned_to"):
        raise SlackError("already_pinned")
    if message.body.get("subtype") == "tombstone":
        raise SlackError("not_pinnable")
    if len(pinned(world, channel)) >= MAX_PINS:
        raise SlackError("too_many_pins")
    info = {"channel": channel.id, "pinned_by": args.app.bot_user, "pinned_ts": int(world.now())}
    message.body |= {"pinned_to": [channel.id], "pinned_info": info}
    _pin_event(world, "pin_added", args.app.bot_user, message)
    return {}


def remove_pin(world: World, args: Args) -> Json:
    """pins.remove: whoever pinned it."""
    message = message_of(world, args)
    if args.app.bot_user not in world.channels[message.channel].members:
        raise SlackError("channel_not_found")
    if not message.body.get("pinned_to"):
        raise SlackError("no_pin")
    del message.body["pinned_to"], message.body["pinned_info"]
    _pin_event(world, "pin_removed", args.app.bot_user, message)
    return {}


def _pin_event(world: World, kind: str, user: str, message: Message) -> None:
    channel = world.channels[message.channel]
    item: Json = {
        "type": "message",
        "channel": channel.id,
        "message": dict(message.body),
        "created": int(world.now()),
    }
    event: Json = {
        "type": kind,
        "user": user,
        "channel_id": channel.id,
        "item": item | {"created_by": user},
    }
    if kind == "pin_removed":
        event["has_pins"] = bool(pinned(world, channel))
    events.emit_members(world, event, channel)
    world.touch(messages.audience(channel))


def list_pins(world: World, args: Args) -> Json:
    """pins.list: the latest pinned first."""
    channel = world.seen_by(args.app, args.text("channel"))
    items = []
    for message in pinned(world, channel):
        info = message.body["pinned_info"]
        when_and_who: Json = {"created": info["pinned_ts"], "created_by": info["pinned_by"]}
        items.append(_shown(world, args, message) | when_and_who)
    return {"items": items}


def channel_extras(world: World, channel: Channel) -> Json:
    """Return what the page shows of a channel besides its name and members."""
    return {
        "purpose": channel.purpose,
        "connected_team_ids": channel.connected(world.team),
        "pins": [message.ts for message in pinned(world, channel)],
        "bookmarks": bookmarks.of(world, channel),
    }


METHODS = {
    "reactions.add": add_reaction,
    "reactions.get": get_reactions,
    "reactions.list": list_reactions,
    "reactions.remove": remove_reaction,
    "pins.add": add_pin,
    "pins.list": list_pins,
    "pins.remove": remove_pin,
}
