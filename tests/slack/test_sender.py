"""What the sender asks of Slack for each kind of message, and what the row has then."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from bot.slack.outbox_memory import SlackPost
from bot.slack.pace import ChannelOwnership
from slack_sandbox.web_api.faults import When
from storage import moves, outbox
from storage.models import Message
from storage.states import CallStatus, MessageStatus
from tests.runs.fakes import ANA
from tests.slack.sender_harness import ALONE, SUPPORT, SenderHarness
from tests.storage.builders import AT, seed, set_message

M = MessageStatus
WAITING, REJECTED = "hourglass_flowing_sand", "no_entry_sign"


def test_a_notice_is_posted_once_with_its_key(harness: SenderHarness) -> None:
    """Once, without previews of its links; the row keeps its place."""
    row = harness.queue(body={"text": "as it is"})
    assert harness.send(row) is True
    [call] = harness.take_requests()
    assert (call.method, call.args["channel"]) == ("chat.postMessage", SUPPORT)
    assert call.args["metadata"]["event_payload"] == {"key": row.key}
    assert (call.args["unfurl_links"], call.args["unfurl_media"]) == (False, False)
    assert not call.args.get("thread_ts")
    assert call.args["blocks"]
    now = harness.read(row)
    assert (now.status, now.shown) == (M.SENT, 1)
    assert harness.read_texts(now.ts) == ["as it is"]
    assert not harness.signals.work.is_set()


def test_a_private_line_goes_into_a_thread_of_the_bot_only(harness: SenderHarness) -> None:
    """It is in the channel; in a thread only after the bot has posted there."""
    thread = harness.slack.person("ben").say(SUPPORT, "a request")
    private = {"kind": "private", "recipient": ANA, "thread_ts": thread}
    first = harness.queue(**private)
    assert harness.send(first) is True
    harness.send(harness.queue(thread_ts=thread))
    assert harness.send(harness.queue(**private)) is True
    before, reply, after = harness.take_requests()
    assert [each.method for each in (before, after)] == ["chat.postEphemeral"] * 2
    assert (reply.args["thread_ts"], after.args["thread_ts"]) == (thread, thread)
    assert not before.args.get("thread_ts")
    assert (before.args["user"], harness.read(first).status, harness.read(first).ts) == (
        ANA,
        M.SENT,
        "",
    )


def test_a_private_line_refused_in_a_channel_goes_to_a_dm(harness: SenderHarness) -> None:
    """After a temporary error it is tried in the channel again."""
    harness.slack.faults.fail("chat.postEphemeral", "user_not_in_channel")
    there, direct = harness.queue("private", recipient=ANA), harness.queue("private", recipient=ANA)
    for _ in range(3):
        assert harness.send(there) is True
    opened = ["conversations.open", "chat.postMessage"]
    assert harness.take_methods() == ["chat.postEphemeral", *opened]
    with harness.store.write() as tx:
        outbox.update_message(tx, direct, channel=ANA)
    for _ in range(2):
        assert harness.send(direct) is True
    assert harness.take_methods() == opened
    assert harness.read_texts(harness.read(direct).ts, channel=harness.read(direct).channel)
    harness.slack.faults.fail("chat.postEphemeral", "ratelimited")
    late = harness.queue("private", recipient=ANA)
    assert harness.send(late) is False
    assert (harness.take_methods(), harness.read(late).status) == (
        ["chat.postEphemeral"],
        M.PENDING,
    )
    assert harness.read(late).error == "ratelimited"
    harness.slack.faults.fail("chat.postEphemeral", "internal_error")  # it may be there
    unsure = harness.queue("private", recipient=ANA)
    assert harness.send(unsure) is False
    assert (harness.read(unsure).status, harness.read(unsure).channel) == (M.SENDING, SUPPORT)


def test_a_private_line_for_nobody_is_given_up(harness: SenderHarness) -> None:
    """Its id is no person's, so there is no direct message to open."""
    row = harness.queue("private", recipient=":")
    for _ in range(2):
        assert harness.send(harness.read(row)) is True
    now = harness.read(row)
    assert (now.status, now.channel) == (M.FAILED, ":")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_private_line_whose_answer_was_lost_is_not_repeated(
    harness: SenderHarness, when: When
) -> None:
    """Who may not have seen them is pointed to the card, once."""
    made = seed(harness.store)
    card = harness.queue_card(made)
    harness.send(card)
    ts = harness.read(card).ts
    harness.take_requests()
    row = harness.queue("private", recipient=ANA, thread_ts=ts)
    harness.slack.faults.drop("chat.postEphemeral", when)
    assert harness.send(row) is False
    assert harness.read(row).status is M.SENDING
    harness.take_requests()
    harness.slack.faults.drop("chat.postEphemeral", when)
    assert harness.send(row) is False
    assert harness.send(row) is True
    assert harness.read(row).status is M.SENT
    link, pointer = harness.take_requests()
    assert (link.method, pointer.method) == ("chat.getPermalink", "chat.postEphemeral")
    assert "this card" in str(pointer.args["text"])
    assert str(link.args["message_ts"]) == ts


def test_a_lost_private_line_outside_of_threads_points_to_no_card(harness: SenderHarness) -> None:
    """The channel's newest card is of somebody else's request, which has a message to be posted.

    The line itself is not in a thread either, although the bot has posted in the channel.
    """
    made = seed(harness.store)
    for each in (harness.queue_card(made), harness.queue()):
        harness.send(each)
    harness.queue(run_id=made.run_id)
    row = harness.queue("private", recipient=ANA)
    harness.slack.faults.drop("chat.postEphemeral")
    assert harness.send(row) is False
    harness.take_requests()
    assert harness.send(row) is True
    [pointer] = harness.take_requests()
    assert ("this card" in str(pointer.args["text"]), "thread_ts" in pointer.args) == (False, False)


def test_a_private_line_is_stored_as_sending_first(harness: SenderHarness) -> None:
    """So that a crash while Slack works on it leaves SENDING on the disk."""
    hold = harness.slack.faults.hold("chat.postEphemeral")
    row = harness.queue("private", recipient=ANA)
    sending = threading.Thread(target=harness.send, args=(row,))
    sending.start()
    assert hold.arrived.wait(30)
    assert harness.read(row).status is M.SENDING
    hold.release()
    sending.join(30)
    assert harness.read(row).status is M.SENT


def test_a_private_line_goes_into_the_thread_after_a_restart(harness: SenderHarness) -> None:
    """The bot posted there before the restart."""
    thread = harness.slack.person("ben").say(SUPPORT, "a request of yesterday")
    made = seed(harness.store)
    harness.change_run(made, thread_ts=thread)
    harness.send(harness.queue(run_id=made.run_id, thread_ts=thread))
    harness.client._posts.clear()  # as in a new process
    harness.take_requests()
    row = harness.queue("private", recipient=ANA, thread_ts=thread)
    assert harness.send(row) is True
    [call] = harness.take_requests()
    assert call.args["thread_ts"] == thread


def test_a_post_interrupted_by_a_crash_is_there_once(harness: SenderHarness) -> None:
    """It is left alone while Slack may be at work on it, then searched for, then posted.

    A later search removes a duplicate that came late.
    """
    made = seed(harness.store)
    row = harness.queue_card(made)
    with harness.store.write() as tx:
        set_message(tx, row, status=M.SENDING)
    assert harness.send(row) is False
    assert harness.get_delay(row) == 15.0
    harness.clock.at += timedelta(seconds=15)
    assert harness.send(row) is True
    ts = harness.read(row).ts
    late = harness.client.chat_postMessage(
        channel=SUPPORT,
        text="the same card, late",
        metadata={"event_type": "countersign", "event_payload": {"key": row.key}},
    )["ts"]
    assert harness.memory.pop_due_duplicate_searches(harness.clock.now()) == []
    harness.clock.at += timedelta(seconds=30)
    assert harness.memory.pop_due_duplicate_searches(harness.clock.now()) == [row.key]
    harness.sender.delete_duplicate_messages(row.key)
    assert harness.read_texts(ts)
    assert not harness.read_texts(late)
    assert harness.memory.find_next_due_time(harness.clock.now()) is None


def test_a_message_posted_before_a_crash_is_found_at_once(harness: SenderHarness) -> None:
    """Without waiting."""
    row = harness.queue()
    harness.slack.faults.drop("chat.postMessage", "after")
    assert harness.send(row) is False
    harness.sender._begun.clear()  # as in a new process
    assert harness.send(row) is True
    assert harness.read_texts(harness.read(row).ts) == [f"words of {row.key}"]


def test_a_direct_message_is_opened_before_it_is_posted(harness: SenderHarness) -> None:
    """The message is then posted from that channel's queue."""
    for kind, body in (("notice", {"text": "to Ana"}), ("file", FILE)):
        row = harness.queue(kind, channel=ANA, body=body)
        assert harness.send(row) is True
        assert harness.take_methods() == ["conversations.open"]
        assert (harness.read(row).status, harness.read(row).channel[0]) == (M.PENDING, "D")
        assert harness.send(row) is True
        assert harness.read(row).status is M.SENT
        harness.take_requests()


FILE = {"name": "rows.csv", "title": "Rows", "content": "a,b\n1,2\n"}


def test_a_file_is_uploaded_once(harness: SenderHarness) -> None:
    """If the answer was lost, it is found by its name."""
    row = harness.queue("file", body={**FILE, "name": "once.csv"})
    assert harness.send(row) is True
    asked = harness.take_requests()
    assert asked[0].method == "files.getUploadURLExternal"
    assert not asked[-1].args.get("thread_ts")
    assert (harness.read(row).status, harness.read(row).ts) == (M.SENT, "")
    with harness.store.write() as tx:
        set_message(tx, row, status=M.SENDING, ts="")
    assert harness.send(row) is True
    assert harness.take_methods() == ["conversations.history"]
    assert harness.read(row).ts != ""
    thread = harness.slack.person("ben").say(SUPPORT, "a request")
    columns = {"status": M.SENDING, "thread_ts": thread}
    other = harness.queue("file", body={**FILE, "name": "other.csv"}, **columns)
    assert harness.send(other) is False
    harness.clock.at += timedelta(seconds=15)
    assert harness.send(other) is True
    last = harness.take_requests()[-1]
    assert (last.method, last.args["thread_ts"]) == ("files.completeUploadExternal", thread)


@pytest.mark.parametrize("in_thread", [True, False])
def test_a_message_that_may_be_posted_is_searched_for(
    harness: SenderHarness, in_thread: bool
) -> None:
    """By its key. If it is not there, it is posted; a new message is not searched for."""
    thread = harness.slack.person("ben").say(SUPPORT, "a request") if in_thread else ""
    row = harness.queue(thread_ts=thread, wanted=3)
    harness.send(row)
    assert harness.take_methods() == ["chat.postMessage"]
    ts = harness.read(row).ts
    with harness.store.write() as tx:
        set_message(tx, row, status=M.SENDING, ts="", shown=0)
    assert harness.send(row) is True
    asked = "conversations.replies" if in_thread else "conversations.history"
    assert harness.take_methods() == [asked]
    now = harness.read(row)
    assert (now.status, now.ts, now.shown) == (M.SENT, ts, 3)
    lost = harness.queue(thread_ts=thread, status=M.SENDING)
    assert harness.send(lost) is False
    harness.clock.at += timedelta(seconds=15)
    assert harness.send(lost) is True
    assert harness.take_methods() == [asked, asked, "chat.postMessage"]


def test_a_message_older_than_the_process_is_searched_for(harness: SenderHarness) -> None:
    """An earlier process may have posted it and lost that in a power cut."""
    row = harness.queue()
    heir = SenderHarness(harness.store, harness.slack)
    assert heir.send(row) is True
    assert heir.take_methods() == ["conversations.history", "chat.postMessage"]
    assert heir.send(heir.queue()) is True
    assert heir.take_methods() == ["chat.postMessage"]


def test_the_search_begins_ten_minutes_before_the_request(harness: SenderHarness) -> None:
    """Ten minutes, as clocks differ; older messages belong to others."""
    made = seed(harness.store)
    row = harness.queue(run_id=made.run_id)
    harness.send(row)
    posted = datetime.fromtimestamp(float(harness.read(row).ts), UTC)
    for seconds, found in ((590, True), (610, False)):
        begun = posted + timedelta(seconds=seconds)
        harness.change_run(made, created_at=begun)
        assert (harness.search.find_post(row) is not None) is found
    assert harness.search.find_post(harness.queue(channel=ANA)) is None


def test_a_card_is_posted_and_updated(harness: SenderHarness) -> None:
    """The row has the revision that it shows; a card that was found is drawn again."""
    made = seed(harness.store)
    card = harness.queue_card(made)
    assert harness.send(card) is True
    assert harness.take_methods() == ["chat.postMessage"]
    first = harness.read(card)
    assert (first.status, first.showing) == (M.SENT, outbox.dump_message_body({made.ids[0]: 1}))
    with harness.store.write() as tx:
        moves.mark_cards_for_redraw(tx, made.plan_id)
    assert harness.send(card) is True
    assert harness.take_methods() == ["chat.update"]
    assert (harness.read(card).status, harness.read(card).shown) == (M.SENT, 2)
    with harness.store.write() as tx:
        set_message(tx, card, status=M.SENDING, ts="", shown=0)
    assert harness.send(card) is True
    now = harness.read(card)
    assert (now.status, now.ts, now.shown) == (M.STALE, first.ts, 0)
    assert not harness.signals.work.is_set()


def test_the_loop_is_woken_by_messages_it_waits_for(harness: SenderHarness) -> None:
    """A request may begin once its first message is posted, and a question be answered."""
    made = seed(harness.store)
    harness.change_run(made, thread_ts="")
    harness.send(harness.queue(run_id=made.run_id))
    assert (made.run().thread_ts, harness.signals.work.is_set()) == ("", False)
    root = harness.queue("root", run_id=made.run_id)
    assert harness.send(root) is True
    assert (harness.signals.work.is_set(), made.run().thread_ts) == (True, harness.read(root).ts)
    harness.signals.work.clear()
    asks = {"calls": made.ids, outbox.QUESTION_KEY: True}
    notice = harness.queue(body={"text": "no question", **asks})
    harness.send(notice)
    assert not harness.signals.work.is_set()
    card = harness.queue("card", plan_id=made.plan_id, run_id=made.run_id, body=asks)
    assert harness.send(card) is True
    assert harness.signals.work.is_set()


def test_a_mark_shows_the_status_of_the_request(harness: SenderHarness) -> None:
    """The old emoji is removed and the new one added; nothing is asked that is so already."""
    thread = harness.slack.person("ben").say(SUPPORT, "a request")
    made = seed(harness.store)
    harness.change_call(made, asked_at=AT)
    mark = harness.queue("mark", run_id=made.run_id, ts=thread, body={"names": []})
    assert harness.send(mark) is True
    assert harness.take_methods() == ["reactions.add"]
    assert outbox.parse_message_body(harness.read(mark)) == {"names": [WAITING]}
    harness.change_call(made, status=CallStatus.REJECTED)
    with harness.store.write() as tx:
        set_message(tx, mark, status=M.STALE)
    harness.slack.faults.fail("reactions.add", "internal_error")
    assert harness.send(mark) is True  # marks hold up no queue
    assert outbox.parse_message_body(harness.read(mark)) == {"names": [WAITING, REJECTED]}
    assert harness.send(mark) is True
    removed = [each for each in harness.take_requests() if each.method == "reactions.remove"]
    assert {each.args["name"] for each in removed} == {WAITING}
    now = harness.read(mark)
    assert (outbox.parse_message_body(now), now.status, now.ts) == (
        {"names": [REJECTED]},
        M.SENT,
        thread,
    )
    with harness.store.write() as tx:
        set_message(tx, mark, status=M.STALE)
    assert harness.send(mark) is True
    assert harness.take_methods() == []


def test_a_request_that_asked_nobody_gets_no_mark(harness: SenderHarness) -> None:
    """An emoji that is already there, or already gone, counts as done."""
    thread = harness.slack.person("ben").say(SUPPORT, "a request")
    made = seed(harness.store)
    mark = harness.queue("mark", run_id=made.run_id, ts=thread, body={"names": []})
    assert harness.send(mark) is True
    assert (harness.take_methods(), harness.read(mark).status) == ([], M.SENT)
    harness.change_call(made, asked_at=AT)
    with harness.store.write() as tx:
        set_message(tx, mark, status=M.STALE)
    harness.slack.faults.fail("reactions.add", "already_reacted")
    assert harness.send(mark) is True
    assert (harness.take_methods(), harness.read(mark).status) == (["reactions.add"], M.SENT)
    with harness.store.write() as tx:
        set_message(tx, mark, status=M.STALE, body='{"names":["eyes"]}')
    harness.slack.faults.fail("reactions.remove", "no_reaction")
    assert harness.send(mark) is True
    assert harness.read(mark).status is M.SENT


@pytest.mark.parametrize(
    ("columns", "link"), [({}, True), ({"channel": "D0BEN"}, False), ({"channel": "C0X"}, None)]
)
def test_a_card_in_another_channel_links_to_its_thread(
    harness: SenderHarness, columns: dict[str, str], link: bool | None
) -> None:
    """Once, unless the thread is a direct message; without it if Slack has no link."""
    made = seed(harness.store)
    thread = harness.slack.person("ben").say(SUPPORT, "a request")
    harness.change_run(made, **{"thread_ts": thread, **columns})
    asks = {"calls": made.ids, **ALONE, "elsewhere": True}
    place = {"channel": "C0FINANCE", "plan_id": made.plan_id, "run_id": made.run_id}
    card = harness.queue("card", body=asks, **place)
    with harness.store.write() as tx:  # meanwhile some approvers are found to be away
        outbox.update_message(tx, card, body=outbox.dump_message_body({**asks, "away": {}}))
    assert harness.sender.send(card) is True
    assert "away" in outbox.parse_message_body(harness.read(card))
    asked = ["chat.postMessage"] if link is False else ["chat.getPermalink", "chat.postMessage"]
    assert harness.take_methods() == asked
    origin = outbox.parse_message_body(harness.read(card)).get("origin")
    assert (bool(origin), origin is None) == (link is True, link is False)
    with_origin = harness.queue("card", body={**asks, "origin": "https://here"}, **place)
    harness.send(with_origin)
    assert harness.take_methods() == ["chat.postMessage"]


def test_a_remembered_post_is_only_stored(harness: SenderHarness) -> None:
    """Then it is forgotten."""
    row = harness.queue()
    harness.memory.remember_post(row.seq, SlackPost("1.7", 1))
    assert harness.send(row) is True
    assert (harness.take_methods(), harness.read(row).status, harness.read(row).ts) == (
        [],
        M.SENT,
        "1.7",
    )
    assert harness.memory.find_post(row.seq) is None


class NoChannelOwned(ChannelOwnership):
    """Another process sends to every channel by now."""

    def is_channel_owned(self, channel: str) -> bool:
        """No."""
        return False


def test_no_message_is_sent_by_two_processes(harness: SenderHarness) -> None:
    """What another process has sent, or sends from now on, is left to it."""
    row = harness.queue()
    stale: Message = harness.read(row)
    with harness.store.write() as tx:
        set_message(tx, row, status=M.SENT)
    assert harness.sender.send(stale) is False
    other = SenderHarness(harness.store, harness.slack, NoChannelOwned())
    waits = other.queue()
    assert other.send(waits) is False
    assert other.take_methods() == []
    assert (other.read(waits).status, other.read(waits).attempts) == (M.SENDING, 0)
