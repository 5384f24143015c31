"""What the outbox keeps in memory only.

That is messages that Slack has, channels that have to pause, and messages for which later ones need
not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.clock import Clock
from storage.store import compute_retry_delay


@dataclass(frozen=True, slots=True)
class SlackPost:
    """A message as it is in Slack."""

    ts: str  # "" if Slack does not say
    shown_version: int  # version of the row that it shows
    revisions: Mapping[str, int] | None = None  # revision of each call on a card; None: not known


class OutboxMemory:
    """The outbox's state that is not in the database; one per process, any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._posted: dict[int | None, SlackPost] = {}  # by `seq` of the message
        self._pauses_after_failure: dict[
            str, tuple[int, datetime]
        ] = {}  # channel -> number of failures, end of the pause
        self._paused_until: dict[str, datetime] = {}  # channel -> when posts may go on
        self._first_seen_at: dict[int | None, datetime] = {}  # perhaps posted by another process
        self._duplicate_searches: dict[str, datetime] = {}  # by key: when it is due
        self._overtakable: frozenset[int | None] = frozenset()

    def find_post(self, seq: int | None) -> SlackPost | None:
        """Return the post of this message in Slack if its row does not record it yet; else None."""
        return self._posted.get(seq)

    def remember_post(self, seq: int | None, posted: SlackPost) -> None:
        """Remember the post that Slack has of a message, until its row records it."""
        self._posted[seq] = posted

    def forget_post(self, seq: int | None) -> None:
        """Forget the post that Slack has of a message, as its row now records it."""
        self._posted.pop(seq, None)
        self._first_seen_at.pop(seq, None)
        if seq in self._overtakable:
            with self._lock:
                self._overtakable -= {seq}

    def let_later_messages_overtake(self, seq: int | None) -> None:
        """Let later messages of the channel overtake this one; sending it is still tried."""
        with self._lock:
            self._overtakable |= {seq}

    @property
    def overtakable_message_seqs(self) -> frozenset[int | None]:
        """The sequence numbers of the messages that later ones may overtake."""
        return self._overtakable

    def get_or_set_first_seen_time(self, seq: int | None) -> datetime:
        """Return when a message another process may have posted was first seen: now, if new."""
        with self._lock:
            return self._first_seen_at.setdefault(seq, self._clock.now())

    def schedule_duplicate_search(self, key: str, due: datetime) -> None:
        """Schedule a search for duplicates of a message that may be in Slack twice."""
        with self._lock:
            self._duplicate_searches[key] = due

    def pop_due_duplicate_searches(self, now: datetime) -> list[str]:
        """Remove and return the keys of the messages whose search for duplicates is due."""
        with self._lock:
            due = [key for key, at in self._duplicate_searches.items() if at <= now]
            self._duplicate_searches = {
                key: at for key, at in self._duplicate_searches.items() if at > now
            }
        return due

    def pause_after_database_failure(self, channel: str) -> None:
        """Pause a channel after a database failure: longer each time, up to a limit."""
        with self._lock:
            failures = self._pauses_after_failure.get(channel, (0, None))[0] + 1
            until = self._clock.now() + timedelta(seconds=compute_retry_delay(failures))
            self._pauses_after_failure[channel] = failures, until

    def pause_until(self, channel: str, until: datetime) -> None:
        """Pause posts to a channel until this time, to keep to Slack's rate limit."""
        with self._lock:
            self._paused_until[channel] = until

    def end_database_failure_pause(self, channel: str) -> None:
        """End the pauses for database failures of a channel."""
        with self._lock:
            self._pauses_after_failure.pop(channel, None)

    def filter_unpaused_channels(self, channels: set[str], now: datetime) -> set[str]:
        """Return those of the channels that are not paused."""
        with self._lock:
            self._paused_until = {
                each: until for each, until in self._paused_until.items() if until > now
            }
            resting = {
                channel for channel, (_, until) in self._pauses_after_failure.items() if until > now
            }
            resting |= self._paused_until.keys()
        return channels - resting

    def find_next_due_time(self, now: datetime) -> datetime | None:
        """Return when the first pause ends or search for duplicates is due; None for neither."""
        with self._lock:
            rests = [until for _, until in self._pauses_after_failure.values() if until > now]
            return min(
                [*rests, *self._duplicate_searches.values(), *self._paused_until.values()],
                default=None,
            )
