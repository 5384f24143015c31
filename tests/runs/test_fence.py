"""A worker whose run another one has taken over writes nothing more, whatever it was doing.

In each story the run is taken over before a worker's first write, before the second, and so on;
later writes are listed with the function that wrote them.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from bot.policy.evaluation import parse
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import Transaction
from tests.records import new_record
from tests.runs.fakes import ANA, POLICY
from tests.runs.harness import Crash, LoopHarness
from tests.storage.builders import click

pytestmark = pytest.mark.file  # another connection writes to the file
ROOT = Path(__file__).parents[2]
EVIDENCE = "call.late"  # a result that came too late, kept in the audit
TAKEN = "UPDATE run SET fence = fence + 1, status = 'running' WHERE status IN ('ready', 'running')"
Rows = dict[str, list[tuple[object, ...]]]


class TakenOverStore(Store):
    """The record; before a worker's nth write another worker claims all running work."""

    def __init__(self, path: Path) -> None:
        super().__init__(new_record(path))
        self.left: int | None = None  # writes until then; None: no take-over
        self.before: Rows = {}  # all rows at that moment
        self.running: set[str] = set()  # the calls that were running then
        self.wrote: list[str] = []  # the functions that changed a row since
        self.effects: Counter[str] = Counter()  # as the harness counts them
        self.begun: Counter[str] = Counter()  # the effects before the take-over

    @contextmanager
    def write(
        self, *, durable: bool = True, needs_sync: bool = True, counted: bool = True
    ) -> Iterator[Transaction]:
        """As in the product."""
        where = _who_writes()
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                with closing(sqlite3.connect(self.path)) as other:
                    other.execute(TAKEN)
                    other.commit()
                    running = other.execute("SELECT id FROM call WHERE status = 'running'")
                    self.running = {str(name) for (name,) in running}
                self.before, self.begun = self.rows(), Counter(self.effects)
        with super().write(durable=durable, needs_sync=needs_sync, counted=counted) as tx:
            yield tx
            changed = tx.has_changes
        if self.before and changed:
            self.wrote.append(where)

    def rows(self) -> Rows:
        """All rows but evidence of late results."""
        with closing(sqlite3.connect(self.path)) as other:
            named = other.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {
                name: [
                    row
                    for row in other.execute(
                        f"SELECT * FROM {name}"
                    )  # the names are those of our tables
                    if EVIDENCE not in row
                ]
                for (name,) in named
                if not name.startswith("sqlite_")
            }


def _who_writes() -> str:
    """The innermost function of the product that is running."""
    frame = sys._getframe(1)
    while not frame.f_code.co_filename.startswith(str(ROOT / "bot")):
        if frame.f_back is None:
            return "the test"
        frame = frame.f_back
    path = Path(frame.f_code.co_filename).relative_to(ROOT)
    return f"{path}:{frame.f_lineno} {frame.f_code.co_qualname}"


class FencedHarness(LoopHarness):
    """The product without its edges, whose runs can be taken over."""

    record: TakenOverStore

    def opened(self) -> Store:
        """The record, which knows who writes."""
        self.record = TakenOverStore(self.path)
        return self.record.open()

    def propose(self, *names: str) -> None:
        """A request whose calls are proposed."""
        self.model.script = [[(name, f"as shown {number}") for number, name in enumerate(names)]]
        self.say("please")
        self.loop.tick()

    def approve(self) -> None:
        """Ana approves all waiting calls."""
        for call in self.all()[1]:
            if call.status is CallStatus.PENDING:
                self.arrive(lambda key, id=call.id: click(key, "approve", f"{id}:1", ANA))
        self.loop.tick()

    def crash_and_restart(self, die: str) -> None:
        """A worker dies at the tool, and a new process starts."""
        self.pool.die = die
        with pytest.raises(Crash):
            self.work()
        self.stop()
        self.start()


def propose_a_call(harness: FencedHarness) -> None:
    """The model proposes a call, and the run waits."""
    harness.propose("note")


def answer_only(harness: FencedHarness) -> None:
    """The model only answers."""
    harness.say("hello")
    harness.loop.tick()


def approve_a_call(harness: FencedHarness) -> None:
    """An approved call runs, and the model answers."""
    harness.propose("note")
    harness.work()
    harness.approve()


def read_then_propose(harness: FencedHarness) -> None:
    """A read runs at once, and then people decide."""
    harness.propose("peek", "note")


def fail_the_first_of_two_calls(harness: FencedHarness) -> None:
    """The first of two calls fails, so the second is cancelled."""
    harness.propose("note", "wipe")
    harness.work()
    harness.approve()
    harness.outcome = "refuses"


def lose_the_outcome(harness: FencedHarness) -> None:
    """The outcome of the call is unknown."""
    approve_a_call(harness)
    harness.outcome = "loses"


def leave_a_call_running(harness: FencedHarness) -> None:
    """A dead worker has left a call running."""
    approve_a_call(harness)
    harness.crash_and_restart("after")


def leave_a_repeatable_call_running(harness: FencedHarness) -> None:
    """A dead worker has left a call running that may run again."""
    harness.propose("put")
    harness.work()
    harness.approve()
    harness.crash_and_restart("after")


def leave_an_unasked_call_running(harness: FencedHarness) -> None:
    """The same for a call that nobody was asked about, which has no card yet."""
    harness.propose("free")
    harness.crash_and_restart("after")


def leave_nobody_to_ask(harness: FencedHarness) -> None:
    """Policy asks about an allowed call now, and there is nobody to ask."""
    harness.propose("note", "free")
    harness.work()
    harness.approve()
    stricter = POLICY.replace('verdict = "allow"', 'verdict = "ask"\napprovers = ["@nobody"]')
    harness.core.policy.policy = parse(stricter)


def fail_the_model(harness: FencedHarness) -> None:
    """The model fails."""
    harness.model.script = ["fail"]
    harness.say("please")
    harness.loop.tick()


def age_an_approval(harness: FencedHarness) -> None:
    """It was approved too long ago, and people are asked again."""
    approve_a_call(harness)
    harness.clock.at += timedelta(days=2)


def tamper_with_a_call(harness: FencedHarness) -> None:
    """The call that would run is not the one that was shown."""
    approve_a_call(harness)
    with closing(sqlite3.connect(harness.path)) as other:
        other.execute("UPDATE call SET digest = 'x'")
        other.commit()


def write_while_people_decide(harness: FencedHarness) -> None:
    """Somebody writes while people decide."""
    harness.propose("note")
    harness.work()
    harness.say("what are you waiting for?")
    harness.loop.tick()


def ask_a_sub_agent(harness: FencedHarness) -> None:
    """A sub-agent is asked, and answers."""
    harness.propose("desk")


STORIES: list[Callable[[FencedHarness], None]] = [
    propose_a_call,
    answer_only,
    approve_a_call,
    read_then_propose,
    fail_the_first_of_two_calls,
    lose_the_outcome,
    leave_a_call_running,
    leave_a_repeatable_call_running,
    leave_an_unasked_call_running,
    leave_nobody_to_ask,
    fail_the_model,
    age_an_approval,
    tamper_with_a_call,
    write_while_people_decide,
    ask_a_sub_agent,
]


@pytest.mark.parametrize("story", STORIES)
def test_a_worker_that_was_fenced_out_writes_nothing(
    story: Callable[[FencedHarness], None], tmp_path: Path
) -> None:
    """However far it has come, no later write changes a row, and no effect begins."""
    for nth in range(1, 60):
        harness = FencedHarness(tmp_path / f"{nth}.db")
        story(harness)
        record = harness.record
        record.left, record.effects = nth, harness.effects
        harness.work()
        if not record.before:
            assert nth > 3
            harness.stop()
            return
        after = record.rows()
        changed = [name for name, those in record.before.items() if after[name] != those]
        assert not changed, f"{changed} changed after the run was taken over, by {record.wrote}"
        late = set(harness.effects - record.begun) - record.running
        assert not late, "an effect began after the run was taken over"
        harness.stop()
    raise AssertionError("it never ended")
