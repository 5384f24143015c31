"""What the outbox knows and could not store: what stands in Slack, and which channels have to rest.

Where the database cannot be written, nothing is posted again for that, and nothing is hurried.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.clock import Clock
from storage.patience import pause_after


@dataclass(frozen=True, slots=True)
class Posted:
    """A message stands in Slack."""

    ts: str  # "" where Slack does not say
    shown: int  # the version
    revisions: Mapping[str, int] | None = None  # of the calls on a card; None: not known


class Memory:
    """Of one process; any thread."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is remembered yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._posted: dict[int | None, Posted] = {}  # by the message's `seq`
        self._resting: dict[str, tuple[int, datetime]] = {}  # channel -> failures, until when

    def posted(self, seq: int | None) -> Posted | None:
        """How a message stands in Slack, where the row does not say so yet."""
        return self._posted.get(seq)

    def keep(self, seq: int | None, posted: Posted) -> None:
        """A message stands in Slack, and its row has yet to say so."""
        self._posted[seq] = posted

    def forget(self, seq: int | None) -> None:
        """The row says how the message stands."""
        self._posted.pop(seq, None)

    def rest(self, channel: str) -> None:
        """Something about this channel could not be stored: longer each time, up to a bound."""
        with self._lock:
            failures = self._resting.get(channel, (0, None))[0] + 1
            until = self._clock.now() + timedelta(seconds=pause_after(failures))
            self._resting[channel] = failures, until

    def went_well(self, channel: str) -> None:
        """Something about this channel was stored."""
        with self._lock:
            self._resting.pop(channel, None)

    def awake(self, channels: set[str], now: datetime) -> set[str]:
        """Return those of the channels that need not rest."""
        with self._lock:
            resting = {channel for channel, (_, until) in self._resting.items() if until > now}
        return channels - resting

    def next_end(self, now: datetime) -> datetime | None:
        """When the first channel that rests now may go on."""
        with self._lock:
            return min((until for _, until in self._resting.values() if until > now), default=None)
