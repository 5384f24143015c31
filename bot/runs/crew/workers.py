"""The pool that advances runs, each on one thread; it decides nothing and knows no row."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from bot.signals import Signals

log = logging.getLogger("countersign.loop")


class Workers:
    """One per process; any thread."""

    def __init__(self, advance: Callable[[str], None], workers: int, signals: Signals) -> None:
        """`advance(run id)` is run on the pool, for so many runs at once."""
        self._advance = advance
        self._wake, self._rest = signals.work, signals.rest
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)  # a run is no longer worked on
        self._active: Counter[str] = Counter()
        self._again: set[str] = set()
        self._stopping = False
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="worker")

    def hand_out(self, ready: Iterable[str]) -> None:
        """Have these runs worked on; one that is, is looked at again once that has ended."""
        for run_id in ready:
            with self._lock:
                if self._active[run_id]:
                    self._again.add(run_id)
                    continue
                if self._stopping:
                    return
                self._active[run_id] += 1
            self.pool.submit(self._work, run_id).add_done_callback(partial(self._let_go, run_id))

    def work(self, run_id: str) -> None:
        """Work on a run on the caller's thread, which is one of `pool`, unless all is to end."""
        with self._lock:
            if self._stopping:
                return
            self._active[run_id] += 1
        self._work(run_id)

    def active(self) -> set[str]:
        """The ids of the runs that are worked on here."""
        with self._lock:
            return {run_id for run_id, threads in self._active.items() if threads}

    def is_idle(self) -> bool:
        """Return whether no run is worked on."""
        with self._lock:
            return not (self._again or self._active.total())

    def stop(self, grace: float) -> None:
        """Begin no run any more; those under way have `grace` seconds to end, then are left."""
        self._stopping = True
        self.pool.shutdown(wait=False, cancel_futures=True)
        with self._ended:
            self._ended.wait_for(lambda: not self._active.total(), grace)

    def _let_go(self, run_id: str, work: Future[None]) -> None:
        """A run that was never begun, because the pool stopped before, is not one to wait for."""
        if work.cancelled():
            with self._lock:
                self._active[run_id] -= 1
                self._ended.notify_all()

    def _work(self, run_id: str) -> None:
        try:
            self._advance(run_id)
        except Exception:
            log.exception("run %s: the worker failed", run_id)
        finally:
            with self._lock:
                self._active[run_id] -= 1
                self._active += Counter()  # without those that nobody works on
                again = run_id in self._again
                self._again.discard(run_id)
                self._ended.notify_all()
            if again:
                self._wake.give()
            self._rest.changed()
