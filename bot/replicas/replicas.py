"""One of several processes on a database: heartbeats, channel queues, notifications."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

import psycopg

from bot.clock import monotonic_seconds
from bot.config.settings import Settings
from bot.replicas.jobs import RunJobQueue
from bot.replicas.shared_clock import DatabaseClock
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from bot.signals import Signals
from bot.slack.pace import ChannelOwnership
from storage import inbox, moves, replicas, runs, trail
from storage.postgres_session import CONNECTION_PARAMETERS
from storage.record import Delivery, Store, Transaction, new_id


class DeadReplicaDetector:
    """The replicas whose heartbeats have stopped; one per process, any thread."""

    def __init__(self, seconds: float, passed: Callable[[], float] = monotonic_seconds) -> None:
        """`seconds`: how long a heartbeat counts; `passed` returns elapsed seconds."""
        self._timeout_seconds, self._get_elapsed_seconds = seconds, passed
        self._lock = threading.Lock()
        # by replica: its newest heartbeat, and when this process first saw it
        self._newest_beats: dict[str, tuple[datetime, float]] = {}
        self._last_read_at = passed()  # when heartbeats were last read

    def observe_heartbeats(self, read: Callable[[], Mapping[str, datetime]]) -> None:
        """Read the latest heartbeats with `read` and note when each was first seen.

        Raises what `read` raises. Time in which this process itself stalls does not count against
        the other replicas.
        """
        asked = self._get_elapsed_seconds()
        beats = read()
        now = self._get_elapsed_seconds()
        with self._lock:
            known = self._newest_beats
            self._newest_beats = {each: (beat, now) for each, beat in beats.items()}
            self._newest_beats |= {
                each: old for each, old in known.items() if beats.get(each) == old[0]
            }
            self._last_read_at = asked

    def list_dead_replica_ids(self, seconds: float = 0.0) -> set[str]:
        """Return the ids of the replicas that have been dead for at least `seconds`."""
        with self._lock:
            before = self._last_read_at - self._timeout_seconds - seconds
            return {each for each, (_, since) in self._newest_beats.items() if since <= before}


DELIVERY_PICKUP_TIMEOUT = timedelta(seconds=3)  # for the replica that stored the delivery
JOB_PICKUP_TIMEOUT = timedelta(seconds=5)  # for the replica that gets its job first
BEATS_PER_CLEANUP = 60
FORGET_DEAD_REPLICA_SECONDS = 60.0
Pauses = Callable[[replicas.PauseEnds], None]


class ReplicaMembership(OtherProcesses):
    """This process as one of several replicas on a database: its threads and their queries."""

    job_pickup_timeout = JOB_PICKUP_TIMEOUT

    def __init__(
        self,
        store: Store,
        clock: DatabaseClock,
        signals: Signals,
        settings: Settings,
        workers: WorkerPool,
        *,
        handle_slack_event: Callable[[Mapping[str, Any]], object],
        paused: Pauses,
    ) -> None:
        """`handle_slack_event` gets the events about people and channels that other replicas store.

        `paused` gets the pauses that Slack asked any replica for, with their ends.
        """
        self._store, self._clock, self._signals = store, clock, signals
        self.workers, self._lease = workers, settings.lease
        self._handle_slack_event, self._paused = handle_slack_event, paused
        self.id = new_id()
        address = build_psycopg_arguments(store)
        connect = partial(psycopg.connect, **address, autocommit=True)
        self._notifications = ReplicaNotificationExchange(
            connect, self._build_notification_handlers(), self.id
        )
        self._pulse = HeartbeatSender(
            store,
            clock,
            self.id,
            settings.lease,
            active=workers.list_active_run_ids,
            learn=self._read_news_of_other_replicas,
            lapsed=self._handle_heartbeat_gap,
        )
        self._dead_replicas = DeadReplicaDetector(HEARTBEAT_LEASE_SECONDS)
        self.channels = ReplicaChannelOwnership(
            store,
            self._dead_replicas,
            self.id,
            self._pulse.is_alive,
            partial(self._notifications.notify_other_replicas, ReplicaNotification.POST),
        )
        self.jobs = RunJobQueue(address, self._hand_out_run, settings.workers)
        self._threads: list[threading.Thread] = []
        self._newest_seqs: tuple[int, int] | None = None  # newest audit and inbox rows seen
        self._beat_count = 0

    def start(self) -> None:
        """Join the replicas and start this one's threads; raise what the database raises."""
        self.jobs.create_job_tables(self._store)
        self._store.set_ready_runs_handler(self.jobs.insert_jobs)
        self._clock.synchronize_with_database(self._store)
        self._pulse.store_heartbeat()
        bodies = {
            "jobs": self.jobs.run,
            "pulse": self._pulse.run,
            "notifications": self._notifications.run,
        }
        for name, body in bodies.items():
            thread = threading.Thread(target=body, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info("replica %s is one of those on this database", self.id)

    def _hand_out_run(self, run_id: str) -> None:
        """Give the run that a job names to a worker, if the run is still READY."""
        with self._store.read() as tx:
            found = runs.list_run_if_ready(tx, run_id)
        self.workers.hand_out_runs(found)

    def stop_taking_jobs(self) -> None:
        """Take no more runs from jobs."""
        self.jobs.stop()

    def stop(self) -> None:
        """Leave the replicas and notify the others, so that they take over at once."""
        self.jobs.stop()
        self._pulse.stop()
        for thread in self._threads:
            if thread.name != "notifications":
                thread.join(timeout=10)
        try:
            with self._store.write() as tx:
                replicas.remove_replica(tx, self.id)
                tx.ready += self.workers.list_waiting_run_ids()  # no worker here was free for them
        except Exception:
            log.exception("the other replicas were not told that this one is stopping")
        self._notifications.notify_other_replicas(ReplicaNotification.POST)
        self._notifications.notify_other_replicas(ReplicaNotification.WORK)
        self._notifications.stop()

    def is_idle(self) -> bool:
        """Return whether no run is READY, that is, waits for a worker."""
        with self._store.read() as tx:
            return not runs.list_ready_runs(tx)

    def is_handled_by_other_replica(self, delivery: Delivery, now: datetime) -> bool:
        """Return whether another replica stored this delivery and still has time to handle it."""
        return (
            delivery.key not in self._signals.own_delivery_keys
            and now - delivery.received_at < DELIVERY_PICKUP_TIMEOUT
        )

    def may_reclaim_lapsed_runs(self) -> bool:
        """Return whether the holders of lapsed run leases can be taken for dead by now.

        That is so once this replica has been alive for the length of a lease: a living holder would
        have renewed its lease by then.
        """
        return self._pulse.has_been_alive_for(self._lease)

    def share_slack_pause(self, method: str, channel: str, until: datetime) -> None:
        """Tell all replicas not to call this Slack method until `until`; never fail."""
        try:
            with self._store.write() as tx:
                replicas.store_slack_pause(tx, method, channel, until)
        except Exception:
            log.exception("the other replicas were not told that Slack limits %s", method)
        self._notifications.notify_other_replicas(ReplicaNotification.PAUSE)

    def _build_notification_handlers(self) -> dict[ReplicaNotification, Callable[[], None]]:
        give = {
            ReplicaNotification.POST: self._signals.outbox.notify,
            ReplicaNotification.WORK: self._signals.work.notify,
        }
        return {**give, ReplicaNotification.PAUSE: self._load_slack_pauses}

    def _load_slack_pauses(self) -> None:
        with self._store.read() as tx:
            self._paused(replicas.get_slack_pause_ends(tx, self._clock.now()))

    def _handle_heartbeat_gap(self) -> None:
        log.warning("replica %s did not count as alive for a while", self.id)
        self.channels.forget_all_channels()

    def _read_news_of_other_replicas(self, tx: Transaction) -> None:
        """Read what other replicas have done since the last heartbeat, and clean up."""
        now = self._clock.now()
        self._dead_replicas.observe_heartbeats(lambda: replicas.get_heartbeat_expiry_by_replica(tx))
        self._paused(replicas.get_slack_pause_ends(tx, now))
        head, newest = trail.get_audit_head(tx).seq, inbox.get_newest_delivery_seq(tx)
        last, self._newest_seqs = self._newest_seqs, (head, newest)
        if last is not None and last[1] != newest:
            for each in replicas.list_slack_directory_events_after(tx, last[1]):
                self._handle_slack_event(parse_slack_event(each))
        if last is not None and last != self._newest_seqs:
            self._signals.work.notify()
            self._signals.outbox.notify()  # updates Home tabs
        self.channels.release_idle_channels(tx)
        self._beat_count += 1
        if self._beat_count % BEATS_PER_CLEANUP == 0:
            replicas.delete_dead_replicas_and_pauses(
                tx, now, self._dead_replicas.list_dead_replica_ids(FORGET_DEAD_REPLICA_SECONDS)
            )


def parse_slack_event(delivery: Delivery) -> dict[str, Any]:
    """Return the Slack event in a delivery; {"type": ""} if it cannot be read."""
    try:
        found: dict[str, Any] = json.loads(delivery.body)["event"]
    except (LookupError, TypeError, ValueError):
        return {"type": ""}
    return found


def build_psycopg_arguments(store: Store) -> dict[str, Any]:
    """Return the arguments with which psycopg connects to this store's database."""
    _, address = store.engine.dialect.create_connect_args(store.engine.url)
    return {**CONNECTION_PARAMETERS, **address}


# The heartbeat of a replica: while it goes on, other replicas leave this one's work alone.


HEARTBEAT_SECONDS = 1.0  # between two heartbeats
HEARTBEAT_LEASE_SECONDS = 5.0  # how long a heartbeat counts
LEASE_MARGIN_SECONDS = 0.5  # a replica takes itself for dead this much sooner than the others do


class HeartbeatSender:
    """The sender of this replica's heartbeats. `run` is a thread's body; the rest thread-safe."""

    def __init__(
        self,
        store: Store,
        clock: DatabaseClock,
        replica: str,
        lease: float,
        *,
        active: Callable[[], set[str]],
        learn: Callable[[Transaction], None],
        lapsed: Callable[[], None],
    ) -> None:
        """`active` returns the ids of the runs worked on here; each heartbeat extends their leases.

        `lease`: the length of such a lease in seconds. `learn` is called with the transaction of
        each heartbeat; `lapsed` is called after a gap, before this replica counts as alive again.
        """
        self._store, self._clock, self._replica = store, clock, replica
        self._lease = timedelta(seconds=lease)
        self._active, self._read_news, self._handle_lapse = active, learn, lapsed
        self._stopping = threading.Event()
        self._alive_until = 0.0  # this replica is alive until then
        self._alive_since: float | None = None  # alive without a break since then

    def is_alive(self) -> bool:
        """Return whether the other replicas take this one for alive."""
        return monotonic_seconds() < self._alive_until

    def has_been_alive_for(self, seconds: float) -> bool:
        """Return whether this replica has been alive without a break for `seconds`.

        If so, any other living replica had time to store a heartbeat.
        """
        since = self._alive_since
        return since is not None and self.is_alive() and monotonic_seconds() - since >= seconds

    def run(self) -> None:
        """Store a heartbeat every second until `stop`; the thread's body."""
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            self.store_heartbeat()

    def store_heartbeat(self) -> bool:
        """Store one heartbeat and extend the leases; return False if the database failed."""
        began = monotonic_seconds()
        try:
            self._clock.synchronize_with_database(self._store)
            now = self._clock.now()
            with self._store.write() as tx:
                replicas.store_heartbeat(
                    tx, self._replica, now + timedelta(seconds=HEARTBEAT_LEASE_SECONDS)
                )
                for run_id in self._active():
                    moves.extend_lease_even_if_cancelled(tx, run_id, now + self._lease)
                self._read_news(tx)
        except Exception:
            log.warning("no sign of life", exc_info=True)
            return False
        if self._alive_since is not None and not self.is_alive():  # the previous one had expired
            self._alive_since = None
            self._handle_lapse()
        self._alive_since = began if self._alive_since is None else self._alive_since
        self._alive_until = began + HEARTBEAT_LEASE_SECONDS - LEASE_MARGIN_SECONDS
        return True

    def stop(self) -> None:
        """Store no more heartbeats."""
        self._stopping.set()


# The channels that this replica sends to. The first replica with a message for a free channel
# takes its queue, and keeps it until it has sent nothing there for a while, or is dead.

IDLE_CHANNEL_SECONDS = 30.0  # without a message; then the channel is given up


class ReplicaChannelOwnership(ChannelOwnership):
    """The channels to which this replica sends messages; one per process, any thread."""

    def __init__(
        self,
        store: Store,
        living: DeadReplicaDetector,
        replica: str,
        is_alive: Callable[[], bool],
        tell: Callable[[], None],
    ) -> None:
        """`living` detects dead replicas; `is_alive` returns whether this one counts as alive.

        `tell` notifies the other replicas that there is something to send.
        """
        self._store, self._dead_replicas, self._replica = store, living, replica
        self._is_alive, self._notify_others = is_alive, tell
        self._lock = threading.Lock()
        self._last_used_at: dict[str, float] = {}  # when each channel last had something to send

    def claim_channels(self, channels: set[str]) -> set[str]:
        """Return those of `channels` this replica sends to, after taking the free ones.

        The other replicas are notified if some are not its own.
        """
        if not channels or not self._is_alive():
            return set()
        with self._lock:
            unknown = channels - self._last_used_at.keys()
        taken = self._take_free_channels(unknown) if unknown else set()
        with self._lock:
            held = channels & (self._last_used_at.keys() | taken)
            self._last_used_at |= dict.fromkeys(held, monotonic_seconds())
        if held != channels:
            self._notify_others()
        return held

    def is_channel_owned(self, channel: str) -> bool:
        """Return whether this replica is alive and still sends to the channel."""
        return channel in self._last_used_at and self._is_alive()

    def forget_all_channels(self) -> None:
        """Forget all channels: others may have taken them while this replica was not alive."""
        with self._lock:
            self._last_used_at.clear()

    def release_idle_channels(self, tx: Transaction) -> None:
        """Give up the channels that had nothing to send for IDLE_CHANNEL_SECONDS seconds."""
        before = monotonic_seconds() - IDLE_CHANNEL_SECONDS
        with self._lock:
            idle = [each for each, last in self._last_used_at.items() if last < before]
            for channel in idle:
                del self._last_used_at[channel]
        for channel in idle:
            replicas.give_up_channel_sending(tx, channel, self._replica)

    def _take_free_channels(self, channels: set[str]) -> set[str]:
        with self._store.read() as tx:
            self._dead_replicas.observe_heartbeats(
                lambda: replicas.get_heartbeat_expiry_by_replica(tx)
            )
            gone = self._dead_replicas.list_dead_replica_ids()
            senders = replicas.get_senders_by_channel(tx, gone)
        free = [each for each in channels if senders.get(each, self._replica) == self._replica]
        if not free:
            return set()
        with self._store.write() as tx:
            return {
                each
                for each in free
                if replicas.claim_channel_sending(tx, each, self._replica, gone)
            }


log = logging.getLogger("countersign.replicas")


NOTIFY_CHANNEL = "countersign"
LINE_CHECK_SECONDS = 5.0  # without a notification; then the connection is tested
RECONNECT_SECONDS = 1.0  # between two attempts to connect


class ReplicaNotification(StrEnum):
    """The kinds of notifications between replicas."""

    POST = "post"  # a channel of yours has something to send
    WORK = "work"  # there is something to work on
    PAUSE = "pause"  # Slack has asked for a pause


class ReplicaNotificationExchange:
    """The sender and receiver of notifications between replicas. `run` is a thread's body.

    A replica does not receive its own.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        handlers: Mapping[ReplicaNotification, Callable[[], None]],
        replica: str,
    ) -> None:
        """`connect` opens a connection with autocommit; `handlers`: by kind of notification."""
        self._connect, self._handlers, self._replica = connect, handlers, replica
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._sending_connection: psycopg.Connection[Any] | None = None

    def notify_other_replicas(self, word: ReplicaNotification) -> None:
        """Send a notification to all other replicas; log a failure instead of raising it."""
        with self._lock:
            try:
                try:
                    self._send_notification(word)
                except psycopg.OperationalError:
                    if self._sending_connection is None:  # it cannot be opened
                        raise
                    self._close_sending_connection()  # it was ended while idle
                    self._send_notification(word)
            except psycopg.Error as error:
                log.warning("the other replicas were not told: %s", error)
                self._close_sending_connection()

    def _send_notification(self, word: ReplicaNotification) -> None:
        if self._sending_connection is None:
            self._sending_connection = self._connect()
        self._sending_connection.execute(
            "SELECT pg_notify(%s, %s)", (NOTIFY_CHANNEL, f"{word} {self._replica}")
        )

    def run(self) -> None:
        """Receive notifications until `stop`, reconnecting after failures; the thread's body."""
        while not self._stopping.is_set():
            try:
                with self._connect() as line:
                    line.execute(f"LISTEN {NOTIFY_CHANNEL}")
                    for handle in self._handlers.values():  # what was missed while disconnected
                        handle()
                    self._receive_notifications(line)
            except Exception as error:  # noqa: BLE001 - the database, whoever was asking
                log.warning("notifications of other replicas cannot be received: %s", error)
                self._stopping.wait(RECONNECT_SECONDS)

    def stop(self) -> None:
        """Stop sending and receiving notifications."""
        self._stopping.set()
        with self._lock:
            self._close_sending_connection()

    def _receive_notifications(self, line: psycopg.Connection[Any]) -> None:
        while not self._stopping.is_set():
            quiet = True
            for notice in line.notifies(timeout=LINE_CHECK_SECONDS, stop_after=1):
                quiet = False
                word, _, who = notice.payload.partition(" ")
                with suppress(ValueError):  # a kind that only a newer version knows
                    if who != self._replica:
                        self._handlers[ReplicaNotification(word)]()
                if self._stopping.is_set():
                    return
            if quiet:  # no notification came, or the connection is broken
                line.execute("SELECT 1")

    def _close_sending_connection(self) -> None:
        if self._sending_connection is not None:
            self._sending_connection.close()
            self._sending_connection = None
