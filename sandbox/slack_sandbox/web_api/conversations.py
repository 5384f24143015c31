"""conversations.*: finding, opening and making conversations, and who is in them.

Changes to existing channels have their own file, and so has reading messages. Called with the
world's lock held.
"""

from __future__ import annotations

import re

from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api import conversations_admin, history, scopes
from slack_sandbox.web_api.arguments import Args, page
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.api_objects import channel_json
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.state import World

MAX_GROUP_DM_MEMBERS = 8
_KINDS = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}


def _readable(world: World, args: Args, method: str) -> Channel:
    channel = world.seen_by(args.app, args.text("channel"))
    scopes.require(args.app, method, channel)
    return channel


def open_dm(world: World, args: Args) -> Json:
    """conversations.open: the DM with one person, or a group DM with up to eight."""
    there = set(world.channels)
    if args.has("channel"):
        channel = world.seen_by(args.app, args.text("channel"))
        if channel.kind not in ("im", "mpim"):
            raise SlackError("method_not_supported_for_channel_type")
    else:
        channel = _with_users(world, args)
    scopes.require(args.app, "conversations.open", channel)
    extra: Json = (
        {"no_op": True, "already_open": True} if channel.id in there and channel.is_open else {}
    )
    channel.is_open = True
    shown = channel_json(channel, args.app) if args.flag("return_im") else {"id": channel.id}
    return {"channel": shown, **extra}


def _with_users(world: World, args: Args) -> Channel:
    users = list(dict.fromkeys(user for user in args.names("users") if user != args.app.bot_user))
    if not users:
        raise SlackError(
            "users_list_not_supplied" if not args.names("users") else "invalid_user_combination"
        )
    for user in users:
        if user not in world.by_id:
            raise SlackError("user_not_found")
        if world.by_id[user].deleted:
            raise SlackError("user_disabled")
    scopes.require(
        args.app, "conversations.open", Channel("", "", "im" if len(users) == 1 else "mpim")
    )
    if len(users) == 1:
        return world.dm(users[0], args.app)
    if len(users) > MAX_GROUP_DM_MEMBERS:
        raise SlackError("too_many_users")
    members = [*users, args.app.bot_user]
    for channel in world.channels.values():
        if channel.kind == "mpim" and set(channel.members) == set(members):
            return channel
    if args.flag("prevent_creation"):
        raise SlackError("channel_not_found")
    name = "mpdm-" + "--".join(world.by_id[user].name for user in users) + "-1"
    channel = Channel(
        world.new_id("C"),
        name,
        "mpim",
        members,
        creator=args.app.bot_user,
        created=int(world.now()),
    )
    world.channels[channel.id] = channel
    return channel


def info(world: World, args: Args) -> Json:
    """conversations.info."""
    channel = _readable(world, args, "conversations.info")
    body = channel_json(channel, args.app)
    if args.flag("include_num_members"):
        body["num_members"] = len(channel.members)
    if args.flag("include_locale"):
        body["locale"] = "en-GB"
    if channel.kind in ("im", "mpim"):
        body["last_read"] = world.last_read.get(
            (args.app.bot_user, channel.id), "0000000000.000000"
        )
    return {"channel": body}


def members(world: World, args: Args) -> Json:
    """conversations.members, people of other companies included."""
    channel = _readable(world, args, "conversations.members")
    found, cursor = page(channel.members, args, limit_error="invalid_limit")
    return {"members": found, "response_metadata": {"next_cursor": cursor}}


def listed(world: World, args: Args, method: str) -> list[Channel]:
    """Return the conversations of the `types` a call names that the app may know of.

    Without archived ones if so asked.
    """
    names = args.names("types") or ["public_channel"]
    if not set(names) <= set(_KINDS):
        raise SlackError("invalid_types")
    kinds = [_KINDS[name] for name in names]
    for kind in kinds:
        if not scopes.allowed(args.app, method, kind):
            raise scopes.missing(args.app, (f"{scopes.FAMILIES[kind]}:read",))
    hidden = args.flag("exclude_archived")
    found = [
        c for c in world.channels.values() if c.kind in kinds and not (c.is_archived and hidden)
    ]
    return [c for c in found if c.kind == "channel" or args.app.bot_user in c.members]


def list_all(world: World, args: Args) -> Json:
    """conversations.list: public channels, and private ones and DMs that the bot is in."""
    found = listed(world, args, "conversations.list")
    shown, cursor = page(found, args, limit_error="invalid_limit")
    channels = []
    for channel in shown:
        counted = {} if channel.kind == "im" else {"num_members": len(channel.members)}
        channels.append(channel_json(channel, args.app) | counted)
    return {"channels": channels, "response_metadata": {"next_cursor": cursor}}


def of_user(world: World, args: Args) -> Json:
    """users.conversations: those with a user (else the app itself) that the app may know of."""
    user = args.text("user") or args.app.bot_user
    if user not in world.by_id and world.app_of_bot(user) is None:
        raise invalid(["must be a user of this workspace [json-pointer:/user]"])
    found = [
        channel for channel in listed(world, args, "users.conversations") if user in channel.members
    ]
    shown, cursor = page(found, args, limit_error="invalid_limit")
    channels = [channel_json(channel, args.app) for channel in shown]
    return {"channels": channels, "response_metadata": {"next_cursor": cursor}}


def create(world: World, args: Args) -> Json:
    """conversations.create: the bot makes a channel and is in it."""
    bot = args.app.bot_user
    channel = Channel("", "", members=[bot], creator=bot, created=int(world.now()))
    if args.flag("is_private"):
        channel.kind = "group"
    scopes.require(args.app, "conversations.create", channel)
    channel.name = conversations_admin.checked_name(world, args)
    channel.id = world.new_id("C")
    world.channels[channel.id] = channel
    if channel.kind == "channel":
        made = {"id": channel.id, "name": channel.name, "created": channel.created, "creator": bot}
        events.emit_all(world, {"type": "channel_created", "channel": made}, channel)
    world.touch(messages.audience(channel))
    return {"channel": channel_json(channel, args.app)}


def mark(world: World, args: Args) -> Json:
    """conversations.mark: the bot has read up to a message."""
    channel = _readable(world, args, "conversations.mark")
    if not re.fullmatch(r"\d{1,12}\.\d{6}", args.text("ts")):
        raise SlackError("invalid_timestamp")
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    world.last_read[args.app.bot_user, channel.id] = args.text("ts")
    return {}


def close(world: World, args: Args) -> Json:
    """conversations.close: put a DM or group DM away; it opens again by itself."""
    channel = _readable(world, args, "conversations.close")
    if channel.kind not in ("im", "mpim"):
        raise SlackError("method_not_supported_for_channel_type")
    if not channel.is_open:
        return {"no_op": True, "already_closed": True}
    channel.is_open = False
    return {}


METHODS = {
    "conversations.open": open_dm,
    "conversations.info": info,
    "conversations.members": members,
    "conversations.list": list_all,
    "conversations.create": create,
    "conversations.mark": mark,
    "conversations.close": close,
    "users.conversations": of_user,
    **history.METHODS,
    **conversations_admin.METHODS,
}
