"""The inbox's and outbox's rows: once is once, in order, and a stuck one holds up no other."""

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


def put(store: Store, key: str, channel: str = "C1", **columns: Any) -> Message:
    """A row of the outbox, changed to `columns`."""
    with store.write() as tx:
        outbox.queue_message(tx, Message(key=key, kind="notice", channel=channel))
        row = outbox.find_message_by_key(tx, key)
        assert row is not None
        if columns:
            set_message(tx, row, **columns)
    return row


def due(store: Store, now: datetime = AT) -> list[str]:
    """The keys of what is due."""
    with store.read() as tx:
        return [row.key for row in outbox.list_due_messages(tx, now)]


def new(store: Store) -> list[Delivery]:
    """What is to be taken in."""
    with store.read() as tx:
        return inbox.list_new_deliveries(tx)


def test_a_redelivery_is_ignored(store: Store) -> None:
    """The same key again is not stored again, whatever it carries.

    It is not even long after the first was dealt with.
    """
    with store.write() as tx:
        assert inbox.insert_delivery(tx, delivery("a", body='{"n": 1}'))
        assert not inbox.insert_delivery(tx, delivery("a", body='{"n": 2}', at=AT + SECOND))
        inbox.mark_delivery_done(tx, inbox.list_new_deliveries(tx)[0], "done")
        assert not inbox.insert_delivery(tx, delivery("a"))
        assert inbox.has_delivery(tx, "a")
        assert not inbox.has_delivery(tx, "b")
    assert new(store) == []


def test_the_inbox_keeps_its_order(store: Store) -> None:
    """What arrived is taken in as it was stored, and what was settled, held or broken not again."""
    with store.write() as tx:
        for key in "cabd":
            inbox.insert_delivery(tx, delivery(key))
        found = inbox.list_new_deliveries(tx)
        assert [each.key for each in found] == list("cabd")
        inbox.mark_delivery_done(tx, found[0], "because")
        inbox.hold_message_until_next_turn(tx, found[2], "run-1")
    assert [each.key for each in new(store)] == ["a", "d"]
    with store.read() as tx:
        assert [each.key for each in inbox.list_messages_held_for_run(tx, "run-1")] == ["b"]
        assert inbox.list_messages_held_for_run(tx, "run-2") == []


def test_what_stumbles_is_tried_and_then_left(store: Store) -> None:
    """A delivery that fails is tried as often as allowed, and then holds up nothing.

    It keeps what went wrong.
    """
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


def test_the_newest_taken_message(store: Store) -> None:
    """What a thread's transcript has is known by the Slack time of its newest message.

    A request that goes on elsewhere has a transcript of its own.
    """
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


def test_said_once_is_said(store: Store) -> None:
    """A message whose key is there is not added again and not changed."""
    first = put(store, "k", body='{"text": "first"}')
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


def test_due_in_order(store: Store) -> None:
    """The outbox goes out in the order of its rows.

    What is sent, failed or streaming does not go again.
    """
    for key, status in (
        ("a", "pending"),
        ("b", "sending"),
        ("c", "sent"),
        ("d", "failed"),
        ("e", "streaming"),
    ):
        put(store, key, status=status)
    put(store, "f")
    assert due(store) == ["a", "b", "f"]


def test_a_postponed_message_holds_up_its_channel(store: Store) -> None:
    """Nothing overtakes a message that waits for another try in its channel.

    Other channels go on.
    """
    put(store, "0", "C1")
    put(store, "1", "C1", due_at=AT + SECOND)
    put(store, "2", "C2")
    put(store, "3", "C1")
    assert due(store) == ["0", "2"]
    assert due(store, AT + SECOND) == ["0", "1", "2", "3"]
    with store.read() as tx:
        assert outbox.find_next_message_retry_time(tx, AT) == AT + SECOND


def test_a_postponed_change_holds_up_its_thread(store: Store) -> None:
    """A card that waits to be redrawn: its own thread waits, other threads of the channel go on."""
    put(store, "card", "C1", status="stale", thread_ts="1", ts="2", due_at=AT + SECOND)
    put(store, "root", "C1", status="stale", ts="3", due_at=AT + SECOND)
    put(store, "private", "C1", kind="private", thread_ts="4", due_at=AT + SECOND)
    put(store, "below the card", "C1", thread_ts="1")
    put(store, "below the root", "C1", thread_ts="3")
    put(store, "after it", "C1", thread_ts="4")
    put(store, "another thread", "C1", thread_ts="5")
    put(store, "another card", "C1", status="stale", thread_ts="5", ts="6")
    put(store, "post", "C1", thread_ts="7", due_at=AT + SECOND)
    put(store, "late post", "C1", thread_ts="5")
    put(store, "late change", "C1", status="stale", thread_ts="5", ts="8")
    put(store, "below the post", "C1", status="stale", thread_ts="7", ts="9")
    assert due(store) == ["another thread", "another card", "late change"]
    assert len(due(store, AT + SECOND)) == 12


def test_nothing_is_next_without_work(store: Store) -> None:
    """A message that failed for good or was sent is nothing to wake up for."""
    put(store, "sent", status="sent", due_at=AT)
    put(store, "failed", status="failed", due_at=AT, wanted=3)
    with store.read() as tx:
        assert outbox.find_next_message_retry_time(tx, AT) is None
    assert due(store) == []


def test_a_card_is_drawn_until_it_tells_the_truth(store: Store) -> None:
    """A change makes every copy of a card due.

    One made while it is being drawn makes it due again.
    """
    seeded = seed(store)
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, seeded.card(), ts="1.1", version=1)
    assert due(store) == []
    with store.write() as tx:
        outbox.mark_cards_for_redraw(tx, seeded.plan_id)
    drawing = seeded.card()
    assert (due(store), drawing.wanted) == ([drawing.key], 2)
    with store.write() as tx:
        outbox.mark_cards_for_redraw(
            tx, seeded.plan_id
        )  # somebody decides while Slack is being told of version 2
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, drawing, ts="1.1", version=2)
    assert due(store) == [drawing.key]
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, seeded.card(), ts="1.1", version=3)
        assert [row.key for row in outbox.list_cards_of_plan(tx, seeded.plan_id)] == [drawing.key]
        assert drawing.seq is not None
        assert (
            outbox.list_call_ids_on_card(tx, seeded.plan_id, drawing.seq)
            == outbox.parse_message_body(drawing)["calls"]
        )
        assert outbox.list_call_ids_on_card(tx, "another plan", drawing.seq) == []
    assert due(store) == []


@pytest.mark.parametrize("status", ["pending", "sending", "failed"])
def test_a_card_not_posted_yet_is_not_drawn_over(store: Store, status: str) -> None:
    """A change of a card that does not stand in Slack leaves its state alone.

    It is posted as of then.
    """
    seeded = seed(store)
    with store.write() as tx:
        set_message(tx, seeded.card(), status=status)
        outbox.mark_cards_for_redraw(tx, seeded.plan_id)
    assert (seeded.card().status, seeded.card().wanted) == (status, 2)


def test_streams_are_closed(store: Store) -> None:
    """Streams that a crash left open are closed with their words withdrawn.

    Other messages are left alone.
    """
    seeded = seed(store)
    for key, status in (("open", "streaming"), ("over", "sent")):
        put(store, key, status=status, run_id=seeded.run_id)
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
    assert "open" in due(store)


def test_a_greeting_is_given_once(store: Store) -> None:
    """Nobody is greeted twice; the same id in another workspace is another person."""
    with store.write() as tx:
        assert [
            inbox.mark_person_greeted(tx, team, "U1", at=AT) for team in ("T1", "T1", "T2")
        ] == [
            True,
            False,
            True,
        ]


def test_a_program_that_takes_nothing_holds_no_other_up(store: Store) -> None:
    """However much is due for its address, each other program has its turn beside it, and of what
    one is to be told the longest due comes first.
    """
    rows = [("deaf", number) for number in range(6)] + [("a", 7), ("b", 8), ("a", 9)]
    with store.write() as tx:
        for key, late in rows:
            at = AT + late * SECOND
            about = {"run_id": f"{key}{late}", "kind": WebhookKind.DECIDED, "about": "0"}
            insert_row(tx, Webhook(key_id=key, made_at=AT, due_at=at, **about))
    with store.read() as tx:
        found = webhooks.list_due_webhooks(tx, AT + 60 * SECOND, 5)
    assert [each.run_id for each in found] == ["deaf0", "a7", "b8", "deaf1", "a9"]
