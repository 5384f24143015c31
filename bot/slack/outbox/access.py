"""Whether Slack lets the bot in. While it refuses the token nothing is sent, and nothing given up.

Slack is asked from time to time; once the token is good again, the outbox goes on where it was.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from bot.clock import Clock

log = logging.getLogger("countersign.outbox")
FIRST, LONGEST = 0.5, 30.0  # seconds between two questions; doubled each time


class Access:
    """Of one process; any thread says that the token was refused, one asks whether it still is."""

    def __init__(self, clock: Clock, ask: Callable[[], object]) -> None:
        """`ask` raises where Slack does not let the bot in, or cannot be asked."""
        self._clock, self._ask = clock, ask
        self._lock = threading.Lock()
        self._next: datetime | None = None  # when Slack is asked; None: it lets the bot in
        self._asked = 0  # times since anything was sent

    def is_refused(self) -> bool:
        """Return whether the token was refused, and has not been good since."""
        return self._next is not None

    def refused(self, code: str) -> None:
        """Slack has refused the token."""
        with self._lock:
            if self._next is None:
                log.error(
                    "Slack refuses the bot token (%s); nothing is sent until it is good", code
                )
                self._put_off()

    def went_well(self) -> None:
        """Something was sent."""
        self._asked = 0

    def seconds_left(self) -> float:
        """Ask Slack if that is due; return the seconds until it is asked again, 0 if all is well.

        For one thread.
        """
        due = self._next
        if due is None:
            return 0.0
        if due <= self._clock.now():
            try:
                self._ask()
            except Exception as error:  # noqa: BLE001 - whatever it is, the token is not known to be good
                log.info("Slack is asked for the bot token again later: %s", error)
                with self._lock:
                    self._put_off()
            else:
                log.warning("Slack takes the bot token again; what waited is sent")
                self._next = None
                return 0.0
        assert self._next is not None
        return max(0.05, (self._next - self._clock.now()).total_seconds())

    def _put_off(self) -> None:
        seconds = min(LONGEST, FIRST * 2 ** min(self._asked, 10))
        self._asked += 1
        self._next = self._clock.now() + timedelta(seconds=seconds)
