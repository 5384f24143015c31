"""OAuth v2: tokens that an app gets for a code, refreshes, and loses by an uninstall.

The page on which a person agrees is in consent.py. Called with the world's lock held.
"""

from __future__ import annotations

import hmac
import secrets

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import events
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.people import TEAM
from slack_sandbox.workspace.state import World

TOKEN_SECONDS = 12 * 3600  # life of a token of an app whose manifest switches token rotation on


def access(world: World, args: Args) -> Json:
    """oauth.v2.access: a code, or a refresh token, for a bot token."""
    app = _client(world, args)
    grant = args.text("grant_type") or "authorization_code"
    if grant == "refresh_token":
        return _refreshed(world, app, args.text("refresh_token"))
    if grant != "authorization_code":
        raise SlackError("invalid_grant_type")
    code = world.codes.get(args.text("code"))
    if code is None or code.app_id != app.id or code.used or world.now() > code.until:
        raise SlackError("invalid_code")
    if args.text("redirect_uri") != code.redirect_uri:
        raise SlackError("bad_redirect_uri")
    code.used = True
    app.granted = code.scopes if app.revoked or app.granted is None else app.granted | code.scopes
    if app.revoked or app.rotates:
        _new_token(world, app)
    app.revoked = False
    world.touch()
    return _answer(world, app, code.user)


def exchange(world: World, args: Args) -> Json:
    """oauth.v2.exchange: a token that never expires for one that does, with a refresh token."""
    app = _client(world, args)
    if not app.rotates:
        raise SlackError("token_rotation_not_enabled")
    if args.text("token") != app.bot_token:
        raise SlackError("invalid_token")
    if app.token_until is not None:
        raise SlackError("token_already_exchanged")
    _new_token(world, app)
    return _answer(world, app, "")


def uninstall(world: World, args: Args) -> Json:
    """apps.uninstall: the app removes itself."""
    if _client(world, args) is not args.app:
        raise SlackError("client_id_token_mismatch")
    remove(world, args.app)
    return {}


def remove(world: World, app: App) -> None:
    """Uninstall an app: its token is revoked, and it is told so."""
    app.revoked = True
    events.emit(
        world, app, {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [app.bot_user]}}
    )
    events.emit(world, app, {"type": "app_uninstalled"})


def _client(world: World, args: Args) -> App:
    """The app whose client id and secret a call brings."""
    app = world.app_of_client(args.text("client_id"))
    if app is None:
        raise SlackError("invalid_client_id")
    if not hmac.compare_digest(app.client_secret.encode(), args.text("client_secret").encode()):
        raise SlackError("bad_client_secret")
    return app


def _refreshed(world: World, app: App, token: str) -> Json:
    if not token or token != app.refresh_token or app.revoked:
        raise SlackError("invalid_refresh_token")
    _new_token(world, app)
    return _answer(world, app, "")


def _new_token(world: World, app: App) -> None:
    """Another bot token.

    One that was to expire stays good until then, any other is good no longer.
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
    answer: Json = {
        "app_id": app.id,
        "authed_user": {"id": user} if user else {},
        "scope": ",".join(sorted(app.scopes)),
        "token_type": "bot",
        "access_token": app.bot_token,
        "bot_user_id": app.bot_user,
        "team": {"id": TEAM, "name": world.teams[TEAM][0]},
        "enterprise": None,
        "is_enterprise_install": False,
    }
    if app.token_until is not None:
        answer |= {"refresh_token": app.refresh_token, "expires_in": TOKEN_SECONDS}
    return answer


METHODS = {"oauth.v2.access": access, "oauth.v2.exchange": exchange, "apps.uninstall": uninstall}
