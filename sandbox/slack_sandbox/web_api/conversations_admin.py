"""conversations.* that change a channel: who is in it, its name, topic and purpose, its archive.

Called with the world's lock held; the functions without `args` are for whoever acts, a person or an
app.
"""

from __future__ import annotations

import re

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import scopes
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.api_objects import channel_json
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.state import World

TEXT_LIMIT, NAME_LIMIT = 250, 80  # characters of a topic or purpose, and of a name


def _place(
    world: World, args: Args, method: str, *, archived: str = "is_archived", direct: bool = False
) -> Channel:
    """Return the channel of a call that changes it; SlackError if the app may not.

    The app has to see the channel, have the scope for its kind and be in it; a DM is refused.
    `archived`: the error for archived channels ("": they are allowed); `direct`: allow group DMs.
    """
    channel = world.seen_by(args.app, args.text("channel"))
    scopes.require(args.app, method, channel)
    if channel.kind == "im" or (channel.kind == "mpim" and not direct):
        raise SlackError("method_not_supported_for_channel_type")
    if channel.is_archived and archived:
        raise SlackError(archived)
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def _shown(channel: Channel, args: Args) -> Json:
    return {"channel": channel_json(channel, args.app)}


def checked_name(world: World, args: Args) -> str:
    """Return a call's channel name; SlackError for what Slack would not take, or has already."""
    name = args.text("name")
    if len(name) > NAME_LIMIT:
        raise SlackError("invalid_name_maxlength")
    if not re.fullmatch(r"[\w-]+", name) or name != name.lower():
        raise SlackError("invalid_name_specials")
    if not re.search(r"[^\W_]", name):
        raise SlackError("invalid_name_punctuation")
    if any(channel.name == name for channel in world.channels.values()):
        raise SlackError("name_taken")
    return name


# members


def add_member(world: World, channel: Channel, user: str, inviter: str = "") -> None:
    """Add somebody to a channel, with the line in it and the event."""
    channel.members.append(user)
    for each in world.sharing(channel) if user in world.by_id else []:
        each.by_id.setdefault(user, world.by_id[user])
    messages.post_system(world, channel, user, "channel_join", f"<@{user}> has joined the channel")
    events.member_event(world, "member_joined_channel", user, channel, inviter)


def remove_member(world: World, channel: Channel, user: str, by: str = "") -> None:
    """Take somebody out of a channel (`by` another user id), with the line in it and the events."""
    if channel.kind != "mpim":
        messages.post_system(
            world, channel, user, "channel_leave", f"<@{user}> has left the channel"
        )
    channel.members.remove(user)
    events.member_event(world, "member_left_channel", user, channel)
    if app := world.app_of_bot(user):
        kind = "channel_left" if channel.kind == "channel" else "group_left"
        events.emit(
            world, app, {"type": kind, "channel": channel.id, "actor_id": by or user}, channel
        )
    world.touch()


def _refusal(world: World, channel: Channel, user: str, args: Args) -> str:
    """Return the error code if that user cannot be invited to the channel; "" if they can."""
    person = world.by_id.get(user)
    if user == args.app.bot_user:
        return "cant_invite_self"
    if person is None and world.app_of_bot(user) is None:
        return "user_not_found"
    if user in channel.members:
        return "already_in_channel"
    if person is None:
        return ""
    if person.deleted:
        return "cant_invite"
    if not world.is_member(person):
        return "org_user_not_in_team"
    return "ura_max_channels" if person.is_ultra_restricted else ""


def invite(world: World, args: Args) -> Json:
    """conversations.invite: all of the users or none; with `force`, those who can be."""
    channel = _place(world, args, "conversations.invite")
    users = list(dict.fromkeys(args.names("users")))
    if not users:
        raise SlackError("no_user")
    verdicts = {user: _refusal(world, channel, user, args) for user in users}
    refused = {user: error for user, error in verdicts.items() if error}
    errors = [{"user": user, "ok": False, "error": error} for user, error in refused.items()]
    if refused and (not args.flag("force") or len(refused) == len(users)):
        raise SlackError(
            next(iter(refused.values())), **({"errors": errors} if len(users) > 1 else {})
        )
    for user in users:
        if user not in refused:
            add_member(world, channel, user, args.app.bot_user)
    return _shown(channel, args) | ({"errors": errors} if errors else {})


def kick(world: World, args: Args) -> Json:
    """conversations.kick."""
    channel = _place(world, args, "conversations.kick", archived="")
    user = args.text("user")
    if user not in world.by_id and world.app_of_bot(user) is None:
        raise SlackError("user_not_found")
    if user == args.app.bot_user:
        raise SlackError("cant_kick_self")
    if channel.name == "general":
        raise SlackError("cant_kick_from_general")
    if user not in channel.members:
        raise SlackError("not_in_channel")
    remove_member(world, channel, user, args.app.bot_user)
    return {"errors": {}}


def join(world: World, args: Args) -> Json:
    """conversations.join: public channels only."""
    channel = world.seen_by(args.app, args.text("channel"))
    if channel.kind != "channel":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.is_archived:
        raise SlackError("is_archived")
    if args.app.bot_user in channel.members:
        extra: Json = {
            "warning": "already_in_channel",
            "response_metadata": {"warnings": ["already_in_channel"]},
        }
        return _shown(channel, args) | extra
    add_member(world, channel, args.app.bot_user)
    return _shown(channel, args)


def leave(world: World, args: Args) -> Json:
    """conversations.leave: no error if the bot is not in the channel."""
    channel = world.seen_by(args.app, args.text("channel"))
    scopes.require(args.app, "conversations.leave", channel)
    if channel.kind == "im":
        raise SlackError("method_not_supported_for_channel_type")
    if args.app.bot_user not in channel.members:
        return {"not_in_channel": True}
    if channel.is_archived:
        raise SlackError("is_archived")
    if channel.name == "general":
        raise SlackError("cant_leave_general")
    if channel.kind == "group" and channel.members == [args.app.bot_user]:
        raise SlackError("last_member")
    remove_member(world, channel, args.app.bot_user)
    return {}


# name, topic and purpose


def rename(world: World, args: Args) -> Json:
    """conversations.rename: of channels that the app made."""
    channel = _place(world, args, "conversations.rename")
    if channel.creator != args.app.bot_user:
        raise SlackError("not_authorized")
    old, new, bot = channel.name, checked_name(world, args), args.app.bot_user
    channel.name = new
    channel.previous_names.insert(0, old)
    kind = "channel" if channel.kind == "channel" else "group"
    text = f'<@{bot}> has renamed the channel from "{old}" to "{new}"'
    messages.post_system(world, channel, bot, f"{kind}_name", text)
    renamed = {"id": channel.id, "name": new, "created": channel.created}
    events.emit_all(world, {"type": f"{kind}_rename", "channel": renamed}, channel)
    return _shown(channel, args)


def _text(args: Args, name: str) -> str:
    text = args.text(name)
    if len(text) > TEXT_LIMIT:
        raise SlackError("too_long")
    return text


def set_topic(world: World, args: Args) -> Json:
    """conversations.setTopic."""
    channel = _place(world, args, "conversations.setTopic", direct=True)
    channel.topic, bot = _text(args, "topic"), args.app.bot_user
    channel.topic_set = (bot, int(world.now()))
    text = f"<@{bot}> set the channel topic: {channel.topic}"
    messages.post_system(world, channel, bot, "channel_topic", text)
    return _shown(channel, args)


def set_purpose(world: World, args: Args) -> Json:
    """conversations.setPurpose."""
    channel = _place(world, args, "conversations.setPurpose")
    channel.purpose, bot = _text(args, "purpose"), args.app.bot_user
    channel.purpose_set = (bot, int(world.now()))
    text = f"<@{bot}> set the channel description: {channel.purpose}"
    messages.post_system(world, channel, bot, "channel_purpose", text)
    return _shown(channel, args)


# archiving


def set_archived(world: World, channel: Channel, by: str, archived: bool) -> None:
    """Archive a channel or bring it back, as that user id: the line in it and the event."""
    kind = "channel" if channel.kind == "channel" else "group"
    word = "archive" if archived else "unarchive"
    text = f"<@{by}> {'archived' if archived else 'un-archived'} the channel"
    channel.is_archived = archived
    messages.post_system(world, channel, by, f"{kind}_{word}", text)
    events.emit_all(world, {"type": f"{kind}_{word}", "channel": channel.id, "user": by}, channel)


def archive(world: World, args: Args) -> Json:
    """conversations.archive."""
    channel = _place(world, args, "conversations.archive", archived="already_archived")
    if channel.name == "general":
        raise SlackError("cant_archive_general")
    set_archived(world, channel, args.app.bot_user, archived=True)
    return {}


def unarchive(world: World, args: Args) -> Json:
    """conversations.unarchive."""
    channel = world.seen_by(args.app, args.text("channel"))
    scopes.require(args.app, "conversations.unarchive", channel)
    if channel.kind in ("im", "mpim"):
        raise SlackError("method_not_supported_for_channel_type")
    if not channel.is_archived:
        raise SlackError("not_archived")
    set_archived(world, channel, args.app.bot_user, archived=False)
    return {}


METHODS = {
    "conversations.invite": invite,
    "conversations.kick": kick,
    "conversations.join": join,
    "conversations.leave": leave,
    "conversations.rename": rename,
    "conversations.setTopic": set_topic,
    "conversations.setPurpose": set_purpose,
    "conversations.archive": archive,
    "conversations.unarchive": unarchive,
}
