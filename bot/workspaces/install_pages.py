"""The pages from which somebody adds the bot to their workspace, by Slack's OAuth.

/slack/install says what the bot will be able to do; its button leads to Slack, which sends the
browser back to /slack/oauth_redirect. Opening a page changes nothing. What Slack sends back counts
once, within ten minutes, and only in the same browser. No token is in an address, a page or the
log.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from html import escape
from http import HTTPStatus
from urllib.parse import urlencode

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from bot.approvals.signatures import hash_token
from bot.checks.slack import read_manifest_scopes
from bot.clock import Clock, get_machine_time
from bot.config.connection_settings import PageAddress
from bot.http import signing_pages
from bot.slack_codes import ERROR_CODE_PATTERN
from bot.workspaces import removals
from bot.workspaces.oauth_client import OAuthClient, OAuthError, TokenAnswer
from bot.workspaces.tokens import TokenCipher
from storage.installations import Installation, InstallationRecord, OAuthState
from storage.states import InstallationState

log = logging.getLogger("countersign.workspaces")
INSTALL_PATH = "/slack/install"
REDIRECT_PATH = "/slack/oauth_redirect"
OAUTH_STATE_DURATION = timedelta(minutes=10)  # time to read Slack's page and to sign in there
MAX_CONCURRENT_LOGINS = 8  # those that wait for Slack's answer; other requests wait in line
_BROWSER_SECRET_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_OAUTH_CODE_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,500}", re.ASCII)
_DEAD_CODE_ERRORS = frozenset({"invalid_code", "code_already_used", "code_expired"})

# What people read.

# what the scopes with these prefixes are for, in the order of the page
ABILITY_BY_SCOPE_PREFIXES: dict[str, str] = {
    "app_mentions: channels:history groups:history im:history mpim:history": "Read direct messages "
    "to it, and what is written in channels that it is in",
    "chat: assistant: im:write reactions: commands": "Answer, and show people what to approve: in "
    "channels and in direct messages",
    "channels:read groups:read im:read mpim:read usergroups:": "See channels and user groups, and "
    "who is in them",
    "channels:manage groups:write": "Create channels, set their topics and invite people",
    "users dnd:": "See people’s profiles: who is a guest, away, or somebody’s manager",
    "files:": "Read the files that people give it, and post results as files",
}
PAGE_TITLE = "Add Countersign to Slack"
LEAD = (
    "Countersign is an agent that does things for your team. Changes are shown to the people who"
    " may decide, and are made only once they approve."
)
NOT_INSTALLED = "so nothing was installed."
HOW_TO_USE_TEXT = "Write to it in a direct message, or add it to a channel and mention it there."
ORG_NEXT_STEP_TEXT = (
    "An administrator of the organisation now adds it to workspaces, in Slack’s administration "
    "under Integrations. It answers only there."
)
PAUSED_TEXT = (
    "It is installed, but the people who run Countersign paused it there, so it does not answer."
)
DENIED_ERROR = f"You did not allow it, {NOT_INSTALLED}"
PAGE_EXPIRED_ERROR = (
    "This page was used before, is more than ten minutes old, or you started in another browser"
    " or one without cookies. If Countersign is in Slack now, all is well; otherwise start again."
)
UNREACHABLE_ERROR = f"Slack cannot be reached at the moment, {NOT_INSTALLED} Try again in a minute."
SETUP_ERROR = (
    f"Slack does not accept how Countersign is set up, {NOT_INSTALLED} Tell the people who run it."
)
WRONG_APP_ERROR = (
    f"This belongs to another Slack app, {NOT_INSTALLED} Tell the people who run Countersign."
)
ORG_HAS_APP_ERROR = (
    "Your organisation has Countersign already. Ask one of its administrators to add it to your "
    "workspace."
)
REFUSED_ERROR = f"Slack refused it ({{code}}), {NOT_INSTALLED}"
NOT_FROM_PAGE_ERROR = f"This was not sent by Countersign’s page, {NOT_INSTALLED}"
REDIRECTING_TEXT = "Continuing to Slack…"

SECURITY_HEADERS = {
    **signing_pages.SECURITY_HEADERS,
    "Content-Security-Policy": f"default-src 'none'; style-src {signing_pages.STYLE_HASH}; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Permissions-Policy": "publickey-credentials-get=(), publickey-credentials-create=()",
}
# without any referrer, browsers would not tell the page that a form was sent from either
FORM_HEADERS = {**SECURITY_HEADERS, "Referrer-Policy": "same-origin"}


def describe_scopes(scopes: list[str]) -> Iterator[str]:
    """Yield in words what these OAuth scopes are for; an unknown scope is named as it is."""
    left = list(scopes)
    for starts, phrase in ABILITY_BY_SCOPE_PREFIXES.items():
        if found := [each for each in left if each.startswith(tuple(starts.split()))]:
            left = [each for each in left if each not in found]
            yield phrase
    yield from left


@dataclass
class InstallPages:
    """The web pages from which people install the bot in a workspace; one per process."""

    _record: InstallationRecord
    _cipher: TokenCipher
    _oauth: OAuthClient
    _clock: Clock
    _address: PageAddress  # where browsers reach this installation
    # gets the stored row before the page says that it is done, on a thread of the server's, which
    # it should not hold for long
    _on_installed: Callable[[Installation], None]

    def __post_init__(self) -> None:
        self._scopes, url = read_manifest_scopes(), self._address.url
        self._redirect_uri = url + REDIRECT_PATH
        self._turns = CapacityLimiter(MAX_CONCURRENT_LOGINS)
        self._is_https = url.startswith("https:")
        # other hosts cannot set a cookie with this name
        self._cookie = "__Host-countersign-install" if self._is_https else "countersign-install"

    def list_routes(self) -> list[Route]:
        """Return the routes of the install page, of its button, and of the way back from Slack."""
        return [
            Route(INSTALL_PATH, partial(self._handle, self._show), methods=["GET"]),
            Route(INSTALL_PATH, partial(self._handle, self._leave), methods=["POST"]),
            Route(REDIRECT_PATH, partial(self._handle, self._finish), methods=["GET"]),
        ]

    async def _handle(self, act: Callable[[Request], Response], request: Request) -> Response:
        try:
            return await to_thread.run_sync(act, request, limiter=self._turns)
        except HTTPException as refused:
            href = escape(self._address.url + INSTALL_PATH)
            again = f'<a class="button" href="{href}">Start again</a>'
            return HTMLResponse(
                _render(refused.detail, foot=again), refused.status_code, SECURITY_HEADERS
            )

    def _show(self, _request: Request) -> Response:
        """Return the page that says what the bot will be able to do. Changes nothing."""
        able = "".join(f"<li>{escape(each)}</li>" for each in describe_scopes(self._scopes))
        shown = f'<p class="lead">{LEAD}</p><section class="card plain"><h2>It will be able to</h2>'
        form = '<form method="post"><button>Continue to Slack</button></form>'
        words = '<p class="small">Slack asks you to allow this, and in which workspace.</p>'
        page = _render(PAGE_TITLE, f"{shown}<ul>{able}</ul></section>", form + words)
        return HTMLResponse(page, headers=FORM_HEADERS)

    def _leave(self, request: Request) -> Response:
        """Send the browser to Slack, with an OAuth state that is valid in this browser only."""
        site, origin = (request.headers.getlist(each) for each in ("sec-fetch-site", "origin"))
        if origin != [self._address.origin] or site not in ([], ["same-origin"]):
            raise HTTPException(HTTPStatus.FORBIDDEN, NOT_FROM_PAGE_ERROR)
        browser = request.cookies.get(self._cookie, "")
        # a valid cookie is kept, as another tab may be installing with it
        if not _BROWSER_SECRET_PATTERN.fullmatch(browser):
            browser = secrets.token_urlsafe(32)
        state, now = secrets.token_urlsafe(32), self._clock.now()
        hashes = {"state_hash": hash_token(state), "browser_hash": hash_token(browser)}
        self._record.add_oauth_state(
            OAuthState(**hashes, expires_at=now + OAUTH_STATE_DURATION), now
        )
        url = self._oauth.build_authorize_url(self._scopes, self._redirect_uri, state)
        link = f'<a class="button" href="{escape(url)}">Continue to Slack</a>'
        # no redirect: the page's policy limits where forms may lead, and Slack redirects further
        headers = {**SECURITY_HEADERS, "Refresh": f"0;url={url}"}
        response = HTMLResponse(_render(REDIRECTING_TEXT, foot=link), headers=headers)
        response.set_cookie(
            self._cookie,
            browser,
            max_age=int(OAUTH_STATE_DURATION.total_seconds()),
            secure=self._is_https,
            httponly=True,
            samesite="lax",
        )
        return response

    def _finish(self, request: Request) -> Response:
        """Take the code that Slack sent the browser back with, and store the installation."""
        query = request.query_params
        state, browser = query.get("state", ""), request.cookies.get(self._cookie, "")
        now = self._clock.now()
        if not self._record.consume_oauth_state(hash_token(state), hash_token(browser), now):
            raise HTTPException(HTTPStatus.GONE, PAGE_EXPIRED_ERROR)
        if refusal := query.get("error"):
            code = refusal if ERROR_CODE_PATTERN.fullmatch(refusal) else "unknown_error"
            reason = DENIED_ERROR if code == "access_denied" else REFUSED_ERROR.format(code=code)
            raise HTTPException(HTTPStatus.OK, reason)
        if not _OAUTH_CODE_PATTERN.fullmatch(query.get("code", "")):
            raise HTTPException(HTTPStatus.GONE, PAGE_EXPIRED_ERROR)
        try:
            stored = self._install(query["code"])
        except OAuthError as error:
            raise _describe_error(error) from None
        return HTMLResponse(_render_done(stored), headers=SECURITY_HEADERS)

    def _install(self, code: str) -> Installation:
        """Exchange an OAuth code for tokens, and store the installation.

        Raises OAuthError, or HTTPException for another Slack app.
        """
        answer = self._oauth.exchange_code(code, self._redirect_uri)
        now = get_machine_time(self._clock)  # events from Slack are compared with this time
        installation = self._read_answer(answer)
        rows = self._record.list()
        apps = {row.app_id for row in rows if row.state is not InstallationState.REMOVED}
        if others := apps - {installation.app_id}:
            log_format = (
                "an installation by the Slack app %s was refused: those on record are of %s"
            )
            log.error(log_format, installation.app_id, ", ".join(sorted(others)))
            raise HTTPException(HTTPStatus.CONFLICT, WRONG_APP_ERROR)
        installation.bot_id, installation.url = self._oauth.find_bot_id_and_url(answer.tokens.bot)
        installation.sealed_tokens = self._cipher.seal(installation.workspace, answer.tokens)
        installation.token_key = self._cipher.key_id
        installation.installed_at, installation.token_expires_at = now, answer.compute_expiry(now)
        stored = self._record.insert_or_update_installation(installation)
        if stored.is_org_wide:
            given = (stored.workspace, answer.tokens.bot)  # later changes come as events
            removals.follow_granted_workspaces(self._record, self._oauth, *given)
        log.info("workspace %s: installed by %s", stored.workspace, stored.installed_by)
        self._on_installed(stored)
        return stored

    def _read_answer(self, answer: TokenAnswer) -> Installation:
        """Return the row of the installation in Slack's answer, without its tokens and times."""
        about = answer.about
        enterprise, team = about.get("enterprise") or {}, about.get("team") or {}
        whole = bool(about.get("is_enterprise_install"))
        place = enterprise if whole else team
        if not place.get("id") or not about.get("app_id"):
            raise OAuthError("no_workspace", is_passing=False)
        return Installation(
            workspace=str(place["id"]),
            enterprise=str(enterprise.get("id") or ""),
            name=str(place.get("name") or place["id"]),
            is_org_wide=whole,
            scopes=",".join(sorted(str(about.get("scope") or "").split(","))),
            bot_user=str(about.get("bot_user_id") or ""),
            app_id=str(about["app_id"]),
            installed_by=str((about.get("authed_user") or {}).get("id") or ""),
        )


def _describe_error(error: OAuthError) -> HTTPException:
    """Return what a person is told of an OAuth error; log what the operator has to mend."""
    if error.is_passing:
        return HTTPException(HTTPStatus.BAD_GATEWAY, UNREACHABLE_ERROR)
    if error.code == "cannot_install_an_org_installed_app":
        return HTTPException(HTTPStatus.CONFLICT, ORG_HAS_APP_ERROR)
    if error.code in _DEAD_CODE_ERRORS:
        return HTTPException(HTTPStatus.GONE, PAGE_EXPIRED_ERROR)
    if error.is_by_settings:
        remedy = "COUNTERSIGN_CLIENT_ID, COUNTERSIGN_CLIENT_SECRET and the app's redirect URLs"
        log.error("nobody can install the bot: Slack answers %s; correct %s", error.code, remedy)
        return HTTPException(HTTPStatus.BAD_GATEWAY, SETUP_ERROR)
    log.error("the bot could not be installed: Slack answers %s", error.code)
    return HTTPException(HTTPStatus.BAD_GATEWAY, REFUSED_ERROR.format(code=error.code))


def _render(title: str, shown: str = "", foot: str = "") -> str:
    """Return an install page as HTML, without a script; `shown` and `foot` are HTML."""
    return signing_pages.render_page(title, shown, f"<footer>{foot}</footer>", script="")


def _render_done(stored: Installation) -> str:
    if stored.state is InstallationState.PAUSED:
        return _render(
            f"Countersign is paused in {stored.name}", f'<p class="lead">{PAUSED_TEXT}</p>'
        )
    title = f"Countersign is now in {stored.name}"
    if stored.is_org_wide:
        return _render(title, f'<p class="lead">{ORG_NEXT_STEP_TEXT}</p>')
    query = urlencode({"team": stored.workspace, "id": stored.app_id})
    app = f'<a class="button" href="slack://app?{escape(query)}">Open Slack</a>'
    query = urlencode({"team": stored.workspace, "app": stored.app_id})
    web = f'<a href="https://slack.com/app_redirect?{escape(query)}">Open it in this browser</a>'
    return _render(
        title, f'<p class="lead">{HOW_TO_USE_TEXT}</p>', f'{app}<p class="small">{web}</p>'
    )
