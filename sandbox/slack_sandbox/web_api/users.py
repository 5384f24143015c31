"""Who is who: auth.test, users.*, dnd.teamInfo, bots.info, team.info, emoji.list.

Called with the world's lock held.
"""

from __future__ import annotations

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import oauth
from slack_sandbox.web_api.arguments import Args, page
from slack_sandbox.workspace.api_objects import bot_profile, bot_user_json, user_json
from slack_sandbox.workspace.people import PROFILE_FIELDS
from slack_sandbox.workspace.state import World


def auth_test(world: World, args: Args) -> Json:
    """auth.test of the bot token; an org-wide one is the org's."""
    app = args.app
    org = world.worlds[app.team].enterprise
    team, name = app.team, world.teams[app.team][0]
    if org and app.is_org_wide:
        team, name = org
    return {
        "url": f"{world.url}/",
        "team": name,
        "user": app.name,
        "team_id": team,
        "user_id": app.bot_user,
        "bot_id": app.bot_id,
        **({"enterprise_id": org[0]} if org else {}),
        "is_enterprise_install": app.is_org_wide,
    }


def auth_revoke(world: World, args: Args) -> Json:
    """auth.revoke: the bot token is no longer valid, unless this is a test."""
    if args.flag("test"):
        return {"revoked": False}
    oauth.remove(world, args.app, revoked_only=True)
    return {"revoked": True}


def _user(world: World, args: Args, user: str) -> Json:
    if app := world.app_of_bot(user):
        return bot_user_json(app, world.url)
    world.by_id[user].lapse(world.now())
    person, allowed = world.by_id[user], "users:read.email" in args.app.scopes
    return user_json(person, world.team, email=allowed, url=world.url)


def _visible(world: World, args: Args, user: str, hidden: str) -> str:
    """Return that user id; SlackError for one that is not there or not to be seen.

    SlackError(`hidden`) for people of other companies without a channel in common with the bot.
    """
    if world.app_of_bot(user) is None:
        person = world.by_id.get(user)
        if person is None:
            raise SlackError("user_not_found")
        shared = any(
            user in c.members and args.app.bot_user in c.members for c in world.channels.values()
        )
        if not world.is_member(person) and not shared:
            raise SlackError(hidden)
    return user


def users_info(world: World, args: Args) -> Json:
    """users.info; people of other companies only where they share a channel with the bot."""
    found = _user(world, args, _visible(world, args, args.text("user"), "user_not_visible"))
    return {"user": found | ({"locale": "en-GB"} if args.flag("include_locale") else {})}


def users_list(world: World, args: Args) -> Json:
    """users.list: the members of this workspace, deactivated ones and bots included."""
    ids = [p.id for p in world.people.values() if world.is_member(p)]
    bots = [app.bot_user for app in world.known_apps]
    found, cursor = page([*ids, *bots], args, limit_error="limit_required")
    members = [_user(world, args, user) for user in found]
    return {
        "members": members,
        "cache_ts": int(world.now()),
        "response_metadata": {"next_cursor": cursor},
    }


def users_by_email(world: World, args: Args) -> Json:
    """users.lookupByEmail: active members of this workspace."""
    wanted = args.text("email").strip().lower()
    for person in world.people.values():
        if world.is_member(person) and not person.deleted:
            person.lapse(world.now())
            found = user_json(person, world.team, email=True, url=world.url)
            if found["profile"]["email"] == wanted:
                return {"user": found}
    raise SlackError("users_not_found")


def profile(world: World, args: Args) -> Json:
    """users.profile.get of a user, else of the bot itself."""
    user = _visible(world, args, args.text("user") or args.app.bot_user, "user_not_found")
    found = _user(world, args, user)["profile"]
    if world.app_of_bot(user) is None:
        labels = args.flag("include_labels")
        found["fields"] = {
            each: {"value": value, "alt": ""} | ({"label": PROFILE_FIELDS[each]} if labels else {})
            for each, value in world.by_id[user].fields.items()
        }
    return {"profile": found}


def presence(world: World, args: Args) -> Json:
    """users.getPresence of a user, else of the bot itself."""
    user = _visible(world, args, args.text("user") or args.app.bot_user, "user_not_found")
    away = user in world.away or (user in world.by_id and world.by_id[user].deleted)
    return {"presence": "away" if away else "active"}


MAX_USERS_PER_CALL = 50  # in one call of dnd.teamInfo


def do_not_disturb(world: World, args: Args) -> Json:
    """dnd.teamInfo: when people get no notifications, be it by hours of each day or by a pause."""
    users = args.names("users")
    if len(users) > MAX_USERS_PER_CALL:
        raise SlackError("invalid_arguments")
    found = {}
    for user in users:
        try:
            person = world.by_id.get(_visible(world, args, user, "user_not_visible"))
        except SlackError:
            raise SlackError("user_not_visible") from None
        hours = person.do_not_disturb(world.now()) if person else None
        start, end = hours or (1, 1)
        found[user] = {
            "dnd_enabled": hours is not None,
            "next_dnd_start_ts": start,
            "next_dnd_end_ts": end,
        }
    return {"users": found}


def set_presence(world: World, args: Args) -> Json:
    """users.setPresence of the bot."""
    wanted = args.text("presence")
    if wanted not in ("auto", "away"):
        raise SlackError("invalid_presence")
    world.away.discard(args.app.bot_user)
    if wanted == "away":
        world.away.add(args.app.bot_user)
    return {}


def emoji_list(world: World, _: Args) -> Json:
    """emoji.list: the workspace has no emoji of its own."""
    return {"emoji": {}, "cache_ts": f"{world.now():.6f}"}


def bots_info(world: World, args: Args) -> Json:
    """bots.info."""
    wanted = args.text("bot")
    app = next((app for app in world.known_apps if app.bot_id == wanted), None)
    if app is None:
        raise SlackError("bot_not_found")
    profile = bot_profile(app, world.url)
    bot = {key: profile[key] for key in ("id", "deleted", "name", "updated", "app_id", "icons")}
    return {"bot": bot | {"user_id": app.bot_user}}


def team_info(world: World, args: Args) -> Json:
    """team.info of the installing workspace, and of those it shares channels with."""
    team_id = args.text("team") or world.team
    shared = any(
        c.is_ext_shared and args.app.bot_user in c.members for c in world.channels.values()
    )
    if team_id not in world.teams or (team_id != world.team and not shared):
        raise SlackError("team_not_found")
    name, domain = world.teams[team_id]
    if args.has("domain") and args.text("domain") != domain:
        raise SlackError("team_not_found")
    icon = {
        f"image_{size}": f"{world.url}/page/team-{size}.png" for size in (34, 44, 68, 88, 102, 132)
    }
    team = {
        "id": team_id,
        "name": name,
        "url": f"{world.url}/",
        "domain": domain,
        "email_domain": "",
    }
    return {"team": team | {"icon": icon | {"image_default": True}}}


METHODS = {
    "auth.test": auth_test,
    "auth.revoke": auth_revoke,
    "dnd.teamInfo": do_not_disturb,
    "emoji.list": emoji_list,
    "users.getPresence": presence,
    "users.lookupByEmail": users_by_email,
    "users.profile.get": profile,
    "users.setPresence": set_presence,
    "users.info": users_info,
    "users.list": users_list,
    "bots.info": bots_info,
    "team.info": team_info,
}
