"""A pause and its resumption, without Slack, in processor time beside the yardstick's.

*Core* is what every framework does, and what the yardstick does: the request is stored; a worker
proposes a call and suspends the run; it is checked who approves, and the approval is stored with
its audit row; a worker resumes, runs the tool and answers, and the answer is on the disk. *Full*
adds what a request
needs here: the message and the click stored as the listener stores them, the intake, the look for
what is ready, deciding with its notices. *Posted* is that with everything drawn and handed to
Slack, which takes it at once: the card, its mark, the outcome, the answer, the card once more.
*Warm* goes on in the same process; *fresh* closes the
database in between and builds everything anew, as after a restart. Each story is taken right after
one of the yardstick's, so both meet the same machine.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.commits import Counting, Counts
from bench.fakes import APPROVER
from bench.figures import Figure, Setup, Stopwatch, Took, of_rounds
from bench.history import write_history
from bench.offline import Bench
from bench.payloads import approval, mention
from bench.yardstick import Yardstick
from bot.agent import outputs
from bot.policy.authority import Permission
from storage import calls, decisions, outbox, runs
from storage.decisions import AppliedDecision
from storage.models import Call
from storage.states import CallVerb, RunStatus, VoteOutcome

HISTORY = (10, 100, 1000)  # items in the thread before the request
Story = Callable[[Bench, str], Took]
AIMS = {  # in yardsticks
    "core.warm.10": 1.5,
    "full.warm.10": 1.8,
    "posted.warm.10": 2.6,
    "core.warm.1000": 1.0,
    "full.warm.1000": 1.05,
    "posted.warm.1000": 1.4,
    "core.fresh.10": 1.4,
}


@dataclass(frozen=True, slots=True)
class Approved:
    """How far votes have come once there is one: all the way."""

    outcome: VoteOutcome = VoteOutcome.APPROVED
    stage: int = 0
    open_stages: tuple[int, ...] = (0,)


def core(bench: Bench, thread: str, restart: Callable[[], Bench] | None = None) -> Took:
    """What every framework does. `restart` makes the next life."""
    watch = Stopwatch()
    with watch:
        run = bench.ask(thread)
        bench.worker.advance_run(run.id)
    call = pending(bench, run.id)
    with watch:
        if restart is not None:
            bench = restart()
        at = bench.clock.now()
        verdict = bench.permissions.judge_action(CallVerb.APPROVE, call, run, APPROVER, at=at)
        assert isinstance(verdict, Permission)
        with bench.store.write() as tx:
            found = decisions.apply_vote(
                tx,
                call.id,
                call.revision,
                CallVerb.APPROVE,
                APPROVER,
                at=at,
                count_votes=lambda _votes: Approved(),
                words=outputs,
            )
        assert isinstance(found, AppliedDecision)
        bench.worker.advance_run(run.id)
        bench.store.sync_commits()
    check(bench, run.id)
    return watch.took


def full(bench: Bench, thread: str, *, posts: bool = False) -> Took:
    """From the stored message to the answer in the outbox; where it `posts`, to Slack."""
    watch, message = Stopwatch(), mention(thread)
    with watch:
        bench.store_delivery(message)
        bench.add_messages_to_transcript()
        run_id = bench.advance_ready()
        if posts:
            bench.post()
    click = approval(pending(bench, run_id))
    with watch:
        bench.store_delivery(click)
        bench.add_messages_to_transcript()
        bench.advance_ready()
        if posts:
            bench.post()
        bench.store.sync_commits()
    check(bench, run_id)
    return watch.took


def posted(bench: Bench, thread: str) -> Took:
    """The same, and all of it has been told to Slack."""
    took = full(bench, thread, posts=True)
    with bench.store.read() as tx:
        assert not outbox.list_channels_with_due_messages(tx, bench.clock.now())
    return took


def pending(bench: Bench, run_id: str) -> Call:
    """The one call of this run that waits for people."""
    with bench.store.read() as tx:
        plan = calls.find_open_plan(tx, run_id)
        assert plan is not None
        [call] = calls.list_calls_of_plan(tx, plan.id)
    return call


def check(bench: Bench, run_id: str) -> None:
    """Fail unless the run has come to its answer."""
    with bench.store.read() as tx:
        ended = runs.find_run(tx, run_id)
    assert ended is not None
    assert ended.status is RunStatus.COMPLETED, ended.error


class Rounds:
    """The yardstick and Countersign in turns, each story in a thread of its own."""

    def __init__(self, folder: Path, rounds: int, stories: int) -> None:
        """So many rounds of so many stories."""
        self.bench, self.yardstick = Bench(folder), Yardstick(folder)
        self._rounds, self._stories, self._threads = rounds, stories, 0

    def close(self) -> None:
        """Close both."""
        self.bench.close()
        self.yardstick.close()

    def thread(self, items: int) -> str:
        """A new thread with so many items in its transcript."""
        self._threads += 1
        thread = f"1700000000.{self._threads:06}"
        write_history(self.bench.store, thread, items, self.bench.clock.now())
        return thread

    def core(self, items: int) -> Took:
        """One core story, warm."""
        return core(self.bench, self.thread(items))

    def fresh(self, items: int) -> Took:
        """One core story with a restart before its click."""
        return core(self.bench, self.thread(items), self._restart)

    def full(self, items: int) -> Took:
        """One full story, warm."""
        return full(self.bench, self.thread(items))

    def posted(self, items: int) -> Took:
        """One full story that is told to Slack, warm."""
        return posted(self.bench, self.thread(items))

    def _restart(self) -> Bench:
        self.bench = self.bench.again()
        return self.bench

    def figures(
        self, kind: str, items: int, story: Callable[[int], Took], *, fresh: bool = False
    ) -> Iterator[Figure]:
        """Processor time, its ratio to the yardstick's, and wall time, of one kind of story."""
        ours: list[Took] = []
        theirs: list[float] = []
        ratios: list[float] = []
        for _ in range(self._rounds):
            pairs = [
                (self.yardstick.story(items, fresh=fresh), story(items))
                for _ in range(self._stories)
            ]
            theirs.append(statistics.median(yardstick.processor for yardstick, _ in pairs))
            mine = [each for _, each in pairs]
            ours.append(
                Took(
                    statistics.median(each.wall for each in mine),
                    statistics.median(each.processor for each in mine),
                )
            )
            ratios.append(ours[-1].processor / theirs[-1])
        name, words = f"resume.{kind}.{items}", kind.replace(".", ", ")
        busy = [each.processor for each in ours]
        yield of_rounds(name, f"pause and resume, {words}, {items:,} items of history", busy, "ms")
        yield of_rounds(f"{name}.yardstick", "… the yardstick beside it", theirs, "ms")
        aim = AIMS.get(f"{kind}.{items}")
        yield of_rounds(f"{name}.ratio", "… in yardsticks", ratios, "×", aim)
        yield of_rounds(f"{name}.wall", "… wall time", [each.wall for each in ours], "ms")


def counted(folder: Path, story: Story, items: int) -> Counts:
    """What one story asks of the store."""
    bench, counting = Bench(folder), Counting()
    for thread in ("unmeasured", "measured"):
        write_history(bench.store, thread, items, bench.clock.now())
    story(bench, "unmeasured")
    counting.watch(bench.store)
    story(bench, "measured")
    bench.close()
    return counting.counts


def measure(setup: Setup) -> Iterator[Figure]:
    """Core, full and posted, warm, at three lengths of history; core, fresh, at the shortest."""
    rounds = Rounds(setup.new("resume"), *((1, 1) if setup.quick else (7, 9)))
    for _ in range(1 if setup.quick else 5):  # the first ones fill caches
        rounds.core(10), rounds.full(10), rounds.fresh(10), rounds.posted(10)
        rounds.yardstick.story(10)
    gc.collect()
    gc.freeze()  # as the run command does: what was imported is never looked at again
    for items in HISTORY:
        yield from rounds.figures("core.warm", items, rounds.core)
        yield from rounds.figures("full.warm", items, rounds.full)
        rounds.bench.post()  # what nobody was told of is nobody's measure
        yield from rounds.figures("posted.warm", items, rounds.posted)
    yield from rounds.figures("core.fresh", HISTORY[0], rounds.fresh, fresh=True)
    gc.unfreeze()
    rounds.close()
    for kind, story in (("core", core), ("full", full), ("posted", posted)):
        counts = counted(setup.new(f"counted-{kind}"), story, HISTORY[0])
        for what in ("statements", "transactions", "commits", "waits"):
            words = "waits for the disk" if what == "waits" else what
            words = f"{words} of a pause and its resumption, {kind}"
            yield Figure(f"resume.{kind}.{what}", words, getattr(counts, what), "")
