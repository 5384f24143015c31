"""How fast one channel is posted to: about a message a second, as Slack has it, with short bursts.

Without it Slack refuses posts, and what was asked first comes last. Slack itself is known to limit
them; another server's channel is paced for a while after it has refused a post.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urlsplit

from bot.clock import Clock
from storage.models import Message
from storage.states import MessageKind, MessageStatus

# Which channels a process sends to: all, unless others work on the same database.


class ElsewhereError(Exception):
    """Another process sends to the channel by now."""


class Channels(Protocol):
    """One sender for each channel, over all processes. Any thread."""

    def mine(self, channels: set[str]) -> set[str]:
        """Return those of the channels that this process sends to, having taken what is free.

        Whoever sends to the others is told that there is something to send.
        """
        ...

    def holds(self, channel: str) -> bool:
        """Return whether this process still sends to it: to be asked last of all."""
        ...


class EveryChannel:
    """No other process sends."""

    def mine(self, channels: set[str]) -> set[str]:
        """All of them."""
        return channels

    def holds(self, channel: str) -> bool:
        """Always."""
        return True


# Whether Slack lets the bot in. While it refuses the token nothing is sent, and nothing given
# up.

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


BURST = 5  # messages that a quiet channel takes at once
SECOND = timedelta(seconds=1)  # between two messages afterwards
WARY = timedelta(seconds=30)  # for which a channel is paced after a refusal, whatever the server
SLACK = "slack.com"
UNCOUNTED = (MessageKind.PRIVATE, MessageKind.MARK)  # Slack counts these by method


@dataclass(slots=True)
class _Channel:
    left: float
    at: datetime
    wary_until: datetime | None = None


class Pace:
    """Of one process; any thread."""

    def __init__(self, clock: Clock, url: str) -> None:
        """Every channel is quiet; `url` is where posts go."""
        self._clock = clock
        host = urlsplit(url).hostname or ""
        self._is_slack = host == SLACK or host.endswith(f".{SLACK}")
        self._lock = threading.Lock()
        self._channels: dict[str, _Channel] = {}

    def is_kept(self, channel: str) -> bool:
        """Return whether this channel is paced."""
        with self._lock:
            return self._is_kept(self._now(channel))

    def _is_kept(self, found: _Channel) -> bool:
        is_wary = found.wary_until is not None and found.wary_until > found.at
        return self._is_slack or is_wary

    def wait(self, channel: str) -> timedelta:
        """Return how long a post has to wait; nothing for a short burst."""
        with self._lock:
            found = self._now(channel)
            is_enough = found.left >= 1 or not self._is_kept(found)
            return timedelta() if is_enough else (1 - found.left) * SECOND

    def posted(self, channel: str) -> None:
        """Count a post."""
        with self._lock:
            found = self._now(channel)
            found.left = max(0.0, found.left - 1)

    def limited(self, channel: str) -> None:
        """Slack has refused a post: there were too many."""
        with self._lock:
            found = self._now(channel)
            found.left, found.wary_until = 0.0, found.at + WARY

    def _now(self, channel: str) -> _Channel:
        """Return the channel as it is by now, with the lock held."""
        now = self._clock.now()
        found = self._channels.setdefault(channel, _Channel(float(BURST), now))
        passed = max(timedelta(), now - found.at)
        found.left, found.at = min(float(BURST), found.left + passed / SECOND), now
        return found


def is_counted(row: Message) -> bool:
    """Return whether sending this is a post that Slack counts for its channel."""
    return not row.ts and row.status is not MessageStatus.CLOSING and row.kind not in UNCOUNTED


def in_turn(rows: Sequence[Message], carded: Collection[str]) -> list[Message]:
    """Return what is to be sent in the order in which it is, where there is a queue.

    First what is drawn or is no post, then words about requests that are `carded`: whose card
    stands already; then the rest as it was asked for. Within one request nothing overtakes.
    """
    first: list[Message] = []
    ahead: list[Message] = []
    rest: list[Message] = []
    held: set[str] = set()
    for row in rows:
        if not is_counted(row):
            first.append(row)
        elif row.run_id in carded and row.run_id not in held and row.kind is not MessageKind.CARD:
            ahead.append(row)
        else:
            rest.append(row)
            held.add(row.run_id)
    return [*first, *ahead, *rest]
