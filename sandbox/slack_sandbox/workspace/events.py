"""Events: which app gets which of them, and the payloads that they are sent in.

It goes by each manifest's subscriptions and scopes, and by where the bot is a member. Sending is
the transports' work.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.api_objects import user_json
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Delivery, Message
from slack_sandbox.workspace.state import World

VERIFICATION = "sandbox-verification-token"  # deprecated, but still in every payload
_SUFFIX = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}
_NEEDS: dict[str, tuple[str, ...]] = {  # an event needs any one of these scopes
    "app_mention": ("app_mentions:read",),
    "message.channels": ("channels:history",),
    "message.groups": ("groups:history",),
    "message.im": ("im:history",),
    "message.mpim": ("mpim:history",),
    "member_joined_channel": ("channels:read", "groups:read"),
    "member_left_channel": ("channels:read", "groups:read"),
    "channel_archive": ("channels:read",),
    "channel_left": ("channels:read",),
    "channel_created": ("channels:read",),
    "channel_id_changed": ("channels:read", "groups:read"),
    "channel_shared": ("channels:read", "groups:read", "im:read", "mpim:read"),
    "group_archive": ("groups:read",),
    "group_left": ("groups:read",),
    "team_join": ("users:read",),
    "user_change": ("users:read",),
    "channel_rename": ("channels:read",),
    "channel_unarchive": ("channels:read",),
    "group_rename": ("groups:read",),
    "group_unarchive": ("groups:read",),
    "file_shared": ("files:read",),
    "file_deleted": ("files:read",),
    "pin_added": ("pins:read",),
    "pin_removed": ("pins:read",),
    "reaction_added": ("reactions:read",),
    "reaction_removed": ("reactions:read",),
    "subteam_created": ("usergroups:read",),
    "subteam_members_changed": ("usergroups:read",),
    "subteam_updated": ("usergroups:read",),
    "agent_session_stopped": ("chat:write",),
    "agent_session_title_changed": ("chat:write",),
    "assistant_thread_started": ("assistant:write",),
    "app_home_opened": (),
    "app_uninstalled": (),
    "tokens_revoked": (),
    "team_access_granted": (),
    "team_access_revoked": (),
}
# sent even after an uninstall
_EVENTS_AFTER_UNINSTALL = (
    "app_uninstalled",
    "tokens_revoked",
    "team_access_revoked",
)
KNOWN_EVENTS = frozenset(_NEEDS)  # the events that the sandbox can send
SCOPES = frozenset(scope for needs in _NEEDS.values() for scope in needs)  # scopes that events need


def emit(
    world: World, app: App, event: Json, channel: Channel | None = None, subscription: str = ""
) -> Delivery | None:
    """Send an event to one app if it asked for it and may have it.

    Returns the delivery, or None.
    """
    name = subscription or str(event["type"])
    needs = _NEEDS.get(name, ())
    if name not in app.subscriptions or (needs and not app.scopes.intersection(needs)):
        return None
    if not app.installed and name not in _EVENTS_AFTER_UNINSTALL:
        return None
    event.setdefault("event_ts", world.next_ts())
    where = f"-{channel.id}" if channel else ""
    org = world.enterprise[0] if world.enterprise else None
    others = channel.connected(world.team) if channel and channel.is_ext_shared else []
    bot: Json = {"enterprise_id": org, "team_id": world.team, "user_id": app.bot_user}
    payload: Json = {
        "token": VERIFICATION,
        # in a channel shared with another company, the id of that company, as Slack may send it
        "team_id": others[0] if others else world.team,
        "context_team_id": world.team,
        "context_enterprise_id": org,
        "api_app_id": app.id,
        "event": copy.deepcopy(event),
        "type": "event_callback",
        "event_id": world.new_id("Ev"),
        "event_time": int(float(event["event_ts"])),
        "authorizations": [bot | {"is_bot": True, "is_enterprise_install": app.is_org_wide}],
        "is_ext_shared_channel": bool(channel and channel.is_ext_shared),
        "event_context": f"1-{event['type']}-{world.team}{where}",
    }
    if org:
        payload["enterprise_id"] = org
    delivery = Delivery("events_api", payload, app)
    world.send(delivery)
    return delivery


def listeners(world: World, channel: Channel | None) -> Iterator[tuple[World, App]]:
    """The apps of each workspace that has the channel, with that workspace.

    An org-wide app gets one event for what several workspaces of its org share. With `one_event`,
    so does any other app: Slack names the installation that joined last, and the rest only in
    apps.event.authorizations.list (github.com/slackapi/bolt-js/issues/2008, docs.slack.dev:
    "Events API truncate authed users").
    """
    worlds = world.sharing(channel) if channel else [world]
    for app_id in world.apps:
        there = [(each, each.apps[app_id]) for each in worlds]
        able = [(each, app) for each, app in there if app.installed]
        if channel and world.shared.one_event:
            last = [each for each in able if each[1].bot_user in channel.members]
            able = sorted(
                last, key=lambda each: channel.teams.index(each[0].team) if channel.teams else 0
            )[-1:]
        yield from able[:1] if able and able[0][1].is_org_wide else able


def emit_all(
    world: World, event: Json, channel: Channel | None = None, subscription: str = ""
) -> None:
    """Send an event to every app that asked for it and may have it.

    An event of a private conversation only goes to apps that are in it.
    """
    for where, app in listeners(world, channel):
        if channel is None or channel.kind == "channel" or app.bot_user in channel.members:
            emit(where, app, event, channel, subscription)


def emit_members(world: World, event: Json, channel: Channel) -> None:
    """Send an event to every app that is in the channel, asked for it and may have it."""
    for where, app in listeners(world, channel):
        if app.bot_user in channel.members:
            emit(where, app, event, channel)


def _in_channel(world: World, message: Message) -> Json:
    body = copy.deepcopy(message.body) | {"channel": message.channel, "event_ts": message.ts}
    channel = world.channels[message.channel]
    if message.metadata:
        body["metadata"] = copy.deepcopy(message.metadata)
    if channel.is_ext_shared and (person := world.by_id.get(str(body.get("user")))):
        body |= {"user_team": person.team_id, "source_team": person.team_id}
    return body


def message_posted(world: World, message: Message, named: set[str]) -> None:
    """Tell each app in the channel of a message; where its bot is `named`, by app_mention too."""
    channel = world.channels[message.channel]
    for where, app in listeners(world, channel):
        mention = _mention(world, app, message, named)
        if app.bot_user not in channel.members:
            if mention:
                channel.missed_mentions[app.id] = mention
            continue
        if mention:
            emit(where, app, mention, channel)
        _message(where, app, _in_channel(world, message), channel)


def mention_edited(world: World, message: Message, named: set[str]) -> None:
    """Send app_mention again for an edited message, as Slack does, to apps whose bot is `named`."""
    channel = world.channels[message.channel]
    for where, app in listeners(world, channel):
        mention = _mention(world, app, message, named)
        if mention and app.bot_user in channel.members:
            emit(where, app, mention, channel)


def _mention(world: World, app: App, message: Message, named: set[str]) -> Json | None:
    channel = world.channels[message.channel]
    bots = {each.apps[app.id].bot_user for each in world.sharing(channel)}
    if (
        (bots if world.shared.one_event else {app.bot_user}) & named
        and channel.kind in ("channel", "group")
        and message.body.get("user") != app.bot_user
    ):
        return _in_channel(world, message) | {"type": "app_mention"}
    return None


def _message(world: World, app: App, event: Json, channel: Channel) -> None:
    event["channel_type"] = channel.kind
    emit(world, app, event, channel, f"message.{_SUFFIX[channel.kind]}")


def _message_all(world: World, event: Json, channel: Channel) -> None:
    for where, app in listeners(world, channel):
        if app.bot_user in channel.members:
            _message(where, app, dict(event), channel)


def message_changed(world: World, message: Message, before: Json) -> None:
    """Send message_changed for a message; `before` is its earlier body."""
    ts = world.next_ts()
    changed = {
        "type": "message",
        "subtype": "message_changed",
        "message": copy.deepcopy(message.body),
        "previous_message": before,
        "channel": message.channel,
        "hidden": True,
        "ts": ts,
        "event_ts": ts,
    }
    _message_all(world, changed, world.channels[message.channel])


def message_deleted(world: World, message: Message) -> None:
    """Send message_deleted for a message."""
    ts = world.next_ts()
    deleted = {
        "type": "message",
        "subtype": "message_deleted",
        "previous_message": copy.deepcopy(message.body),
        "channel": message.channel,
        "hidden": True,
        "deleted_ts": message.ts,
        "ts": ts,
        "event_ts": ts,
    }
    _message_all(world, deleted, world.channels[message.channel])


def member_event(world: World, kind: str, user: str, channel: Channel, inviter: str = "") -> None:
    """Tell the apps in the channel, and one that leaves it, that a member joined or left.

    The types are member_joined_channel and member_left_channel.
    """
    team = world.by_id[user].team_id if user in world.by_id else world.team
    event: Json = {
        "type": kind,
        "user": user,
        "channel": channel.id,
        "channel_type": "C" if channel.kind == "channel" else "G",
        "team": team,
    }
    for where, app in listeners(world, channel):
        if app.bot_user not in channel.members and user != app.bot_user:
            continue
        emit(where, app, event | ({"inviter": inviter} if inviter else {}), channel)
        if (
            kind == "member_joined_channel"
            and user == app.bot_user
            and app.id in channel.missed_mentions
        ):
            emit(where, app, channel.missed_mentions.pop(app.id), channel)


def user_changed(world: World, user: str) -> None:
    """user_change with the person as they are now."""
    _tell_of(world, "user_change", user)


def user_joined(world: World, user: str) -> None:
    """team_join with a person who is new in the workspace."""
    _tell_of(world, "team_join", user)


def _tell_of(world: World, kind: str, user: str) -> None:
    person = world.by_id[user]
    for where in world.worlds.values():
        if where.by_id.get(user) is not person or not where.is_member(person):
            continue
        for app in where.apps.values():
            allowed = "users:read.email" in app.scopes
            shown = user_json(person, where.team, email=allowed, url=world.url)
            emit(where, app, {"type": kind, "user": shown, "cache_ts": int(world.now())})


def group_changed(
    world: World, group: Json, added: list[str], removed: list[str], before: int
) -> None:
    """subteam_members_changed and subteam_updated for a group as usergroups.list shows it.

    `before` in Unix seconds.
    """
    members = {
        "type": "subteam_members_changed",
        "subteam_id": group["id"],
        "team_id": world.team,
        "date_previous_update": before,
        "date_update": group["date_update"],
        "added_users": added,
        "added_users_count": len(added),
        "removed_users": removed,
        "removed_users_count": len(removed),
    }
    emit_all(world, members)
    emit_all(world, {"type": "subteam_updated", "subteam": group})


def team_domain(world: World, team: str) -> Json:
    """The `team` object of an interaction payload."""
    found: Json = {"id": team, "domain": world.teams[team][1]}
    if (there := world.worlds.get(team)) and there.enterprise:
        found |= {"enterprise_id": there.enterprise[0], "enterprise_name": there.enterprise[1]}
    return found


def rate_limited(world: World, app: App) -> Delivery:
    """Tell an app that it got more events than Slack sends in an hour.

    The payload is of its own kind, with no event in it. By docs.slack.dev (app_rate_limited), it is
    sent once a minute while events are held back, whatever the app subscribed to.
    """
    payload: Json = {
        "token": VERIFICATION,
        "type": "app_rate_limited",
        "team_id": world.team,
        "minute_rate_limited": int(world.now()) // 60 * 60,
        "api_app_id": app.id,
    }
    delivery = Delivery("events_api", payload, app)
    world.send(delivery)
    return delivery
