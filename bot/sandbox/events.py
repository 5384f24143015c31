"""Events: which of them the app gets, and the envelope bodies they travel in.

It decides by the manifest's subscriptions and scopes and by where the bot is a member; sending is the hub's work.
"""

from __future__ import annotations

import copy

from bot.sandbox.people import APP_ID, BOT_USER, OTHER_TEAM, TEAM, Channel, user_json
from bot.sandbox.records import Delivery, Message
from bot.sandbox.state import World
from bot.sandbox.wire import Json

VERIFICATION = "sandbox-verification-token"  # the deprecated token that every payload carries
_SUFFIX = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}
_NEEDS: dict[str, tuple[str, ...]] = {  # any of these scopes
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
    "group_archive": ("groups:read",),
    "group_left": ("groups:read",),
    "reaction_added": ("reactions:read",),
    "reaction_removed": ("reactions:read",),
    "user_change": ("users:read",),
    "subteam_members_changed": ("usergroups:read",),
    "subteam_updated": ("usergroups:read",),
    "agent_session_stopped": ("chat:write",),
    "app_home_opened": (),
    "app_uninstalled": (),
    "tokens_revoked": (),
}
KNOWN = frozenset(_NEEDS)  # the events that the sandbox can send


def emit(world: World, event: Json, channel: Channel | None = None, *, subscription: str = "") -> Delivery | None:
    """Send an event to the app if it asked for it and may have it; returns the delivery, or None."""
    name = subscription or str(event["type"])
    needs = _NEEDS.get(name, ())
    if name not in world.subscriptions or (needs and not world.scopes.intersection(needs)):
        return None
    event.setdefault("event_ts", world.next_ts())
    where = f"-{channel.id}" if channel else ""
    bot = {"enterprise_id": None, "team_id": TEAM, "user_id": BOT_USER, "is_bot": True, "is_enterprise_install": False}
    payload: Json = {
        "token": VERIFICATION,
        "team_id": TEAM,
        "context_team_id": TEAM,
        "context_enterprise_id": None,
        "api_app_id": APP_ID,
        "event": event,
        "type": "event_callback",
        "event_id": world.new_id("Ev"),
        "event_time": int(float(event["event_ts"])),
        "authorizations": [bot],
        "is_ext_shared_channel": bool(channel and channel.is_ext_shared),
        "event_context": f"1-{event['type']}-{TEAM}{where}",
    }
    delivery = Delivery("events_api", payload)
    world.send(delivery)
    return delivery


def _in_channel(world: World, message: Message) -> Json:
    body = copy.deepcopy(message.body) | {"channel": message.channel, "event_ts": message.ts}
    channel = world.channels[message.channel]
    if channel.is_ext_shared and (person := world.by_id.get(str(body.get("user")))):
        body |= {"user_team": person.team_id, "source_team": person.team_id}
    return body


def message_posted(world: World, message: Message, mentions_bot: bool) -> None:
    """A new message: `message` where the bot is a member, and `app_mention` besides where it is named."""
    channel = world.channels[message.channel]
    mention: Json | None = None
    if mentions_bot and channel.kind in ("channel", "group") and message.body.get("user") != BOT_USER:
        mention = _in_channel(world, message) | {"type": "app_mention"}
    if BOT_USER not in channel.members:
        channel.missed_mention = mention or channel.missed_mention
        return
    if mention:
        emit(world, mention, channel)
    _message(world, _in_channel(world, message), channel)


def _message(world: World, event: Json, channel: Channel) -> None:
    if BOT_USER in channel.members:
        event["channel_type"] = "channel" if channel.kind == "channel" else channel.kind
        emit(world, event, channel, subscription=f"message.{_SUFFIX[channel.kind]}")


def message_changed(world: World, message: Message, before: Json) -> None:
    """A message is not what it was; `before` is its body until then."""
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
    _message(world, changed, world.channels[message.channel])


def message_deleted(world: World, message: Message) -> None:
    """A message is gone."""
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
    _message(world, deleted, world.channels[message.channel])


def member_event(world: World, kind: str, user: str, channel: Channel, inviter: str = "") -> None:
    """member_joined_channel or member_left_channel, where the bot is a member or is the one concerned."""
    if BOT_USER not in channel.members and user != BOT_USER:
        return
    team = world.by_id[user].team_id if user in world.by_id else TEAM
    event: Json = {
        "type": kind,
        "user": user,
        "channel": channel.id,
        "channel_type": "C" if channel.kind == "channel" else "G",
        "team": team,
    }
    emit(world, event | ({"inviter": inviter} if inviter else {}), channel)
    if kind == "member_joined_channel" and user == BOT_USER and channel.missed_mention:
        emit(world, channel.missed_mention, channel)
        channel.missed_mention = None


def user_changed(world: World, user: str) -> None:
    """user_change with the person as they are now."""
    email = "users:read.email" in world.scopes
    emit(
        world,
        {"type": "user_change", "user": user_json(world.by_id[user], email=email), "cache_ts": int(world.now())},
    )


def group_changed(world: World, group: Json, added: list[str], removed: list[str], before: int) -> None:
    """subteam_members_changed and subteam_updated for a group as usergroups.list shows it; `before` in Unix seconds."""
    members = {
        "type": "subteam_members_changed",
        "subteam_id": group["id"],
        "team_id": TEAM,
        "date_previous_update": before,
        "date_update": group["date_update"],
        "added_users": added,
        "added_users_count": len(added),
        "removed_users": removed,
        "removed_users_count": len(removed),
    }
    emit(world, members)
    emit(world, {"type": "subteam_updated", "subteam": group})


def team_domain(team: str) -> Json:
    """The `team` object of an interaction payload."""
    return {"id": team, "domain": "otherco" if team == OTHER_TEAM else "sandbox"}
