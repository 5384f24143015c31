"""A pause and its resumption, without Slack: propose → suspend → load → approve → run → answer.

In full: the model's call is gated and stored and the run suspended; the approver's click is stored
as the listener stores it, and decided; a worker that has never seen the run loads it, runs the tool
and has the model answer. `warm` goes on in the same process with objects made anew from the rows;
`fresh` also closes the database and opens it again, as after a restart. The request that came
before and what is said to Slack afterwards are not in it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.commits import Commits
from bench.fakes import Stub
from bench.figures import Figure, Setup, of_rounds
from bench.floor import Floor, typical
from bench.offline import Bench
from storage import calls, runs
from storage.models import Call, Run
from storage.states import RunStatus

HISTORY = (10, 100, 1000)  # items in the thread before the request
AIMS = {10: 3.0, 100: None, 1000: 8.0}  # durable SQLModel commits


@dataclass(frozen=True, slots=True)
class Story:
    """What one story took: seconds of wall and of processor time, its commits and those that waited
    for the disk.
    """

    wall: float
    processor: float
    commits: int
    durable: int


def pending(bench: Bench, run: Run) -> Call:
    """The one call of this run that waits for people, as an approver's click finds it."""
    with bench.store.read() as tx:
        plan = calls.open_plan(tx, run.id)
        assert plan is not None
        [call] = calls.of_plan(tx, plan.id)
    return call


def story(bench: Bench, thread: str, *, fresh: bool = False) -> tuple[Bench, Story]:
    """One request in that thread from its proposal to its answer.

    With the life of the process it ended in.
    """
    run = bench.ask(thread)
    watched = [Commits(bench.store)]
    began, processor = time.perf_counter(), time.process_time()
    bench.worker(Stub()).advance(run.id)
    if fresh:
        bench = bench.again()
        watched.append(Commits(bench.store))
    bench.deciding().take(bench.store_click(bench.click(pending(bench, run))))
    bench.worker(Stub()).advance(run.id)
    wall, processor = time.perf_counter() - began, time.process_time() - processor
    commits = [span for each in watched for span in each.spans]
    for each in watched:
        each.close()
    with bench.store.read() as tx:
        ended = runs.get(tx, run.id)
    assert ended is not None
    assert ended.status is RunStatus.COMPLETED, ended.error
    return bench, Story(wall, processor, len(commits), sum(span.durable for span in commits))


def measure(setup: Setup) -> Iterator[Figure]:
    """Warm and fresh, at three lengths of history; each round beside the floor at that moment."""
    folder = setup.new("resume")
    bench, floor = Bench(folder), Floor(folder)
    for number in range(1 if setup.quick else 5):  # the first ones fill caches
        bench, _ = story(bench, f"unmeasured.{number}", fresh=number == 0)
    rounds, stories = (1, 1) if setup.quick else (5, 7)
    for items in HISTORY:
        for fresh in (False, True):
            each = (stories + 1) // 2 if fresh else stories
            name = f"resume.{'fresh' if fresh else 'warm'}.{items}"
            where = f"pause and resume, {'fresh' if fresh else 'warm'}, {items:,} items of history"
            took: list[list[Story]] = []
            ratios = []
            for number in range(rounds):
                took.append([])
                for nth in range(each):
                    thread = f"{name}.{number}.{nth}"
                    bench.history(thread, items)
                    bench, one = story(bench, thread, fresh=fresh)
                    took[-1].append(one)
                ratios.append(
                    statistics.median(one.wall for one in took[-1]) / typical(floor.sqlmodel, 15)
                )
            walls = [statistics.median(one.wall * 1000 for one in some) for some in took]
            yield of_rounds(name, where, walls, "ms")
            busy = [statistics.median(one.processor * 1000 for one in some) for some in took]
            yield of_rounds(f"{name}.processor", "… processor time of it", busy, "ms")
            if not fresh:
                yield of_rounds(
                    f"{name}.ratio", "… in durable SQLModel commits", ratios, "×", AIMS[items]
                )
        yield Figure(f"resume.commits.{items}", "… commits in it", took[0][0].commits, "")
        yield Figure(
            f"resume.durable.{items}", "… of them, waits for the disk", took[0][0].durable, ""
        )
    bench.close()
    floor.close()
