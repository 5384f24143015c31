"""Which program asks: its key is looked at before anything else of a request is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from bot.programs.key_text import read_key_text
from bot.web.api.problems import ProblemError, later
from storage import client_keys, program_requests
from storage.client_keys import ClientKey

if TYPE_CHECKING:
    from bot.clock import Clock
    from storage.store import Store

SCHEME = "Bearer"
_UNKNOWN = "The request has no key that is good: it takes Authorization: Bearer csk_…"


class Callers:
    """Knows the keys of one workspace; any thread."""

    def __init__(self, store: Store, clock: Clock, team: str) -> None:
        """`team`: whose keys are good here."""
        self._store = store
        self._clock = clock
        self._team = team

    def of(self, headers: Sequence[str]) -> ClientKey:
        """Return the key in these Authorization headers; raises ProblemError for none that is good.

        A key that was revoked is none from that moment on.
        """
        scheme, _, given = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        text = read_key_text(given.strip()) if scheme.lower() == SCHEME.lower() else None
        if text is not None:
            with self._store.read() as tx:
                key = client_keys.get(tx, text.id)
            is_good = key is not None and text.fits(key.hash) and not key.revoked_at
            if key is not None and is_good and key.team == self._team:
                return key
        raise _no_key()

    def insist(self, key: ClientKey) -> None:
        """Raise ProblemError where a key that was good has been revoked meanwhile."""
        with self._store.read() as tx:
            now = client_keys.get(tx, key.id)
        if now is None or now.revoked_at:
            raise _no_key()

    def spend(self, key: ClientKey, idempotency: str, *, while_open: bool = False) -> None:
        """Raise ProblemError where the key has asked as often as it may within an hour.

        What was asked with this `idempotency` before is not asked again, and counts once;
        `while_open`: where that has not ended.
        """
        now = self._clock.now()
        with self._store.read() as tx:
            asked = program_requests.has_asked
            if idempotency and asked(tx, key.name, idempotency, while_open=while_open):
                return
            since = program_requests.asked_before(
                tx, key.name, key.per_hour, now - program_requests.HOUR
            )
        if since is not None:
            raise too_often(key, since, now)


def too_often(key: ClientKey, since: datetime, now: datetime) -> ProblemError:
    """Return the problem of a key that has asked as often as it may, the first time `since`."""
    wait = since + program_requests.HOUR - now
    return later(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{key.name} may make {key.per_hour} requests an hour, and has made them.",
        int(wait.total_seconds()) + 1,
        "limits",
    )


def _no_key() -> ProblemError:
    return ProblemError(
        HTTPStatus.UNAUTHORIZED,
        _UNKNOWN,
        about="keys",
        headers={"WWW-Authenticate": f'{SCHEME} realm="countersign"'},
    )
