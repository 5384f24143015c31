"""A worker whose run another one has taken over writes nothing more, whatever it was about to.

In each story the run is taken over before the first write of a worker, before the second, and so
on; what it writes after that is listed by the function that wrote it.
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

pytestmark = pytest.mark.file  # another connection writes beside it
ROOT = Path(__file__).parents[2]
EVIDENCE = "call.late"  # a result that came too late, kept in the audit
TAKEN = "UPDATE run SET fence = fence + 1, status = 'running' WHERE status IN ('ready', 'running')"
Rows = dict[str, list[tuple[object, ...]]]


class TakenOver(Store):
    """The record; before a worker's nth write another worker claims all that is at work."""

    def __init__(self, path: Path) -> None:
        super().__init__(new_record(path))
        self.left: int | None = None  # writes until then; None: nobody takes anything over
        self.before: Rows = {}  # all rows at that moment
        self.running: set[str] = set()  # the calls that ran then
        self.wrote: list[str] = []  # which functions have changed a row since
        self.effects: Counter[str] = Counter()  # as the harness counts them
        self.begun: Counter[str] = Counter()  # those before

    @contextmanager
    def write(
        self, *, durable: bool = True, needs_sync: bool = True, counted: bool = True
    ) -> Iterator[Transaction]:
        """As the product's."""
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
        """All rows there are."""
        with closing(sqlite3.connect(self.path)) as other:
            named = other.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {
                name: [
                    row
                    for row in other.execute(f"SELECT * FROM {name}")  # our tables
                    if EVIDENCE not in row
                ]
                for (name,) in named
                if not name.startswith("sqlite_")
            }


def _who_writes() -> str:
    """The innermost function of the product that is at work here."""
    frame = sys._getframe(1)
    while not frame.f_code.co_filename.startswith(str(ROOT / "bot")):
        if frame.f_back is None:
            return "the test"
        frame = frame.f_back
    path = Path(frame.f_code.co_filename).relative_to(ROOT)
    return f"{path}:{frame.f_lineno} {frame.f_code.co_qualname}"


class Fenced(LoopHarness):
    """The product without its edges, whose runs can be taken over."""

    record: TakenOver

    def opened(self) -> Store:
        """The record, which knows who writes."""
        self.record = TakenOver(self.path)
        return self.record.open()

    def asked(self, *names: str) -> None:
        """A request whose calls are proposed."""
        self.model.script = [[(name, f"as shown {number}") for number, name in enumerate(names)]]
        self.say("please")
        self.loop.tick()

    def approve(self) -> None:
        """Ana approves what waits."""
        for call in self.all()[1]:
            if call.status is CallStatus.PENDING:
                self.arrive(lambda key, id=call.id: click(key, "approve", f"{id}:1", ANA))
        self.loop.tick()

    def crashed(self, die: str) -> None:
        """A worker dies at the tool, and the next life takes up what it finds."""
        self.pool.die = die
        with pytest.raises(Crash):
            self.work()
        self.stop()
        self.start()


def one_step(harness: Fenced) -> None:
    """A worker takes up each run that is ready."""
    harness.work()


def asking(harness: Fenced) -> None:
    """The model proposes, and the run waits."""
    harness.asked("note")


def answering(harness: Fenced) -> None:
    """The model only answers."""
    harness.say("hello")
    harness.loop.tick()


def approved(harness: Fenced) -> None:
    """An approved call runs, and the model answers."""
    harness.asked("note")
    harness.work()
    harness.approve()


def looking_first(harness: Fenced) -> None:
    """A read runs at once, and then people are waited for."""
    harness.asked("peek", "note")


def refused_first(harness: Fenced) -> None:
    """The first of two calls fails, so the second is cancelled."""
    harness.asked("note", "wipe")
    harness.work()
    harness.approve()
    harness.outcome = "refuses"


def lost(harness: Fenced) -> None:
    """Nobody knows how the call ended."""
    approved(harness)
    harness.outcome = "loses"


def recovered(harness: Fenced) -> None:
    """A dead worker has left a call running."""
    approved(harness)
    harness.crashed("after")


def repeated(harness: Fenced) -> None:
    """A dead worker has left a call running that may be run again."""
    harness.asked("put")
    harness.work()
    harness.approve()
    harness.crashed("after")


def recovered_unasked(harness: Fenced) -> None:
    """The same of a call that nobody was asked about, which has no card yet."""
    harness.asked("free")
    harness.crashed("after")


def nobody_left(harness: Fenced) -> None:
    """What was allowed asks by now, and there is nobody to ask."""
    harness.asked("note", "free")
    harness.work()
    harness.approve()
    stricter = POLICY.replace('verdict = "allow"', 'verdict = "ask"\napprovers = ["@nobody"]')
    harness.core.policy.policy = parse(stricter)


def failing(harness: Fenced) -> None:
    """The model cannot be asked."""
    harness.model.script = ["fail"]
    harness.say("please")
    harness.loop.tick()


def aged(harness: Fenced) -> None:
    """It was approved too long ago, and people are asked again."""
    approved(harness)
    harness.clock.at += timedelta(days=2)


def tampered(harness: Fenced) -> None:
    """What would run is not what was shown."""
    approved(harness)
    with closing(sqlite3.connect(harness.path)) as other:
        other.execute("UPDATE call SET digest = 'x'")
        other.commit()


def spoken_to(harness: Fenced) -> None:
    """Somebody writes while people decide."""
    harness.asked("note")
    harness.work()
    harness.say("what are you waiting for?")
    harness.loop.tick()


def with_a_sub_agent(harness: Fenced) -> None:
    """A sub-agent is asked, and answers."""
    harness.asked("desk")


STORIES: list[Callable[[Fenced], None]] = [
    asking,
    answering,
    approved,
    looking_first,
    refused_first,
    lost,
    recovered,
    repeated,
    recovered_unasked,
    nobody_left,
    failing,
    aged,
    tampered,
    spoken_to,
    with_a_sub_agent,
]


@pytest.mark.parametrize("story", STORIES)
def test_who_is_fenced_out_writes_nothing(story: Callable[[Fenced], None], tmp_path: Path) -> None:
    """However far a worker has come: its later writes change no row, and no effect begins."""
    for nth in range(1, 60):
        harness = Fenced(tmp_path / f"{nth}.db")
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
