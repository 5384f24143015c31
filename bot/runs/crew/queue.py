"""Whose run is worked on next: in turns by requester, what people have approved ahead of the rest.

It knows no row and starts nothing; one thread at a time.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from storage.ready import Ready, Requester

Line = OrderedDict[Requester, list[Ready]]
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
        self._waiting: dict[str, Ready] = {}
        self._held: dict[str, Ready] = {}
        self._counts: Counter[tuple[Requester, bool]] = Counter()
        self._others = 0  # of those held, such without an approved call
        self._ahead = 0  # runs with approved calls taken in a row, while other work waited

    def put(self, ready: Ready) -> bool:
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

    def take(self) -> Ready | None:
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

    def _hold(self, ready: Ready) -> None:
        self._held[ready.run_id] = ready
        self._counts[ready.requester, ready.decided] += 1
        self._others += not ready.decided

    def _let(self, ready: Ready) -> None:
        del self._held[ready.run_id]
        self._counts[ready.requester, ready.decided] -= 1
        self._counts += Counter()  # without those who hold nothing
        self._others -= not ready.decided

    def _leave(self, ready: Ready) -> None:
        """It waits no more."""
        del self._waiting[ready.run_id]
        line = self._lines[ready.decided]
        runs = line[ready.requester]
        runs.remove(ready)
        if not runs:
            del line[ready.requester]

    def _heads(self, line: Line) -> Iterator[Ready]:
        """The first run of each requester in a line that may begin now, whose turn is first."""
        heads = (runs[0] for runs in line.values())
        return (each for each in heads if self._may_hold(each))

    def _first(self, line: Line) -> Ready | None:
        return next(self._heads(line), None)

    def _may_hold(self, ready: Ready) -> bool:
        """Return whether a worker is free for it, and its requester has not enough of them."""
        if len(self._held) >= self._workers or self._holds(ready.requester) >= self._of_one:
            return False
        own = self._counts[ready.requester, False]
        return ready.decided or (self._others < self._shared and own < self._own)

    def _holds(self, requester: Requester) -> int:
        return self._counts[requester, True] + self._counts[requester, False]

    def _gives_way(self, now: Ready) -> bool:
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
