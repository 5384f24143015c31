"""The bot's messages reach Slack once and in order, whatever requests fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from sqlmodel import col

from bot.demo.model_server import Turn
from slack_sandbox.web_api.faults import When
from storage import outbox
from storage.models import Message
from storage.states import MESSAGE_OPEN_STATUSES, CallStatus, MessageStatus, RunStatus
from storage.transaction import fetch_rows
from tests.records import store_of
from tests.storage.builders import set_message
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, GENERAL, SUPPORT, Harness
from tests.stories.messages import action_ids, having, value_of, words
from tests.stories.steps import all_sent, ask, chat, now_at, showing, told

C = CallStatus
Match = Callable[[dict[str, Any]], bool]
Counted = Callable[[str, int], int]


def with_card(args: dict[str, Any]) -> bool:
    """Whether a request to Slack carries a card."""
    return '"approve"' in str(args.get("blocks")).replace("'", '"')


@pytest.fixture
def counted(harness: Harness) -> Counted:
    """Counts requests of a method that were answered with a status since the story began."""
    before = len(harness.slack.requests)
    return lambda method, status: [
        r.status for r in harness.slack.requests[before:] if r.method == method
    ].count(status)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_post_whose_answer_was_lost(
    harness: Harness, fakes: FakeTools, counted: Counted, when: When
) -> None:
    """The connection is cut before or after the card was posted: there is one card, which works."""
    text = f"answer lost {when}"
    harness.slack.faults.drop("chat.postMessage", when, match=with_card)
    thread = ask(harness, ("note", {"text": text}))
    harness.slack.wait(lambda: counted("chat.postMessage", 0) == 1)
    all_sent(harness)
    card = harness.card(SUPPORT, thread)
    assert len([m for m in harness.thread(SUPPORT, thread) if "approve" in action_ids(m)]) == 1
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert fakes.did("note", text) == 1
    assert len(showing(harness, SUPPORT, thread, "Approved by")) == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_is_posted_once_if_the_connection_was_cut(
    harness: Harness, counted: Counted, when: When
) -> None:
    """Cut before or after Slack posted the model's answer."""
    harness.slack.faults.drop("chat.postMessage", when, match=having("The one answer."))
    thread = chat(harness, "The one answer.")
    harness.slack.wait(lambda: counted("chat.postMessage", 0) == 1)
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "The one answer.")) == 1


def test_a_card_is_posted_and_updated_despite_server_errors(
    harness: Harness, fakes: FakeTools, counted: Counted
) -> None:
    """After 500 and 503 posts and updates are tried again; there is one card, up to date."""
    for status in (500, 503):
        harness.slack.faults.status("chat.postMessage", status, match=with_card)
        harness.slack.faults.status("chat.update", status, match=having("through faults"))
    thread = ask(harness, ("note", {"text": "through faults"}))
    harness.slack.wait(lambda: counted("chat.postMessage", 500) == 1)
    all_sent(harness)
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: counted("chat.update", 500) == 1)
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "Approved by")) == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert fakes.did("note", "through faults") == 1


def test_rate_limited_posts_keep_their_order(harness: Harness, counted: Counted) -> None:
    """After 429 with Retry-After a later message of the channel waits; other channels go on."""
    harness.slack.faults.rate_limit(
        "chat.postMessage", retry_after=40, match=having("The earlier words.")
    )
    first = chat(harness, "The earlier words.")
    harness.slack.wait(lambda: counted("chat.postMessage", 429) == 1)
    second = chat(harness, "The later words.")
    harness.slack.wait(lambda: harness.all(Message, col(Message.body).contains("The later words.")))
    harness.said(GENERAL, chat(harness, "Elsewhere.", GENERAL), "Elsewhere.")
    harness.settle()
    assert not showing(harness, SUPPORT, first, "The earlier words.")
    assert not showing(harness, SUPPORT, second, "The later words.")
    harness.clock.advance(41)
    later = harness.said(SUPPORT, second, "The later words.")
    [earlier] = showing(harness, SUPPORT, first, "The earlier words.")
    assert float(earlier["ts"]) < float(later["ts"])


def test_rate_limited_updates_keep_their_order(harness: Harness, counted: Counted) -> None:
    """After 429 on a card's update the answer below it waits; another channel goes on."""
    thread = ask(harness, ("note", {"text": "limited"}), answer="All noted down.")
    card = harness.card(SUPPORT, thread)
    harness.slack.faults.rate_limit("chat.update", retry_after=40, match=having(card["ts"]))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: counted("chat.update", 429) == 1)
    harness.slack.wait(lambda: harness.all(Message, col(Message.body).contains("All noted down.")))
    harness.said(GENERAL, chat(harness, "Not held up.", GENERAL), "Not held up.")
    harness.settle()
    assert "approve" in action_ids(now_at(harness, SUPPORT, card["ts"]))
    # neither the line about the decision nor the answer
    assert len(showing(harness, SUPPORT, thread, "")) == 1
    harness.clock.advance(41)
    harness.said(SUPPORT, thread, "All noted down.")
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))


def test_a_rate_limited_update_holds_up_only_its_own_thread(
    harness: Harness, counted: Counted
) -> None:
    """Other threads of the channel are answered, and so are private replies."""
    thread = ask(harness, ("note", {"text": "held up"}), answer="Told last.")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.slack.faults.rate_limit("chat.update", retry_after=40)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: counted("chat.update", 429) == 1)
    harness.slack.wait(lambda: harness.all(Message, col(Message.body).contains("Told last.")))
    other = chat(harness, "Told meanwhile.", who="dan")
    harness.said(SUPPORT, other, "Told meanwhile.")
    harness.person("dan").say(SUPPORT, "@bot cancel", other)
    told(harness, "dan", SUPPORT, other, "nothing to cancel")
    assert not showing(harness, SUPPORT, thread, "Told last.")
    harness.clock.advance(41)
    harness.said(SUPPORT, thread, "Told last.")
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert counted("chat.update", 429) == 1


def test_a_rate_limit_holds_for_the_method_in_all_channels(
    harness: Harness, counted: Counted
) -> None:
    """After 429 on a card's update another channel's card waits too; posts do not."""
    asked = []
    for place in (SUPPORT, GENERAL):
        harness.planner.script(Turn(calls=[("note", {"text": place})]))
        thread = harness.person("ben").say(place, "@bot please")
        asked.append((place, thread, harness.card(place, thread)["ts"]))
    all_sent(harness)
    harness.planner.script(*[Turn(text="That is all.")] * 2)
    harness.slack.faults.rate_limit("chat.update", retry_after=40)
    for place, thread, card in asked:
        harness.person("ana").click(place, card, "approve")
        harness.slack.wait(lambda: counted("chat.update", 429) == 1)
        harness.slack.wait(lambda ts=thread: harness.run_in(ts).status is RunStatus.COMPLETED)
    other = chat(harness, "Elsewhere.", FINANCE, who="cleo")
    harness.said(FINANCE, other, "Elsewhere.", "cleo")
    assert [counted("chat.update", status) for status in (429, 200)] == [1, 0]
    harness.clock.advance(41)
    for place, thread, _ in asked:
        harness.said(place, thread, "That is all.")
    all_sent(harness)
    assert counted("chat.update", 429) == 1


def test_a_slow_post_holds_up_only_its_own_channel(harness: Harness) -> None:
    """While Slack holds a post to one channel, another channel is answered."""
    hold = harness.slack.faults.hold("chat.postMessage", match=having("Slowly."))
    slow = chat(harness, "Slowly.")
    assert hold.arrived.wait(20)
    harness.said(GENERAL, chat(harness, "Meanwhile.", GENERAL), "Meanwhile.")
    assert not showing(harness, SUPPORT, slow, "Slowly.")
    hold.release()
    harness.said(SUPPORT, slow, "Slowly.")


def test_a_message_queued_while_its_channel_was_busy_is_sent(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender, woken by the end of a channel's queue, finds the channel free at once."""
    post, looks = harness.app.core.signals.outbox, threading.Event()
    notify = post.notify

    def notify_and_wait() -> None:
        notify()
        looks.wait(0.05)

    held = harness.slack.faults.hold("chat.postMessage")
    first = chat(harness, "the first")
    assert held.arrived.wait(30)
    second = chat(harness, "the second")
    harness.slack.wait(lambda: len(find_unsent(harness)) == 2)
    monkeypatch.setattr(post, "notify", notify_and_wait)
    held.release()
    harness.said(SUPPORT, first, "the first")
    harness.said(SUPPORT, second, "the second")


def find_unsent(harness: Harness) -> list[Message]:
    return harness.all(Message, col(Message.status).in_(MESSAGE_OPEN_STATUSES))


def test_a_card_for_an_archived_channel_fails_closed(harness: Harness) -> None:
    """Nobody could see its card, so the call is cancelled.

    The thread and the model are told.
    """
    harness.slack.archive(FINANCE)
    try:
        thread = ask(
            harness,
            ("cancel_order", {"order_id": 1043, "reason": "ordered twice"}),
            answer="It was not cancelled.",
        )
        harness.said(SUPPORT, thread, "could not show this to its approvers")
        harness.said(SUPPORT, thread, "It was not cancelled.")
    finally:
        with harness.slack.world.lock:
            harness.slack.world.channel(FINANCE).is_archived = False
    [call] = harness.calls_in(thread)
    assert call.status is C.CANCELLED
    assert harness.outputs()[-1]["output"].startswith("CANCELLED")
    assert harness.run_in(thread).status is RunStatus.COMPLETED


def test_a_card_fails_closed_if_the_bot_is_removed_from_the_channel(
    harness: Harness, fakes: FakeTools
) -> None:
    """Its call is cancelled, and the requester is told in a direct message."""
    hold = harness.slack.faults.hold("chat.postMessage", match=with_card)
    thread = ask(harness, ("note", {"text": "kicked"}), who="ana", channel=FINANCE)
    assert hold.arrived.wait(20)
    harness.slack.kick_bot(FINANCE)
    try:
        hold.release()
        ana = harness.person("ana")
        unseen = "could not show this to its approvers"
        harness.slack.wait(lambda: [m for m in ana.messages(ana.dm_channel) if unseen in words(m)])
        harness.slack.wait(lambda: harness.run_in(thread).status is RunStatus.COMPLETED)
        all_sent(harness)
    finally:
        harness.slack.invite_bot(FINANCE)
    assert harness.calls_in(thread)[0].status is C.CANCELLED
    assert fakes.did("note", "kicked") == 0


def test_a_deleted_card_is_posted_again(harness: Harness, fakes: FakeTools) -> None:
    """A click on the deleted card still counts, and a new card asks for the rest."""
    thread = ask(harness, ("note", {"text": "kept"}), ("note", {"text": "also kept"}))
    card = harness.card(SUPPORT, thread)
    harness.slack.delete_message(SUPPORT, card["ts"])
    harness.person("ana").click(
        SUPPORT, card["ts"], "approve", value=value_of(card, "approve"), seen=card
    )
    new_card = harness.card(SUPPORT, thread)
    assert new_card["ts"] != card["ts"]
    other = value_of(card, "approve", 1)  # the new card may not show the first vote yet
    harness.person("cleo").click(SUPPORT, new_card["ts"], "approve", value=other)
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert [c.status for c in harness.calls_in(thread)] == [C.SUCCEEDED, C.SUCCEEDED]
    assert fakes.did("note", "kept") == fakes.did("note", "also kept") == 1
    assert len(showing(harness, SUPPORT, thread, "Approved by")) == 1


@pytest.mark.file
def test_a_card_whose_posting_was_forgotten_is_adopted(harness: Harness, fakes: FakeTools) -> None:
    """A power failure lost the row's states *sending* and *sent*: no second card is posted.

    The one in Slack is adopted, and its buttons work.
    """
    thread = ask(harness, ("note", {"text": "forgotten"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.app.stop()
    store = store_of(harness.folder / "countersign.db").open()
    with store.write() as tx:
        [row] = fetch_rows(tx, Message, select(Message).where(col(Message.ts) == card["ts"]))
        set_message(tx, row, status=MessageStatus.PENDING, ts="", shown=0)
    store.close()
    harness.start()
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "Approvers: ")) == 1
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert fakes.did("note", "forgotten") == 1
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))


def test_a_message_that_cannot_be_drawn_is_set_aside(harness: Harness) -> None:
    """A corrupt row in the outbox fails alone; the channel's next message is sent."""
    with harness.app.core.store.write() as tx:
        outbox.queue_message(tx, Message(key="bad", kind="card", channel=SUPPORT, body="{"))
    thread = chat(harness, "After the corrupt one.")
    harness.slack.wait(
        lambda: harness.all(Message, col(Message.body).contains("After the corrupt one."))
    )
    all_sent(harness)
    assert showing(harness, SUPPORT, thread, "After the corrupt one.")
    [bad] = harness.all(Message, Message.key == "bad")
    assert bad.status == "failed"
