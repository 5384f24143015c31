"""The sign of life that a replica gives: by it others know that what it holds is held.

At each beat it says so, lengthens the leases of the runs it works on, asks the database's clock,
and learns what the others have to tell.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from bot.clock import elapsed
from bot.replicas.clock import SharedClock
from storage import leases, replicas
from storage.patience import passes, reason
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.replicas")
EVERY = 1.0  # seconds between two beats
LEASE = 5.0  # seconds for which a beat counts
MARGIN = 0.5  # seconds before the others do, a replica takes itself for dead


class Pulse:
    """One per process. `run` is a thread's body; the rest may be asked by any thread."""

    def __init__(
        self,
        store: Store,
        clock: SharedClock,
        replica: str,
        lease: float,
        *,
        active: Callable[[], set[str]],
        learn: Callable[[Transaction], None],
        lapsed: Callable[[], None],
    ) -> None:
        """`active`: the runs that are worked on here, whose `lease` is so many seconds.

        `learn` is handed the transaction of each beat; `lapsed` is called, before this replica
        counts as alive again, where it did not for a while.
        """
        self._store, self._clock, self._replica = store, clock, replica
        self._lease = timedelta(seconds=lease)
        self._active, self._learn, self._lapsed = active, learn, lapsed
        self._stopping = threading.Event()
        self._until = 0.0  # this replica is alive until then
        self._since: float | None = None  # and has been without a break since then

    def is_alive(self) -> bool:
        """Return whether the others count on this replica."""
        return elapsed() < self._until

    def has_watched(self, seconds: float) -> bool:
        """Return whether it was alive all of that time: who else was could have said so."""
        since = self._since
        return since is not None and self.is_alive() and elapsed() - since >= seconds

    def run(self) -> None:
        """Beat until `stop`; the thread's body."""
        while not self._stopping.wait(EVERY):
            self.beat()

    def beat(self) -> bool:
        """Give one sign of life; False where the database could not take it."""
        began = elapsed()
        try:
            self._clock.measure(self._store)
            now = self._clock.now()
            with self._store.write() as tx:
                replicas.beat(tx, self._replica, now + timedelta(seconds=LEASE))
                for run_id in self._active():
                    leases.keep(tx, run_id, now + self._lease)
                self._learn(tx)
        except Exception as error:
            log.warning("no sign of life: %s", reason(error), exc_info=not passes(error))
            return False
        if self._since is not None and not self.is_alive():  # nor has it been for a while
            self._since = None
            self._lapsed()
        self._since = began if self._since is None else self._since
        self._until = began + LEASE - MARGIN
        return True

    def stop(self) -> None:
        """Beat no more."""
        self._stopping.set()
