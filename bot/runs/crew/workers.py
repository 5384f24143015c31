"""The pool that advances runs, each on one thread; it decides nothing and knows no row."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from bot.runs.crew.queue import FairQueue
from bot.signals import Signals
from storage.ready import Ready

log = logging.getLogger("countersign.loop")
Keeps = Callable[[bool], bool]  # see FairQueue.keeps
Advance = Callable[[str, Keeps], None]


class Workers:
    """One per process; any thread."""

    def __init__(self, advance: Advance, workers: int, signals: Signals) -> None:
        """`advance(run id, keeps)` is run on the pool, for so many runs at once.

        Between two steps it asks `keeps(approved)` whether it may go on, to a call that people have
        approved or not; where it may not, it lets go of the run.
        """
        self.advance = advance
        self._wake, self._rest = signals.work, signals.rest
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)  # a run is no longer worked on
        self._queue = FairQueue(workers)
        self._again: set[str] = set()  # handed out while they were worked on
        self._due: list[str] = []  # of those, such that nobody works on any more
        self._stopping = False
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="worker")

    def hand_out(self, ready: Iterable[Ready]) -> set[str]:
        """Have these runs worked on, each when it is its turn; returns the ids of those that had
        not been handed out. One that is worked on is `due` to be looked at once that has ended.
        """
        fresh: set[str] = set()
        with self._lock:
            held = self._queue.held()
            for each in ready:
                if each.run_id in held:
                    self._again.add(each.run_id)
                elif self._queue.put(each):
                    fresh.add(each.run_id)
        self._begin()
        return fresh

    def due(self) -> list[str]:
        """Return the ids of runs that are to be looked at at once, and have them looked at."""
        with self._lock:
            due, self._due = self._due, []
            return due

    def active(self) -> set[str]:
        """The ids of the runs that are worked on here."""
        with self._lock:
            return self._queue.held()

    def waiting(self) -> list[str]:
        """The ids of the runs that nobody here was free for."""
        with self._lock:
            return self._queue.waiting()

    def is_idle(self) -> bool:
        """Return whether no run is worked on, or waits to be."""
        with self._lock:
            here = self._queue.held() if self._stopping else self._queue
            return not (self._again or self._due or here)

    def stop(self, grace: float) -> None:
        """Begin no run any more; those under way have `grace` seconds to end, then are left."""
        self._stopping = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._ended:
            self._ended.wait_for(lambda: not self._queue.held(), grace)

    def _begin(self) -> None:
        """Begin what may be begun now."""
        while True:
            with self._lock:
                ready = None if self._stopping else self._queue.take()
            if ready is None:
                return
            try:
                work = self._pool.submit(self._work, ready.run_id)
            except RuntimeError:  # it was stopped this moment
                self._let_go(ready.run_id)
                return
            work.add_done_callback(partial(self._never_begun, ready.run_id))

    def _never_begun(self, run_id: str, work: Future[None]) -> None:
        """A run that was never begun, because the pool stopped before, is not one to wait for."""
        if work.cancelled():
            self._let_go(run_id)

    def _keeps(self, run_id: str, decided: bool) -> bool:
        with self._lock:
            return self._queue.keeps(run_id, decided=decided)

    def _work(self, run_id: str) -> None:
        try:
            self.advance(run_id, partial(self._keeps, run_id))
        except Exception:
            log.exception("run %s: the worker failed", run_id)
        finally:
            self._let_go(run_id)
            self._begin()
            self._rest.changed()

    def _let_go(self, run_id: str) -> None:
        with self._lock:
            self._queue.done(run_id)
            again = run_id in self._again
            self._again.discard(run_id)
            self._due += [run_id] if again else []
            self._ended.notify_all()
        if again:
            self._wake.give()
