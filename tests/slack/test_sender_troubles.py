"""What the sender makes of each answer that is no yes: wait, draw anew, or give up and say so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bot.approvals.deadlines import NO_FILE_NOTICE, NO_ROWS_NOTICE, NO_TABLE_NOTICE
from storage import outbox
from storage.states import CallStatus, MessageStatus, RunStatus
from tests.runs.fakes import ANA, BEN
from tests.slack.post_office import SUPPORT, PostOffice
from tests.storage.builders import TEAM, card_of, seed, set_message

M, C = MessageStatus, CallStatus
POST = "chat.postMessage"


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0.5), (1, 1.0), (3, 4.0), (6, 32.0), (7, 60.0), (40, 60.0)]
)
def test_it_waits_longer_each_time(office: PostOffice, attempts: int, seconds: float) -> None:
    """Half a second first, a minute at most; the later ones of its channel wait for it."""
    office.slack.faults.status(POST, 500)
    row = office.put(attempts=attempts)
    assert office.send(row) is False
    now = office.now(row)
    assert (office.due_in(row), now.attempts) == (seconds, attempts + 1)
    assert now.status is M.SENDING


def test_it_waits_as_long_as_slack_asks(office: PostOffice) -> None:
    """That is no failure, and nothing was posted that would have to be looked for."""
    office.slack.faults.rate_limit(POST, retry_after=7)
    row = office.put()
    assert office.send(row) is False
    now = office.now(row)
    assert (office.due_in(row), now.attempts, now.status) == (7.0, 0, M.PENDING)
    office.slack.faults.rate_limit("reactions.add", retry_after=7)
    thread = office.slack.person("ben").say(SUPPORT, "a request")
    made = seed(office.store)
    office.change(made, asked_at=made.call().created_at)
    mark = office.put("mark", run_id=made.run_id, ts=thread, body={"names": []})
    assert office.send(mark) is True
    assert office.due_in(mark) == 7.0


def test_a_message_that_is_itself_the_problem(office: PostOffice) -> None:
    """Tried four times more, it is set aside, so that those behind it go on."""
    row = office.put(body={})
    with office.store.write() as tx:
        set_message(tx, row, attempts=3)
    assert office.send(row) is False
    assert (office.now(row).attempts, office.now(row).error) == (4, "KeyError: 'text'")
    assert office.send(row) is True
    assert (office.now(row).status, office.now(row).error) == (M.FAILED, "KeyError")
    assert office.methods() == []


def test_a_line_that_breaks_is_no_problem_of_the_message(office: PostOffice) -> None:
    """However often, it is tried again."""
    office.slack.faults.drop(POST)
    row = office.put(attempts=9)
    assert office.send(row) is False
    assert (office.now(row).status, office.now(row).attempts) == (M.SENDING, 10)


def test_what_cannot_even_be_given_up_is_set_aside(office: PostOffice) -> None:
    """A card whose body is nonsense fails by itself, and its lane goes on."""
    made = seed(office.store)
    row = office.put("card", plan_id=made.plan_id, run_id=made.run_id, attempts=4)
    with office.store.write() as tx:
        set_message(tx, row, body="{")
    assert office.send(row) is True
    assert office.now(row).status is M.FAILED


@pytest.mark.parametrize("code", ["message_not_found", "edit_window_closed", "cant_update_message"])
def test_a_card_that_is_gone_is_posted_anew(office: PostOffice, code: str) -> None:
    """A line that is gone is not; a card that Slack refuses for another reason fails closed."""
    made = seed(office.store)
    card = office.card(made)
    office.send(card)
    old = office.now(card).ts
    with office.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    office.slack.faults.fail("chat.update", code)
    assert office.send(card) is True
    now = office.now(card)
    assert (now.status, now.ts, now.shown, now.showing) == (M.PENDING, "", 0, "")
    assert office.send(card) is True
    new = office.now(card).ts
    assert (office.now(card).status, new != old) == (M.SENT, True)
    line = office.put(ts=old, status=M.STALE)
    office.slack.faults.fail("chat.update", code)
    assert office.send(line) is True
    assert (office.now(line).status, office.now(line).error) == (M.FAILED, code)
    with office.store.write() as tx:
        set_message(tx, card, status=M.STALE)
    office.slack.faults.fail("chat.update", "msg_too_long")
    assert office.send(card) is True
    assert (office.now(card).ts, made.call().status) == (new, C.CANCELLED)


def test_a_line_for_an_archived_channel_is_given_up(office: PostOffice) -> None:
    """It goes nowhere else, and ends nothing."""
    made = seed(office.store)
    office.slack.faults.fail(POST, "is_archived")
    line = office.put(run_id=made.run_id)
    assert office.send(line) is True
    now = office.now(line)
    assert (now.status, now.error, now.channel, now.due_at) == (
        M.FAILED,
        "is_archived",
        SUPPORT,
        None,
    )
    assert (made.call().status, office.signals.work.is_set()) == (C.PENDING, False)
    assert [each.key for each in office.of_run(made.run_id, "notice")] == [line.key]


def test_a_card_nobody_can_see_fails_closed(office: PostOffice) -> None:
    """What it asks for is not done; a copy that stands elsewhere is enough to see it."""
    made = seed(office.store)
    first, copy = office.card(made), card_of(made.plan(), made.ids)
    copy.body = first.body
    copy.key, copy.channel = f"{copy.key}:2", "C0FINANCE"
    with office.store.write() as tx:
        outbox.queue_message(tx, copy)
    for row, status in ((first, C.PENDING), (copy, C.CANCELLED)):
        assert not office.signals.work.is_set()
        office.slack.faults.fail(POST, "is_archived")
        assert office.send(row) is True
        assert (office.now(row).status, made.call().status) == (M.FAILED, status)
    assert office.signals.work.is_set()


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
def test_who_was_promised_rows_is_told(
    office: PostOffice, kind: str, method: str, body: dict[str, Any], text: str
) -> None:
    """The thread is, or who alone was to get them."""
    made = seed(office.store)
    for recipient, told, words in (("", "notice", text), (ANA, "private", NO_ROWS_NOTICE)):
        office.slack.faults.fail(method, "restricted_action")
        row = office.put(kind, body=body, run_id=made.run_id, recipient=recipient)
        assert office.send(row) is True
        assert office.now(row).status is M.FAILED
        with office.store.read() as tx:
            said = outbox.find_message_by_key(tx, f"unsent:{row.key}")
        assert said is not None
        assert (said.kind, outbox.parse_message_body(said)["text"]) == (told, words)


def test_a_request_that_can_begin_nowhere(office: PostOffice) -> None:
    """Not where it was to, it begins in a direct message; not there either, it is over."""
    made = seed(office.store, run=RunStatus.READY)
    office.change_run(made, thread_ts="")
    root = office.put("root", run_id=made.run_id)
    office.slack.faults.fail(POST, "is_archived", times=2)
    assert office.send(root) is True
    now = office.now(root)
    assert (now.status, now.channel, made.run().status) == (M.PENDING, BEN, RunStatus.READY)
    assert office.send(root) is True  # the direct message is opened
    assert office.send(root) is True
    assert (office.now(root).status, made.run().status) == (M.FAILED, RunStatus.CANCELLED)


def streamed(office: PostOffice, text: str) -> tuple[str, str]:
    """A stream that has begun in a thread with these words; the thread, and where it stands."""
    thread = office.slack.person("ben").say(SUPPORT, "a question")
    begun = office.client.chat_startStream(
        channel=SUPPORT,
        thread_ts=thread,
        recipient_user_id=BEN,
        recipient_team_id=TEAM,
        markdown_text=text,
    )
    office.asked()
    return thread, str(begun["ts"])


def answer(office: PostOffice, thread: str, ts: str, *, streamed: bool = True, **body: Any) -> Any:
    """The row of a stream that is to be closed."""
    whole = {"text": "one two", "last": False, "streamed": streamed, **body}
    made = seed(office.store)
    office.change_run(made, thread_ts=thread)
    columns = {"run_id": made.run_id, "thread_ts": thread, "ts": ts, "status": M.CLOSING}
    return office.put("answer", body=whole, **columns)


def test_a_stream_is_closed_with_what_it_lacks(office: PostOffice) -> None:
    """The last part carries what stands below an answer; what holds other words is written over."""
    row = answer(office, *streamed(office, "one"), rest={"markdown_text": " two"}, last=True)
    assert office.send(row) is True
    [stop] = office.asked()
    assert (stop.method, stop.args["markdown_text"]) == ("chat.stopStream", " two")
    assert stop.args["blocks"]
    assert (office.now(row).status, office.now(row).shown) == (M.SENT, 1)
    part = answer(office, *streamed(office, "one two"), rest={})
    office.send(part)
    [stop] = office.asked()
    assert "blocks" not in stop.args
    other = answer(office, *streamed(office, "three"), streamed=False, last=True)
    assert office.send(other) is True
    stop, over = office.asked()
    assert (stop.method, over.method, "blocks" in stop.args) == (
        "chat.stopStream",
        "chat.update",
        False,
    )
    assert office.now(other).status is M.SENT


@pytest.mark.parametrize(
    "error",
    ["message_not_in_streaming_state", "stopped_by_user", "message_not_found", "msg_too_long"],
)
def test_a_stream_that_takes_no_more(office: PostOffice, error: str) -> None:
    """Over already, or too long with the rest: it is stopped, and written over."""
    row = answer(office, *streamed(office, "one"), rest={"markdown_text": " two"})
    is_over = error != "msg_too_long"
    if is_over:
        office.client.chat_stopStream(channel=SUPPORT, ts=row.ts)
        office.asked()
    office.slack.faults.fail("chat.stopStream", error)
    assert office.send(row) is True
    stops = ["chat.stopStream"] * (1 if is_over else 2)
    assert office.methods() == [*stops, "chat.update"]


def test_a_stream_that_cannot_be_stopped_now(office: PostOffice) -> None:
    """It is tried again, and what Slack refuses for good is given up."""
    row = answer(office, *streamed(office, "one"), rest={"markdown_text": " two"})
    office.slack.faults.fail("chat.stopStream", "internal_error")
    assert office.send(row) is False
    assert (office.now(row).status, office.methods()) == (M.CLOSING, ["chat.stopStream"])
    bare = answer(office, *streamed(office, "one two"), rest={})
    office.slack.faults.fail("chat.stopStream", "channel_not_found")
    assert office.send(bare) is True
    assert (office.now(bare).status, office.methods()) == (M.FAILED, ["chat.stopStream"])


def test_a_stream_whose_begin_was_lost(office: PostOffice) -> None:
    """It is found in its thread; where it never began its words are posted, if it has any."""
    thread, ts = streamed(office, "one two")
    row = answer(office, thread, "", rest={})
    assert office.send(row) is True
    assert (office.now(row).status, office.now(row).ts) == (M.SENT, ts)
    office.asked()
    silent = office.slack.person("ben").say(SUPPORT, "another question")
    office.client.chat_postMessage(channel=SUPPORT, thread_ts=silent, text="no stream")
    office.asked()
    for text, status in (("words", M.PENDING), ("", M.FAILED)):
        never = answer(office, silent, "", text=text)
        assert office.send(never) is True
        assert (office.now(never).status, office.methods()) == (status, ["conversations.replies"])
    known_thread, known = streamed(office, "one")
    office.put(ts=known, status=M.SENT)
    other = answer(office, known_thread, "")
    assert office.search.find_lost_stream(other) is None


def test_a_stream_that_begins_while_it_is_looked_for(office: PostOffice) -> None:
    """Its place is known before nothing was found: it is not given up, and closed next."""
    thread, stands = streamed(office, "one")
    row = answer(office, thread, "", text="", streamed=False)
    held = office.slack.faults.hold("conversations.replies", "after")
    sending = threading.Thread(target=office.send, args=(row,))
    sending.start()
    assert held.arrived.wait(30)
    with office.store.write() as tx:
        outbox.update_message(tx, row, ts=stands)
    held.release()
    sending.join(30)
    assert office.now(row).status is M.CLOSING
    office.asked()
    assert office.send(office.now(row)) is True
    assert office.methods() == ["chat.stopStream", "chat.update"]
    assert office.now(row).status is M.SENT
