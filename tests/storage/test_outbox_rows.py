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


def get_message(store: Store, key: str) -> Message:
    """The message with that key."""
    with store.read() as tx:
        found = outbox.find_message_by_key(tx, key)
    assert found is not None
    return found


def add_message(store: Store, key: str, channel: str = "C1", **columns: Any) -> Message:
    """Store a pending message, changed by `columns`."""
    with store.write() as tx:
        assert outbox.queue_message(tx, Message(key=key, kind="notice", channel=channel)) is True
        found = outbox.find_message_by_key(tx, key)
        assert found is not None
        set_message(tx, found, **{"kind": "notice", **columns})
    return get_message(store, key)


def test_notices_thread_roots_and_lines_have_their_places(store: Store) -> None:
    """A line may be about no request."""
    made = seed(store)
    run = made.run()
    with store.write() as tx:
        assert outbox.has_bot_begun_request_thread(tx, run) is False
        outbox.queue_notice(tx, run, "n", {"text": "a"})
        outbox.queue_thread_root_message(tx, run, "b", [])
        outbox.queue_text_line(tx, "s", "C2", "2.0", "c")
        assert outbox.has_bot_begun_request_thread(tx, run) is True
    notice, root, line = (
        get_message(store, "n"),
        get_message(store, f"root:{run.id}"),
        get_message(store, "s"),
    )
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
def test_a_private_message_has_a_recipient(store: Store, mrkdwn: bool) -> None:
    """It says whether its text may contain mrkdwn."""
    with store.write() as tx:
        outbox.queue_private_message(
            tx, "p", channel="C1", thread_ts="1.0", person="U1", text="é", mrkdwn=mrkdwn
        )
    found = get_message(store, "p")
    assert (found.kind, found.recipient, found.channel, found.thread_ts) == (
        K.PRIVATE,
        "U1",
        "C1",
        "1.0",
    )
    assert outbox.parse_message_body(found) == {"text": "é", "mrkdwn": mrkdwn}
    assert "é" in found.body


def test_a_line_goes_to_the_thread_and_under_each_card_elsewhere(store: Store) -> None:
    """Each place gets it once, and cards that are not posted yet do not."""
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
    body = outbox.parse_message_body(get_message(store, keys[1]))
    assert body == {"text": "words", "mrkdwn": True, outbox.NOTIFIED_KEY: []}
    with store.write() as tx:
        outbox.queue_line_in_all_threads(tx, made.run(), [], "alone", "words")
    assert get_message(store, "alone:C0SUPPORT:1.0").thread_ts == "1.0"


def test_a_channel_is_due_if_its_earliest_message_is(store: Store) -> None:
    """A mark that waits holds up no other message."""
    add_message(store, "now", "C1")
    add_message(store, "later", "C2", due_at=AT + SECOND)
    add_message(store, "behind", "C2")
    add_message(store, "mark", "C3", kind="mark", due_at=AT + SECOND)
    add_message(store, "beside", "C3")
    add_message(store, "due", "C4", due_at=AT)
    add_message(store, "due mark", "C5", kind="mark", due_at=AT)
    add_message(store, "sent", "C6", status=M.SENT)
    add_message(store, "alone", "C7", kind="mark", due_at=AT + SECOND)
    add_message(store, "new mark", "C8", kind="mark")
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
def test_a_message_that_cannot_be_read_holds_up_no_channel(store: Store) -> None:
    """It is left out."""
    add_message(store, "broken", "C1")
    add_message(store, "well", "C2")
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE message SET due_at = 'x' WHERE key = 'broken'")
    with store.read() as tx:
        assert outbox.list_channels_with_due_messages(tx, AT) == {"C2"}


def test_the_revisions_on_a_card_are_audited_when_they_change(store: Store) -> None:
    """The row says where the card is."""
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


def test_updating_a_message_changes_no_other(store: Store) -> None:
    """Two messages exist."""
    first, second = add_message(store, "a"), add_message(store, "b")
    with store.write() as tx:
        outbox.update_message(tx, first, error="why", attempts=2)
    assert (get_message(store, "a").attempts, get_message(store, "b")) == (2, second)


def test_messages_of_the_bot_are_known_by_their_timestamp(store: Store) -> None:
    """Slack's timestamp is stored with them."""
    add_message(store, "a", ts="1.5")
    with store.read() as tx:
        assert outbox.was_posted_by_bot(tx, "1.5") is True
        assert outbox.was_posted_by_bot(tx, "1.6") is False


def test_cards_and_copies_are_listed_for_their_own_plan(store: Store) -> None:
    """Calls on a card are listed only for its own plan."""
    made, other = seed(store, C.PENDING, C.PENDING), seed(store)
    copy = add_message(store, "copy", kind="copy", plan_id=made.plan_id, body='{"calls": ["x"]}')
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
def test_unposted_messages_in_the_requests_channel_count(
    store: Store, columns: dict[str, Any], behind: bool
) -> None:
    """Marks and messages for other places do not."""
    made = seed(store, run=R.RUNNING)
    with store.write() as tx:
        set_message(tx, made.card(), status=M.SENT)
        assert outbox.has_unposted_messages(tx, made.run()) is False
    add_message(store, "k", **{"run_id": made.run_id, "channel": "C0SUPPORT", **columns})
    with store.read() as tx:
        assert outbox.has_unposted_messages(tx, made.run()) is behind


def test_the_newest_message_retry_and_open_streams_are_found(store: Store) -> None:
    """Without messages the number is 0."""
    with store.read() as tx:
        assert outbox.get_newest_message_seq(tx) == 0
    add_message(store, "a")
    last = add_message(store, "b", status=M.STREAMING, run_id="r")
    other = add_message(store, "c", due_at=AT, status=M.STALE)
    add_message(store, "d", due_at=AT - SECOND, status=M.SENT)
    with store.write() as tx:
        assert outbox.get_newest_message_seq(tx) == (other.seq or 0) + 1
        assert outbox.find_next_message_retry_time(tx, AT - SECOND) == AT
        assert outbox.find_next_message_retry_time(tx, AT) is None  # due by then
        assert [outbox.is_stream_open(tx, each) for each in (last, other)] == [True, False]
        assert outbox.withdraw_open_streams(tx, "other") is False
        assert outbox.withdraw_open_streams(tx, "r") is True
    assert outbox.parse_message_body(get_message(store, "b")) == {"text": "", "streamed": False}
