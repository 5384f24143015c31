"""What the sender asks of Slack for each kind of message, and what the row says then."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from bot.slack.pace import ChannelOwnership
from bot.slack.posting import SlackPost
from slack_sandbox.web_api.faults import When
from storage import moves, outbox
from storage.models import Message
from storage.states import CallStatus, MessageStatus
from tests.runs.fakes import ANA
from tests.slack.post_office import ALONE, SUPPORT, PostOffice
from tests.storage.builders import AT, seed, set_message

M = MessageStatus
WAITS, REJECTED = "hourglass_flowing_sand", "no_entry_sign"


def test_a_line_is_posted_with_its_key(office: PostOffice) -> None:
    """Once, without previews of its links, and its row says where it stands."""
    row = office.put(body={"text": "as it is"})
    assert office.send(row) is True
    [call] = office.asked()
    assert (call.method, call.args["channel"]) == ("chat.postMessage", SUPPORT)
    assert call.args["metadata"]["event_payload"] == {"key": row.key}
    assert (call.args["unfurl_links"], call.args["unfurl_media"]) == (False, False)
    assert not call.args.get("thread_ts")
    assert call.args["blocks"]
    now = office.now(row)
    assert (now.status, now.shown) == (M.SENT, 1)
    assert office.seen(now.ts) == ["as it is"]
    assert not office.signals.work.is_set()


def test_a_private_line_stands_where_it_belongs(office: PostOffice) -> None:
    """In the channel, and in a thread only where the bot has said something there."""
    thread = office.slack.person("ben").say(SUPPORT, "a request")
    private = {"kind": "private", "recipient": ANA, "thread_ts": thread}
    first = office.put(**private)
    assert office.send(first) is True
    office.send(office.put(thread_ts=thread))
    assert office.send(office.put(**private)) is True
    before, reply, after = office.asked()
    assert [each.method for each in (before, after)] == ["chat.postEphemeral"] * 2
    assert (reply.args["thread_ts"], after.args["thread_ts"]) == (thread, thread)
    assert not before.args.get("thread_ts")
    assert (before.args["user"], office.now(first).status, office.now(first).ts) == (
        ANA,
        M.SENT,
        "",
    )


def test_a_private_line_that_cannot_stand_there(office: PostOffice) -> None:
    """It comes in a direct message; where Slack has faults it is tried there again."""
    office.slack.faults.fail("chat.postEphemeral", "user_not_in_channel")
    there, direct = office.put("private", recipient=ANA), office.put("private", recipient=ANA)
    for _ in range(3):
        assert office.send(there) is True
    opened = ["conversations.open", "chat.postMessage"]
    assert office.methods() == ["chat.postEphemeral", *opened]
    with office.store.write() as tx:
        outbox.update_message(tx, direct, channel=ANA)
    for _ in range(2):
        assert office.send(direct) is True
    assert office.methods() == opened
    assert office.seen(office.now(direct).ts, channel=office.now(direct).channel)
    office.slack.faults.fail("chat.postEphemeral", "ratelimited")
    late = office.put("private", recipient=ANA)
    assert office.send(late) is False
    assert (office.methods(), office.now(late).status) == (["chat.postEphemeral"], M.PENDING)


def test_a_private_line_for_nobody_is_given_up(office: PostOffice) -> None:
    """An id that is no person's leads to no direct message: it is not tried for ever."""
    row = office.put("private", recipient=":")
    for _ in range(2):
        assert office.send(office.now(row)) is True
    now = office.now(row)
    assert (now.status, now.channel) == (M.FAILED, ":")


@pytest.mark.parametrize("when", ["before", "after"])
def test_private_words_whose_answer_was_lost(office: PostOffice, when: When) -> None:
    """They are not said again: who may not have seen them is pointed to the card, once."""
    made = seed(office.store)
    card = office.card(made)
    office.send(card)
    ts = office.now(card).ts
    office.asked()
    row = office.put("private", recipient=ANA, thread_ts=ts)
    office.slack.faults.drop("chat.postEphemeral", when)
    assert office.send(row) is False
    assert office.now(row).status is M.SENDING
    office.asked()
    office.slack.faults.drop("chat.postEphemeral", when)
    assert office.send(row) is False
    assert office.send(row) is True
    assert office.now(row).status is M.SENT
    link, pointer = office.asked()
    assert (link.method, pointer.method) == ("chat.getPermalink", "chat.postEphemeral")
    assert "this card" in str(pointer.args["text"])
    assert str(link.args["message_ts"]) == ts


def test_private_words_are_stored_as_being_said_first(office: PostOffice) -> None:
    """While Slack is at work on them a crash finds them so, on the disk."""
    hold = office.slack.faults.hold("chat.postEphemeral")
    row = office.put("private", recipient=ANA)
    sending = threading.Thread(target=office.send, args=(row,))
    sending.start()
    assert hold.arrived.wait(30)
    assert office.now(row).status is M.SENDING
    hold.release()
    sending.join(30)
    assert office.now(row).status is M.SENT


def test_private_words_after_a_restart(office: PostOffice) -> None:
    """They stand in the thread in which the bot has posted in an earlier life."""
    thread = office.slack.person("ben").say(SUPPORT, "a request of yesterday")
    made = seed(office.store)
    office.change_run(made, thread_ts=thread)
    office.send(office.put(run_id=made.run_id, thread_ts=thread))
    office.client._posts.clear()  # what a new process remembers
    office.asked()
    row = office.put("private", recipient=ANA, thread_ts=thread)
    assert office.send(row) is True
    [call] = office.asked()
    assert call.args["thread_ts"] == thread


def test_what_another_life_was_posting(office: PostOffice) -> None:
    """It is left alone for as long as Slack may be at work on it, then looked for, then posted;
    and looked for once more later, when one that came late is removed.
    """
    made = seed(office.store)
    row = office.card(made)
    with office.store.write() as tx:
        set_message(tx, row, status=M.SENDING)
    assert office.send(row) is False
    assert office.due_in(row) == 15.0
    office.clock.at += timedelta(seconds=15)
    assert office.send(row) is True
    ts = office.now(row).ts
    late = office.client.chat_postMessage(
        channel=SUPPORT,
        text="the same card, late",
        metadata={"event_type": "countersign", "event_payload": {"key": row.key}},
    )["ts"]
    assert office.memory.pop_due_duplicate_searches(office.clock.now()) == []
    office.clock.at += timedelta(seconds=30)
    assert office.memory.pop_due_duplicate_searches(office.clock.now()) == [row.key]
    office.sender.delete_duplicate_messages(row.key)
    assert office.seen(ts)
    assert not office.seen(late)
    assert office.memory.find_next_due_time(office.clock.now()) is None


def test_what_another_life_has_posted(office: PostOffice) -> None:
    """It is found at once, and nothing waits."""
    row = office.put()
    office.slack.faults.drop("chat.postMessage", "after")
    assert office.send(row) is False
    office.sender._begun.clear()  # what a new process remembers
    assert office.send(row) is True
    assert office.seen(office.now(row).ts) == [f"words of {row.key}"]


def test_words_to_a_person_begin_with_opening_it(office: PostOffice) -> None:
    """Their direct message is opened first; it is posted from there, in that channel's lane."""
    for kind, body in (("notice", {"text": "to Ana"}), ("file", FILE)):
        row = office.put(kind, channel=ANA, body=body)
        assert office.send(row) is True
        assert office.methods() == ["conversations.open"]
        assert (office.now(row).status, office.now(row).channel[0]) == (M.PENDING, "D")
        assert office.send(row) is True
        assert office.now(row).status is M.SENT
        office.asked()


FILE = {"name": "rows.csv", "title": "Rows", "content": "a,b\n1,2\n"}


def test_a_file_is_put_there_once(office: PostOffice) -> None:
    """Where its answer was lost it is found by its name, and not put there again."""
    row = office.put("file", body={**FILE, "name": "once.csv"})
    assert office.send(row) is True
    asked = office.asked()
    assert asked[0].method == "files.getUploadURLExternal"
    assert not asked[-1].args.get("thread_ts")
    assert (office.now(row).status, office.now(row).ts) == (M.SENT, "")
    with office.store.write() as tx:
        set_message(tx, row, status=M.SENDING, ts="")
    assert office.send(row) is True
    assert office.methods() == ["conversations.history"]
    assert office.now(row).ts != ""
    thread = office.slack.person("ben").say(SUPPORT, "a request")
    columns = {"status": M.SENDING, "thread_ts": thread}
    other = office.put("file", body={**FILE, "name": "other.csv"}, **columns)
    assert office.send(other) is False
    office.clock.at += timedelta(seconds=15)
    assert office.send(other) is True
    last = office.asked()[-1]
    assert (last.method, last.args["thread_ts"]) == ("files.completeUploadExternal", thread)


@pytest.mark.parametrize("in_thread", [True, False])
def test_what_may_stand_there_is_looked_for(office: PostOffice, in_thread: bool) -> None:
    """By its key; where it is not there it is posted, and what is new is not looked for."""
    thread = office.slack.person("ben").say(SUPPORT, "a request") if in_thread else ""
    row = office.put(thread_ts=thread, wanted=3)
    office.send(row)
    assert office.methods() == ["chat.postMessage"]
    ts = office.now(row).ts
    with office.store.write() as tx:
        set_message(tx, row, status=M.SENDING, ts="", shown=0)
    assert office.send(row) is True
    asked = "conversations.replies" if in_thread else "conversations.history"
    assert office.methods() == [asked]
    now = office.now(row)
    assert (now.status, now.ts, now.shown) == (M.SENT, ts, 3)
    lost = office.put(thread_ts=thread, status=M.SENDING)
    assert office.send(lost) is False
    office.clock.at += timedelta(seconds=15)
    assert office.send(lost) is True
    assert office.methods() == [asked, asked, "chat.postMessage"]


def test_what_was_there_before_is_looked_for(office: PostOffice) -> None:
    """A process before this one may have posted it, and lost that with the power."""
    row = office.put()
    heir = PostOffice(office.store, office.slack)
    assert heir.send(row) is True
    assert heir.methods() == ["conversations.history", "chat.postMessage"]
    assert heir.send(heir.put()) is True
    assert heir.methods() == ["chat.postMessage"]


def test_how_far_back_it_is_looked_for(office: PostOffice) -> None:
    """From ten minutes before its request on, for clocks differ; what is older is another's."""
    made = seed(office.store)
    row = office.put(run_id=made.run_id)
    office.send(row)
    posted = datetime.fromtimestamp(float(office.now(row).ts), UTC)
    for seconds, found in ((590, True), (610, False)):
        begun = posted + timedelta(seconds=seconds)
        office.change_run(made, created_at=begun)
        assert (office.search.find_post(row) is not None) is found
    assert office.search.find_post(office.put(channel=ANA)) is None


def test_a_card_is_posted_and_drawn_again(office: PostOffice) -> None:
    """As its calls stand; which revision it shows is written down; one found is drawn anew."""
    made = seed(office.store)
    card = office.card(made)
    assert office.send(card) is True
    assert office.methods() == ["chat.postMessage"]
    first = office.now(card)
    assert (first.status, first.showing) == (M.SENT, outbox.dump_message_body({made.ids[0]: 1}))
    with office.store.write() as tx:
        moves.mark_cards_for_redraw(tx, made.plan_id)
    assert office.send(card) is True
    assert office.methods() == ["chat.update"]
    assert (office.now(card).status, office.now(card).shown) == (M.SENT, 2)
    with office.store.write() as tx:
        set_message(tx, card, status=M.SENDING, ts="", shown=0)
    assert office.send(card) is True
    now = office.now(card)
    assert (now.status, now.ts, now.shown) == (M.STALE, first.ts, 0)
    assert not office.signals.work.is_set()


def test_who_waits_for_a_message_is_woken(office: PostOffice) -> None:
    """A request whose first message stands may begin, and a reply to a question may have come."""
    made = seed(office.store)
    office.change_run(made, thread_ts="")
    office.send(office.put(run_id=made.run_id))
    assert (made.run().thread_ts, office.signals.work.is_set()) == ("", False)
    root = office.put("root", run_id=made.run_id)
    assert office.send(root) is True
    assert (office.signals.work.is_set(), made.run().thread_ts) == (True, office.now(root).ts)
    office.signals.work.clear()
    asks = {"calls": made.ids, outbox.QUESTION_KEY: True}
    notice = office.put(body={"text": "no question", **asks})
    office.send(notice)
    assert not office.signals.work.is_set()
    card = office.put("card", plan_id=made.plan_id, run_id=made.run_id, body=asks)
    assert office.send(card) is True
    assert office.signals.work.is_set()


def test_a_mark_says_how_the_request_stands(office: PostOffice) -> None:
    """The old one is taken off, the new one put on, and nothing is asked that is so already."""
    thread = office.slack.person("ben").say(SUPPORT, "a request")
    made = seed(office.store)
    office.change(made, asked_at=AT)
    mark = office.put("mark", run_id=made.run_id, ts=thread, body={"names": []})
    assert office.send(mark) is True
    assert office.methods() == ["reactions.add"]
    assert outbox.parse_message_body(office.now(mark)) == {"names": [WAITS]}
    office.change(made, status=CallStatus.REJECTED)
    with office.store.write() as tx:
        set_message(tx, mark, status=M.STALE)
    office.slack.faults.fail("reactions.add", "internal_error")
    assert office.send(mark) is True  # nobody waits for a mark
    assert outbox.parse_message_body(office.now(mark)) == {"names": [WAITS, REJECTED]}
    assert office.send(mark) is True
    removed = [each for each in office.asked() if each.method == "reactions.remove"]
    assert {each.args["name"] for each in removed} == {WAITS}
    now = office.now(mark)
    assert (outbox.parse_message_body(now), now.status, now.ts) == (
        {"names": [REJECTED]},
        M.SENT,
        thread,
    )
    with office.store.write() as tx:
        set_message(tx, mark, status=M.STALE)
    assert office.send(mark) is True
    assert office.methods() == []


def test_nothing_to_mark_is_nothing_to_say(office: PostOffice) -> None:
    """A request that asked nobody wears nothing; what stands there already is as good as put."""
    thread = office.slack.person("ben").say(SUPPORT, "a request")
    made = seed(office.store)
    mark = office.put("mark", run_id=made.run_id, ts=thread, body={"names": []})
    assert office.send(mark) is True
    assert (office.methods(), office.now(mark).status) == ([], M.SENT)
    office.change(made, asked_at=AT)
    with office.store.write() as tx:
        set_message(tx, mark, status=M.STALE)
    office.slack.faults.fail("reactions.add", "already_reacted")
    assert office.send(mark) is True
    assert (office.methods(), office.now(mark).status) == (["reactions.add"], M.SENT)
    with office.store.write() as tx:
        set_message(tx, mark, status=M.STALE, body='{"names":["eyes"]}')
    office.slack.faults.fail("reactions.remove", "no_reaction")
    assert office.send(mark) is True
    assert office.now(mark).status is M.SENT


@pytest.mark.parametrize(
    ("columns", "link"), [({}, True), ({"channel": "D0BEN"}, False), ({"channel": "C0X"}, None)]
)
def test_a_card_elsewhere_links_back(
    office: PostOffice, columns: dict[str, str], link: bool | None
) -> None:
    """Once, to the thread where it was asked, unless that is between two; without it where Slack
    says none.
    """
    made = seed(office.store)
    thread = office.slack.person("ben").say(SUPPORT, "a request")
    office.change_run(made, **{"thread_ts": thread, **columns})
    asks = {"calls": made.ids, **ALONE, "elsewhere": True}
    place = {"channel": "C0FINANCE", "plan_id": made.plan_id, "run_id": made.run_id}
    card = office.put("card", body=asks, **place)
    with office.store.write() as tx:  # some of its approvers are found to be away meanwhile
        outbox.update_message(tx, card, body=outbox.dump_message_body({**asks, "away": {}}))
    assert office.sender.send(card) is True
    assert "away" in outbox.parse_message_body(office.now(card))
    asked = ["chat.postMessage"] if link is False else ["chat.getPermalink", "chat.postMessage"]
    assert office.methods() == asked
    origin = outbox.parse_message_body(office.now(card)).get("origin")
    assert (bool(origin), origin is None) == (link is True, link is False)
    with_origin = office.put("card", body={**asks, "origin": "https://here"}, **place)
    office.send(with_origin)
    assert office.methods() == ["chat.postMessage"]


def test_what_stands_and_could_not_be_stored(office: PostOffice) -> None:
    """It is only stored then, and forgotten once that is done."""
    row = office.put()
    office.memory.remember_post(row.seq, SlackPost("1.7", 1))
    assert office.send(row) is True
    assert (office.methods(), office.now(row).status, office.now(row).ts) == ([], M.SENT, "1.7")
    assert office.memory.find_post(row.seq) is None


class Elsewhere(ChannelOwnership):
    """Another process sends by now."""

    def is_channel_owned(self, channel: str) -> bool:
        """To all of them."""
        return False


def test_nothing_is_sent_by_two(office: PostOffice) -> None:
    """What another one has sent meanwhile, or sends from now on, is left to it."""
    row = office.put()
    stale: Message = office.now(row)
    with office.store.write() as tx:
        set_message(tx, row, status=M.SENT)
    assert office.sender.send(stale) is False
    other = PostOffice(office.store, office.slack, Elsewhere())
    waits = other.put()
    assert other.send(waits) is False
    assert other.methods() == []
    assert (other.now(waits).status, other.now(waits).attempts) == (M.SENDING, 0)
