"""The loop's tick over real rows: clicks before deadlines, deadlines alone, broken rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from queue import Queue
from typing import Any

import pytest

from bot.core import Core
from bot.runs.loop import MAX_DELIVERY_TRIES, OVERDUE_RETRY_INTERVAL, MainLoop
from bot.runs.worker_pool import WorkerPool
from storage import endings, inbox, outbox, runs
from storage.models import Delivery, Message
from storage.store import Store
from tests.record_checks import find_first_broken_row, list_transcript_items
from tests.runs.fakes import ANA, BEN, CLEO, DAN, FakeDirectory, StillClock, make_core, make_tools
from tests.storage.builders import AT, HOUR, C, R, Seeded, click, seed

TICK = timedelta(microseconds=1)


class LoopSetup:
    """A loop whose clock and ticks are controlled by the test."""

    def __init__(self, store: Store) -> None:
        self.store, self.directory, self.clock = store, FakeDirectory(), StillClock()
        self.core: Core = make_core(
            store, self.clock, self.directory, make_tools(lambda *_: "done")
        )
        self.loop = self.make_loop()

    def make_loop(self, advance: Callable[..., None] = lambda *_: None) -> MainLoop:
        """A loop as a new process makes it, which hands its runs to `advance`."""
        intake = self.core.build_intake(lambda _: False, lambda _: None)
        workers = WorkerPool(advance, 8, self.core.signals)
        return self.core.build_loop(intake, workers, lambda _: None)

    def tick(self, at: Any = AT) -> None:
        """One tick at that time."""
        self.clock.at = at
        self.loop.tick()

    def arrive(self, *deliveries: Delivery) -> None:
        """Store deliveries."""
        with self.store.write() as tx:
            for each in deliveries:
                assert inbox.insert_delivery(tx, each)

    def list_messages(self, prefix: str) -> list[Message]:
        """Messages in the outbox whose key begins like this."""
        with self.store.read() as tx:
            return [
                row
                for row in outbox.list_due_messages(tx, AT + 9 * HOUR)
                if row.key.startswith(prefix)
            ]


@pytest.fixture
def setup(store: Store) -> Iterator[LoopSetup]:
    """A loop on a new database."""
    made = LoopSetup(store)
    yield made
    made.loop.stop(5)


def make_approval(seeded: Seeded, person: str = ANA, at: Any = AT, revision: int = 1) -> Delivery:
    """A stored click on Approve."""
    return click(
        f"{person} {at} {seeded.ids[0]}", "approve", f"{seeded.ids[0]}:{revision}", person, at=at
    )


def test_a_click_stored_before_the_deadline_counts_after_it(setup: LoopSetup) -> None:
    """Clicks are decided first, however late the tick is."""
    intime, late, silent = (seed(setup.store, deadline=AT + TICK) for _ in range(3))
    setup.arrive(make_approval(late, at=AT + TICK), make_approval(intime))
    setup.loop.stop(5)
    setup.loop = setup.make_loop()  # the process was not running meanwhile
    setup.tick(AT + HOUR)
    assert [each.call().status for each in (intime, late, silent)] == [
        C.APPROVED,
        C.EXPIRED,
        C.EXPIRED,
    ]
    assert [each.run().status for each in (intime, late, silent)] == [R.READY] * 3
    assert len(setup.list_messages("expired:")) == 2
    assert len(setup.list_messages("private:")) == 1  # the late person is told so


def test_a_click_is_refused_while_slack_cannot_be_asked(setup: LoopSetup) -> None:
    """It is audited, and deadlines apply as usual."""
    clicked, silent = seed(setup.store, deadline=AT + TICK), seed(setup.store, deadline=AT)
    setup.arrive(make_approval(clicked))
    setup.directory.down = True
    setup.tick(AT + HOUR)
    assert (clicked.call().status, silent.call().status) == (C.EXPIRED, C.EXPIRED)
    assert clicked.events() == ["decision.refused", "call.expired", "run.ready"]


def test_an_unreadable_click_is_set_aside_after_five_attempts(setup: LoopSetup) -> None:
    """It holds up no deadline, and its person is told."""
    seeded = seed(setup.store, deadline=AT + TICK)
    broken = make_approval(seeded)
    broken.body = "no JSON"
    setup.arrive(broken)
    for number in range(MAX_DELIVERY_TRIES):
        assert setup.list_messages("broken:") == []
        setup.tick(AT + HOUR + number * timedelta(minutes=1))
        assert seeded.call().status is C.EXPIRED
    assert len(setup.list_messages("broken:")) == 1


BREAKS = {
    "its gate is no JSON": "UPDATE call SET gate = 'x' WHERE id = :id",
    "its tool is unknown": "UPDATE call SET tool = 'gone' WHERE id = :id",
    "a time is no time": "UPDATE call SET created_at = 'yesterday' WHERE id = :id",
    "its revision is missing": "UPDATE call SET revision = 7 WHERE id = :id",
    "its run has a status nobody knows": "UPDATE run SET status = 'asleep' WHERE id = :run",
    "its run has no time": "UPDATE run SET updated_at = 'noon' WHERE id = :run",
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_row_stops_no_other_deadline_or_run(setup: LoopSetup, what: str) -> None:
    """Calls due before and after it expire, and work goes on."""
    before, broken, after = (seed(setup.store, deadline=AT + number * TICK) for number in range(3))
    other, ready = seed(setup.store), seed(setup.store, run=R.READY)
    with setup.store.write() as tx:
        statement = (
            BREAKS[what].replace(":id", f"'{broken.ids[0]}'").replace(":run", f"'{broken.run_id}'")
        )
        tx.exec_driver_sql(statement)
    setup.arrive(make_approval(other))
    handed: Queue[str] = Queue()
    setup.loop = setup.make_loop(lambda run_id, _: handed.put(run_id))
    setup.tick(AT + timedelta(minutes=1))
    wanted = {before.run_id, after.run_id, other.run_id, ready.run_id}
    while wanted:
        wanted.discard(handed.get(timeout=30))
    assert [each.call().status for each in (before, after, other)] == [
        C.EXPIRED,
        C.EXPIRED,
        C.APPROVED,
    ]
    assert len(setup.list_messages("expired:")) >= 2


def test_the_loop_checks_a_stuck_deadline_only_once_a_second(setup: LoopSetup) -> None:
    """Its call cannot expire."""
    seed(setup.store, deadline=AT)
    with setup.store.write() as tx:
        tx.exec_driver_sql("UPDATE run SET status = 'asleep'")
    looks: list[int] = []  # one at the start, one after each tick

    def looked(more: int) -> bool:
        looks.append(1)
        return len(looks) > more

    rest = setup.core.signals.rest
    thread = threading.Thread(target=setup.loop.run, daemon=True)
    thread.start()
    assert rest.wait_for(lambda: looked(1), 30)  # the first look
    looks.clear()
    assert not rest.wait_for(lambda: looked(7), OVERDUE_RETRY_INTERVAL.total_seconds() / 2)
    setup.loop.stop(5)
    thread.join(30)


def test_stopping_waits_only_for_runs_at_work(setup: LoopSetup) -> None:
    """Runs that no worker had begun are not waited for."""
    entered, go_on = threading.Event(), threading.Event()

    def advance(*_: object) -> None:
        entered.set()
        go_on.wait(20)

    fewer = setup.core.settings.model_copy(update={"workers": 1})
    setup.core = replace(setup.core, settings=fewer)
    setup.loop = setup.make_loop(advance)
    for _ in range(3):
        seed(setup.store, run=R.READY)
    setup.tick()
    assert entered.wait(30)
    stopping = threading.Thread(target=setup.loop.stop, args=(60,))
    stopping.start()
    go_on.set()
    stopping.join(30)
    assert not stopping.is_alive()
    with setup.store.read() as tx:
        assert len(runs.list_ready_runs(tx)) == 3


def test_clicks_count_in_the_order_of_storing(setup: LoopSetup) -> None:
    """The other person hears who was first."""
    seeded = seed(setup.store)
    setup.arrive(make_approval(seeded, CLEO), make_approval(seeded, ANA))
    setup.tick()
    assert [vote.person for vote in seeded.votes()] == [CLEO]
    told = setup.list_messages("private:")
    assert [row.recipient for row in told] == [ANA]
    assert CLEO in told[0].body


@pytest.mark.parametrize(
    ("person", "why"), [(BEN, "not_approver"), (DAN, "not_approver"), ("UEVE00001", "stranger")]
)
def test_a_click_of_somebody_who_is_no_approver_is_refused(
    setup: LoopSetup, person: str, why: str
) -> None:
    """The reply is private, the audit has it, and nothing changes."""
    seeded = seed(setup.store)
    setup.arrive(make_approval(seeded, person))
    setup.tick()
    assert (seeded.call().status, seeded.votes()) == (C.PENDING, [])
    assert [(row.event, row.actor, json.loads(row.data)["why"]) for row in seeded.audit()] == [
        ("decision.refused", person, why)
    ]
    assert [row.recipient for row in setup.list_messages("private:")] == [person]


def test_two_loops_at_once_expire_a_call_once(setup: LoopSetup) -> None:
    """The thread gets one line, and the run becomes ready once."""
    seeded = [seed(setup.store, deadline=AT) for _ in range(8)]
    other = setup.make_loop()
    ticks: list[Callable[[], None]] = [setup.loop.tick, other.tick]
    threads = [threading.Thread(target=tick) for tick in ticks]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    other.stop(5)
    assert all(each.events() == ["call.expired", "run.ready"] for each in seeded)
    assert len(setup.list_messages("expired:")) == 8


def test_a_running_call_of_a_cancelled_run_is_unknown_after_a_restart(setup: LoopSetup) -> None:
    """The transcript says so, too."""
    seeded = seed(setup.store, C.RUNNING, C.APPROVED, run=R.RUNNING)
    with setup.store.write() as tx:
        endings.cancel_run(tx, seeded.run(), at=AT, actor=BEN)
    setup.loop.reclaim_orphaned_runs()
    setup.loop.reclaim_orphaned_runs()
    call = seeded.call()
    assert (call.status, call.deadline, seeded.run().status) == (C.UNKNOWN, None, R.CANCELLED)
    with setup.store.read() as tx:
        items = list_transcript_items(tx, seeded.run())
        assert find_first_broken_row(tx) is None
    assert [(item["call_id"], item["output"].split()[0]) for item in items] == [
        ("call_0", "UNKNOWN:"),
        ("call_1", "CANCELLED"),
    ]


def test_a_restart_makes_running_runs_ready_at_once(setup: LoopSetup) -> None:
    """It does so whatever their lease says."""
    running, waiting = seed(setup.store, C.APPROVED, run=R.RUNNING), seed(setup.store)
    setup.loop.reclaim_orphaned_runs()
    assert (running.run().status, waiting.run().status) == (R.READY, R.WAITING)
    assert running.events() == ["run.ready"]
