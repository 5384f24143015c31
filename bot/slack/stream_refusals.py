"""Where Slack has refused to stream, so that it is not tried again with each answer."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from slack_sdk.errors import SlackApiError

from bot.clock import Clock
from bot.slack.client import is_absent, is_final
from bot.slack_codes import code_of

REFUSED = timedelta(hours=1)  # before a stream is tried again where Slack refused one
EVERYWHERE = ""  # in place of a channel


class Streaming:
    """Where Slack has refused to stream lately; any thread."""

    def __init__(self, clock: Clock) -> None:
        """Nowhere yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, datetime] = {}  # by channel
        self._undrawn: set[str] = set()  # where Slack draws no tasks, as long as this process lives

    def works(self, channel: str) -> bool:
        """Return whether it is worth a try there."""
        now = self._clock.now()
        with self._lock:
            self._until = {each: until for each, until in self._until.items() if until > now}
            return not self._until.keys() & {channel, EVERYWHERE}

    def refused(self, channel: str, error: SlackApiError) -> None:
        """Remember that Slack did not begin a stream, unless that passes."""
        if is_final(error) or is_absent(error):
            place = EVERYWHERE if is_absent(error) else channel
            with self._lock:
                self._until[place] = self._clock.now() + REFUSED

    def draws_tasks(self, channel: str) -> bool:
        """Return whether tasks are worth a try there."""
        return not self._undrawn & {channel, EVERYWHERE}

    def refused_tasks(self, channel: str, error: SlackApiError) -> None:
        """Remember that Slack took no tasks."""
        is_here = code_of(error) == "channel_type_not_supported"
        self._undrawn.add(channel if is_here else EVERYWHERE)
