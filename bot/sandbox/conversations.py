"""conversations.*: finding, reading and making conversations. Called with the world's lock held."""

from __future__ import annotations

import re

from bot.sandbox import events, messages, scopes
from bot.sandbox.people import TEAM, Channel, channel_json
from bot.sandbox.records import Message
from bot.sandbox.state import World
from bot.sandbox.wire import Args, Json, SlackError, invalid, page

TOPIC_LIMIT, NAME_LIMIT, MOST_IN_GROUP_DM = 250, 80, 8
_TS = re.compile(r"\d+(\.\d{1,6})?")
_KINDS = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}


def _readable(world: World, args: Args, method: str) -> Channel:
    channel = world.seen_by(args.app, args.required("channel"))
    scopes.require(args.app, method, channel)
    return channel


def open_dm(world: World, args: Args) -> Json:
    """conversations.open: the DM with one person, or a group DM with up to eight."""
    if args.has("channel"):
        channel = world.seen_by(args.app, args.text("channel"))
        if channel.kind not in ("im", "mpim"):
            raise SlackError("method_not_supported_for_channel_type")
    else:
        channel = _with_users(world, args)
    scopes.require(args.app, "conversations.open", channel)
    if args.flag("return_im"):
        return {"channel": channel_json(channel, args.app.bot_user)}
    return {"channel": {"id": channel.id}}


def _with_users(world: World, args: Args) -> Channel:
    users = [user for user in args.names("users") if user != args.app.bot_user]
    if not users:
        raise SlackError("users_list_not_supplied" if not args.names("users") else "invalid_user_combination")
    for user in users:
        if user not in world.by_id:
            raise SlackError("user_not_found")
        if world.by_id[user].deleted:
            raise SlackError("user_disabled")
    if len(users) == 1:
        return world.dm(users[0], args.app)
    if len(users) > MOST_IN_GROUP_DM:
        raise SlackError("too_many_users")
    members = [*users, args.app.bot_user]
    for channel in world.channels.values():
        if channel.kind == "mpim" and set(channel.members) == set(members):
            return channel
    name = "mpdm-" + "--".join(world.by_id[user].name for user in users) + "-1"
    channel = Channel(world.new_id("C"), name, "mpim", members, creator=args.app.bot_user, created=int(world.now()))
    world.channels[channel.id] = channel
    return channel


def info(world: World, args: Args) -> Json:
    """conversations.info."""
    channel = _readable(world, args, "conversations.info")
    body = channel_json(channel, args.app.bot_user)
    if args.flag("include_num_members"):
        body["num_members"] = len(channel.members)
    return {"channel": body}


def members(world: World, args: Args) -> Json:
    """conversations.members, people of other companies included."""
    channel = _readable(world, args, "conversations.members")
    found, cursor = page(channel.members, args)
    return {"members": found, "response_metadata": {"next_cursor": cursor}}


def _window(args: Args, found: list[Message]) -> list[Message]:
    """The messages between `oldest` and `latest` (both left out unless inclusive)."""
    oldest, latest = args.text("oldest", "0"), args.text("latest")
    if not _TS.fullmatch(oldest):
        raise SlackError("invalid_ts_oldest")
    if latest and not _TS.fullmatch(latest):
        raise SlackError("invalid_ts_latest")
    low, high = float(oldest), float(latest) if latest else float("inf")
    edges = args.flag("inclusive")
    return [m for m in found if low < float(m.ts) < high or (edges and float(m.ts) in (low, high))]


def _shown(world: World, args: Args, found: list[Message]) -> list[Json]:
    metadata = args.flag("include_all_metadata")
    return [messages.show(world, message, args.app.bot_user, metadata=metadata) for message in found]


def history(world: World, args: Args) -> Json:
    """conversations.history: top-level messages, newest first."""
    channel = _readable(world, args, "conversations.history")
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    stored = [m for m in world.messages.get(channel.id, {}).values() if not m.only_for]
    top = [m for m in stored if m.root == m.ts or m.body.get("subtype") == "thread_broadcast"]
    found, cursor = page(list(reversed(_window(args, top))), args, most=999)
    body: Json = {"messages": _shown(world, args, found), "has_more": bool(cursor), "pin_count": 0}
    return body | ({"response_metadata": {"next_cursor": cursor}} if cursor else {})


def replies(world: World, args: Args) -> Json:
    """conversations.replies: the root (in every page), then the replies, oldest first."""
    channel = _readable(world, args, "conversations.replies")
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    root = messages.root_of(world, channel.id, args.required("ts"))
    if root is None:
        raise SlackError("thread_not_found")
    under = _window(args, world.replies(channel.id, root.ts))
    found, cursor = page(under, args, most=1000)
    body: Json = {"messages": _shown(world, args, [root, *found]), "has_more": bool(cursor)}
    return body | ({"response_metadata": {"next_cursor": cursor}} if cursor else {})


def list_all(world: World, args: Args) -> Json:
    """conversations.list: public channels, and private ones and DMs that the bot is in."""
    names = args.names("types") or ["public_channel"]
    if not set(names) <= set(_KINDS):
        raise SlackError("invalid_types")
    kinds = [_KINDS[name] for name in names]
    for kind in kinds:
        if not scopes.allowed(args.app, "conversations.list", kind):
            raise scopes.missing(args.app, (f"{scopes.FAMILIES[kind]}:read",))
    found = [
        c
        for c in world.channels.values()
        if c.kind in kinds
        and (c.kind == "channel" or args.app.bot_user in c.members)
        and not (c.is_archived and args.flag("exclude_archived"))
    ]
    shown, cursor = page(found, args)
    channels = [
        channel_json(c, args.app.bot_user) | ({} if c.kind == "im" else {"num_members": len(c.members)}) for c in shown
    ]
    return {"channels": channels, "response_metadata": {"next_cursor": cursor}}


def create(world: World, args: Args) -> Json:
    """conversations.create: the bot makes a channel and is in it."""
    name = args.text("name")
    channel = Channel("", name, members=[args.app.bot_user], creator=args.app.bot_user, created=int(world.now()))
    if args.flag("is_private"):
        channel.kind = "group"
    scopes.require(args.app, "conversations.create", channel)
    if not name:
        raise SlackError("invalid_name_required")
    if len(name) > NAME_LIMIT:
        raise SlackError("invalid_name_maxlength")
    if not re.fullmatch(r"[\w-]+", name) or name != name.lower():
        raise SlackError("invalid_name_specials")
    if not re.search(r"[^\W_]", name):
        raise SlackError("invalid_name_punctuation")
    if any(c.name == name for c in world.channels.values()):
        raise SlackError("name_taken")
    channel.id = world.new_id("C")
    world.channels[channel.id] = channel
    if channel.kind == "channel":
        made = {"id": channel.id, "name": name, "created": channel.created, "creator": args.app.bot_user}
        events.emit_all(world, {"type": "channel_created", "channel": made}, channel)
    world.touch(messages.audience(channel))
    return {"channel": channel_json(channel, args.app.bot_user)}


def _in_it(world: World, args: Args, method: str) -> Channel:
    """The channel of a call that changes it: the bot must be in it, and it must be alive and no DM."""
    channel = _readable(world, args, method)
    if channel.kind == "im":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.is_archived:
        raise SlackError("is_archived")
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def add_member(world: World, channel: Channel, user: str, inviter: str = "") -> None:
    """Someone comes into a channel: the line in it and the event."""
    channel.members.append(user)
    messages.post_system(world, channel, user, "channel_join", f"<@{user}> has joined the channel")
    events.member_event(world, "member_joined_channel", user, channel, inviter)


def invite(world: World, args: Args) -> Json:
    """conversations.invite: all of the users or none."""
    channel = _in_it(world, args, "conversations.invite")
    users = args.names("users")
    if not users:
        raise SlackError("no_user")
    for user in users:
        person = world.by_id.get(user)
        if user == args.app.bot_user:
            raise SlackError("cant_invite_self")
        if person is None and world.app_of_bot(user) is None:
            raise SlackError("user_not_found")
        if user in channel.members:
            raise SlackError("already_in_channel")
        if person is None:
            continue
        if person.deleted:
            raise SlackError("cant_invite")
        if person.team_id != TEAM:
            raise SlackError("org_user_not_in_team")
        if person.is_ultra_restricted:
            raise SlackError("ura_max_channels")
    for user in users:
        add_member(world, channel, user, args.app.bot_user)
    return {"channel": channel_json(channel, args.app.bot_user)}


def set_topic(world: World, args: Args) -> Json:
    """conversations.setTopic."""
    channel = _in_it(world, args, "conversations.setTopic")
    if not args.has("topic"):
        raise invalid(["missing required field: topic"])
    topic = args.text("topic")
    if len(topic) > TOPIC_LIMIT:
        raise SlackError("too_long")
    channel.topic = topic
    bot = args.app.bot_user
    messages.post_system(world, channel, bot, "channel_topic", f"<@{bot}> set the channel topic: {topic}")
    return {"channel": channel_json(channel, args.app.bot_user)}


def join(world: World, args: Args) -> Json:
    """conversations.join: public channels only."""
    channel = world.seen_by(args.app, args.required("channel"))
    if channel.kind != "channel":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.is_archived:
        raise SlackError("is_archived")
    if args.app.bot_user in channel.members:
        extra: Json = {"warning": "already_in_channel", "response_metadata": {"warnings": ["already_in_channel"]}}
        return {"channel": channel_json(channel, args.app.bot_user), **extra}
    add_member(world, channel, args.app.bot_user)
    return {"channel": channel_json(channel, args.app.bot_user)}


METHODS = {
    "conversations.open": open_dm,
    "conversations.info": info,
    "conversations.members": members,
    "conversations.history": history,
    "conversations.replies": replies,
    "conversations.list": list_all,
    "conversations.create": create,
    "conversations.invite": invite,
    "conversations.setTopic": set_topic,
    "conversations.join": join,
}
