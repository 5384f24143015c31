"""How long Slack wants to be asked no more: for a method, and for posts for one channel.

While that lasts Slack is not asked, and whoever would have asked gets the answer it gave before.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse

from bot.clock import Clock
from bot.slack.errors import seconds_asked
from bot.slack_codes import TOO_MANY

BY_CHANNEL = {"chat.postMessage"}  # Slack counts these for each channel by itself


class Pauses:
    """Of one client; any thread."""

    def __init__(self, clock: Clock) -> None:
        """Everything may be asked."""
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[tuple[str, str], datetime] = {}  # by method and channel
        self._tell: Callable[[str, str, datetime], None] = lambda *_: None

    def check(self, method: str, channel: str) -> None:
        """Raise SlackApiError, as Slack's own 429 does, while a pause lasts."""
        end = self._ends.get(_scope(method, channel))
        if end is None or (left := (end - self._clock.now()).total_seconds()) <= 0:
            return
        response = SlackResponse(
            client=None,
            http_verb="POST",
            api_url=method,
            req_args={},
            data={"ok": False, "error": "ratelimited"},
            headers={"Retry-After": str(math.ceil(left))},
            status_code=TOO_MANY,
        )
        text = f"Slack limits {method}, which was not asked again"
        raise SlackApiError(text, response)  # type: ignore[no-untyped-call]  # slack_sdk's own

    def heed(self, method: str, channel: str, error: SlackApiError) -> bool:
        """Begin a pause where an answer asks for one; returns whether it does."""
        if (seconds := seconds_asked(error)) <= 0:
            return False
        scope, end = _scope(method, channel), self._clock.now() + timedelta(seconds=seconds)
        self.learn({scope: end})
        self._tell(*scope, end)
        return True

    def share(self, tell: Callable[[str, str, datetime], None]) -> None:
        """Tell of each pause that begins here, so that others keep it as well."""
        self._tell = tell

    def learn(self, found: Mapping[tuple[str, str], datetime]) -> None:
        """Keep these pauses as well, by method and channel; the longer of two holds."""
        now = self._clock.now()
        with self._lock:
            ends = {each: until for each, until in self._ends.items() if until > now}
            self._ends = ends | {
                each: max(until, ends.get(each, until)) for each, until in found.items()
            }


def _scope(method: str, channel: str) -> tuple[str, str]:
    return method, channel if method in BY_CHANNEL else ""
