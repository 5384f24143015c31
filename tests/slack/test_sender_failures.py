"""What the sender does after each failure: wait, draw again, or give up and say so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bot.approvals.deadlines import NO_FILE_NOTICE, NO_ROWS_NOTICE, NO_TABLE_NOTICE
from storage import outbox
from storage.states import CallStatus, MessageStatus, RunStatus
from tests.runs.fakes import ANA, BEN
from tests.slack.sender_harness import SUPPORT, SenderHarness
from tests.storage.builders import TEAM, card_of, seed, set_message

M, C = MessageStatus, CallStatus
POST = "chat.postMessage"


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0.5), (1, 1.0), (3, 4.0), (6, 32.0), (7, 60.0), (40, 60.0)]
)
def test_each_failed_try_makes_the_next_wait_longer(
    harness: SenderHarness, attempts: int, seconds: float
) -> None:
    """From half a second to a minute; later messages of the channel wait for it."""
    harness.slack.faults.status(POST, 500)
    row = harness.queue(attempts=attempts)
    assert harness.send(row) is False
    now = harness.read(row)
    assert (harness.get_delay(row), now.attempts) == (seconds, attempts + 1)
    assert now.status is M.SENDING


def test_a_rate_limited_message_waits_as_long_as_slack_asks(harness: SenderHarness) -> None:
    """It is no failure, and nothing was posted that would have to be searched for."""
    harness.slack.faults.rate_limit(POST, retry_after=7)
    row = harness.queue()
    assert harness.send(row) is False
    now = harness.read(row)
    assert (harness.get_delay(row), now.attempts, now.status) == (7.0, 0, M.PENDING)
    harness.slack.faults.rate_limit("reactions.add", retry_after=7)
    thread = harness.slack.person("ben").say(SUPPORT, "a request")
    made = seed(harness.store)
    harness.change_call(made, asked_at=made.call().created_at)
    mark = harness.queue("mark", run_id=made.run_id, ts=thread, body={"names": []})
    assert harness.send(mark) is True
    assert harness.get_delay(mark) == 7.0
    harness.take_methods()
    assert harness.send(mark) is True
    assert harness.take_methods() == ["reactions.add"]


def test_a_message_that_cannot_be_drawn_is_given_up(harness: SenderHarness) -> None:
    """After five tries, so that those behind it go on."""
    row = harness.queue(body={})
    with harness.store.write() as tx:
        set_message(tx, row, attempts=3)
    assert harness.send(row) is False
    assert (harness.read(row).attempts, harness.read(row).error) == (4, "KeyError: 'text'")
    assert harness.send(row) is True
    assert (harness.read(row).status, harness.read(row).error) == (M.FAILED, "KeyError")
    assert harness.take_methods() == []


def test_a_broken_connection_gives_up_no_message(harness: SenderHarness) -> None:
    """It is tried again, however often."""
    harness.slack.faults.drop(POST)
    row = harness.queue(attempts=9)
    assert harness.send(row) is False
    assert (harness.read(row).status, harness.read(row).attempts) == (M.SENDING, 10)


def test_a_card_with_a_broken_body_is_given_up(harness: SenderHarness) -> None:
    """Its body is not even JSON; the queue goes on."""
    made = seed(harness.store)
    row = harness.queue("card", plan_id=made.plan_id, run_id=made.run_id, attempts=4)
    with harness.store.write() as tx:
        set_message(tx, row, body="{")
    assert harness.send(row) is True
    assert harness.read(row).status is M.FAILED


@pytest.mark.parametrize("code", ["message_not_found", "edit_window_closed", "cant_update_message"])
def test_a_card_that_is_gone_is_posted_again(harness: SenderHarness, code: str) -> None:
    """A notice is not. A card refused for another reason fails closed."""
    made = seed(harness.store)
    card = harness.queue_card(made)
    harness.send(card)
    old = harness.read(card).ts
    with harness.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    harness.slack.faults.fail("chat.update", code)
    assert harness.send(card) is True
    now = harness.read(card)
    assert (now.status, now.ts, now.shown, now.showing) == (M.PENDING, "", 0, "")
    assert harness.send(card) is True
    new = harness.read(card).ts
    assert (harness.read(card).status, new != old) == (M.SENT, True)
    line = harness.queue(ts=old, status=M.STALE)
    harness.slack.faults.fail("chat.update", code)
    assert harness.send(line) is True
    assert (harness.read(line).status, harness.read(line).error) == (M.FAILED, code)
    with harness.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    harness.slack.faults.fail("chat.update", "msg_too_long")
    assert harness.send(card) is True
    assert (harness.read(card).ts, made.call().status) == (new, C.CANCELLED)


@pytest.mark.parametrize("code", ["edit_window_closed", "cant_update_message"])
def test_a_card_that_cannot_be_changed_is_replaced_each_time(
    harness: SenderHarness, code: str
) -> None:
    """Nobody deleted it, so its call goes on; the old one is not taken for the new one's post."""
    made = seed(harness.store)
    card = harness.queue_card(made)
    harness.send(card)
    seen = [harness.read(card).ts]
    for _ in range(2):
        with harness.store.write() as tx:
            set_message(tx, card, status=M.STALE)
        harness.slack.faults.fail("chat.update", code)
        assert harness.send(card) is True
        harness.slack.faults.drop(POST)
        assert harness.send(card) is False
        assert harness.read(card).status is M.SENDING
        assert harness.send(card) is True
        seen.append(harness.read(card).ts)
    assert (harness.read(card).status, len(set(seen))) == (M.SENT, 3)
    assert made.call().status is C.PENDING


def test_a_notice_for_an_archived_channel_is_given_up(harness: SenderHarness) -> None:
    """It is sent nowhere else, and ends no call."""
    made = seed(harness.store)
    harness.slack.faults.fail(POST, "is_archived")
    line = harness.queue(run_id=made.run_id)
    assert harness.send(line) is True
    now = harness.read(line)
    assert (now.status, now.error, now.channel, now.due_at) == (
        M.FAILED,
        "is_archived",
        SUPPORT,
        None,
    )
    assert (made.call().status, harness.signals.work.is_set()) == (C.PENDING, False)
    assert [each.key for each in harness.list_messages(made.run_id, "notice")] == [line.key]


def test_a_card_nobody_can_see_fails_closed(harness: SenderHarness) -> None:
    """Its call is cancelled; while a copy is shown elsewhere it is not."""
    made = seed(harness.store)
    first, copy = harness.queue_card(made), card_of(made.plan(), made.ids)
    copy.body = first.body
    copy.key, copy.channel = f"{copy.key}:2", "C0FINANCE"
    with harness.store.write() as tx:
        outbox.queue_message(tx, copy)
    for row, status in ((first, C.PENDING), (copy, C.CANCELLED)):
        assert not harness.signals.work.is_set()
        harness.slack.faults.fail(POST, "is_archived")
        assert harness.send(row) is True
        assert (harness.read(row).status, made.call().status) == (M.FAILED, status)
    assert harness.signals.work.is_set()


TABLE: dict[str, Any] = {
    "title": "Rows",
    "total": 1,
    "rows": [["1"]],
    "columns": ["a"],
    "more": False,
    "width": 1,
    "file": False,
}
FILE = {"name": "lost.csv", "title": "Rows", "content": "a"}


@pytest.mark.parametrize(
    ("kind", "method", "body", "text"),
    [
        ("table", POST, TABLE, NO_TABLE_NOTICE),
        ("file", "files.getUploadURLExternal", FILE, NO_FILE_NOTICE),
    ],
)
def test_rows_that_cannot_be_sent_leave_a_notice(
    harness: SenderHarness, kind: str, method: str, body: dict[str, Any], text: str
) -> None:
    """In the thread, or privately if they were for one person."""
    made = seed(harness.store)
    for recipient, told, words in (("", "notice", text), (ANA, "private", NO_ROWS_NOTICE)):
        harness.slack.faults.fail(method, "restricted_action")
        row = harness.queue(kind, body=body, run_id=made.run_id, recipient=recipient)
        assert harness.send(row) is True
        assert harness.read(row).status is M.FAILED
        with harness.store.read() as tx:
            said = outbox.find_message_by_key(tx, f"unsent:{row.key}")
        assert said is not None
        assert (said.kind, outbox.parse_message_body(said)["text"]) == (told, words)


def test_a_request_whose_first_message_fails_is_cancelled(harness: SenderHarness) -> None:
    """It is tried in a direct message first."""
    made = seed(harness.store, run=RunStatus.READY)
    harness.change_run(made, thread_ts="")
    root = harness.queue("root", run_id=made.run_id)
    harness.slack.faults.fail(POST, "is_archived", times=2)
    assert harness.send(root) is True
    now = harness.read(root)
    assert (now.status, now.channel, made.run().status) == (M.PENDING, BEN, RunStatus.READY)
    assert harness.send(root) is True  # opens the direct message
    assert harness.send(root) is True
    assert (harness.read(root).status, made.run().status) == (M.FAILED, RunStatus.CANCELLED)


def start_stream(harness: SenderHarness, text: str) -> tuple[str, str]:
    """Start a stream in a thread with this text; return the thread and the stream's time."""
    thread = harness.slack.person("ben").say(SUPPORT, "a question")
    begun = harness.client.chat_startStream(
        channel=SUPPORT,
        thread_ts=thread,
        recipient_user_id=BEN,
        recipient_team_id=TEAM,
        markdown_text=text,
    )
    harness.take_requests()
    return thread, str(begun["ts"])


def queue_stream_answer(
    harness: SenderHarness, thread: str, ts: str, *, streamed: bool = True, **body: Any
) -> Any:
    """The row of a stream that is to be closed."""
    whole = {"text": "one two", "last": False, "streamed": streamed, **body}
    made = seed(harness.store)
    harness.change_run(made, thread_ts=thread)
    columns = {"run_id": made.run_id, "thread_ts": thread, "ts": ts, "status": M.CLOSING}
    return harness.queue("answer", body=whole, **columns)


def test_a_stream_is_closed_with_the_rest_of_its_text(harness: SenderHarness) -> None:
    """Blocks come with the last part only; a stream with other words is overwritten."""
    row = queue_stream_answer(
        harness, *start_stream(harness, "one"), rest={"markdown_text": " two"}, last=True
    )
    assert harness.send(row) is True
    [stop] = harness.take_requests()
    assert (stop.method, stop.args["markdown_text"]) == ("chat.stopStream", " two")
    assert stop.args["blocks"]
    assert (harness.read(row).status, harness.read(row).shown) == (M.SENT, 1)
    part = queue_stream_answer(harness, *start_stream(harness, "one two"), rest={})
    harness.send(part)
    [stop] = harness.take_requests()
    assert "blocks" not in stop.args
    other = queue_stream_answer(harness, *start_stream(harness, "three"), streamed=False, last=True)
    assert harness.send(other) is True
    stop, over = harness.take_requests()
    assert (stop.method, over.method, "blocks" in stop.args) == (
        "chat.stopStream",
        "chat.update",
        False,
    )
    assert harness.read(other).status is M.SENT


@pytest.mark.parametrize(
    "error",
    ["message_not_in_streaming_state", "stopped_by_user", "message_not_found", "msg_too_long"],
)
def test_a_stream_that_refuses_its_rest_is_overwritten(harness: SenderHarness, error: str) -> None:
    """It is over already, or the rest makes it too long."""
    row = queue_stream_answer(
        harness, *start_stream(harness, "one"), rest={"markdown_text": " two"}
    )
    is_over = error != "msg_too_long"
    if is_over:
        harness.client.chat_stopStream(channel=SUPPORT, ts=row.ts)
        harness.take_requests()
    harness.slack.faults.fail("chat.stopStream", error)
    assert harness.send(row) is True
    stops = ["chat.stopStream"] * (1 if is_over else 2)
    assert harness.take_methods() == [*stops, "chat.update"]


def test_stopping_a_stream_is_tried_again_after_an_error(harness: SenderHarness) -> None:
    """A permanent error gives it up."""
    row = queue_stream_answer(
        harness, *start_stream(harness, "one"), rest={"markdown_text": " two"}
    )
    harness.slack.faults.fail("chat.stopStream", "internal_error")
    assert harness.send(row) is False
    assert (harness.read(row).status, harness.take_methods()) == (M.CLOSING, ["chat.stopStream"])
    bare = queue_stream_answer(harness, *start_stream(harness, "one two"), rest={})
    harness.slack.faults.fail("chat.stopStream", "channel_not_found")
    assert harness.send(bare) is True
    assert (harness.read(bare).status, harness.take_methods()) == (M.FAILED, ["chat.stopStream"])


def test_a_stream_whose_start_was_lost_is_found_in_its_thread(harness: SenderHarness) -> None:
    """If it never began, its words are posted, if it has any."""
    thread, ts = start_stream(harness, "one two")
    row = queue_stream_answer(harness, thread, "", rest={})
    assert harness.send(row) is True
    assert (harness.read(row).status, harness.read(row).ts) == (M.SENT, ts)
    harness.take_requests()
    silent = harness.slack.person("ben").say(SUPPORT, "another question")
    harness.client.chat_postMessage(channel=SUPPORT, thread_ts=silent, text="no stream")
    harness.take_requests()
    for text, status in (("words", M.PENDING), ("", M.FAILED)):
        never = queue_stream_answer(harness, silent, "", text=text)
        assert harness.send(never) is True
        assert (harness.read(never).status, harness.take_methods()) == (
            status,
            ["conversations.replies"],
        )
    known_thread, known = start_stream(harness, "one")
    harness.queue(ts=known, status=M.SENT)
    other = queue_stream_answer(harness, known_thread, "")
    assert harness.search.find_lost_stream(other) is None


def test_a_stream_that_starts_during_the_search_is_closed(harness: SenderHarness) -> None:
    """Its place becomes known during the search: it is not given up, and closed next."""
    thread, stands = start_stream(harness, "one")
    row = queue_stream_answer(harness, thread, "", text="", streamed=False)
    held = harness.slack.faults.hold("conversations.replies", "after")
    sending = threading.Thread(target=harness.send, args=(row,))
    sending.start()
    assert held.arrived.wait(30)
    with harness.store.write() as tx:
        outbox.update_message(tx, row, ts=stands)
    held.release()
    sending.join(30)
    assert harness.read(row).status is M.CLOSING
    harness.take_requests()
    assert harness.send(harness.read(row)) is True
    assert harness.take_methods() == ["chat.stopStream", "chat.update"]
    assert harness.read(row).status is M.SENT
