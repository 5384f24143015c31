"""The outbox: sends each message to Slack once, and redraws it until it shows the present state.

Each channel has its own queue, so that posts keep their order there and one channel does not delay
others. Its client never retries by itself: a post repeated on a dropped connection would be a
second card.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from bot.clock import Clock
from bot.signals import Signals
from bot.slack import pace
from bot.slack.outbox_memory import OutboxMemory
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from bot.slack.sender import MessageSender
from storage import moves, outbox
from storage.database_errors import is_temporary_database_error
from storage.record import Message, Store

log = logging.getLogger("countersign.outbox")
FOREIGN_CHANNEL_POLL_SECONDS = 1.0  # between checks of channels that another process sends to


class Outbox:
    """The sender of all stored messages; one per process. `run` is its thread's body."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        renderer: MessageRenderer,
        posting: OutboxSlackCalls,
        search: UnconfirmedPostSearch,
        channels: pace.ChannelOwnership | None = None,
        threads: int = 4,
    ) -> None:
        """`threads`: the number of sending threads. `channels`: says which channels to send to."""
        self._store, self._clock = store, clock
        self._signals, self._wake = signals, signals.outbox
        self._memory = OutboxMemory(clock)
        self._pace = pace.ChannelPacer(clock, posting.client.base_url)
        self._access = pace.BotTokenStatus(clock, posting.client.auth_test)
        self._channels = channels or pace.ChannelOwnership()
        self._viewers = renderer.viewers
        self._sender = MessageSender(
            store,
            clock,
            signals,
            self._memory,
            self._access,
            self._pace,
            renderer=renderer,
            posting=posting,
            search=search,
            channels=self._channels,
        )
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="outbox")
        self._lock = threading.Lock()
        self._busy: set[str] = set()  # channels, and keys of messages, that a thread is working on
        self._is_looking = False

    def is_idle(self) -> bool:
        """Return whether no message is being sent, and no search for due messages is pending.

        Messages that were postponed may remain.
        """
        with self._lock:
            return not (self._is_looking or self._busy or self._wake.is_set())

    def stop(self) -> None:
        """Finish the messages being sent, and send no more."""
        self._stopping.set()
        self._wake.notify()

    def run(self) -> None:
        """Send due messages, and wait for more, until `stop`; the thread's body."""
        is_taken_up = False
        while not self._stopping.is_set():
            # set before the wake is cleared, so that the outbox never seems idle in between
            self._is_looking = True
            self._wake.clear()
            try:
                is_taken_up = is_taken_up or self._schedule_failed_redraws()
                wait = self._dispatch_due_channels()
            except Exception:
                log.exception("the outbox failed")
                wait = 1.0
            self._is_looking = False
            self._signals.rest.notify_changed()
            self._wake.wait(wait)
        self._pool.shutdown(wait=True)

    def _schedule_failed_redraws(self) -> bool:
        """Schedule cards that an earlier process failed to draw; return whether that is stored."""
        try:
            with self._store.write() as tx:
                moves.mark_failed_cards_for_redraw(tx)
        except Exception as error:
            if not is_temporary_database_error(error):
                raise
            return False
        return True

    def _dispatch_due_channels(self) -> float:
        """Give each channel with due messages to a thread, unless one is at work on it.

        Returns the seconds until there may be more to send.
        """
        if wait := self._access.recheck_token_if_due():
            return wait
        now = self._clock.now()
        with self._store.read() as tx:
            due = outbox.list_channels_with_due_messages(
                tx, now, self._memory.overtakable_message_seqs
            )
            later = outbox.find_next_message_retry_time(tx, now)
        due |= self._viewers.list_due_channels(now)
        awake = self._memory.filter_unpaused_channels(due, now)
        mine = self._channels.claim_channels(awake)
        for channel in awake - mine:  # cards there name only viewers that their own process knows
            self._viewers.pop_due_keys(channel, now)
        for key in self._memory.pop_due_duplicate_searches(now):
            with self._lock:
                self._busy.add(key)
            self._pool.submit(self._remove_duplicates, key)
        for channel in sorted(mine):  # sorted, so that tests can repeat the order
            with self._lock:
                if channel in self._busy or self._stopping.is_set():
                    continue
                self._busy.add(channel)
            self._pool.submit(self._send_channel_messages, channel)
        if mine != awake:  # the process that sends to the others may have died
            return FOREIGN_CHANNEL_POLL_SECONDS
        others = (self._memory.find_next_due_time(now), self._viewers.find_next_due_time(now))
        ends = [each for each in (later, *others) if each is not None]
        if not ends:
            return 30.0
        return min(30.0, max(0.05, (min(ends) - self._clock.now()).total_seconds()))

    def _send_channel_messages(self, channel: str) -> None:
        try:
            # read again here: messages that were due at the dispatch may have been sent since
            with self._store.read() as tx:
                overtakable = self._memory.overtakable_message_seqs
                due = outbox.list_due_messages(tx, self._clock.now(), channel, overtakable)
                if (
                    self._pace.is_paced(channel)
                    and sum(map(outbox.counts_against_channel_rate_limit, due))
                    > pace.MAX_BURST_MESSAGES
                ):
                    carded = outbox.filter_run_ids_with_card(tx, {row.run_id for row in due})
                    due = pace.order_due_messages(due, carded)
            self._send_in_order(due)
            for key in self._viewers.pop_due_keys(channel, self._clock.now()):
                self._sender.show_viewers_on_card(key)
            self._memory.end_database_failure_pause(channel)
        except Exception:
            # kept in memory, since the database may be what failed
            self._memory.pause_after_database_failure(channel)
            log.exception("a queue of the outbox failed")
        finally:
            with self._lock:
                self._busy.discard(channel)
                # More may have become due meanwhile. Waking earlier could find the channel still
                # busy, and then nothing would look again for half a minute.
                self._wake.notify()

    def _remove_duplicates(self, key: str) -> None:
        try:
            self._sender.delete_duplicate_messages(key)
        finally:
            with self._lock:
                self._busy.discard(key)
                self._wake.notify()

    def _send_in_order(self, rows: list[Message]) -> None:
        for row in rows:
            self._signals.wait_until_urgent_work_done()
            if outbox.counts_against_channel_rate_limit(row) and (
                wait := self._pace.compute_wait_before_post(row.channel)
            ):
                self._memory.pause_until(row.channel, self._clock.now() + wait)
                return
            is_mine = self._channels.is_channel_owned(row.channel)
            is_over = self._stopping.is_set() or self._access.is_refused()
            if is_over or not is_mine or not self._sender.send(row):
                return  # messages that need not wait for this one are sent in the next round
