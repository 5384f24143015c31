"""Who is who: auth.test, users.*, usergroups.*, bots.info, team.info. Called with the world's lock held."""

from __future__ import annotations

from bot.sandbox.people import TEAM, TEAM_NAMES, bot_profile, bot_user_json, group_json, user_json
from bot.sandbox.state import World
from bot.sandbox.wire import Args, Json, SlackError, page


def auth_test(world: World, args: Args) -> Json:
    """auth.test of the bot token."""
    return {
        "url": f"{world.url}/",
        "team": TEAM_NAMES[TEAM][0],
        "user": args.app.name,
        "team_id": TEAM,
        "user_id": args.app.bot_user,
        "bot_id": args.app.bot_id,
        "is_enterprise_install": False,
    }


def _user(world: World, args: Args, user: str) -> Json:
    if app := world.app_of_bot(user):
        return bot_user_json(app)
    return user_json(world.by_id[user], email="users:read.email" in args.app.scopes)


def users_info(world: World, args: Args) -> Json:
    """users.info; people of other companies only where they share a channel with the bot."""
    user = args.required("user")
    if world.app_of_bot(user) is None:
        person = world.by_id.get(user)
        if person is None:
            raise SlackError("user_not_found")
        shared = any(user in c.members and args.app.bot_user in c.members for c in world.channels.values())
        if person.team_id != TEAM and not shared:
            raise SlackError("user_not_visible")
    found = _user(world, args, user)
    return {"user": found | ({"locale": "en-GB"} if args.flag("include_locale") else {})}


def users_list(world: World, args: Args) -> Json:
    """users.list: the members of this workspace, deactivated ones and bots included."""
    ids = [p.id for p in world.people.values() if p.team_id == TEAM]
    found, cursor = page([*ids, *(app.bot_user for app in world.apps.values())], args)
    members = [_user(world, args, user) for user in found]
    return {"members": members, "cache_ts": int(world.now()), "response_metadata": {"next_cursor": cursor}}


def usergroups_list(world: World, args: Args) -> Json:
    """usergroups.list."""
    users, count = args.flag("include_users"), args.flag("include_count")
    return {"usergroups": [group_json(group, users=users, count=count) for group in world.groups.values()]}


def usergroups_users(world: World, args: Args) -> Json:
    """usergroups.users.list."""
    wanted = args.required("usergroup")
    for group in world.groups.values():
        if group.id == wanted:
            return {"users": list(group.users)}
    raise SlackError("no_such_subteam")


def bots_info(world: World, args: Args) -> Json:
    """bots.info."""
    wanted = args.required("bot")
    app = next((app for app in world.apps.values() if app.bot_id == wanted), None)
    if app is None:
        raise SlackError("bot_not_found")
    profile = bot_profile(app)
    bot = {key: profile[key] for key in ("id", "deleted", "name", "updated", "app_id", "icons")}
    return {"bot": bot | {"user_id": app.bot_user}}


def team_info(world: World, args: Args) -> Json:
    """team.info of the installing workspace."""
    if args.text("team", TEAM) != TEAM:
        raise SlackError("team_not_found")
    name, domain = TEAM_NAMES[TEAM]
    icon = {f"image_{size}": f"{world.url}/page/team-{size}.png" for size in (34, 44, 68, 88, 102, 132)}
    team = {"id": TEAM, "name": name, "url": f"{world.url}/", "domain": domain, "email_domain": ""}
    return {"team": team | {"icon": icon | {"image_default": True}}}


METHODS = {
    "auth.test": auth_test,
    "users.info": users_info,
    "users.list": users_list,
    "usergroups.list": usergroups_list,
    "usergroups.users.list": usergroups_users,
    "bots.info": bots_info,
    "team.info": team_info,
}
