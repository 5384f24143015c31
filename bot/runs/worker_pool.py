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
from typing import Protocol

from bot.signals import Signals
from storage.models import Delivery
from storage.runs import ReadyRun, Requester

log = logging.getLogger("countersign.loop")
Keeps = Callable[[bool], bool]  # see FairQueue.keeps
Advance = Callable[[str, Keeps], None]


class WorkerPool:
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

    def hand_out(self, ready: Iterable[ReadyRun]) -> set[str]:
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


# Whose run is worked on next: in turns by requester, what people have approved ahead of the
# rest.

Line = OrderedDict[Requester, list[ReadyRun]]
AHEAD = 3  # runs with approved calls in a row that may be taken while other work waits


class FairQueue:
    """Runs that wait for a worker, and those that have one.

    Of the workers a quarter (one at least, where there are several) is kept for runs with approved
    calls. Where there are more than two, nobody holds more than the rest, and one of the rest, too,
    is left for somebody else.
    """

    def __init__(self, workers: int) -> None:
        """Nothing waits."""
        kept = max(1, workers // 4) if workers > 1 else 0
        self._workers = workers
        self._shared = workers - kept  # for whatever there is
        # of one requester, at most; with two workers nobody waits for themselves
        self._of_one = self._shared if workers > 2 else workers
        self._own = max(1, self._shared - 1)  # so many of these, at most, for the same requester
        # what waits, approved or not: the requesters in turn, and the runs of each in order
        self._lines: dict[bool, Line] = {True: OrderedDict(), False: OrderedDict()}
        self._waiting: dict[str, ReadyRun] = {}
        self._held: dict[str, ReadyRun] = {}
        self._counts: Counter[tuple[Requester, bool]] = Counter()
        self._others = 0  # of those held, such without an approved call
        self._ahead = 0  # runs with approved calls taken in a row, while other work waited

    def put(self, ready: ReadyRun) -> bool:
        """Have it wait for its turn; False where it waits or is worked on.

        What has been decided of a waiting one since counts.
        """
        if ready.run_id in self._held:
            return False
        before = self._waiting.get(ready.run_id)
        if before is not None and before.decided == ready.decided:
            return False
        if before is not None:
            self._leave(before)
        runs = self._lines[ready.decided].setdefault(ready.requester, [])
        insort(runs, ready, key=lambda each: not each.begun)  # what was begun is ended first
        self._waiting[ready.run_id] = ready
        return before is None

    def take(self) -> ReadyRun | None:
        """Return the run whose turn it is, held from now on; None where none may begin now."""
        decided, other = (self._first(self._lines[each]) for each in (True, False))
        chosen = other if decided is None or (other and self._ahead >= AHEAD) else decided
        if chosen is None:
            return None
        self._ahead = self._ahead + 1 if chosen.decided and other else 0
        self._leave(chosen)
        line = self._lines[chosen.decided]
        if chosen.requester in line:
            line.move_to_end(chosen.requester)
        self._hold(chosen)
        return chosen

    def keeps(self, run_id: str, *, decided: bool) -> bool:
        """Return whether the run keeps its worker for its next step, of an approved call or not.

        It does not where that is somebody else's turn: then it is to be put back.
        """
        before = self._held[run_id]
        self._let(before)
        now = replace(before, decided=decided)
        keeps = self._may_hold(now) and not self._gives_way(now)
        self._hold(now if keeps else before)
        return keeps

    def done(self, run_id: str) -> None:
        """Nobody works on it any more."""
        self._let(self._held[run_id])

    def held(self) -> set[str]:
        """The ids of the runs that are worked on."""
        return set(self._held)

    def waiting(self) -> list[str]:
        """The ids of the runs that wait for a worker."""
        return list(self._waiting)

    def __len__(self) -> int:
        """How many runs wait or are worked on."""
        return len(self._waiting) + len(self._held)

    def _hold(self, ready: ReadyRun) -> None:
        self._held[ready.run_id] = ready
        self._counts[ready.requester, ready.decided] += 1
        self._others += not ready.decided

    def _let(self, ready: ReadyRun) -> None:
        del self._held[ready.run_id]
        self._counts[ready.requester, ready.decided] -= 1
        self._counts += Counter()  # without those who hold nothing
        self._others -= not ready.decided

    def _leave(self, ready: ReadyRun) -> None:
        """It waits no more."""
        del self._waiting[ready.run_id]
        line = self._lines[ready.decided]
        runs = line[ready.requester]
        runs.remove(ready)
        if not runs:
            del line[ready.requester]

    def _heads(self, line: Line) -> Iterator[ReadyRun]:
        """The first run of each requester in a line that may begin now, whose turn is first."""
        heads = (runs[0] for runs in line.values())
        return (each for each in heads if self._may_hold(each))

    def _first(self, line: Line) -> ReadyRun | None:
        return next(self._heads(line), None)

    def _may_hold(self, ready: ReadyRun) -> bool:
        """Return whether a worker is free for it, and its requester has not enough of them."""
        if len(self._held) >= self._workers or self._holds(ready.requester) >= self._of_one:
            return False
        own = self._counts[ready.requester, False]
        return ready.decided or (self._others < self._shared and own < self._own)

    def _holds(self, requester: Requester) -> int:
        return self._counts[requester, True] + self._counts[requester, False]

    def _gives_way(self, now: ReadyRun) -> bool:
        """Return whether something else is to begin in its place: what is approved where this is
        not, else what somebody waits for who holds fewer workers.
        """
        decided, other = (list(self._heads(self._lines[each])) for each in (True, False))
        rivals = other
        if now.decided:
            self._ahead += bool(other)
            rivals = [*decided, *(other if self._ahead > AHEAD else ())]
        elif decided and not (other and self._ahead >= AHEAD):
            return True
        else:
            self._ahead = 0
        mine = self._holds(now.requester) + 1
        return any(
            self._holds(each.requester) < mine and each.requester != now.requester
            for each in rivals
        )


# Whether a process is alone with its database, or others work on it as well.


class OtherProcesses(Protocol):
    """What the loop has to know of other processes."""

    @property
    def patience(self) -> timedelta | None:
        """How long a READY run is left to those who hear of it; None: it is handed out at once."""
        ...

    def have(self, delivery: Delivery, now: datetime) -> bool:
        """Return whether another process, which stored it, is dealing with it."""
        ...

    def may_be_dead(self) -> bool:
        """Return whether a lapsed lease means that its holder is no more.

        It does not where nobody could renew one.
        """
        ...


class NoOtherProcesses:
    """This process alone works on the database."""

    patience = None

    def have(self, delivery: Delivery, now: datetime) -> bool:
        """No."""
        return False

    def may_be_dead(self) -> bool:
        """Yes: what is not worked on here is worked on nowhere."""
        return True
