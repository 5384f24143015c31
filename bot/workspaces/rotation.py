"""Renews the tokens that expire, ahead of time and once, whichever process is first.

The record of installations says what is due, and when a failed renewal is tried again; no thread
waits for that here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.clock import Clock
from bot.workspaces.oauth_client import OAuthClient, OAuthError
from bot.workspaces.tokens import TokenCipher, TokenKeyError
from storage.installations import Installation, InstallationRecord
from storage.states import InstallationState

log = logging.getLogger("countersign.workspaces")
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
