"""Measures a pause and its resumption without Slack, in processor time and in yardsticks.

*Core* is what every framework does, and what the yardstick does: the request is stored; a worker
proposes a call and suspends the run; the approver's permission is checked, and the approval is
stored with its audit row; a worker resumes, runs the tool and answers, and the answer is on the
disk. *Full* adds what a request needs here: storing the message and the click as the listener does,
the intake, finding ready runs, deciding with its notices. *Posted* also draws everything and posts
it to Slack, which accepts at once: the card, its mark, the outcome, the answer, the card again.

*Warm* goes on in the same process; *fresh* closes the database in between and builds everything
again, as after a restart. Each story is measured right after one of the yardstick's, so both have
the same conditions.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.commits import Counting, Counts
from bench.fakes import APPROVER
from bench.figures import Figure, Setup, Stopwatch, Took, build_figure
from bench.history import write_history
from bench.offline import Bench
from bench.payloads import build_approval, build_mention
from bench.yardstick import Yardstick
from bot.policy.authority import Permission
from storage import calls, decisions, outbox, runs
from storage.decisions import AppliedDecision
from storage.models import Call, Vote
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
    """The state of the votes after one vote: complete."""

    outcome: VoteOutcome = VoteOutcome.APPROVED
    stage: int = 0
    open_stages: tuple[int, ...] = (0,)


def run_core(bench: Bench, thread: str, restart: Callable[[], Bench] | None = None) -> Took:
    """Run a core story. `restart` reopens the bench."""
    watch = Stopwatch()
    with watch:
        run = bench.ask(thread)
        bench.worker.advance_run(run.id)
    call = find_waiting_call(bench, run.id)
    with watch:
        if restart is not None:
            bench = restart()
        at = bench.clock.now()
        verdict = bench.permissions.judge_action(CallVerb.APPROVE, call, run, APPROVER, at=at)
        assert isinstance(verdict, Permission)
        with bench.store.write() as tx:
            found = decisions.apply_vote(
                tx,
                Vote(
                    call_id=call.id,
                    revision=call.revision,
                    verb=CallVerb.APPROVE,
                    person=APPROVER,
                    created_at=at,
                ),
                count_votes=lambda _votes: Approved(),
            )
        assert isinstance(found, AppliedDecision)
        bench.worker.advance_run(run.id)
        bench.store.sync_commits()
    check_completed(bench, run.id)
    return watch.took


def run_full(bench: Bench, thread: str, *, posts: bool = False) -> Took:
    """Run from the stored message to the answer in the outbox, or in Slack if it `posts`."""
    watch, message = Stopwatch(), build_mention(thread)
    with watch:
        bench.store_delivery(message)
        bench.add_messages_to_transcript()
        run_id = bench.advance_ready()
        if posts:
            bench.deliver_messages()
    click = build_approval(find_waiting_call(bench, run_id))
    with watch:
        bench.store_delivery(click)
        bench.add_messages_to_transcript()
        bench.advance_ready()
        if posts:
            bench.deliver_messages()
        bench.store.sync_commits()
    check_completed(bench, run_id)
    return watch.took


def run_posted(bench: Bench, thread: str) -> Took:
    """Run a full story with everything posted to Slack."""
    took = run_full(bench, thread, posts=True)
    with bench.store.read() as tx:
        assert not outbox.list_channels_with_due_messages(tx, bench.clock.now())
    return took


def find_waiting_call(bench: Bench, run_id: str) -> Call:
    """Return the one call of this run that waits for people."""
    with bench.store.read() as tx:
        plan = calls.find_open_plan(tx, run_id)
        assert plan is not None
        [call] = calls.list_calls_of_plan(tx, plan.id)
    return call


def check_completed(bench: Bench, run_id: str) -> None:
    """Fail unless the run has completed."""
    with bench.store.read() as tx:
        ended = runs.find_run(tx, run_id)
    assert ended is not None
    assert ended.status is RunStatus.COMPLETED, ended.error


class Rounds:
    """The yardstick and Countersign in turns, each story in a new thread."""

    def __init__(self, folder: Path, rounds: int, stories: int) -> None:
        """Measure so many rounds of so many stories."""
        self.bench, self.yardstick = Bench(folder), Yardstick(folder)
        self._rounds, self._stories, self._threads = rounds, stories, 0

    def close(self) -> None:
        """Close both."""
        self.bench.close()
        self.yardstick.close()

    def create_thread(self, items: int) -> str:
        """Create a thread with so many items in its transcript."""
        self._threads += 1
        thread = f"1700000000.{self._threads:06}"
        write_history(self.bench.store, thread, items, self.bench.clock.now())
        return thread

    def run_core(self, items: int) -> Took:
        """Run one core story, warm."""
        return run_core(self.bench, self.create_thread(items))

    def run_fresh(self, items: int) -> Took:
        """Run one core story with a restart before its click."""
        return run_core(self.bench, self.create_thread(items), self._restart)

    def run_full(self, items: int) -> Took:
        """Run one full story, warm."""
        return run_full(self.bench, self.create_thread(items))

    def run_posted(self, items: int) -> Took:
        """Run one posted story, warm."""
        return run_posted(self.bench, self.create_thread(items))

    def _restart(self) -> Bench:
        self.bench = self.bench.reopen()
        return self.bench

    def measure_figures(
        self, kind: str, items: int, story: Callable[[int], Took], *, fresh: bool = False
    ) -> Iterator[Figure]:
        """Measure processor time, its ratio to the yardstick's and wall time of a kind of story."""
        ours: list[Took] = []
        theirs: list[float] = []
        ratios: list[float] = []
        for _ in range(self._rounds):
            pairs = [
                (self.yardstick.run_story(items, fresh=fresh), story(items))
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
        yield build_figure(
            name, f"pause and resume, {words}, {items:,} items of history", busy, "ms"
        )
        yield build_figure(f"{name}.yardstick", "… the yardstick beside it", theirs, "ms")
        aim = AIMS.get(f"{kind}.{items}")
        yield build_figure(f"{name}.ratio", "… in yardsticks", ratios, "×", aim)
        yield build_figure(f"{name}.wall", "… wall time", [each.wall for each in ours], "ms")


def count_story(folder: Path, story: Story, items: int) -> Counts:
    """Return what one story asks of the store."""
    bench, counting = Bench(folder), Counting()
    for thread in ("unmeasured", "measured"):
        write_history(bench.store, thread, items, bench.clock.now())
    story(bench, "unmeasured")
    counting.watch(bench.store)
    story(bench, "measured")
    bench.close()
    return counting.counts


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure core, full and posted, warm, at three lengths of history, and core, fresh, at one."""
    rounds = Rounds(setup.make_folder("resume"), *((1, 1) if setup.quick else (7, 9)))
    for _ in range(1 if setup.quick else 5):  # warms the caches
        rounds.run_core(10), rounds.run_full(10), rounds.run_fresh(10), rounds.run_posted(10)
        rounds.yardstick.run_story(10)
    gc.collect()
    gc.freeze()  # as the run command does: imported objects are not collected
    for items in HISTORY:
        yield from rounds.measure_figures("core.warm", items, rounds.run_core)
        yield from rounds.measure_figures("full.warm", items, rounds.run_full)
        rounds.bench.deliver_messages()  # posts what the full stories left, outside any measurement
        yield from rounds.measure_figures("posted.warm", items, rounds.run_posted)
    yield from rounds.measure_figures("core.fresh", HISTORY[0], rounds.run_fresh, fresh=True)
    gc.unfreeze()
    rounds.close()
    for kind, story in (("core", run_core), ("full", run_full), ("posted", run_posted)):
        counts = count_story(setup.make_folder(f"counted-{kind}"), story, HISTORY[0])
        for what in ("statements", "transactions", "commits", "waits"):
            words = "waits for the disk" if what == "waits" else what
            words = f"{words} of a pause and its resumption, {kind}"
            yield Figure(f"resume.{kind}.{what}", words, getattr(counts, what), "")
