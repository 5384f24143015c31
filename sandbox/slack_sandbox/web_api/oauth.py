"""OAuth v2: tokens that an app gets for a code, refreshes, and loses by an uninstall.

The page on which a person agrees is in consent.py. Called with the world's lock held.
"""

from __future__ import annotations

import hmac
import secrets

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import orgs
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import events
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.state import World

TOKEN_SECONDS = 12 * 3600  # how long a token works if the app's manifest turns on token rotation


def access(world: World, args: Args) -> Json:
    """oauth.v2.access: a code, or a refresh token, for a bot token."""
    client = _client(world, args)
    grant = args.text("grant_type") or "authorization_code"
    if grant == "refresh_token":
        return _refreshed(world, client, args.text("refresh_token"))
    if grant != "authorization_code":
        raise SlackError("invalid_grant_type")
    code = world.codes.get(args.text("code"))
    if code is None or code.app_id != client.id or code.used or world.now() > code.until:
        raise SlackError("invalid_code")
    if args.text("redirect_uri") != code.redirect_uri:
        raise SlackError("bad_redirect_uri")
    there = [each for each in world.worlds.values() if code.team in (each.team, each.org_id)]
    if there[0].apps[client.id].is_org_wide and code.team == there[0].team:
        raise SlackError("cannot_install_an_org_installed_app")
    code.used = True
    app = install(there, client.id, code.scopes, org_wide=code.team == there[0].org_id)
    if code.grants:
        orgs.grant(world, app, list(code.grants))
    return _answer(world, app, code.user)


def install(worlds: list[World], app_id: str, scopes: frozenset[str], *, org_wide: bool) -> App:
    """Install the app with these scopes in a workspace, or org-wide in all those of an org.

    An app that was installed before keeps its token and its granted scopes. An org-wide app is in
    the workspaces that had it, and is added to others later
    (api.slack.com/enterprise/apps/reference: "the app won't actually be added to any workspaces
    yet").
    """
    first = app = worlds[0].apps[app_id]
    if org_wide and not app.is_org_wide:
        app.revoked = True  # one workspace's token is not valid for the org
    before = frozenset() if app.revoked or app.granted is None else app.granted
    app.is_org_wide, app.installed = org_wide, app.installed or not org_wide
    if app.revoked or app.rotates:
        _new_token(worlds[0], app)
    app.revoked, app.granted = False, before | scopes
    for world in worlds[1:]:
        world.apps[app_id].is_org_wide = True
        _copy_tokens(first, world.apps[app_id])
    worlds[0].touch()
    return first


def exchange(world: World, args: Args) -> Json:
    """oauth.v2.exchange: a token that never expires for one that does, with a refresh token."""
    client = _client(world, args)
    if not client.rotates:
        raise SlackError("token_rotation_not_enabled")
    app = world.app_of_token(args.text("token"))
    if app is None or app.id != client.id or args.text("token") != app.bot_token or app.revoked:
        raise SlackError("invalid_token")
    if app.token_until is not None:
        raise SlackError("token_already_exchanged")
    _renew(world, app)
    return _answer(world, app, "")


def uninstall(world: World, args: Args) -> Json:
    """apps.uninstall: the app removes itself."""
    if _client(world, args).id != args.app.id:
        raise SlackError("client_id_token_mismatch")
    remove(world, args.app)
    return {}


def remove(world: World, app: App, *, revoked_only: bool = False) -> None:
    """Uninstall an app from a workspace, or from its org: its token is revoked, and it hears so."""
    copies, world = orgs.installations(world, app), world.worlds[app.team]
    for each in copies:
        each.revoked, each.installed = True, False
    tokens: Json = {"oauth": [], "bot": [app.bot_user]}
    events.emit(world, app, {"type": "tokens_revoked", "tokens": tokens})
    if not revoked_only:
        events.emit(world, app, {"type": "app_uninstalled"})
    for each in copies:
        each.is_org_wide = False


def _client(world: World, args: Args) -> App:
    """The app whose client id and secret a call brings."""
    app = world.app_of_client(args.text("client_id"))
    if app is None:
        raise SlackError("invalid_client_id")
    if not hmac.compare_digest(app.client_secret.encode(), args.text("client_secret").encode()):
        raise SlackError("bad_client_secret")
    return app


def _refreshed(world: World, client: App, token: str) -> Json:
    """Return the next tokens for a refresh token, which is valid once.

    docs.slack.dev/authentication/using-token-rotation: "The refresh token is then revoked".
    """
    there = [each.apps[client.id] for each in world.worlds.values()]
    app = next((each for each in there if token and each.refresh_token == token), None)
    if app is None or app.revoked:
        raise SlackError("invalid_refresh_token")
    _renew(world, app)
    return _answer(world, app, "")


def _renew(world: World, app: App) -> None:
    """Give the installation another token; an org-wide one gets it in every workspace."""
    _new_token(world, app)
    for each in orgs.installations(world, app):
        _copy_tokens(app, each)


def _copy_tokens(of: App, to: App) -> None:
    to.bot_user, to.bot_id, to.bot_token, to.revoked = of.bot_user, of.bot_id, of.bot_token, False
    to.refresh_token, to.token_until, to.granted = of.refresh_token, of.token_until, of.granted
    to.earlier_tokens = dict(of.earlier_tokens)


def _new_token(world: World, app: App) -> None:
    """Give the app another bot token.

    The old one stays valid until it expires; one that never expires is no longer valid.
    """
    if app.token_until is not None:
        app.earlier_tokens[app.bot_token] = app.token_until
    if app.rotates:
        app.bot_token, app.refresh_token = (
            f"xoxe.xoxb-1-{secrets.token_hex(16)}",
            f"xoxe-1-{secrets.token_hex(16)}",
        )
        app.token_until = world.now() + TOKEN_SECONDS
    else:
        app.bot_token, app.refresh_token, app.token_until = (
            f"xoxb-{secrets.token_hex(16)}",
            "",
            None,
        )


def _answer(world: World, app: App, user: str) -> Json:
    org = world.worlds[app.team].enterprise
    answer: Json = {
        "app_id": app.id,
        "authed_user": {"id": user} if user else {},
        "scope": ",".join(sorted(app.scopes)),
        "token_type": "bot",
        "access_token": app.bot_token,
        "bot_user_id": app.bot_user,
        "team": None if app.is_org_wide else {"id": app.team, "name": world.teams[app.team][0]},
        "enterprise": {"id": org[0], "name": org[1]} if org else None,
        "is_enterprise_install": app.is_org_wide,
    }
    if app.token_until is not None:
        answer |= {"refresh_token": app.refresh_token, "expires_in": TOKEN_SECONDS}
    return answer


METHODS = {"oauth.v2.access": access, "oauth.v2.exchange": exchange, "apps.uninstall": uninstall}
