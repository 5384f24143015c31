"""Whether a request is Slack's, new, and seen for the first time.

A replay is a request whose signature was let in before: it covers the time and the whole body. A
retry of Slack's has a new time, unless it comes within the same second; so a request that failed is
forgotten, and one that was acknowledged is remembered as that.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from enum import Enum, auto

from slack_sdk.signature import Clock as UnixClock
from slack_sdk.signature import SignatureVerifier

from bot.clock import Clock, worlds_time

WINDOW = 300  # seconds that a request may be old, or from the future: as slack_sdk has it
_TIMESTAMP = re.compile(r"[0-9]{1,11}", re.ASCII)
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)


class _Unix(UnixClock):
    """The clock as slack_sdk asks for one.

    Slack goes by the world's time: where the clock was set back, the record's is ahead of it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        """The time in Unix seconds."""
        return worlds_time(self._clock).timestamp()


class Known(Enum):
    """What is known of a good signature."""

    NEVER = auto()
    UNDER_WAY = auto()  # its request is being dealt with
    ACKNOWLEDGED = auto()


class Signatures:
    """Checks signatures under one secret, and remembers those let in; any thread.

    Each process remembers its own. Another replica, or this one after a restart, would let a replay
    in: what is stored then meets its row's key, and what is not stored is answered to its person.
    """

    def __init__(self, secret: str, clock: Clock) -> None:
        """`secret`: the app's signing secret."""
        self._unix = _Unix(clock)
        self._verifier = SignatureVerifier(secret, self._unix)
        self._lock = threading.Lock()
        # with until when (Unix seconds) each is remembered
        self._seen: OrderedDict[str, tuple[float, Known]] = OrderedDict()

    def may_be(self, timestamp: str, signature: str) -> bool:
        """Return whether these two headers look like Slack's, and the time is near."""
        if not (_TIMESTAMP.fullmatch(timestamp) and _SIGNATURE.fullmatch(signature)):
            return False
        return abs(self._unix.now() - int(timestamp)) <= WINDOW

    def is_good(self, body: str, timestamp: str, signature: str) -> bool:
        """Return whether Slack signed this body at that time, which is near; for what `may_be`."""
        return self._verifier.is_valid(body, timestamp, signature)

    def admit(self, timestamp: str, signature: str) -> Known:
        """Return what was known of a good signature; from now on it is under way at least."""
        now = self._unix.now()
        with self._lock:
            while self._seen and next(iter(self._seen.values()))[0] < now:
                self._seen.popitem(last=False)
            if signature in self._seen:
                return self._seen[signature][1]
            self._seen[signature] = int(timestamp) + WINDOW, Known.UNDER_WAY
            return Known.NEVER

    def acknowledged(self, signature: str) -> None:
        """Remember that it was."""
        with self._lock:
            if signature in self._seen:
                self._seen[signature] = self._seen[signature][0], Known.ACKNOWLEDGED

    @property
    def remembered(self) -> int:
        """How many signatures are kept."""
        with self._lock:
            return len(self._seen)

    def forget(self, signature: str) -> None:
        """Let it in again: the request failed."""
        with self._lock:
            self._seen.pop(signature, None)
