"""People, apps, channels and user groups as the Web API and events describe them.

Pure functions from records to JSON; they check no permission.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import ENTERPRISE, EPOCH, Channel, Group, Person

PICTURE_SIZES = (
    24,
    32,
    48,
    72,
    192,
    512,
)  # pixels, of people's pictures; apps have 36 instead of the smallest


def images(url: str, name: str, sizes: tuple[int, ...] = PICTURE_SIZES) -> dict[str, str]:
    """Return image_24 and so on: addresses of the pictures of who has that short name.

    `url` is the sandbox's.
    """
    return {f"image_{size}": f"{url}/avatars/{quote(name)}-{size}.png" for size in sizes}


def _profile(person: Person, email: bool, url: str) -> dict[str, Any]:
    first, _, last = person.real_name.partition(" ")
    profile: dict[str, Any] = {
        "title": "",
        "phone": "",
        "skype": "",
        "real_name": person.real_name,
        "real_name_normalized": person.real_name,
        "display_name": person.name,
        "display_name_normalized": person.name,
        "first_name": first,
        "last_name": last,
        "status_text": person.status_text,
        "status_text_canonical": "",
        "status_emoji": person.status_emoji,
        "status_emoji_display_info": [],
        "status_expiration": person.status_expiration,
        "avatar_hash": "",
        "team": person.team_id,
        **images(url, person.name),
    }
    if email:
        profile["email"] = person.email
    return profile


_OUTSIDE = {
    "is_admin": False,
    "is_owner": False,
    "is_primary_owner": False,
    "is_restricted": False,
    "is_ultra_restricted": False,
    # true only for people who share no channel with the bot, and it cannot see those
    "is_stranger": False,
}


def user_json(person: Person, team: str, *, email: bool, url: str) -> dict[str, Any]:
    """Return a user object as users.info does for a bot of that workspace.

    `email` says whether the scope for addresses is there, `url` is the sandbox's.
    """
    is_member = team in (person.team_id, *person.grid_teams)
    user: dict[str, Any] = {
        "id": person.id,
        "team_id": person.team_id,
        "name": person.name,
        "deleted": person.deleted,
        "profile": _profile(person, email and is_member, url),
        "is_bot": False,
        "is_app_user": False,
        "updated": person.updated,
    }
    if person.grid_teams:
        del user["team_id"]
        grid = {"id": person.id, "enterprise_id": ENTERPRISE[0], "teams": list(person.grid_teams)}
        user["enterprise_user"] = grid
    if person.deleted:
        return user
    if not is_member:  # a bot sees less of people from other workspaces
        zone = {"tz": person.tz, "tz_label": person.tz, "tz_offset": person.tz_offset}
        return user | zone | {"color": "9f69e7", "real_name": person.real_name, **_OUTSIDE}
    return user | {
        "color": "9f69e7",
        "real_name": person.real_name,
        "tz": person.tz,
        "tz_label": person.tz,
        "tz_offset": person.tz_offset,
        "is_admin": person.is_admin,
        "is_owner": person.is_admin,
        "is_primary_owner": False,
        "is_restricted": person.is_restricted,
        "is_ultra_restricted": person.is_ultra_restricted,
        "is_stranger": False,
        "is_email_confirmed": True,
        "has_2fa": False,
        "who_can_share_contact_card": "EVERYONE",
    }


def bot_user_json(app: App, url: str) -> dict[str, Any]:
    """The user object of an app's bot; `url` is the sandbox's."""
    bot = Person(app.name, app.bot_user, app.name.capitalize(), app.team)
    bot.tz, bot.tz_offset = "America/Los_Angeles", -28800
    user = user_json(bot, app.team, email=False, url=url)
    user |= {"is_bot": True, "is_email_confirmed": False}
    user["profile"] |= {"bot_id": app.bot_id, "api_app_id": app.id, "always_active": True}
    return user


def bot_profile(app: App, url: str) -> dict[str, Any]:
    """Return the bot profile in messages that an app posted; `url` is the sandbox's."""
    return {
        "id": app.bot_id,
        "deleted": False,
        "name": app.name,
        "updated": EPOCH,
        "app_id": app.id,
        "icons": images(url, app.name, (36, 48, 72)),
        "team_id": app.team,
    }


def channel_json(channel: Channel, app: App) -> dict[str, Any]:
    """A conversation as conversations.info returns it to that app."""
    bot_user, others = app.bot_user, channel.connected(app.team)
    internal = [app.team] if channel.is_ext_shared else [app.team, *others]
    common: dict[str, Any] = {
        "id": channel.id,
        "created": channel.created,
        "is_archived": channel.is_archived,
        "is_im": channel.kind == "im",
        "is_org_shared": bool(others) and not channel.is_ext_shared,
        "updated": channel.created * 1000,
        "context_team_id": app.team,
        "is_ext_shared": channel.is_ext_shared,
        "is_shared": bool(others),
        "is_mpim": channel.kind == "mpim",
    }
    if channel.kind == "im":
        user = next((m for m in channel.members if m != bot_user), "")
        return common | {
            "user": user,
            "is_user_deleted": False,
            "priority": 0,
            "is_open": channel.is_open,
        }
    connected: dict[str, Any] = {}
    if channel.is_ext_shared:
        connected = {
            "connected_team_ids": others,
            "internal_team_ids": internal,
            "conversation_host_id": channel.teams[0] if channel.teams else app.team,
        }
    return common | {
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": channel.kind == "channel",
        "is_group": channel.kind != "channel",
        "is_private": channel.kind != "channel",
        "is_general": channel.name == "general",
        "is_member": bot_user in channel.members,
        "creator": channel.creator,
        "unlinked": 0,
        "is_pending_ext_shared": False,
        "pending_shared": [],
        "parent_conversation": None,
        "shared_team_ids": [app.team, *others],
        "topic": _said(channel.topic, channel.topic_set),
        "purpose": _said(channel.purpose, channel.purpose_set),
        "previous_names": list(channel.previous_names),
        **connected,
    }


def _said(value: str, by: tuple[str, int]) -> dict[str, Any]:
    return {"value": value, "creator": by[0], "last_set": by[1]}


def group_json(group: Group, team: str, *, users: bool, count: bool) -> dict[str, Any]:
    """A user group as usergroups.list returns it."""
    body: dict[str, Any] = {
        "id": group.id,
        "team_id": team,
        "is_usergroup": True,
        "is_subteam": True,
        "name": group.name,
        "description": group.description,
        "handle": group.handle,
        "is_external": False,
        "date_create": group.created,
        "date_update": group.updated,
        "date_delete": group.disabled,
        "auto_type": None,
        "auto_provision": False,
        "enterprise_subteam_id": "",
        "created_by": group.created_by,
        "updated_by": group.updated_by,
        "deleted_by": group.updated_by if group.disabled else None,
        "prefs": {"channels": list(group.channels), "groups": []},
        "channel_count": len(group.channels),
    }
    if users:
        body["users"] = list(group.users)
    if count:
        body["user_count"] = len(group.users)
    return body
