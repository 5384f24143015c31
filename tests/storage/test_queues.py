"""The inbox's and the outbox's rows: no duplicates, in order, and a stuck one holds up no other."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from storage import inbox, moves, outbox, webhooks
from storage.models import Delivery, Message, Run
from storage.store import Store
from storage.transaction import insert_row
from storage.webhooks import Webhook, WebhookKind
from tests.storage.builders import AT, TEAM, delivery, seed, set_message

SECOND = timedelta(seconds=1)


def add_message(store: Store, key: str, channel: str = "C1", **columns: Any) -> Message:
    """A row of the outbox, changed by `columns`."""
    with store.write() as tx:
        outbox.queue_message(tx, Message(key=key, kind="notice", channel=channel))
        row = outbox.find_message_by_key(tx, key)
        assert row is not None
        if columns:
            set_message(tx, row, **columns)
    return row


def list_due_keys(store: Store, now: datetime = AT) -> list[str]:
    """The keys of due messages."""
    with store.read() as tx:
        return [row.key for row in outbox.list_due_messages(tx, now)]


def list_new(store: Store) -> list[Delivery]:
    """The deliveries that are to be taken in."""
    with store.read() as tx:
        return inbox.list_new_deliveries(tx)


def test_a_redelivery_is_ignored(store: Store) -> None:
    """A key is stored once, whatever the second delivery carries, and long after the first was
    handled.
    """
    with store.write() as tx:
        assert inbox.insert_delivery(tx, delivery("a", body='{"n": 1}'))
        assert not inbox.insert_delivery(tx, delivery("a", body='{"n": 2}', at=AT + SECOND))
        inbox.mark_delivery_done(tx, inbox.list_new_deliveries(tx)[0], "done")
        assert not inbox.insert_delivery(tx, delivery("a"))
        assert inbox.has_delivery(tx, "a")
        assert not inbox.has_delivery(tx, "b")
    assert list_new(store) == []


def test_deliveries_are_taken_in_the_order_of_storing(store: Store) -> None:
    """Handled, held and broken ones are not listed again."""
    with store.write() as tx:
        for key in "cabd":
            inbox.insert_delivery(tx, delivery(key))
        found = inbox.list_new_deliveries(tx)
        assert [each.key for each in found] == list("cabd")
        inbox.mark_delivery_done(tx, found[0], "because")
        inbox.hold_message_until_next_turn(tx, found[2], "run-1")
    assert [each.key for each in list_new(store)] == ["a", "d"]
    with store.read() as tx:
        assert [each.key for each in inbox.list_messages_held_for_run(tx, "run-1")] == ["b"]
        assert inbox.list_messages_held_for_run(tx, "run-2") == []


def test_a_failing_delivery_is_retried_and_then_set_aside(store: Store) -> None:
    """It keeps the error, and holds up nothing."""
    with store.write() as tx:
        inbox.insert_delivery(tx, delivery("bad", "action"))
        for attempt in (1, 2):
            assert not inbox.count_failed_delivery_attempt(
                tx, inbox.list_new_deliveries(tx)[0], "x" * 600, limit=3
            )
            assert (
                inbox.list_new_deliveries(tx)[0].attempts,
                len(inbox.list_new_deliveries(tx)[0].note),
            ) == (attempt, 500)
        assert inbox.count_failed_delivery_attempt(
            tx, inbox.list_new_deliveries(tx)[0], "why", limit=3
        )
        assert inbox.list_new_deliveries(tx) == []


def test_the_newest_message_in_a_transcript_is_known(store: Store) -> None:
    """A request that moved to another thread has a transcript of its own."""
    here = seed(store).run()
    elsewhere = Run(
        team=TEAM,
        channel="D0BEN",
        thread_ts="9.0",
        requester=here.requester,
        created_at=here.created_at,
        updated_at=here.created_at,
    )
    with store.write() as tx:
        moves.insert_run(tx, elsewhere, at=here.created_at)
        for ts, run_id in (("1.0", here.id), ("2.0", here.id), ("3.0", None)):
            row = delivery(f"msg:{TEAM}:C0SUPPORT:{ts}")
            row.channel, row.thread_ts, row.run_id = "C0SUPPORT", "1.0", run_id
            inbox.insert_delivery(tx, row)
            inbox.mark_delivery_done(tx, inbox.list_new_deliveries(tx)[0], "taken")
        assert inbox.get_newest_transcript_message_ts(tx, here, row) == "2.0"
        assert inbox.get_newest_transcript_message_ts(tx, elsewhere, row) == ""
        row.team = "T0OTHERCO"
        assert inbox.get_newest_transcript_message_ts(tx, here, row) == ""


def test_a_message_with_a_known_key_is_not_added_again(store: Store) -> None:
    """The first one is not changed."""
    first = add_message(store, "k", body='{"text": "first"}')
    with store.write() as tx:
        outbox.queue_message(
            tx, Message(key="k", kind="notice", channel="C2", body='{"text": "second"}')
        )
        again = outbox.find_message_by_key(tx, "k")
        assert again is not None
        assert (again.seq, again.channel, outbox.parse_message_body(again)) == (
            first.seq,
            "C1",
            {"text": "first"},
        )


def test_due_messages_come_in_the_order_of_their_rows(store: Store) -> None:
    """Sent, failed and streaming ones are not due."""
    for key, status in (
        ("a", "pending"),
        ("b", "sending"),
        ("c", "sent"),
        ("d", "failed"),
        ("e", "streaming"),
    ):
        add_message(store, key, status=status)
    add_message(store, "f")
    assert list_due_keys(store) == ["a", "b", "f"]


def test_a_postponed_message_holds_up_its_channel(store: Store) -> None:
    """Nothing overtakes it there, and other channels go on."""
    add_message(store, "0", "C1")
    add_message(store, "1", "C1", due_at=AT + SECOND)
    add_message(store, "2", "C2")
    add_message(store, "3", "C1")
    assert list_due_keys(store) == ["0", "2"]
    assert list_due_keys(store, AT + SECOND) == ["0", "1", "2", "3"]
    with store.read() as tx:
        assert outbox.find_next_message_retry_time(tx, AT) == AT + SECOND
        held = outbox.find_message_by_key(tx, "1")
        assert held is not None
        aside = [row.key for row in outbox.list_due_messages(tx, AT, "C1", aside=[held.seq])]
        assert aside == ["0", "3"]  # others may overtake that one


def test_a_postponed_change_holds_up_only_its_thread(store: Store) -> None:
    """Other threads of the channel go on."""
    add_message(store, "card", "C1", status="stale", thread_ts="1", ts="2", due_at=AT + SECOND)
    add_message(store, "root", "C1", status="stale", ts="3", due_at=AT + SECOND)
    add_message(store, "private", "C1", kind="private", thread_ts="4", due_at=AT + SECOND)
    add_message(store, "below the card", "C1", thread_ts="1")
    add_message(store, "below the root", "C1", thread_ts="3")
    add_message(store, "after it", "C1", thread_ts="4")
    add_message(store, "another thread", "C1", thread_ts="5")
    add_message(store, "another card", "C1", status="stale", thread_ts="5", ts="6")
    add_message(store, "post", "C1", thread_ts="7", due_at=AT + SECOND)
    add_message(store, "late post", "C1", thread_ts="5")
    add_message(store, "late change", "C1", status="stale", thread_ts="5", ts="8")
    add_message(store, "below the post", "C1", status="stale", thread_ts="7", ts="9")
    assert list_due_keys(store) == ["another thread", "another card", "late change"]
    assert len(list_due_keys(store, AT + SECOND)) == 12


def test_failed_or_sent_messages_need_no_retry(store: Store) -> None:
    """Nothing has to wake up for them."""
    add_message(store, "sent", status="sent", due_at=AT)
    add_message(store, "failed", status="failed", due_at=AT, wanted=3)
    with store.read() as tx:
        assert outbox.find_next_message_retry_time(tx, AT) is None
    assert list_due_keys(store) == []


def test_a_card_changed_while_it_is_drawn_is_due_again(store: Store) -> None:
    """A change makes every copy of a card due."""
    seeded = seed(store)
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, seeded.card(), ts="1.1", version=1)
    assert list_due_keys(store) == []
    with store.write() as tx:
        outbox.mark_cards_for_redraw(tx, seeded.plan_id)
    drawing = seeded.card()
    assert (list_due_keys(store), drawing.wanted) == ([drawing.key], 2)
    with store.write() as tx:
        outbox.mark_cards_for_redraw(
            tx, seeded.plan_id
        )  # somebody decides while version 2 is being sent
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, drawing, ts="1.1", version=2)
    assert list_due_keys(store) == [drawing.key]
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, seeded.card(), ts="1.1", version=3)
        assert [row.key for row in outbox.list_cards_of_plan(tx, seeded.plan_id)] == [drawing.key]
        assert drawing.seq is not None
        assert (
            outbox.list_call_ids_on_card(tx, seeded.plan_id, drawing.seq)
            == outbox.parse_message_body(drawing)["calls"]
        )
        assert outbox.list_call_ids_on_card(tx, "another plan", drawing.seq) == []
    assert list_due_keys(store) == []


@pytest.mark.parametrize("status", ["pending", "sending", "failed"])
def test_a_card_that_is_not_posted_yet_keeps_its_status(store: Store, status: str) -> None:
    """It will be posted as it is then."""
    seeded = seed(store)
    with store.write() as tx:
        set_message(tx, seeded.card(), status=status)
        outbox.mark_cards_for_redraw(tx, seeded.plan_id)
    assert (seeded.card().status, seeded.card().wanted) == (status, 2)


def test_streams_left_open_are_closed_with_their_words_withdrawn(store: Store) -> None:
    """A crash left them; other messages stay."""
    seeded = seed(store)
    for key, status in (("open", "streaming"), ("over", "sent")):
        add_message(store, key, status=status, run_id=seeded.run_id)
    with store.write() as tx:
        open_row, over = (
            outbox.find_message_by_key(tx, "open"),
            outbox.find_message_by_key(tx, "over"),
        )
        assert open_row is not None
        assert over is not None
        assert outbox.is_stream_open(tx, open_row)
        outbox.withdraw_open_streams(tx, seeded.run_id)
        assert not outbox.is_stream_open(tx, open_row)
        now = outbox.find_message_by_key(tx, "open")
        assert now is not None
        assert (now.status, outbox.parse_message_body(now)["text"]) == ("closing", "")
        assert outbox.find_message_by_key(tx, "over") == over
    assert "open" in list_due_keys(store)


def test_a_person_is_greeted_once(store: Store) -> None:
    """The same id in another workspace is another person."""
    with store.write() as tx:
        assert [
            inbox.mark_person_greeted(tx, team, "U1", at=AT) for team in ("T1", "T1", "T2")
        ] == [
            True,
            False,
            True,
        ]


def test_an_unreachable_program_holds_up_no_other_webhooks(store: Store) -> None:
    """Programs take turns, each with its longest due webhook first."""
    rows = [("deaf", number) for number in range(6)] + [("a", 7), ("b", 8), ("a", 9)]
    with store.write() as tx:
        for key, late in rows:
            at = AT + late * SECOND
            about = {"run_id": f"{key}{late}", "kind": WebhookKind.DECIDED, "about": "0"}
            insert_row(tx, Webhook(key_id=key, made_at=AT, due_at=at, **about))
    with store.read() as tx:
        found = webhooks.list_due_webhooks(tx, AT + 60 * SECOND, 5)
    assert [each.run_id for each in found] == ["deaf0", "a7", "b8", "deaf1", "a9"]
