"""What replicas share: a sender for each channel, pauses, leases, and news of ready runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from sqlalchemy import update

from storage import inbox, moves, replicas, runs, schedule, trail
from storage.models import Delivery, Run
from storage.states import CallStatus, DeliveryKind, DeliveryStatus
from storage.store import Store
from storage.transaction import Transaction
from tests.storage.builders import AT, HOUR, C, R, seed

SECOND = timedelta(seconds=1)


def test_a_channel_has_one_living_sender(store: Store) -> None:
    """It stays so until it gives the channel up, ends, or is not heard of."""
    with store.write() as tx:
        replicas.store_heartbeat(tx, "a", AT + 5 * SECOND)
        replicas.store_heartbeat(tx, "b", AT + 9 * SECOND)
        assert replicas.claim_channel_sending(tx, "C1", "a", ())
        assert replicas.claim_channel_sending(tx, "C1", "a", ())
        assert not replicas.claim_channel_sending(tx, "C1", "b", ())
        assert replicas.claim_channel_sending(tx, "C2", "b", ())  # other channels are not affected
        assert replicas.get_senders_by_channel(tx, ()) == {"C1": "a", "C2": "b"}
        assert replicas.get_senders_by_channel(tx, {"a"}) == {"C2": "b"}
        assert replicas.claim_channel_sending(tx, "C1", "b", {"a"})
        assert replicas.get_senders_by_channel(tx, {"a"}) == {"C1": "b", "C2": "b"}
        replicas.give_up_channel_sending(tx, "C1", "a")  # not its own any more
        replicas.store_heartbeat(tx, "a", AT + 20 * SECOND)
        assert not replicas.claim_channel_sending(tx, "C1", "a", ())
        replicas.remove_replica(tx, "b")
        assert replicas.claim_channel_sending(tx, "C1", "a", ())
        replicas.delete_dead_replicas_and_pauses(tx, AT, {"a"})
        assert replicas.get_senders_by_channel(tx, ()) == {}


def test_the_longer_of_two_slack_pauses_holds(store: Store) -> None:
    """Pauses are for a method, and for posts by channel; ended ones are deleted."""
    with store.write() as tx:
        replicas.store_slack_pause(tx, "chat.postMessage", "C1", AT + 9 * SECOND)
        replicas.store_slack_pause(tx, "chat.postMessage", "C1", AT + 5 * SECOND)
        replicas.store_slack_pause(tx, "views.publish", "", AT + 2 * SECOND)
        assert replicas.get_slack_pause_ends(tx, AT + 3 * SECOND) == {
            ("chat.postMessage", "C1"): AT + 9 * SECOND
        }
        replicas.delete_dead_replicas_and_pauses(tx, AT + 3 * SECOND, ())
        assert set(replicas.get_slack_pause_ends(tx, AT)) == {("chat.postMessage", "C1")}


def test_a_heartbeat_extends_leases_even_of_cancelled_runs(store: Store) -> None:
    """A cancelled run keeps its lease until it ends."""
    seeded = seed(store, C.RUNNING)
    with store.write() as tx:
        tx.execute(update(Run).values(status=R.RUNNING, lease_until=AT))
        moves.extend_lease_even_if_cancelled(tx, seeded.run_id, AT + HOUR)
        assert moves.list_runs_with_expired_lease(tx, AT + SECOND) == []
        run = runs.find_run(tx, seeded.run_id)
        assert run is not None
        assert moves.change_run_status(tx, run, R.CANCELLED, at=AT)
        assert moves.list_cancelled_runs_with_running_calls(tx, AT + SECOND) == []
        assert [
            each.id for each in moves.list_cancelled_runs_with_running_calls(tx, AT + HOUR)
        ] == [seeded.run_id]


def test_a_heartbeat_extends_no_other_lease(store: Store) -> None:
    """A run that waits for people gets none, and another replica's run keeps its own."""
    mine, theirs, waiting = (seed(store, run=each) for each in (R.RUNNING, R.RUNNING, R.WAITING))
    with store.write() as tx:
        for each in (mine, waiting):
            moves.extend_lease_even_if_cancelled(tx, each.run_id, AT + 2 * HOUR)
        lapsed = moves.list_runs_with_expired_lease(tx, AT + HOUR)
    assert [each.id for each in lapsed] == [theirs.run_id]
    assert (mine.run().lease_until, waiting.run().lease_until) == (AT + 2 * HOUR, None)


def test_ready_runs_are_reported_before_the_commit(store: Store) -> None:
    """No other runs are reported."""
    told: list[tuple[str, bool]] = []

    def ready(_tx: Transaction, found: Sequence[str]) -> None:
        with store.read() as outside:
            told.extend((each, runs.find_run(outside, each) is not None) for each in found)

    store.set_ready_runs_handler(ready)
    with store.write() as tx:
        for name, thread in (("now", "1.0"), ("later", "")):
            run = Run(
                id=name,
                team="T",
                channel="C",
                thread_ts=thread,
                requester="U",
                created_at=AT,
                updated_at=AT,
            )
            moves.insert_run(tx, run, at=AT)
    assert told == [("now", False)]
    with store.write() as tx:
        runs.set_request_thread(tx, "later", "C", "2.0")
    assert told == [("now", False), ("later", True)]
    with store.write() as tx:
        claimed = moves.claim_run(tx, "now", at=AT, lease_until=AT + HOUR)
        assert claimed is not None
        moves.change_run_status(tx, claimed, R.READY, at=AT)
    assert told[2:] == [("now", True)]
    decided = seed(store, C.APPROVED)
    with store.write() as tx:
        assert moves.resume_run_if_unblocked(tx, decided.run_id, at=AT, actor="UANA00001")
    assert told[3:] == [(decided.run_id, True)]


def test_the_second_transaction_to_handle_a_delivery_is_rolled_back(store: Store) -> None:
    """Both have read it as new."""
    row = Delivery(key="k", kind=DeliveryKind.ACTION, team="T", user="U", received_at=AT)
    with store.write() as tx:
        inbox.insert_delivery(tx, row)
    with store.read() as tx:
        [one], [other] = inbox.list_new_deliveries(tx), inbox.list_new_deliveries(tx)
    with store.write() as tx:
        inbox.mark_delivery_done(tx, one, "done")
    for late in (
        inbox.mark_delivery_done,
        inbox.finish_delivery_and_erase_body,
        inbox.hold_message_until_next_turn,
    ):
        with pytest.raises(inbox.DeliveryAlreadyHandledError):
            _handle_again(store, late, other)
    with store.read() as tx:
        assert trail.get_audit_head(tx).seq == 0
        found = inbox.find_delivery(tx, "k")
        assert found is not None
        assert (found.status, found.note) == (DeliveryStatus.DONE, "done")


def _handle_again(store: Store, late: Callable[..., None], delivery: Delivery) -> None:
    with store.write() as tx:
        trail.record_event(tx, "nothing", at=AT, actor="system")
        late(tx, delivery, "again")


def test_people_are_notified_of_a_pending_call_once(store: Store) -> None:
    """The second of two replicas finds it done."""
    seeded = seed(store, CallStatus.PENDING)
    call = seeded.call()
    with store.write() as tx:
        assert schedule.mark_people_notified(tx, call, stage=1, moments=1, next_at=None)
        assert not schedule.mark_people_notified(tx, call, stage=1, moments=1, next_at=None)
