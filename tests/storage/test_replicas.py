"""What replicas share: one sender a channel, pauses for all, leases, and who is told of READY."""

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


def test_a_channel_has_one_sender_that_is_alive(store: Store) -> None:
    """It stays with whoever has it, until that ends, gives it up, or is not heard of any more."""
    with store.write() as tx:
        replicas.store_heartbeat(tx, "a", AT + 5 * SECOND)
        replicas.store_heartbeat(tx, "b", AT + 9 * SECOND)
        assert replicas.claim_channel_sending(tx, "C1", "a", ())
        assert replicas.claim_channel_sending(tx, "C1", "a", ())
        assert not replicas.claim_channel_sending(tx, "C1", "b", ())
        assert replicas.claim_channel_sending(tx, "C2", "b", ())  # which says nothing of others
        assert replicas.get_senders_by_channel(tx, ()) == {"C1": "a", "C2": "b"}
        assert replicas.get_senders_by_channel(tx, {"a"}) == {"C2": "b"}
        assert replicas.claim_channel_sending(tx, "C1", "b", {"a"})
        assert replicas.get_senders_by_channel(tx, {"a"}) == {"C1": "b", "C2": "b"}
        replicas.give_up_channel_sending(tx, "C1", "a")  # which is not its own any more
        replicas.store_heartbeat(tx, "a", AT + 20 * SECOND)
        assert not replicas.claim_channel_sending(tx, "C1", "a", ())
        replicas.remove_replica(tx, "b")
        assert replicas.claim_channel_sending(tx, "C1", "a", ())
        replicas.delete_dead_replicas_and_pauses(tx, AT, {"a"})
        assert replicas.get_senders_by_channel(tx, ()) == {}


def test_the_longer_of_two_pauses_holds(store: Store) -> None:
    """For a method, and for posts by channel; what is over is not told, and tidied up."""
    with store.write() as tx:
        replicas.store_slack_pause(tx, "chat.postMessage", "C1", AT + 9 * SECOND)
        replicas.store_slack_pause(tx, "chat.postMessage", "C1", AT + 5 * SECOND)
        replicas.store_slack_pause(tx, "views.publish", "", AT + 2 * SECOND)
        assert replicas.get_slack_pause_ends(tx, AT + 3 * SECOND) == {
            ("chat.postMessage", "C1"): AT + 9 * SECOND
        }
        replicas.delete_dead_replicas_and_pauses(tx, AT + 3 * SECOND, ())
        assert set(replicas.get_slack_pause_ends(tx, AT)) == {("chat.postMessage", "C1")}


def test_leases_are_kept_and_lapse(store: Store) -> None:
    """A beat lengthens the lease of a run at work; a cancelled one keeps its own until its end."""
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


def test_who_hands_out_is_told_in_the_transaction(store: Store) -> None:
    """Of each run that a worker may take from now on, before the commit, and of no other."""
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


def test_a_delivery_is_dealt_with_once(store: Store) -> None:
    """Who is second has its transaction rolled back."""
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
            _again(store, late, other)
    with store.read() as tx:
        assert trail.get_audit_head(tx).seq == 0
        found = inbox.find_delivery(tx, "k")
        assert found is not None
        assert (found.status, found.note) == (DeliveryStatus.DONE, "done")


def _again(store: Store, late: Callable[..., None], delivery: Delivery) -> None:
    with store.write() as tx:
        trail.record_event(tx, "nothing", at=AT, actor="system")
        late(tx, delivery, "again")


def test_people_are_told_once(store: Store) -> None:
    """Of two that tell the same of a pending call, the second finds it told."""
    seeded = seed(store, CallStatus.PENDING)
    call = seeded.call()
    with store.write() as tx:
        assert schedule.mark_people_notified(tx, call, stage=1, moments=1, next_at=None)
        assert not schedule.mark_people_notified(tx, call, stage=1, moments=1, next_at=None)
