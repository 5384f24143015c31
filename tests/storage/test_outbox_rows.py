"""The outbox's rows: where each kind of message goes, which are next, and what a card shows."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from storage import outbox
from storage.models import Message
from storage.states import MessageKind, MessageStatus
from storage.store import Store
from tests.storage.builders import AT, C, R, seed, set_message

SECOND = timedelta(seconds=1)
K, M = MessageKind, MessageStatus


def row(store: Store, key: str) -> Message:
    """The message of that key."""
    with store.read() as tx:
        found = outbox.find_message_by_key(tx, key)
    assert found is not None
    return found


def put(store: Store, key: str, channel: str = "C1", **columns: Any) -> Message:
    """A message that waits, but for `columns`."""
    with store.write() as tx:
        assert outbox.queue_message(tx, Message(key=key, kind="notice", channel=channel)) is True
        found = outbox.find_message_by_key(tx, key)
        assert found is not None
        set_message(tx, found, **{"kind": "notice", **columns})
    return row(store, key)


def test_words_go_where_the_request_is(store: Store) -> None:
    """A line in its thread, the message that begins it, and a line that is about no request."""
    made = seed(store)
    run = made.run()
    with store.write() as tx:
        assert outbox.has_bot_begun_request_thread(tx, run) is False
        outbox.queue_notice(tx, run, "n", {"text": "a"})
        outbox.queue_thread_root_message(tx, run, "b", [])
        outbox.queue_text_line(tx, "s", "C2", "2.0", "c")
        assert outbox.has_bot_begun_request_thread(tx, run) is True
    notice, root, line = row(store, "n"), row(store, f"root:{run.id}"), row(store, "s")
    assert (notice.kind, notice.run_id, notice.channel, notice.thread_ts) == (
        K.NOTICE,
        run.id,
        "C0SUPPORT",
        "1.0",
    )
    assert (root.kind, root.channel, root.thread_ts) == (K.ROOT, "C0SUPPORT", "")
    assert (line.kind, line.channel, line.thread_ts, line.run_id) == (K.NOTICE, "C2", "2.0", "")
    assert outbox.parse_message_body(line) == {"text": "c", "mrkdwn": True}


@pytest.mark.parametrize("mrkdwn", [True, False])
def test_words_for_one_person(store: Store, mrkdwn: bool) -> None:
    """Only they see them; whose prose it is goes with it."""
    with store.write() as tx:
        outbox.queue_private_message(
            tx, "p", channel="C1", thread_ts="1.0", person="U1", text="é", mrkdwn=mrkdwn
        )
    found = row(store, "p")
    assert (found.kind, found.recipient, found.channel, found.thread_ts) == (
        K.PRIVATE,
        "U1",
        "C1",
        "1.0",
    )
    assert outbox.parse_message_body(found) == {"text": "é", "mrkdwn": mrkdwn}
    assert "é" in found.body


def test_a_line_everywhere(store: Store) -> None:
    """In the request's thread and under each card elsewhere, once each; nowhere that is not yet."""
    made = seed(store)
    with store.write() as tx:
        for key, channel, thread, ts in (
            ("c1", "C2", "", "5.0"),
            ("c2", "C0SUPPORT", "1.0", "6.0"),
            ("c3", "C3", "", ""),
        ):
            card = Message(key=key, kind="card", channel=channel, plan_id=made.plan_id)
            outbox.queue_message(tx, card)
            found = outbox.find_message_by_key(tx, key)
            assert found is not None
            set_message(tx, found, thread_ts=thread, ts=ts)
        outbox.queue_line_in_all_threads(tx, made.run(), [made.plan_id], "k", "words")
        keys = [f"k:{place}" for place in ("C0SUPPORT:1.0", "C2:5.0", "C3:")]
        found_ = [outbox.find_message_by_key(tx, each) for each in keys]
    assert [each and each.thread_ts for each in found_] == ["1.0", "5.0", None]
    body = outbox.parse_message_body(row(store, keys[1]))
    assert body == {"text": "words", "mrkdwn": True, outbox.NOTIFIED_KEY: []}
    with store.write() as tx:
        outbox.queue_line_in_all_threads(tx, made.run(), [], "alone", "words")
    assert row(store, "alone:C0SUPPORT:1.0").thread_ts == "1.0"


def test_which_channels_have_something_to_do(store: Store) -> None:
    """The earliest of a channel says whether it has; a mark that waits holds up no other."""
    put(store, "now", "C1")
    put(store, "later", "C2", due_at=AT + SECOND)
    put(store, "behind", "C2")
    put(store, "mark", "C3", kind="mark", due_at=AT + SECOND)
    put(store, "beside", "C3")
    put(store, "due", "C4", due_at=AT)
    put(store, "due mark", "C5", kind="mark", due_at=AT)
    put(store, "sent", "C6", status=M.SENT)
    put(store, "alone", "C7", kind="mark", due_at=AT + SECOND)
    put(store, "new mark", "C8", kind="mark")
    with store.read() as tx:
        assert outbox.list_channels_with_due_messages(tx, AT) == {"C1", "C3", "C4", "C5", "C8"}
        assert outbox.list_channels_with_due_messages(tx, AT + SECOND) == {
            f"C{each}" for each in (1, 2, 3, 4, 5, 7, 8)
        }
        assert [each.key for each in outbox.list_due_messages(tx, AT, "C3")] == ["beside"]
        assert [each.key for each in outbox.list_due_messages(tx, AT, "C2")] == []
        assert [each.key for each in outbox.list_due_messages(tx, AT, "C4")] == ["due"]
        assert [each.key for each in outbox.list_due_messages(tx, AT)] == [
            "now",
            "beside",
            "due",
            "due mark",
            "new mark",
        ]


@pytest.mark.file
def test_nonsense_holds_up_nothing(store: Store) -> None:
    """A row that cannot be read is left out, and the other channels are served."""
    put(store, "broken", "C1")
    put(store, "well", "C2")
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE message SET due_at = 'x' WHERE key = 'broken'")
    with store.read() as tx:
        assert outbox.list_channels_with_due_messages(tx, AT) == {"C2"}


def test_what_a_card_shows_is_written_down_once(store: Store) -> None:
    """Which revision of each call, when that changes, and where it stands."""
    made = seed(store)
    shown = {made.ids[0]: 1}
    for _ in range(2):
        with store.write() as tx:
            outbox.record_revisions_shown_on_card(tx, made.card(), ts="1.1", revisions=shown, at=AT)
    assert made.events() == ["card.shown"]
    assert json.loads(made.audit()[0].data) == {"channel": "C0SUPPORT", "ts": "1.1", "calls": shown}
    with store.write() as tx:
        outbox.record_revisions_shown_on_card(tx, made.card(), ts="1.1", revisions={}, at=AT)
    assert made.events() == ["card.shown"] * 2


def test_only_columns_of_one_row_are_changed(store: Store) -> None:
    """Another row keeps its own."""
    first, second = put(store, "a"), put(store, "b")
    with store.write() as tx:
        outbox.update_message(tx, first, error="why", attempts=2)
    assert (row(store, "a").attempts, row(store, "b")) == (2, second)


def test_whether_a_message_is_ours(store: Store) -> None:
    """By where it stands in Slack."""
    put(store, "a", ts="1.5")
    with store.read() as tx:
        assert outbox.was_posted_by_bot(tx, "1.5") is True
        assert outbox.was_posted_by_bot(tx, "1.6") is False


def test_cards_and_copies_of_one_plan(store: Store) -> None:
    """Each by its kind, and of no other plan; what a card shows only as that plan's card."""
    made, other = seed(store, C.PENDING, C.PENDING), seed(store)
    copy = put(store, "copy", kind="copy", plan_id=made.plan_id, body='{"calls": ["x"]}')
    with store.read() as tx:
        assert [each.key for each in outbox.list_cards_of_plan(tx, made.plan_id)] == [
            made.card().key
        ]
        assert [each.key for each in outbox.list_card_copies(tx, made.plan_id)] == ["copy"]
        assert outbox.list_card_copies(tx, other.plan_id) == []
        seqs = [other.card().seq, copy.seq, 999]
        assert [outbox.list_call_ids_on_card(tx, made.plan_id, seq or 0) for seq in seqs] == [
            [],
            [],
            [],
        ]
        assert outbox.list_call_ids_on_card(tx, other.plan_id, seqs[0] or 0) == other.ids


@pytest.mark.parametrize(
    ("columns", "behind"),
    [
        ({}, True),
        ({"status": M.SENDING}, True),
        ({"status": M.SENT}, False),
        ({"status": M.FAILED}, False),
        ({"kind": "mark"}, False),
        ({"channel": "C2"}, False),
        ({"run_id": "another"}, False),
    ],
)
def test_whether_something_is_yet_to_be_posted(
    store: Store, columns: dict[str, Any], behind: bool
) -> None:
    """What waits in the request's own channel counts; marks, and what went elsewhere, do not."""
    made = seed(store, run=R.RUNNING)
    with store.write() as tx:
        set_message(tx, made.card(), status=M.SENT)
        assert outbox.has_unposted_messages(tx, made.run()) is False
    put(store, "k", **{"run_id": made.run_id, "channel": "C0SUPPORT", **columns})
    with store.read() as tx:
        assert outbox.has_unposted_messages(tx, made.run()) is behind


def test_the_newest_message(store: Store) -> None:
    """Its number, and none without one; streams tell whether they are open."""
    with store.read() as tx:
        assert outbox.get_newest_message_seq(tx) == 0
    put(store, "a")
    last = put(store, "b", status=M.STREAMING, run_id="r")
    other = put(store, "c", due_at=AT, status=M.STALE)
    put(store, "d", due_at=AT - SECOND, status=M.SENT)
    with store.write() as tx:
        assert outbox.get_newest_message_seq(tx) == (other.seq or 0) + 1
        assert outbox.find_next_message_retry_time(tx, AT - SECOND) == AT
        assert outbox.find_next_message_retry_time(tx, AT) is None  # it is due by then
        assert [outbox.is_stream_open(tx, each) for each in (last, other)] == [True, False]
        assert outbox.withdraw_open_streams(tx, "other") is False
        assert outbox.withdraw_open_streams(tx, "r") is True
    assert outbox.parse_message_body(row(store, "b")) == {"text": "", "streamed": False}
