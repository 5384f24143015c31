"""Slack's OAuth endpoints as this bot uses them: for a first token, and to renew one in time.

Nothing is sent twice here, and nothing that is sent or answered is logged. slack_sdk's own
`TokenRotator` goes by the machine's time instead of the clock's, and Bolt's `OAuthFlow` logs the
code; only slack_sdk's client is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from pydantic import SecretStr
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from bot import slack_codes
from bot.clock import Clock
from bot.workspaces.tokens import TokenCipher, TokenKeyError, Tokens
from storage.installations import Installation, InstallationRecord
from storage.states import InstallationState

TIMEOUT_SECONDS = 10
MAX_WORKSPACES_PER_PAGE = 1000
_SETTINGS_ERROR_CODES = frozenset({"bad_client_secret", "bad_redirect_uri", "invalid_client_id"})


class OAuthError(Exception):
    """Raised if Slack gives no token; `code` is Slack's error code, "" if it cannot be reached."""

    def __init__(self, code: str, *, is_passing: bool) -> None:
        """`is_passing`: the same request may succeed later."""
        super().__init__(f"Slack answers {code}" if code else "Slack cannot be reached")
        self.code, self.is_passing = code, is_passing

    @property
    def is_by_settings(self) -> bool:
        """Return whether the error is due to this installation's settings, not to the request."""
        return self.code in _SETTINGS_ERROR_CODES


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """Slack's answer: the tokens, how long they are valid, and the rest, which is not secret."""

    tokens: Tokens
    lifetime: timedelta | None  # how long the token is valid; None: it does not expire
    about: dict[str, Any] = field(repr=False)

    def compute_expiry(self, now: datetime) -> datetime | None:
        """Return when a token received `now` expires; None if it never does."""
        return None if self.lifetime is None else now + self.lifetime


class OAuthClient:
    """Asks Slack for tokens in the name of one Slack app."""

    def __init__(self, client_id: str, client_secret: SecretStr, api_url: str) -> None:
        """`api_url`: where Slack's Web API is, ending in /api/."""
        self._id, self._secret = client_id, client_secret
        parts = urlsplit(api_url)
        self._authorize_url = f"{parts.scheme}://{parts.netloc}/oauth/v2/authorize"
        quiet = logging.getLogger("countersign.oauth")
        quiet.setLevel(logging.WARNING)  # slack_sdk logs tokens at level DEBUG
        self._client = WebClient(
            base_url=api_url, timeout=TIMEOUT_SECONDS, logger=quiet, retry_handlers=[]
        )

    def build_authorize_url(self, scopes: list[str], redirect_uri: str, state: str) -> str:
        """Return the address of Slack's page on which a person allows these scopes."""
        asked = {"client_id": self._id, "scope": ",".join(scopes), "redirect_uri": redirect_uri}
        return f"{self._authorize_url}?{urlencode(asked | {'state': state})}"

    def exchange_code(self, code: str, redirect_uri: str) -> TokenAnswer:
        """Return the tokens for the code that Slack sent a browser back with; raises OAuthError."""
        return self._request_tokens(code=code, redirect_uri=redirect_uri)

    def refresh(self, token: SecretStr) -> TokenAnswer:
        """Return new tokens for a refresh token; raises OAuthError."""
        refresh_token = token.get_secret_value()
        return self._request_tokens(grant_type="refresh_token", refresh_token=refresh_token)

    def find_bot_id_and_url(self, token: SecretStr) -> tuple[str, str]:
        """Return the id that the bot has as a bot (B…), and its workspace's address.

        Raises OAuthError.
        """
        found = _ask(partial(self._client.auth_test, token=token.get_secret_value()))
        return str(found.get("bot_id") or ""), str(found.get("url") or "")

    def uninstall(self, token: SecretStr) -> None:
        """Uninstall the bot from the workspace that gave this token; raises OAuthError."""
        secret, bot = self._secret.get_secret_value(), token.get_secret_value()
        given = {"client_id": self._id, "client_secret": secret, "token": bot}
        _ask(partial(self._client.apps_uninstall, **given))

    def list_granted_teams(self, token: SecretStr) -> list[str]:
        """Return the workspaces that an organisation's token may be used in; raises OAuthError."""

        def read_pages() -> list[str]:
            pages = self._client.auth_teams_list(
                token=token.get_secret_value(), limit=MAX_WORKSPACES_PER_PAGE
            )
            return [str(each["id"]) for page in pages for each in page.get("teams") or ()]

        found: list[str] = _ask(read_pages)
        return found

    def _request_tokens(self, **given: str) -> TokenAnswer:
        secret = self._secret.get_secret_value()
        ask = partial(self._client.oauth_v2_access, client_id=self._id, client_secret=secret)
        answer: dict[str, Any] = dict(_ask(partial(ask, **given)).data)
        bot, refresh = answer.pop("access_token", None), answer.pop("refresh_token", None)
        if not bot or answer.get("token_type") != "bot":
            raise OAuthError("no_bot_token", is_passing=False)
        (answer.get("authed_user") or {}).pop("access_token", None)
        lifetime = answer.get("expires_in")
        return TokenAnswer(
            Tokens(SecretStr(bot), SecretStr(refresh) if refresh else None),
            timedelta(seconds=int(lifetime)) if lifetime else None,
            answer,
        )


def _ask(request: Callable[[], Any]) -> Any:
    """Return Slack's answer to a request; raises OAuthError, which quotes nothing that was sent."""
    try:
        return request()
    except SlackApiError as error:
        code, status = (
            slack_codes.extract_error_code(error),
            int(getattr(error.response, "status_code", 200)),
        )
        if not code:  # an error page of a proxy, or of Slack's outage
            raise OAuthError("", is_passing=True) from None
        is_passing = (
            status >= slack_codes.HTTP_TOO_MANY_REQUESTS
            or code in slack_codes.TEMPORARY_ERROR_CODES | slack_codes.UNKNOWN_OUTCOME_CODES
        )
        raise OAuthError(code, is_passing=is_passing) from None
    except (SlackClientError, HTTPException, OSError, ValueError):  # ValueError: it is not JSON
        raise OAuthError("", is_passing=True) from None


log = logging.getLogger("countersign.workspaces")
# Tokens that expire are renewed ahead of time and once, whichever process is first. The record of
# installations says what is due, and when a failed renewal is tried again.

RENEW_BEFORE_EXPIRY = timedelta(hours=2)
CLAIM_DURATION = timedelta(minutes=1)  # no other process tries during it; Slack answers faster
FIRST_RETRY_INTERVAL = timedelta(seconds=30)
MAX_RETRY_INTERVAL = timedelta(minutes=10)
REFUSED_RETRY_INTERVAL = timedelta(hours=1)  # after an answer that will stay the same


@dataclass
class TokenRotation:
    """Renews the tokens on record; each process may have one of these."""

    _record: InstallationRecord
    _cipher: TokenCipher
    _oauth: OAuthClient
    _clock: Clock
    # gets each row with new tokens, on the thread that renews; other processes see that its
    # `token_revision` has grown
    _on_renewed: Callable[[Installation], None]

    def renew_due_tokens(self) -> None:
        """Renew the tokens that are due. It asks Slack, which may take some seconds for each."""
        for row in self._record.list():
            if _is_due(row, self._clock.now()):
                self._renew(row)

    def _renew(self, row: Installation) -> None:
        claimed = self._record.claim_rotation(row, self._clock.now() + CLAIM_DURATION)
        if claimed is None:
            return
        try:
            refresh = self._cipher.open(claimed).refresh
            if refresh is None:
                raise OAuthError("no_refresh_token", is_passing=False)
            answer = self._oauth.refresh(refresh)
        except (OAuthError, TokenKeyError) as error:
            self._postpone(claimed, error)
            return
        sealed = self._cipher.seal(row.workspace, answer.tokens)
        expires_at = answer.compute_expiry(self._clock.now())
        key = self._cipher.key_id
        stored = self._record.store_rotated_tokens(claimed, sealed, key, expires_at)
        if stored is not None:  # otherwise it was reinstalled or removed meanwhile
            log.info("workspace %s: its token was renewed, until %s", row.workspace, expires_at)
            self._on_renewed(stored)

    def _postpone(self, claimed: Installation, error: OAuthError | TokenKeyError) -> None:
        wait, workspace = REFUSED_RETRY_INTERVAL, claimed.workspace
        if isinstance(error, OAuthError) and error.is_passing:
            wait = min(
                FIRST_RETRY_INTERVAL * 2 ** min(claimed.renewal_failures, 10), MAX_RETRY_INTERVAL
            )
            log_format = "workspace %s: its token could not be renewed (%s); next attempt in %s"
            log.warning(log_format, workspace, error, wait)
        elif isinstance(error, OAuthError):
            remedy = "Somebody there has to install Countersign again, from /slack/install"
            if error.is_by_settings:
                remedy = "Correct COUNTERSIGN_CLIENT_ID and COUNTERSIGN_CLIENT_SECRET"
            log_format = (
                "workspace %s: Slack does not renew its token (%s), which expires at %s. %s"
            )
            log.error(log_format, workspace, error.code, claimed.token_expires_at, remedy)
        else:
            log.error("workspace %s: its token cannot be renewed: %s", workspace, error)
        self._record.postpone_rotation(claimed, self._clock.now() + wait)


def _is_due(row: Installation, now: datetime) -> bool:
    if row.token_expires_at is None or row.state is InstallationState.REMOVED:
        return False
    # a longer wait was stored by a clock that was ahead
    waits = row.renewal_until and now < row.renewal_until <= now + 2 * REFUSED_RETRY_INTERVAL
    return row.token_expires_at - RENEW_BEFORE_EXPIRY <= now and not waits
