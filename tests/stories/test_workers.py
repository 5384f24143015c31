"""Workers: threads in parallel, one run in each, and stalled workers that lose their lease."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Literal

import pytest
from slack_bolt.adapter.socket_mode import SocketModeHandler
from sqlalchemy import text

from bot.app import App
from bot.demo.model_server import Turn
from bot.tools import runner
from storage import decisions
from storage.models import Audit, Delivery, Run
from storage.states import CallStatus, RunStatus
from tests.storage.builders import ONE, build_vote
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, GENERAL, SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, arrived, ask_for, chat, showing, told

C = CallStatus
LEASE = 61  # seconds, one more than a worker's lease


@pytest.fixture
def second_app(harness: Harness) -> Iterator[App]:
    """A second app with workers on the same database; it has no connection to Slack."""
    harness.settle()
    harness.restart(exclusive=False)
    app = harness._build(exclusive=False)
    app.start(connect=False)
    app.outbox.stop()
    app.core.signals.outbox.forward(harness.app.core.signals.outbox)
    yield app
    app.stop()
    harness.restart()


def count_events(harness: Harness, run: Run, event: str) -> int:
    """Count the run's audit rows of this event."""
    return len(harness.all(Audit, Audit.run_id == run.id, Audit.event == event))


def pause_loop(harness: Harness, app: App) -> None:
    """Pause the app's loop, and wait until its current pass has ended."""
    app.loop.pause()
    harness.slack.wait(lambda: not app.loop.busy)


def stall_first_app(harness: Harness, second_app: App) -> None:
    """Pause the first app until its leases have ended, and let the second one work."""
    pause_loop(harness, harness.app)
    harness.clock.advance(LEASE)
    second_app.loop.resume()


def test_threads_are_worked_on_in_parallel(harness: Harness) -> None:
    """While the model answers in one thread, another one is answered."""
    hold = harness.planner.hold_next_request()
    slow = harness.person("ben").say(SUPPORT, "@bot a hard question")
    assert hold.arrived.wait(20)
    harness.said(SUPPORT, chat(harness, "An easy answer.", who="dan"), "An easy answer.")
    assert harness.run_in(slow).status is RunStatus.RUNNING
    harness.planner.script(Turn(text="A hard answer."))
    hold.release()
    harness.said(SUPPORT, slow, "A hard answer.")


def test_a_thread_has_one_run_at_a_time(harness: Harness) -> None:
    """The requester's next message waits; somebody else is told to start a new thread."""
    hold = harness.planner.hold_next_request()
    thread = chat(harness, "One thing at a time.")
    assert hold.arrived.wait(20)
    asked = len(harness.planner.requests)
    harness.person("dan").say(SUPPORT, "@bot me too", thread)
    assert "UBEN00001" in told(harness, "dan", SUPPORT, thread, "Please start a new thread")
    harness.person("ben").say(SUPPORT, "@bot and this", thread)
    harness.slack.wait(
        lambda: harness.all(Delivery, Delivery.thread_ts == thread, Delivery.status == "held")
    )
    assert len(harness.planner.requests) == asked
    harness.planner.script(Turn(text="And the other."))
    hold.release()
    harness.said(SUPPORT, thread, "And the other.")
    harness.settle()
    assert len(harness.all(Run, Run.thread_ts == thread)) == 1
    assert "and this" in str(harness.planner.requests[-1]["input"][-1])
    assert "me too" not in str(harness.planner.requests[asked - 1]["input"])


@pytest.mark.socket
def test_each_message_is_answered_once_with_two_sockets(harness: Harness) -> None:
    """Slack sends each delivery over one of them."""
    token = harness.slack.app_token
    more = SocketModeHandler(harness.app.bolt, token)
    more.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
    try:
        harness.slack.wait(lambda: harness.slack.connections == 2)
        before = len(harness.slack.deliveries)
        threads = []
        for number in range(3):
            threads.append(chat(harness, f"Answer number {number}."))
            harness.said(SUPPORT, threads[-1], f"Answer number {number}.")
        arrived(harness)
        assert len({d.socket_id for d in harness.slack.deliveries[before:]}) == 2
        assert [len(showing(harness, SUPPORT, t, "Answer number")) for t in threads] == [1, 1, 1]
    finally:
        more.close()  # type: ignore[no-untyped-call]  # the same


def test_a_run_is_advanced_by_one_worker_only(
    harness: Harness, fakes: FakeTools, second_app: App
) -> None:
    """Six threads of two apps try to advance it at once."""
    thread, _ = ask_for(harness, "picked up once")
    harness.planner.script(Turn(text="Picked up."))
    harness.settle()
    harness.slack.wait(second_app.loop.is_idle)
    for app in (harness.app, second_app):
        app.loop.pause()
    [call], run = harness.calls_in(thread), harness.run_in(thread)
    with harness.app.core.store.write() as tx:
        vote = build_vote(call.id, 1, "approve", "UANA00001", harness.clock.now())
        decisions.apply_vote(tx, vote, ONE)
    barrier = threading.Barrier(6)

    def advance(app: App) -> None:
        barrier.wait(20)
        app.replicas.workers.advance(run.id, lambda _: True)

    workers = [
        threading.Thread(target=advance, args=(app,)) for app in (harness.app, second_app) * 3
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    harness.said(SUPPORT, thread, "Picked up.")
    assert fakes.did("note", "picked up once") == 1
    assert count_events(harness, run, "run.running") == 2  # once for the plan, once for the rest
    assert len(showing(harness, SUPPORT, thread, "Picked up.")) == 1


@pytest.mark.file
def test_a_worker_stalled_in_a_model_turn_is_replaced(harness: Harness, second_app: App) -> None:
    """Its lease ends, and another worker answers; the first one's late result is refused."""
    pause_loop(harness, second_app)  # else it could claim the run
    hold = harness.planner.hold_next_request()
    thread = harness.person("ben").say(SUPPORT, "@bot think hard")
    assert hold.arrived.wait(20)
    other = harness.planner.hold_next_request()
    stall_first_app(harness, second_app)
    assert other.arrived.wait(20)
    late = Turn(text="The first worker's words.", calls=[("note", {"text": "late"})])
    harness.planner.script(late, Turn(text="The second worker's answer."))
    hold.release()
    # its late write was refused, while the run was RUNNING for the other
    harness.app.wait_until_idle()
    assert harness.run_in(thread).status is RunStatus.RUNNING
    harness.app.loop.resume()
    other.release()
    harness.said(SUPPORT, thread, "The second worker's answer.")
    all_sent(harness)
    harness.slack.wait(second_app.loop.is_idle)
    assert not showing(harness, SUPPORT, thread, "The first worker's words.")
    assert not harness.calls_in(thread)
    run = harness.run_in(thread)
    assert (run.status, run.fence, run.turns) == (RunStatus.COMPLETED, 2, 1)
    assert len(harness.planner.requests[-1]["input"]) == 1  # the question, once


@pytest.mark.file  # on a server a live process keeps its workers' runs (tests/cluster)
def test_a_call_is_unknown_after_its_worker_stalled_in_the_tool(
    harness: Harness, fakes: FakeTools, second_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker takes over; the late result changes nothing and is in the audit."""
    monkeypatch.setattr(runner, "FIRST_BEAT_SECONDS", 60.0)  # no heartbeat of the tool meanwhile
    pause_loop(harness, second_app)  # else it could claim the run
    thread, card = ask_for(harness, "stalled", tool="slow")
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    assert fakes.entered.wait(20)
    stall_first_app(harness, second_app)
    asking = harness.card(SUPPORT, thread, having="resolve_done")
    fakes.go_on.set()
    harness.slack.wait(lambda: "call.late" in harness.audit_of(harness.calls_in(thread)[0]))
    assert harness.calls_in(thread)[0].status is C.UNKNOWN
    harness.planner.script(Turn(text="Somebody looked."))
    harness.app.loop.resume()
    harness.person("ana").click(SUPPORT, asking["ts"], "resolve_done")
    harness.said(SUPPORT, thread, "Somebody looked.")
    assert harness.calls_in(thread)[0].status is C.SUCCEEDED
    assert fakes.did("slow", "stalled") == 1


def test_a_long_turn_keeps_its_lease(harness: Harness, second_app: App) -> None:
    """The process is alive, so the run keeps its worker however long the model takes."""
    pause_loop(harness, second_app)  # else it could claim the run
    hold = harness.planner.hold_next_request()
    thread = chat(harness, "It took a while.")
    assert hold.arrived.wait(20)
    for _ in range(3):
        harness.clock.advance(LEASE)
        harness.app.loop.wake()
        harness.slack.wait(
            lambda: (
                (harness.run_in(thread).lease_until or harness.clock.now()) > harness.clock.now()
            )
        )
    second_app.loop.resume()
    hold.release()
    harness.said(SUPPORT, thread, "It took a while.")
    assert harness.run_in(thread).fence == 1


@pytest.mark.file
@pytest.mark.parametrize("table", ["call", "run"])
def test_an_unreadable_row_does_not_block_other_requests(
    harness: Harness, table: Literal["call", "run"]
) -> None:
    """A time in it cannot be read; new messages and deadlines of other calls go on."""
    broken, _ = ask_for(harness, f"unreadable {table}")
    fine, _ = ask_for(harness, f"beside the unreadable {table}")
    harness.planner.script(Turn(text="It ran out."), Turn(text="Here I am."))
    harness.settle()
    [call], run = harness.calls_in(broken), harness.run_in(broken)
    spoil = {
        "call": "UPDATE call SET created_at = 'x' WHERE id = :id",
        "run": "UPDATE run SET created_at = 'x', "
        "status = 'running', lease_until = 1 WHERE id = :id",
    }[table]
    mend = {
        "call": "UPDATE call SET created_at = 1 WHERE id = :id",
        "run": "UPDATE run SET created_at = 1, status = 'cancelled' WHERE id = :id",
    }[table]
    harness.was_tampered_with = True
    key = {"id": {"call": call.id, "run": run.id}[table]}
    with harness.app.core.store.write() as tx:
        tx.execute(text(spoil), key)
    try:
        harness.clock.advance(3601)
        harness.said(SUPPORT, fine, "It ran out.")
        harness.said(GENERAL, harness.person("ben").say(GENERAL, "@bot hello"), "Here I am.")
    finally:
        with harness.app.core.store.write() as tx:
            tx.execute(text(mend), key)


def test_a_call_expires_though_the_bot_was_removed_from_the_channel(
    harness: Harness, fakes: FakeTools
) -> None:
    """The card is updated once the bot is back, and a late click is told so."""
    harness.planner.script(Turn(calls=[("note", {"text": "removed"})]))
    thread = harness.person("ana").say(FINANCE, "@bot please")
    card = harness.card(FINANCE, thread, "cleo")
    harness.settle()
    harness.slack.kick_bot(FINANCE)
    harness.planner.script(Turn(text="Nobody can read this."))
    try:
        harness.clock.advance(3601)
        harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.COMPLETED)
        harness.settle()
    finally:
        harness.slack.invite_bot(FINANCE)
    assert harness.calls_in(thread)[0].status is C.EXPIRED
    harness.person("cleo").click(FINANCE, card["ts"], "approve")
    assert "Too late" in told(harness, "cleo", FINANCE, thread, "Too late")
    harness.slack.wait(
        lambda: "approve" not in action_ids(_find_message(harness, thread, card["ts"]))
    )
    assert fakes.did("note", "removed") == 0


def test_a_call_expires_though_the_token_was_revoked(harness: Harness, fakes: FakeTools) -> None:
    """The app was uninstalled; the card is updated once it is installed again."""
    thread, card = ask_for(harness, "revoked")
    harness.settle()
    harness.planner.script(Turn(text="Said to nobody."))
    harness.slack.uninstall()
    try:
        harness.clock.advance(3601)
        harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.COMPLETED)
        harness.settle()
    finally:
        with harness.slack.world.lock:
            harness.slack.world.app.installed, harness.slack.world.app.revoked = True, False
    all_sent(harness)  # nothing was given up before
    assert harness.calls_in(thread)[0].status is C.EXPIRED
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    harness.slack.wait(
        lambda: '"button"' not in words(_find_message(harness, thread, card["ts"], SUPPORT))
    )
    assert fakes.did("note", "revoked") == 0


def _find_message(
    harness: Harness, thread: str, ts: str, channel: str = FINANCE
) -> dict[str, object]:
    return next(m for m in harness.person("cleo").messages(channel, thread) if m["ts"] == ts)
