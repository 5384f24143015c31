"""This process as one of several on a database: what it shares, put together, started, stopped."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg

from bot.config.settings import Settings
from bot.replicas.channels import ReplicaChannels
from bot.replicas.clock import SharedClock
from bot.replicas.ears import Ears, Word
from bot.replicas.jobs import Jobs
from bot.replicas.living import Living
from bot.replicas.pulse import LEASE, Pulse
from bot.runs.crew.workers import Workers
from bot.signals import Signals
from storage import audit, ready, replicas, runs
from storage.models import Delivery, new_id
from storage.postgres.session import ON_THE_LINE
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.replicas")
TAKEN = timedelta(seconds=3)  # for which a delivery is left to the replica that stored it
QUEUED = timedelta(seconds=5)  # the same of a run, and whoever hears of it first
TIDY = 60  # beats between two times that what is over is taken away
LONG = 60.0  # seconds after which a replica that is no more is forgotten
Pauses = Callable[[replicas.PauseEnds], None]


class Replicas:
    """One per process; what the loop, the outbox and the workers have to know of the others."""

    patience: timedelta | None = QUEUED

    def __init__(
        self,
        store: Store,
        clock: SharedClock,
        signals: Signals,
        settings: Settings,
        workers: Workers,
        *,
        heard: Callable[[Iterable[Delivery]], None],
        paused: Pauses,
    ) -> None:
        """`heard` is told what Slack has said of people and channels to others.

        `paused` is told until when Slack wants to be asked no more.
        """
        self._store, self._clock, self._signals = store, clock, signals
        self.workers, self._lease = workers, settings.lease
        self._heard, self._paused = heard, paused
        self.id = new_id()
        address = address_of(store)
        connect = partial(psycopg.connect, **address, autocommit=True)
        self._ears = Ears(connect, self._words(), self.id)
        self._pulse = Pulse(
            store,
            clock,
            self.id,
            settings.lease,
            active=workers.active,
            learn=self._learn,
            lapsed=self._lapsed,
        )
        self._living = Living(LEASE)
        self.channels = ReplicaChannels(
            store, self._living, self.id, self._pulse.is_alive, partial(self._ears.tell, Word.POST)
        )
        self.jobs = Jobs(address, self._hear, settings.workers)
        self._threads: list[threading.Thread] = []
        self._last: tuple[int, int] | None = None  # how far audit and inbox have come
        self._beats = 0

    def start(self) -> None:
        """Be one of them from now on; raises what the database could not."""
        self.jobs.prepare(self._store)
        self._store.hand_out_by(self.jobs.defer)
        self._clock.measure(self._store)
        self._pulse.beat()
        bodies = {"jobs": self.jobs.run, "pulse": self._pulse.run, "ears": self._ears.run}
        for name, body in bodies.items():
            thread = threading.Thread(target=body, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info("replica %s is one of those on this database", self.id)

    def _hear(self, run_id: str) -> None:
        """Have a run worked on of which a job says that it is READY."""
        with self._store.read() as tx:
            found = ready.one(tx, run_id)
        self.workers.hand_out(found)

    def rest(self) -> None:
        """Take up no more run."""
        self.jobs.stop()

    def stop(self) -> None:
        """Be one of them no more, and say so: others go on at once."""
        self.jobs.stop()
        self._pulse.stop()
        for thread in self._threads:
            if thread.name != "ears":
                thread.join(timeout=10)
        try:
            with self._store.write() as tx:
                replicas.leave(tx, self.id)
                tx.ready += self.workers.waiting()  # nobody here was free for them
        except Exception:
            log.exception("the other replicas were not told that this one ends")
        self._ears.tell(Word.POST)
        self._ears.tell(Word.WORK)
        self._ears.stop()

    def is_idle(self) -> bool:
        """Return whether nothing waits for a worker."""
        with self._store.read() as tx:
            return not runs.ready(tx)

    def have(self, delivery: Delivery, now: datetime) -> bool:
        """Return whether another replica, which stored it, is dealing with it."""
        return delivery.key not in self._signals.own and now - delivery.received_at < TAKEN

    def may_be_dead(self) -> bool:
        """Return whether whoever let a lease lapse could have renewed it."""
        return self._pulse.has_watched(self._lease)

    def pause(self, method: str, channel: str, until: datetime) -> None:
        """Have all replicas leave Slack alone until then; never fails."""
        try:
            with self._store.write() as tx:
                replicas.pause(tx, method, channel, until)
        except Exception:
            log.exception("the other replicas were not told that Slack limits %s", method)
        self._ears.tell(Word.PAUSE)

    def _words(self) -> dict[Word, Callable[[], None]]:
        give = {Word.POST: self._signals.post.give, Word.WORK: self._signals.work.give}
        return {**give, Word.PAUSE: self._learn_pauses}

    def _learn_pauses(self) -> None:
        with self._store.read() as tx:
            self._paused(replicas.pauses(tx, self._clock.now()))

    def _lapsed(self) -> None:
        log.warning("replica %s did not count as alive for a while", self.id)
        self.channels.lose()

    def _learn(self, tx: Transaction) -> None:
        """See what the others have done since the last beat, and tidy up."""
        now = self._clock.now()
        self._living.look(lambda: replicas.beats(tx))
        self._paused(replicas.pauses(tx, now))
        head, newest = audit.head(tx).seq, replicas.newest(tx)
        last, self._last = self._last, (head, newest)
        if last is not None and last[1] != newest:
            self._heard(replicas.events_after(tx, last[1]))
        if last is not None and last != self._last:
            self._signals.work.give()
            self._signals.post.give()  # Home shows it
        self.channels.release(tx, used=set())
        self._beats += 1
        if self._beats % TIDY == 0:
            replicas.tidy(tx, now, self._living.gone(LONG))


def event_of(delivery: Delivery) -> dict[str, Any]:
    """What Slack has told; without a type where that cannot be read."""
    try:
        found: dict[str, Any] = json.loads(delivery.body)["event"]
    except (LookupError, TypeError, ValueError):
        return {"type": ""}
    return found


def address_of(store: Store) -> dict[str, Any]:
    """How psycopg reaches the database of this record."""
    _, address = store.engine.dialect.create_connect_args(store.engine.url)
    return {**ON_THE_LINE, **address}
