"""Apps that are installed in a whole org: in which of its workspaces they may work.

One token is valid for all of them. Slack's method reference says which methods need `team_id` with
such a token (docs.slack.dev/reference/methods, "required if org token is used"), and
docs.slack.dev/reference/events/team_access_granted how an app learns of its workspaces. Called with
the world's lock held.
"""

from __future__ import annotations

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api.arguments import Args, page
from slack_sandbox.workspace import events
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.state import World

# methods about the installation itself, so the same in each of its workspaces
ORG_METHODS = frozenset(("auth.test", "auth.teams.list", "auth.revoke", "apps.uninstall"))
NEED_TEAM = frozenset(
    [
        *("bots.info", "chat.scheduledMessages.list", "conversations.create", "conversations.list"),
        *("dnd.teamInfo", "files.list", "reactions.list", "users.conversations", "users.list"),
        *("usergroups.create", "usergroups.disable", "usergroups.enable", "usergroups.list"),
        *("usergroups.update", "usergroups.users.list", "usergroups.users.update"),
    ]
)
_PLACES = ("channel", "channel_id", "channels", "view_id", "trigger_id", "user_id", "user", "users")


def installations(world: World, app: App) -> list[App]:
    """Return an org-wide app as each workspace of its org has it; for any other app, itself."""
    org = world.worlds[app.team].enterprise
    everywhere = [each for each in world.worlds.values() if org and each.enterprise == org]
    copies = [each.apps[app.id] for each in everywhere]
    return [each for each in copies if each.is_org_wide] if app.is_org_wide else [app]


def granted(world: World, app: App) -> list[World]:
    """The workspaces that an org-wide app may work in."""
    return [world.worlds[each.team] for each in installations(world, app) if each.installed]


def workspace_for(world: World, app: App, method: str, args: Json) -> World:
    """The workspace that a call with an org-wide token is about.

    SlackError(missing_argument) if the method needs `team_id`, and
    SlackError(team_access_not_granted) for a workspace that the app was not added to.
    """
    there, team = granted(world, app), str(args.get("team_id") or "")
    if team and team not in [each.team for each in there]:
        raise SlackError("team_access_not_granted")
    if not team and method in NEED_TEAM:
        raise SlackError("missing_argument")
    if not there:
        raise SlackError("team_access_not_granted")
    found = [each for each in there if each.team == team] or _about(there, args) or there
    return found[0]


def _about(worlds: list[World], args: Json) -> list[World]:
    """Return those workspaces that have the channel, view or person that the call names.

    A person's own workspaces come first: others know them from a shared channel.
    """
    named = {word for key in _PLACES for word in str(args.get(key) or "").split(",")}
    found: list[World] = []
    others: list[World] = []
    for world in worlds:
        views = (view.id for stack in world.stacks.values() for view in stack)
        shown = (view.id for view in world.homes.values())
        if named & {*world.channels, *views, *shown} or any(
            world.triggers[each].team == world.team for each in named & world.triggers.keys()
        ):
            return [world]
        if known := named & world.by_id.keys():
            at_home = any(world.is_member(world.by_id[each]) for each in known)
            (found if at_home else others).append(world)
    return found + others


def teams_list(world: World, args: Args) -> Json:
    """auth.teams.list: the workspaces that the token is good for."""
    app = args.app
    there = granted(world, app) if app.is_org_wide else [world.worlds[app.team]]
    found, cursor = page(there, args, limit_error="invalid_limit")
    teams = [{"id": each.team, "name": each.teams[each.team][0]} for each in found]
    return {"teams": teams, "response_metadata": {"next_cursor": cursor}}


def grant(world: World, app: App, teams: list[str], *, revoke: bool = False) -> None:
    """Add an org-wide app to workspaces of its org, or take it out of them, and tell it so."""
    copies = {each.team: each for each in installations(world, app)}
    changed = [copies[team] for team in teams if copies[team].installed == revoke]
    if not changed:
        return
    for each in changed:
        each.installed = not revoke
    kind = "team_access_revoked" if revoke else "team_access_granted"
    event: Json = {"type": kind, "team_ids": [each.team for each in changed]}
    events.emit(world.worlds[changed[0].team], changed[0], event)
    world.touch()


METHODS = {"auth.teams.list": teams_list}
