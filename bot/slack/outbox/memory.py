"""What the outbox knows and does not store: what stands in Slack, which channels have to rest, and
which messages hold up nobody.

Where the database cannot be written, nothing is posted again for that, and nothing is hurried.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.clock import Clock
from storage.availability import pause_after


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
        self._paced: dict[str, datetime] = {}  # channel -> when it may be posted to again
        self._found: dict[int | None, datetime] = {}  # sending, and not by this process
        self._doubted: dict[str, datetime] = {}  # by key
        self._aside: frozenset[int | None] = frozenset()

    def posted(self, seq: int | None) -> Posted | None:
        """How a message stands in Slack, where the row does not say so yet."""
        return self._posted.get(seq)

    def keep(self, seq: int | None, posted: Posted) -> None:
        """A message stands in Slack, and its row has yet to say so."""
        self._posted[seq] = posted

    def forget(self, seq: int | None) -> None:
        """The row says how the message stands."""
        self._posted.pop(seq, None)
        self._found.pop(seq, None)
        if seq in self._aside:
            with self._lock:
                self._aside -= {seq}

    def put_aside(self, seq: int | None) -> None:
        """Have the later ones of its channel wait for this message no more; it is tried on."""
        with self._lock:
            self._aside |= {seq}

    @property
    def aside(self) -> frozenset[int | None]:
        """The messages that hold up nobody."""
        return self._aside

    def found_sending(self, seq: int | None) -> datetime:
        """When a message was first found that another life, or another process, may have posted."""
        with self._lock:
            return self._found.setdefault(seq, self._clock.now())

    def look_again(self, key: str, due: datetime) -> None:
        """A message was posted though it may have stood: it is looked for once more then."""
        with self._lock:
            self._doubted[key] = due

    def doubted(self, now: datetime) -> list[str]:
        """Take the keys of the messages that are to be looked for once more now."""
        with self._lock:
            due = [key for key, at in self._doubted.items() if at <= now]
            for key in due:
                del self._doubted[key]
        return due

    def rest(self, channel: str) -> None:
        """Something about this channel could not be stored: longer each time, up to a bound."""
        with self._lock:
            failures = self._resting.get(channel, (0, None))[0] + 1
            until = self._clock.now() + timedelta(seconds=pause_after(failures))
            self._resting[channel] = failures, until

    def pace(self, channel: str, until: datetime) -> None:
        """Slack has been told enough for this channel until then."""
        with self._lock:
            self._paced[channel] = until

    def went_well(self, channel: str) -> None:
        """Something about this channel was stored."""
        with self._lock:
            self._resting.pop(channel, None)

    def awake(self, channels: set[str], now: datetime) -> set[str]:
        """Return those of the channels that need not rest."""
        with self._lock:
            self._paced = {each: until for each, until in self._paced.items() if until > now}
            resting = {channel for channel, (_, until) in self._resting.items() if until > now}
            resting |= self._paced.keys()
        return channels - resting

    def next_end(self, now: datetime) -> datetime | None:
        """When the first channel that rests now may go on, or something is looked for once more."""
        with self._lock:
            rests = [until for _, until in self._resting.values() if until > now]
            return min([*rests, *self._doubted.values(), *self._paced.values()], default=None)
