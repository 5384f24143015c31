"""The page /oauth/v2/authorize, on which a person lets an app in and goes back to it with a code.

It gives bot scopes only. Which token the code is exchanged for is decided in oauth.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from aiohttp import web

from slack_sandbox.setup.manifests import KNOWN_SCOPES
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import Person
from slack_sandbox.workspace.records import OAuthCode
from slack_sandbox.workspace.state import World

CODE_SECONDS = 600
_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 34rem }}
body {{ padding: 0 1rem }}
button, select {{ font: inherit; padding: .4rem 1rem; margin-right: .5rem }}
</style>
<main>
<h1>{title}</h1>
"""
_FORM = """<p>{place}, it will be able to use:</p>
<ul>
{scopes}
</ul>
<form method="post">
<p><label for="as">You are</label>
<select id="as" name="as">
{people}
</select></p>
{org}<p><button name="decision" value="allow">Allow</button>
<button name="decision" value="cancel">Cancel</button></p>
</form>
</main>
"""
_ORG = """<fieldset><legend>Install it</legend>
<p><label><input type="radio" name="for" value="" checked> in that workspace</label></p>
<p><label><input type="radio" name="for" value="{id}"> in all of {name}, and add it to</label></p>
{workspaces}
</fieldset>
"""
_ADDED = """<p><label><input type="checkbox" name="add" value="{id}" checked> {name}</label></p>"""
_WHY = {
    "invalid_client_id": "No app here has that client_id.",
    "no_scopes": "The address asks for no scope.",
    "invalid_scope": "The address asks for scopes that the local Slack does not give: {more}.",
    "bad_redirect_uri": "redirect_uri is not below one of oauth_config.redirect_urls "
    "in the app's manifest.",
    "invalid_team_for_non_distributed_app": "The app is to be installed in another workspace: "
    "{more}.",
}


class Refused(Exception):
    """Raised for an address that cannot lead to consent; has Slack's error code and more words."""

    def __init__(self, code: str, more: str = "") -> None:
        super().__init__(code)
        self.code, self.more = code, more


@dataclass(frozen=True, slots=True)
class Wish:
    """What an app asks for."""

    app: App
    scopes: frozenset[str]
    redirect_uri: str  # as the app sent it; "" if it did not
    back: str  # where the browser goes afterwards
    state: str
    team: str  # the workspace to install in; "" if the person chooses


class Consent:
    """Serves /oauth/v2/authorize."""

    def __init__(self, world: World) -> None:
        self.world = world

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the page into the server."""
        router.add_get("/oauth/v2/authorize", self._ask)
        router.add_post("/oauth/v2/authorize", self._answer)

    async def _ask(self, request: web.Request) -> web.Response:
        with self.world.lock:
            try:
                wish = wished(self.world, request.query)
            except Refused as refused:
                return _refusal(refused)
            scopes = "\n".join(
                f"<li><code>{escape(scope)}</code></li>" for scope in sorted(wish.scopes)
            )
            page = _HEAD.format(title=f"Let {escape(wish.app.name)} in?")
            page += self._form(wish, scopes)
        return web.Response(text=page, content_type="text/html")

    async def _answer(self, request: web.Request) -> web.Response:
        form = await request.post()
        with self.world.lock:
            try:
                wish = wished(self.world, request.query)
            except Refused as refused:
                return _refusal(refused)
            if form.get("decision") != "allow":
                raise web.HTTPFound(_with(wish.back, error="access_denied", state=wish.state))
            team, _, name = str(form.get("as", "")).rpartition("/")
            world = next((w for w in self._worlds(wish) if w.team == team or not team), None)
            person = next((p for p in _members(world) if p.name == name), None) if world else None
            if world is None or person is None:
                raise web.HTTPBadRequest(text="nobody with that name can install an app")
            org = str(form.get("for") or "")
            if org and (org != world.org_id or not person.is_admin):
                raise web.HTTPBadRequest(text="only an admin can install an app in the org")
            code = (
                f"{secrets.randbelow(10**13)}.{secrets.randbelow(10**13)}.{secrets.token_hex(32)}"
            )
            until = self.world.now() + CODE_SECONDS
            given = OAuthCode(
                wish.app.id, wish.scopes, wish.redirect_uri, person.id, until, org or world.team
            )
            mine = [each.team for each in self.world.worlds.values() if each.org_id == org]
            given.grants = tuple(t for t in map(str, form.getall("add", [])) if org and t in mine)
            self.world.codes[code] = given
        raise web.HTTPFound(_with(wish.back, code=code, state=wish.state))

    def _worlds(self, wish: Wish) -> list[World]:
        """The workspaces among which the person chooses."""
        return [w for w in self.world.worlds.values() if wish.team in ("", w.team, w.org_id)]

    def _form(self, wish: Wish, scopes: str) -> str:
        worlds = self._worlds(wish)
        people = []
        for world in worlds:
            several = len(self.world.worlds) > 1
            team, at = f"{world.team}/", f", {world.teams[world.team][0]}"
            people += [
                f'<option value="{team if several else ""}{escape(p.name)}">'
                f"{escape(p.real_name + (at if several else ''))}</option>"
                for p in _members(world)
            ]
        name = escape(worlds[0].teams[worlds[0].team][0])
        return _FORM.format(
            place=f"In {name}" if len(worlds) == 1 else "In the workspace that you choose",
            scopes=scopes,
            people="\n".join(people),
            org=self._org([each for each in worlds if each.enterprise]),
        )

    def _org(self, worlds: list[World]) -> str:
        """The choice between a workspace and its org, "" if there is no org."""
        if not worlds or worlds[0].enterprise is None:
            return ""
        org_id, name = worlds[0].enterprise
        sisters = [each for each in self.world.worlds.values() if each.org_id == org_id]
        added = [_ADDED.format(id=w.team, name=escape(w.teams[w.team][0])) for w in sisters]
        return _ORG.format(id=org_id, name=escape(name), workspaces="\n".join(added))


def _members(world: World) -> list[Person]:
    """Those who may install apps: members of the workspace, guests left out."""
    everybody = world.people.values()
    return [p for p in everybody if world.is_member(p) and not p.deleted and not p.is_restricted]


def wished(world: World, query: Mapping[str, str]) -> Wish:
    """Return what the query of an authorize address asks for; raises Refused if not allowed."""
    app = world.app_of_client(query.get("client_id", ""))
    if app is None:
        raise Refused("invalid_client_id")
    asked = {scope.strip() for scope in query.get("scope", "").replace(" ", ",").split(",")} - {""}
    if user := query.get("user_scope", ""):
        raise Refused("invalid_scope", f"user_scope={user}")
    if not asked:
        raise Refused("no_scopes")
    if unknown := asked - KNOWN_SCOPES - app.scopes:
        raise Refused("invalid_scope", ", ".join(sorted(unknown)))
    known = {each for w in world.worlds.values() for each in (w.team, w.org_id)}
    if (team := query.get("team", "")) not in known | {""}:
        raise Refused("invalid_team_for_non_distributed_app", team)
    given, allowed = query.get("redirect_uri", ""), app.redirect_urls
    back = given or next(iter(allowed), "")
    if not back or not any(_below(back, url) for url in allowed):
        raise Refused("bad_redirect_uri")
    return Wish(app, frozenset(asked), given, back, query.get("state", ""), team)


def _below(url: str, base: str) -> bool:
    """Whether `url` is `base` or a path below it, on the same scheme, host and port."""
    ours, theirs = urlsplit(url), urlsplit(base)
    same = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)
    return (
        same
        and (ours.path + "/").startswith(theirs.path.rstrip("/") + "/")
        and ".." not in ours.path
    )


def _with(url: str, **more: str) -> str:
    """Return the address with more parameters in its query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *more.items()])))


def _refusal(refused: Refused) -> web.Response:
    why = escape(_WHY[refused.code].format(more=refused.more))
    page = (
        _HEAD.format(title="This app cannot be installed")
        + f"<p><code>{refused.code}</code>: {why}</p>\n</main>\n"
    )
    return web.Response(text=page, content_type="text/html", status=400)
