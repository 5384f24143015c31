"""Who works on what: threads side by side, one run in each, any number of workers, and none that
stalled comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Literal

import pytest
from slack_bolt.adapter.socket_mode import SocketModeHandler
from sqlalchemy import text

from bot.app import App
from storage import decisions
from storage.models import Audit, Delivery, Run
from storage.states import CallStatus, RunStatus
from tests.storage.rows import ONE
from tests.stories.kit import Kit
from tests.stories.test_time import ask as ask_one
from tests.stories.world import (
    FINANCE,
    GENERAL,
    SUPPORT,
    Turn,
    World,
    action_ids,
    all_sent,
    chat,
    showing,
    told,
    words,
)

C = CallStatus
LEASE = 61  # seconds: a little more than a worker's lease


@pytest.fixture
def second(world: World) -> Iterator[App]:
    """Another worker on the same database, without a socket and an outbox of its own."""
    world.settle()
    app = world._build(exclusive=False)
    app.start(connect=False)
    app.outbox.stop()
    app.core.post = world.app.core.post
    yield app
    world.app.loop.resume()
    app.stop()


def events_of(world: World, run: Run, event: str) -> int:
    """How often the audit says that of the run."""
    return len(world.all(Audit, Audit.run_id == run.id, Audit.event == event))


def stand_still(world: World, app: App) -> None:
    """Its loop begins nothing more, and a pass that was under way has ended."""
    app.loop.pause()
    world.slack.wait(lambda: not app.loop.busy)


def stall(world: World, second: App) -> None:
    """The first worker stands still until its leases have lapsed; the second one goes to work."""
    stand_still(world, world.app)
    world.clock.advance(LEASE)
    second.loop.resume()


def test_threads_run_side_by_side(world: World) -> None:
    """While the model thinks about one thread, another is answered."""
    hold = world.planner.hold()
    slow = world.person("ben").say(SUPPORT, "@bot a hard question")
    assert hold.arrived.wait(20)
    world.said(SUPPORT, chat(world, "An easy answer.", who="dan"), "An easy answer.")
    assert world.run_in(slow).status is RunStatus.RUNNING
    world.planner.script(Turn(text="A hard answer."))
    hold.release()
    world.said(SUPPORT, slow, "A hard answer.")


def test_one_run_at_a_time_in_a_thread(world: World) -> None:
    """While a thread is worked on, the requester's words wait, and somebody else is told to begin a
    thread.
    """
    hold = world.planner.hold()
    thread = chat(world, "One thing at a time.")
    assert hold.arrived.wait(20)
    asked = len(world.planner.requests)
    world.person("dan").say(SUPPORT, "@bot me too", thread)
    assert "UBEN00001" in told(world, "dan", SUPPORT, thread, "Start a new thread")
    world.person("ben").say(SUPPORT, "@bot and this", thread)
    world.slack.wait(
        lambda: world.all(Delivery, Delivery.thread_ts == thread, Delivery.status == "held")
    )
    assert len(world.planner.requests) == asked
    world.planner.script(Turn(text="And the other."))
    hold.release()
    world.said(SUPPORT, thread, "And the other.")
    world.settle()
    assert len(world.all(Run, Run.thread_ts == thread)) == 1
    assert "and this" in str(world.planner.requests[-1]["input"][-1])
    assert "me too" not in str(world.planner.requests[asked - 1]["input"])


def test_two_sockets(world: World) -> None:
    """With two sockets each delivery comes by one of them; every message is answered once."""
    token = world.slack.app_token
    more = SocketModeHandler(world.app.bolt, token)
    more.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
    try:
        world.slack.wait(lambda: world.slack.connections == 2)
        before = len(world.slack.deliveries)
        threads = []
        for number in range(3):
            threads.append(chat(world, f"Answer number {number}."))
            world.said(SUPPORT, threads[-1], f"Answer number {number}.")
        world.settle()
        assert len({d.socket_id for d in world.slack.deliveries[before:]}) == 2
        assert [len(showing(world, SUPPORT, t, "Answer number")) for t in threads] == [1, 1, 1]
    finally:
        more.close()  # type: ignore[no-untyped-call]  # the same


def test_two_workers_pick_up_one_run(world: World, kit: Kit, second: App) -> None:
    """Six threads of two workers go for the same run at once: one advances it, the others do
    nothing (X05, X09).
    """
    thread, _ = ask_one(world, "picked up once")
    world.planner.script(Turn(text="Picked up."))
    world.settle()
    world.slack.wait(second.loop.is_idle)
    for app in (world.app, second):
        app.loop.pause()
    [call], run = world.calls_in(thread), world.run_in(thread)
    with world.app.core.store.write() as tx:
        decisions.vote(tx, call.id, 1, "approve", "UANA00001", at=world.clock.now(), weigh=ONE)
    barrier = threading.Barrier(6)

    def advance(app: App) -> None:
        barrier.wait(20)
        app.loop._advance(run.id)

    workers = [threading.Thread(target=advance, args=(app,)) for app in (world.app, second) * 3]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(10)
    world.said(SUPPORT, thread, "Picked up.")
    assert kit.did("note", "picked up once") == 1
    assert events_of(world, run, "run.running") == 2  # once for the plan, once for the rest
    assert len(showing(world, SUPPORT, thread, "Picked up.")) == 1


def test_a_worker_stalls_in_a_model_turn(world: World, second: App) -> None:
    """Its lease lapses, another worker takes over and answers.

    What the first one brings late is refused (X10).
    """
    stand_still(world, second)  # else it may be the one to claim the run
    hold = world.planner.hold()
    thread = world.person("ben").say(SUPPORT, "@bot think hard")
    assert hold.arrived.wait(20)
    other = world.planner.hold()
    stall(world, second)
    assert other.arrived.wait(20)
    late = Turn(text="The first worker's words.", calls=[("note", {"text": "late"})])
    world.planner.script(late, Turn(text="The second worker's answer."))
    hold.release()
    world.app.settle()  # its late write was refused, while the run was RUNNING for the other
    assert world.run_in(thread).status is RunStatus.RUNNING
    world.app.loop.resume()
    other.release()
    world.said(SUPPORT, thread, "The second worker's answer.")
    all_sent(world)
    world.slack.wait(second.loop.is_idle)
    assert not showing(world, SUPPORT, thread, "The first worker's words.")
    assert not world.calls_in(thread)
    run = world.run_in(thread)
    assert (run.status, run.fence, run.turns) == (RunStatus.COMPLETED, 2, 1)
    assert len(world.planner.requests[-1]["input"]) == 1  # the question, taken in once


def test_a_worker_stalls_in_a_tool(world: World, kit: Kit, second: App) -> None:
    """The call is UNKNOWN to who takes over.

    The late result changes nothing and is kept in the audit (X06, X10).
    """
    stand_still(world, second)  # else it may be the one to claim the run
    thread, card = ask_one(world, "stalled", tool="slow")
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    assert kit.entered.wait(20)
    stall(world, second)
    asking = world.card(SUPPORT, thread, having="resolve_done")
    kit.go_on.set()
    world.slack.wait(lambda: "call.late" in world.audit_of(world.calls_in(thread)[0]))
    assert world.calls_in(thread)[0].status is C.UNKNOWN
    world.planner.script(Turn(text="Somebody looked."))
    world.app.loop.resume()
    world.person("ana").click(SUPPORT, asking["ts"], "resolve_done")
    world.said(SUPPORT, thread, "Somebody looked.")
    assert world.calls_in(thread)[0].status is C.SUCCEEDED
    assert kit.did("slow", "stalled") == 1


def test_a_long_turn_keeps_its_lease(world: World, second: App) -> None:
    """A worker whose process is alive keeps its run however long the model takes."""
    stand_still(world, second)  # else it may be the one to claim the run
    hold = world.planner.hold()
    thread = chat(world, "It took a while.")
    assert hold.arrived.wait(20)
    for _ in range(3):
        world.clock.advance(LEASE)
        world.app.loop.wake()
        world.slack.wait(
            lambda: (world.run_in(thread).lease_until or world.clock.now()) > world.clock.now()
        )
    second.loop.resume()
    hold.release()
    world.said(SUPPORT, thread, "It took a while.")
    assert world.run_in(thread).fence == 1


@pytest.mark.parametrize("table", ["call", "run"])
def test_an_unreadable_row_stops_nobody_else(world: World, table: Literal["call", "run"]) -> None:
    """A row whose time cannot be read, due or lapsed, holds up neither intake nor anybody's
    deadline (D06, T07).
    """
    broken, _ = ask_one(world, f"unreadable {table}")
    fine, _ = ask_one(world, f"beside the unreadable {table}")
    world.planner.script(Turn(text="It ran out."), Turn(text="Here I am."))
    world.settle()
    [call], run = world.calls_in(broken), world.run_in(broken)
    spoil = {
        "call": "UPDATE call SET created_at = 'x' WHERE id = :id",
        "run": "UPDATE run SET created_at = 'x', "
        "status = 'running', lease_until = 1 WHERE id = :id",
    }[table]
    mend = {
        "call": "UPDATE call SET created_at = 1 WHERE id = :id",
        "run": "UPDATE run SET created_at = 1, status = 'cancelled' WHERE id = :id",
    }[table]
    key = {"id": {"call": call.id, "run": run.id}[table]}
    with world.app.core.store.write() as tx:
        tx.execute(text(spoil), key)
    try:
        world.clock.advance(3601)
        world.said(SUPPORT, fine, "It ran out.")
        world.said(GENERAL, world.person("ben").say(GENERAL, "@bot hello"), "Here I am.")
    finally:
        with world.app.core.store.write() as tx:
            tx.execute(text(mend), key)


def test_deadlines_fall_though_the_bot_was_removed(world: World, kit: Kit) -> None:
    """Taken out of the channel with a card pending: the deadline falls.

    A late click is told so (S13, T03).
    """
    world.planner.script(Turn(calls=[("note", {"text": "removed"})]))
    thread = world.person("ana").say(FINANCE, "@bot please")
    card = world.card(FINANCE, thread, "cleo")
    world.settle()
    world.slack.kick_bot(FINANCE)
    world.planner.script(Turn(text="Nobody can read this."))
    try:
        world.clock.advance(3601)
        world.slack.wait(lambda: world.run_in(thread).status is RunStatus.COMPLETED)
        all_sent(world)
    finally:
        world.slack.invite_bot(FINANCE)
    assert world.calls_in(thread)[0].status is C.EXPIRED
    world.person("cleo").click(FINANCE, card["ts"], "approve")
    assert "Too late" in told(world, "cleo", FINANCE, thread, "Too late")
    world.slack.wait(lambda: "approve" not in action_ids(_at(world, thread, card["ts"])))
    assert kit.did("note", "removed") == 0


def test_deadlines_fall_though_the_token_was_revoked(world: World, kit: Kit) -> None:
    """The app is uninstalled with a card pending: the deadline still falls, and the card follows
    later (S13).
    """
    thread, card = ask_one(world, "revoked")
    world.settle()
    world.planner.script(Turn(text="Said to nobody."))
    world.slack.uninstall()
    try:
        world.clock.advance(3601)
        world.slack.wait(lambda: world.run_in(thread).status is RunStatus.COMPLETED)
        all_sent(world)
    finally:
        with world.slack.world.lock:
            world.slack.world.app.revoked = False
    assert world.calls_in(thread)[0].status is C.EXPIRED
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: '"button"' not in words(_at(world, thread, card["ts"], SUPPORT)))
    assert kit.did("note", "revoked") == 0


def _at(world: World, thread: str, ts: str, channel: str = FINANCE) -> dict[str, object]:
    return next(m for m in world.person("cleo").messages(channel, thread) if m["ts"] == ts)
