"""The page /oauth/v2/authorize, on which a person lets an app in and goes back to it with a code.

It gives bot scopes only. What the code is worth is decided in oauth.py.
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
from slack_sandbox.workspace.people import TEAM, Person
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
_FORM = """<p>In {team}, it will be able to use:</p>
<ul>
{scopes}
</ul>
<form method="post">
<p><label for="as">You are</label>
<select id="as" name="as">
{people}
</select></p>
<p><button name="decision" value="allow">Allow</button>
<button name="decision" value="cancel">Cancel</button></p>
</form>
</main>
"""
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
    """An address that leads to no consent, with Slack's code for the reason and a sentence."""

    def __init__(self, code: str, more: str = "") -> None:
        super().__init__(code)
        self.code, self.more = code, more


@dataclass(frozen=True, slots=True)
class Wish:
    """What an app asks for."""

    app: App
    scopes: frozenset[str]
    redirect_uri: str  # as it was sent, "" where it was not
    back: str  # where the person goes afterwards
    state: str


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
            people = "\n".join(
                f'<option value="{escape(person.name)}">{escape(person.real_name)}</option>'
                for person in self._members()
            )
            page = _HEAD.format(title=f"Let {escape(wish.app.name)} in?")
            page += _FORM.format(
                team=escape(self.world.teams[TEAM][0]), scopes=scopes, people=people
            )
        return web.Response(text=page, content_type="text/html")

    async def _answer(self, request: web.Request) -> web.Response:
        form = await request.post()
        with self.world.lock:
            try:
                wish = wished(self.world, request.query)
            except Refused as refused:
                return _refusal(refused)
            person = next((p for p in self._members() if p.name == form.get("as")), None)
            if form.get("decision") != "allow":
                raise web.HTTPFound(_with(wish.back, error="access_denied", state=wish.state))
            if person is None:
                raise web.HTTPBadRequest(text="nobody of that name can install an app")
            code = (
                f"{secrets.randbelow(10**13)}.{secrets.randbelow(10**13)}.{secrets.token_hex(32)}"
            )
            until = self.world.now() + CODE_SECONDS
            self.world.codes[code] = OAuthCode(
                wish.app.id, wish.scopes, wish.redirect_uri, person.id, until
            )
        raise web.HTTPFound(_with(wish.back, code=code, state=wish.state))

    def _members(self) -> list[Person]:
        """Those who may install apps: members of the workspace, guests left out."""
        everybody = self.world.people.values()
        return [p for p in everybody if p.team_id == TEAM and not p.deleted and not p.is_restricted]


def wished(world: World, query: Mapping[str, str]) -> Wish:
    """What the query of an authorize address asks for; Refused where it may not."""
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
    if (team := query.get("team", "")) not in ("", TEAM):
        raise Refused("invalid_team_for_non_distributed_app", team)
    given, allowed = query.get("redirect_uri", ""), app.redirect_urls
    back = given or next(iter(allowed), "")
    if not back or not any(_below(back, url) for url in allowed):
        raise Refused("bad_redirect_uri")
    return Wish(app, frozenset(asked), given, back, query.get("state", ""))


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
    """The address with more in its query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *more.items()])))


def _refusal(refused: Refused) -> web.Response:
    why = escape(_WHY[refused.code].format(more=refused.more))
    page = (
        _HEAD.format(title="This app cannot be installed")
        + f"<p><code>{refused.code}</code>: {why}</p>\n</main>\n"
    )
    return web.Response(text=page, content_type="text/html", status=400)
