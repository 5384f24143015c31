"""The pool of threads that advance runs; it makes no decisions and reads no rows."""

from __future__ import annotations

import logging
import threading
from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from bot.signals import Signals
from storage.record import Delivery
from storage.runs import ReadyRun, Requester

log = logging.getLogger("countersign.loop")
MayKeepRun = Callable[[bool], bool]  # see FairQueue.may_keep_worker
Advance = Callable[[str, MayKeepRun], None]


class WorkerPool:
    """Runs workers on a pool of threads; one per process, for any thread."""

    def __init__(self, advance: Advance, workers: int, signals: Signals) -> None:
        """`advance(run id, keeps)` is called on the pool, for `workers` runs at once.

        Between two steps it calls `keeps(approved)`, with whether the next step is an approved
        call; if that returns False, it releases the run.
        """
        self.advance = advance
        self._wake, self._rest = signals.work, signals.rest
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)  # notified when a run is released
        self._queue = FairQueue(workers)
        self._handed_out_again: set[str] = set()  # handed out again while being worked on
        self._due: list[str] = []  # those of them that have been released since
        self._stopping = False
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="worker")

    def hand_out_runs(self, ready: Iterable[ReadyRun]) -> set[str]:
        """Queue these runs for workers; return the ids of those that were not queued before.

        A run that is being worked on is returned by `pop_run_ids_due_again` once that has ended.
        """
        fresh: set[str] = set()
        with self._lock:
            held = self._queue.list_held_run_ids()
            for each in ready:
                if each.run_id in held:
                    self._handed_out_again.add(each.run_id)
                elif self._queue.put_run(each):
                    fresh.add(each.run_id)
        self._start_queued_runs()
        return fresh

    def pop_run_ids_due_again(self) -> list[str]:
        """Return and forget the runs handed out again while worked on that are released by now."""
        with self._lock:
            due, self._due = self._due, []
            return due

    def list_active_run_ids(self) -> set[str]:
        """Return the ids of the runs that are being worked on here."""
        with self._lock:
            return self._queue.list_held_run_ids()

    def list_waiting_run_ids(self) -> list[str]:
        """Return the ids of the runs that wait for a free worker here."""
        with self._lock:
            return self._queue.list_waiting_run_ids()

    def is_idle(self) -> bool:
        """Return whether no run is being worked on or waits for a worker."""
        with self._lock:
            here = self._queue.list_held_run_ids() if self._stopping else self._queue
            return not (self._handed_out_again or self._due or here)

    def stop(self, grace: float) -> None:
        """Start no more runs; those under way have `grace` seconds to end, then are left."""
        self._stopping = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._ended:
            self._ended.wait_for(lambda: not self._queue.list_held_run_ids(), grace)

    def _start_queued_runs(self) -> None:
        """Start workers on as many queued runs as may start now."""
        while True:
            with self._lock:
                ready = None if self._stopping else self._queue.take_next_run()
            if ready is None:
                return
            try:
                work = self._pool.submit(self._work_on_run, ready.run_id)
            except RuntimeError:  # the pool was stopped just now
                self._release_run(ready.run_id)
                return
            work.add_done_callback(partial(self._release_if_never_started, ready.run_id))

    def _release_if_never_started(self, run_id: str, work: Future[None]) -> None:
        """Release a run whose worker was cancelled before it started, because the pool stopped."""
        if work.cancelled():
            self._release_run(run_id)

    def _may_keep_run(self, run_id: str, decided: bool) -> bool:
        with self._lock:
            return self._queue.may_keep_worker(run_id, decided=decided)

    def _work_on_run(self, run_id: str) -> None:
        try:
            self.advance(run_id, partial(self._may_keep_run, run_id))
        except Exception:
            log.exception("run %s: the worker failed", run_id)
        finally:
            self._release_run(run_id)
            self._start_queued_runs()
            self._rest.notify_changed()

    def _release_run(self, run_id: str) -> None:
        with self._lock:
            self._queue.release_run(run_id)
            again = run_id in self._handed_out_again
            self._handed_out_again.discard(run_id)
            self._due += [run_id] if again else []
            self._ended.notify_all()
        if again:
            self._wake.notify()


# Which run is worked on next: requesters take turns, and approved calls go first.

Line = OrderedDict[Requester, list[ReadyRun]]
MAX_APPROVED_RUNS_AHEAD = 3  # in a row, while other runs wait


class FairQueue:
    """Runs that wait for a worker, and those that have one.

    A quarter of the workers (at least one, if there are several) is reserved for runs with approved
    calls. With more than two workers, one requester holds at most as many as are unreserved, and at
    most one fewer for runs without approved calls.
    """

    def __init__(self, workers: int) -> None:
        """Create an empty queue for this number of workers."""
        kept = max(1, workers // 4) if workers > 1 else 0
        self._workers = workers
        self._shared_workers = workers - kept  # not reserved for approved calls
        # workers that one requester may hold; with two, both, so that nobody waits for themselves
        self._max_of_requester = self._shared_workers if workers > 2 else workers
        self._max_unapproved_of_requester = max(
            1, self._shared_workers - 1
        )  # workers that one requester may hold for runs without approved calls
        # waiting runs, with approved calls and without: requesters in turn, runs of each in order
        self._queues: dict[bool, Line] = {True: OrderedDict(), False: OrderedDict()}
        self._waiting: dict[str, ReadyRun] = {}
        self._held: dict[str, ReadyRun] = {}
        self._counts: Counter[tuple[Requester, bool]] = Counter()
        self._unapproved_count = 0  # held runs without an approved call
        self._approved_in_a_row = (
            0  # runs with approved calls taken in a row, while other work waited
        )

    def put_run(self, ready: ReadyRun) -> bool:
        """Queue the run; return False if it already waits or is being worked on.

        If an approval has changed a waiting run's `has_approved_call`, it moves to the other queue.
        """
        if ready.run_id in self._held:
            return False
        before = self._waiting.get(ready.run_id)
        if before is not None and before.has_approved_call == ready.has_approved_call:
            return False
        if before is not None:
            self._remove_waiting(before)
        runs = self._queues[ready.has_approved_call].setdefault(ready.requester, [])
        insort(
            runs, ready, key=lambda each: not each.was_worked_on
        )  # runs that have begun already come first
        self._waiting[ready.run_id] = ready
        return before is None

    def take_next_run(self) -> ReadyRun | None:
        """Return the run whose turn it is and mark it as held; None if none may start now."""
        decided, other = (self._find_first_startable(self._queues[each]) for each in (True, False))
        chosen = (
            other
            if decided is None or (other and self._approved_in_a_row >= MAX_APPROVED_RUNS_AHEAD)
            else decided
        )
        if chosen is None:
            return None
        self._approved_in_a_row = (
            self._approved_in_a_row + 1 if chosen.has_approved_call and other else 0
        )
        self._remove_waiting(chosen)
        line = self._queues[chosen.has_approved_call]
        if chosen.requester in line:
            line.move_to_end(chosen.requester)
        self._mark_held(chosen)
        return chosen

    def may_keep_worker(self, run_id: str, *, decided: bool) -> bool:
        """Return whether the run keeps its worker for its next step, or has to be released.

        `decided`: whether the next step is an approved call.
        """
        before = self._held[run_id]
        self._unmark_held(before)
        now = replace(before, has_approved_call=decided)
        keeps = self._may_start(now) and not self._should_give_way(now)
        self._mark_held(now if keeps else before)
        return keeps

    def release_run(self, run_id: str) -> None:
        """Mark the run as no longer worked on."""
        self._unmark_held(self._held[run_id])

    def list_held_run_ids(self) -> set[str]:
        """Return the ids of the runs that are being worked on."""
        return set(self._held)

    def list_waiting_run_ids(self) -> list[str]:
        """Return the ids of the runs that wait for a worker."""
        return list(self._waiting)

    def __len__(self) -> int:
        """Return how many runs wait or are being worked on."""
        return len(self._waiting) + len(self._held)

    def _mark_held(self, ready: ReadyRun) -> None:
        self._held[ready.run_id] = ready
        self._counts[ready.requester, ready.has_approved_call] += 1
        self._unapproved_count += not ready.has_approved_call

    def _unmark_held(self, ready: ReadyRun) -> None:
        del self._held[ready.run_id]
        self._counts[ready.requester, ready.has_approved_call] -= 1
        self._counts += Counter()  # drops requesters that hold no run
        self._unapproved_count -= not ready.has_approved_call

    def _remove_waiting(self, ready: ReadyRun) -> None:
        """Remove the run from those that wait."""
        del self._waiting[ready.run_id]
        line = self._queues[ready.has_approved_call]
        runs = line[ready.requester]
        runs.remove(ready)
        if not runs:
            del line[ready.requester]

    def _iterate_startable_heads(self, line: Line) -> Iterator[ReadyRun]:
        """Yield each requester's first run in a line, if it may start now, in order of turn."""
        heads = (runs[0] for runs in line.values())
        return (each for each in heads if self._may_start(each))

    def _find_first_startable(self, line: Line) -> ReadyRun | None:
        return next(self._iterate_startable_heads(line), None)

    def _may_start(self, ready: ReadyRun) -> bool:
        """Return whether a worker is free for the run, and its requester does not hold too many."""
        if (
            len(self._held) >= self._workers
            or self._count_held_runs(ready.requester) >= self._max_of_requester
        ):
            return False
        own = self._counts[ready.requester, False]
        return ready.has_approved_call or (
            self._unapproved_count < self._shared_workers
            and own < self._max_unapproved_of_requester
        )

    def _count_held_runs(self, requester: Requester) -> int:
        return self._counts[requester, True] + self._counts[requester, False]

    def _should_give_way(self, now: ReadyRun) -> bool:
        """Return whether another run should take this one's worker.

        That is an approved run if this is not, else a run of a requester who holds fewer workers.
        """
        decided, other = (
            list(self._iterate_startable_heads(self._queues[each])) for each in (True, False)
        )
        rivals = other
        if now.has_approved_call:
            self._approved_in_a_row += bool(other)
            rivals = [
                *decided,
                *(other if self._approved_in_a_row > MAX_APPROVED_RUNS_AHEAD else ()),
            ]
        elif decided and not (other and self._approved_in_a_row >= MAX_APPROVED_RUNS_AHEAD):
            return True
        else:
            self._approved_in_a_row = 0
        mine = self._count_held_runs(now.requester) + 1
        return any(
            self._count_held_runs(each.requester) < mine and each.requester != now.requester
            for each in rivals
        )


# Whether this process is alone on its database, or others use it as well.


class OtherProcesses:
    """What the loop asks about other processes on the database; this class knows of none.

    A subclass answers for a process that shares the database.
    """

    # how long READY runs are left to the job queue; None: the loop hands them out at once
    job_pickup_timeout: timedelta | None = None

    def is_handled_by_other_replica(self, delivery: Delivery, now: datetime) -> bool:
        """Return whether another process, which stored the delivery, is processing it."""
        return False

    def may_reclaim_lapsed_runs(self) -> bool:
        """Return whether a lapsed lease means that its holder is dead.

        False if no process could renew leases for a while.
        """
        return True
