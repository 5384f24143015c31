"""The pace of posts to one channel: about one a second, as Slack asks, with short bursts.

Without it Slack refuses posts, and the earliest requests are answered last. Channels at slack.com
are always paced; those of another server only for a while after a refused post.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from bot.clock import Clock
from storage.outbox import counts_against_channel_rate_limit
from storage.record import Message
from storage.states import MessageKind

# The channels that a process sends to: all, unless others work on the same database.


class ChannelTakenError(Exception):
    """Raised when another process now sends to the channel."""


class ChannelOwnership:
    """Tells which channels this process sends to: all, as it is the only one; thread-safe.

    A subclass gives each channel one sender among several processes.
    """

    def claim_channels(self, channels: set[str]) -> set[str]:
        """Return those of the channels that this process sends to, after taking the free ones.

        The processes that send to the others are notified that there is something to send.
        """
        return channels

    def is_channel_owned(self, channel: str) -> bool:
        """Return whether this process still sends to the channel; call it right before sending."""
        return True


# Whether Slack accepts the bot token. While it does not, nothing is sent and no message is
# given up.

log = logging.getLogger("countersign.outbox")
MIN_CHECK_INTERVAL_SECONDS = 0.5  # doubled each time
MAX_CHECK_INTERVAL_SECONDS = 30.0


class BotTokenStatus:
    """Whether Slack accepts the bot token. Any thread reports a refusal; one thread asks again."""

    def __init__(self, clock: Clock, ask: Callable[[], object]) -> None:
        """`ask` calls Slack, and raises if Slack refuses the token or cannot be reached."""
        self._clock, self._ask = clock, ask
        self._lock = threading.Lock()
        self._next: datetime | None = None  # next check; None: the token is accepted
        self._asked = 0  # checks since anything was sent

    def is_refused(self) -> bool:
        """Return whether Slack refused the token and has not accepted it since."""
        return self._next is not None

    def note_refusal(self, code: str) -> None:
        """Record that Slack has refused the token with this error code."""
        with self._lock:
            if self._next is None:
                said = "Slack refuses the bot token (%s); nothing is sent until it is valid"
                log.error(said, code)
                self._schedule_next_check()

    def reset_check_delay(self) -> None:
        """Reset the time between two checks of the token to the shortest, as something was sent."""
        self._asked = 0

    def recheck_token_if_due(self) -> float:
        """Check a refused token again if due; return the seconds to the next check, 0 if accepted.

        To be called by one thread only.
        """
        due = self._next
        if due is None:
            return 0.0
        if due <= self._clock.now():
            try:
                self._ask()
            except Exception as error:  # noqa: BLE001 - whatever it is, the token is not known to be good
                log.info("the bot token will be checked with Slack again later: %s", error)
                with self._lock:
                    self._schedule_next_check()
            else:
                log.warning("Slack accepts the bot token again; waiting messages are sent")
                self._next = None
                return 0.0
        assert self._next is not None
        return max(0.05, (self._next - self._clock.now()).total_seconds())

    def _schedule_next_check(self) -> None:
        seconds = min(
            MAX_CHECK_INTERVAL_SECONDS, MIN_CHECK_INTERVAL_SECONDS * 2 ** min(self._asked, 10)
        )
        self._asked += 1
        self._next = self._clock.now() + timedelta(seconds=seconds)


MAX_BURST_MESSAGES = 5  # posts to a quiet channel without a pause
MESSAGE_INTERVAL = timedelta(seconds=1)  # between posts after a burst
REFUSAL_PACING_DURATION = timedelta(seconds=30)  # of a channel after a refusal, whatever the server
SLACK_HOST = "slack.com"


@dataclass(slots=True)
class _ChannelPace:
    posts_left: float
    updated_at: datetime
    paced_until: datetime | None = None


class ChannelPacer:
    """The pace of posts per channel; one per process, any thread."""

    def __init__(self, clock: Clock, url: str) -> None:
        """Start with all channels quiet; `url` is the address of Slack's Web API."""
        self._clock = clock
        host = urlsplit(url).hostname or ""
        self._is_slack = host == SLACK_HOST or host.endswith(f".{SLACK_HOST}")
        self._lock = threading.Lock()
        self._channels: dict[str, _ChannelPace] = {}

    def is_paced(self, channel: str) -> bool:
        """Return whether posts to this channel are limited now."""
        with self._lock:
            return self._is_paced(self._get_current_state(channel))

    def _is_paced(self, found: _ChannelPace) -> bool:
        is_wary = found.paced_until is not None and found.paced_until > found.updated_at
        return self._is_slack or is_wary

    def compute_wait_before_post(self, channel: str) -> timedelta:
        """Return how long the next post has to wait; zero while a burst is allowed."""
        with self._lock:
            found = self._get_current_state(channel)
            is_enough = found.posts_left >= 1 or not self._is_paced(found)
            return timedelta() if is_enough else (1 - found.posts_left) * MESSAGE_INTERVAL

    def count_channel_post(self, channel: str) -> None:
        """Count one post to a channel."""
        with self._lock:
            found = self._get_current_state(channel)
            found.posts_left = max(0.0, found.posts_left - 1)

    def note_refusal(self, channel: str) -> None:
        """Record that Slack refused a post because there were too many."""
        with self._lock:
            found = self._get_current_state(channel)
            found.posts_left, found.paced_until = 0.0, found.updated_at + REFUSAL_PACING_DURATION

    def _get_current_state(self, channel: str) -> _ChannelPace:
        """Return a channel's state brought up to the present time; the lock must be held."""
        now = self._clock.now()
        found = self._channels.setdefault(channel, _ChannelPace(float(MAX_BURST_MESSAGES), now))
        passed = max(timedelta(), now - found.updated_at)
        found.posts_left = min(
            float(MAX_BURST_MESSAGES), found.posts_left + passed / MESSAGE_INTERVAL
        )
        found.updated_at = now
        return found


def order_due_messages(rows: Sequence[Message], runs_with_card: Collection[str]) -> list[Message]:
    """Return a channel's due messages in the order in which to send them when there is a queue.

    First come updates and other messages that Slack's limit does not count, then messages of
    requests in `runs_with_card`, whose card is already in Slack, then the rest. Within one request
    the order of posts is kept.
    """
    first: list[Message] = []
    ahead: list[Message] = []
    rest: list[Message] = []
    waiting_runs: set[str] = set()
    for row in rows:
        if not counts_against_channel_rate_limit(row):
            first.append(row)
        elif (
            row.run_id in runs_with_card
            and row.run_id not in waiting_runs
            and row.kind is not MessageKind.CARD
        ):
            ahead.append(row)
        else:
            rest.append(row)
            waiting_runs.add(row.run_id)
    return [*first, *ahead, *rest]
