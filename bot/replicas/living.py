"""Which of the other replicas are no more: those that were watched, and gave no sign of life.

No clock is asked what time it is, so that one that is set, the database's or a machine's, lets
nobody die. Who has just begun to watch takes everybody for alive, for as long as a beat counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime

from bot.clock import elapsed


class Living:
    """One per process; any thread."""

    def __init__(self, seconds: float, passed: Callable[[], float] = elapsed) -> None:
        """A beat counts for so many `seconds`; `passed` says how time passes here."""
        self._seconds, self._passed = seconds, passed
        self._lock = threading.Lock()
        # by replica: its latest beat, and when that was first seen here
        self._seen: dict[str, tuple[datetime, float]] = {}
        self._asked = passed()  # when the latest beats were asked for

    def look(self, read: Callable[[], Mapping[str, datetime]]) -> None:
        """`read` the latest beats of all replicas there are; raises what that raises.

        What is not seen while this process stalls says nothing of the others.
        """
        asked = self._passed()
        beats = read()
        now = self._passed()
        with self._lock:
            known, self._seen = self._seen, {each: (beat, now) for each, beat in beats.items()}
            self._seen |= {each: old for each, old in known.items() if beats.get(each) == old[0]}
            self._asked = asked

    def gone(self, seconds: float = 0.0) -> set[str]:
        """The replicas that are no more, and have been so for `seconds`."""
        with self._lock:
            before = self._asked - self._seconds - seconds
            return {each for each, (_, since) in self._seen.items() if since <= before}
