"""usergroups.*: listing, making and changing user groups. Called with the world's lock held."""

from __future__ import annotations

import re

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import events
from slack_sandbox.workspace.api_objects import group_json
from slack_sandbox.workspace.people import Group
from slack_sandbox.workspace.state import World

NAME_LIMIT, TEXT_LIMIT = 80, 140  # characters of a name, and of a description
_HANDLE = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_RESERVED = frozenset({"channel", "everyone", "here", "all", "group", "slackbot"})


def _named(world: World, args: Args) -> Group:
    for group in world.groups.values():
        if group.id == args.text("usergroup"):
            return group
    raise SlackError("no_such_subteam")


def _shown(group: Group, args: Args) -> Json:
    count = args.flag("include_count")
    return {"usergroup": group_json(group, args.app.team, users=True, count=count)}


def list_all(world: World, args: Args) -> Json:
    """usergroups.list: disabled ones on request."""
    users, count, disabled = (
        args.flag("include_users"),
        args.flag("include_count"),
        args.flag("include_disabled"),
    )
    found = [group for group in world.groups.values() if disabled or not group.disabled]
    return {
        "usergroups": [group_json(group, world.team, users=users, count=count) for group in found]
    }


def members(world: World, args: Args) -> Json:
    """usergroups.users.list."""
    group = _named(world, args)
    if group.disabled and not args.flag("include_disabled"):
        raise SlackError("no_such_subteam")
    return {"users": list(group.users)}


def _checked(world: World, args: Args, group: Group | None) -> tuple[str, str, str, list[str]]:
    """Return the name, handle, description and channels in a call, after checking them.

    Those that are left out are taken from `group`.
    """
    name = args.text("name") or (group.name if group else "")
    handle = args.text("handle").removeprefix("@") or (
        group.handle if group else name.lower().replace(" ", "-")
    )
    text = (
        args.text("description")
        if args.has("description")
        else (group.description if group else "")
    )
    channels = args.names("channels") or (group.channels if group else [])
    if len(name) > NAME_LIMIT:
        raise SlackError("name_too_long")
    if len(text) > TEXT_LIMIT:
        raise SlackError("description_too_long")
    if handle in _RESERVED:
        raise SlackError("forbidden_handle")
    if not _HANDLE.fullmatch(handle):
        raise SlackError("bad_handle")
    others = [each for each in world.groups.values() if each is not group]
    if handle in {*(each.handle for each in others), *world.people}:
        raise SlackError("handle_already_exists")
    if any(each.name == name for each in others):
        raise SlackError("name_already_exists")
    if any(
        world.channels[each].kind != "channel" if each in world.channels else True
        for each in channels
    ):
        raise SlackError("invalid_channel_provided")
    return name, handle, text, list(channels)


def create(world: World, args: Args) -> Json:
    """usergroups.create: a group without members."""
    name, handle, text, channels = _checked(world, args, None)
    now = int(world.now())
    group = Group(
        world.new_id("S"),
        handle,
        name,
        description=text,
        channels=channels,
        updated=now,
        created=now,
    )
    group.created_by = group.updated_by = args.app.bot_user
    world.groups[handle] = group
    events.emit_all(
        world,
        {
            "type": "subteam_created",
            "subteam": group_json(group, world.team, users=True, count=True),
        },
    )
    world.touch()
    return _shown(group, args)


def _changed(world: World, group: Group, args: Args) -> Json:
    """Send the event of a changed group, and return the answer to the call."""
    group.updated, group.updated_by = int(world.now()), args.app.bot_user
    events.emit_all(
        world,
        {
            "type": "subteam_updated",
            "subteam": group_json(group, world.team, users=True, count=True),
        },
    )
    world.touch()
    return _shown(group, args)


def update(world: World, args: Args) -> Json:
    """usergroups.update: what is left out stays."""
    group = _named(world, args)
    before = group.handle
    group.name, group.handle, group.description, group.channels = _checked(world, args, group)
    world.groups[group.handle] = world.groups.pop(before)
    return _changed(world, group, args)


def set_members(world: World, group: Group, users: list[str], by: str = "") -> None:
    """Give a group other members (user ids), with the events."""
    added = [user for user in users if user not in group.users]
    removed = [user for user in group.users if user not in users]
    before, group.users, group.updated = group.updated, users, int(world.now())
    group.updated_by = by or group.updated_by
    events.group_changed(
        world, group_json(group, world.team, users=True, count=True), added, removed, before
    )
    world.touch()


def update_members(world: World, args: Args) -> Json:
    """usergroups.users.update: exactly these people."""
    group, users = _named(world, args), list(dict.fromkeys(args.names("users")))
    if not users:
        raise SlackError("no_users_provided")
    if not all(user in world.by_id and not world.by_id[user].deleted for user in users):
        raise SlackError("invalid_users")
    set_members(world, group, users, args.app.bot_user)
    return _shown(group, args)


def enable(world: World, args: Args) -> Json:
    """usergroups.enable."""
    group = _named(world, args)
    group.disabled = 0
    return _changed(world, group, args)


def disable(world: World, args: Args) -> Json:
    """usergroups.disable: the group stays, and its handle notifies nobody."""
    group = _named(world, args)
    group.disabled = int(world.now())
    return _changed(world, group, args)


METHODS = {
    "usergroups.create": create,
    "usergroups.disable": disable,
    "usergroups.enable": enable,
    "usergroups.list": list_all,
    "usergroups.update": update,
    "usergroups.users.list": members,
    "usergroups.users.update": update_members,
}
