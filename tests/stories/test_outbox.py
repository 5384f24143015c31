"""What the bot says reaches Slack once, in order and truthfully, whatever becomes of the requests
that carry it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import col

from bot.sandbox.web_api.faults import When
from storage import outbox
from storage.models import Message
from storage.states import CallStatus, RunStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    FINANCE,
    GENERAL,
    SUPPORT,
    World,
    action_ids,
    all_sent,
    ask,
    chat,
    now_at,
    showing,
    value_of,
    words,
)

C = CallStatus
Match = Callable[[dict[str, Any]], bool]
Counted = Callable[[str, int], int]


def with_card(args: dict[str, Any]) -> bool:
    """Picks the requests that carry a card."""
    return '"approve"' in str(args.get("blocks")).replace("'", '"')


def having(part: str) -> Match:
    """Picks the requests that have this text anywhere."""
    return lambda args: part in str(args)


@pytest.fixture
def counted(world: World) -> Counted:
    """How many requests of a method were answered with a status since the story began."""
    before = len(world.slack.requests)
    return lambda method, status: [
        r.status for r in world.slack.requests[before:] if r.method == method
    ].count(status)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_post_whose_answer_was_lost(world: World, kit: Kit, counted: Counted, when: When) -> None:
    """The connection is cut before or after the card was posted: there is exactly one card, and it
    can be clicked.
    """
    text = f"answer lost {when}"
    world.slack.faults.drop("chat.postMessage", when, match=with_card)
    thread = ask(world, ("note", {"text": text}))
    world.slack.wait(lambda: counted("chat.postMessage", 0) == 1)
    all_sent(world)
    card = world.card(SUPPORT, thread)
    assert len([m for m in world.thread(SUPPORT, thread) if "approve" in action_ids(m)]) == 1
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    all_sent(world)
    assert kit.did("note", text) == 1
    assert len(showing(world, SUPPORT, thread, "Write a note")) == 1
    assert "approve" not in action_ids(now_at(world, SUPPORT, card["ts"]))


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_whose_receipt_was_lost(world: World, counted: Counted, when: When) -> None:
    """The same for the answer itself: it stands in the thread once."""
    world.slack.faults.drop("chat.postMessage", when, match=having("The one answer."))
    thread = chat(world, "The one answer.")
    world.slack.wait(lambda: counted("chat.postMessage", 0) == 1)
    all_sent(world)
    assert len(showing(world, SUPPORT, thread, "The one answer.")) == 1


def test_slack_has_faults(world: World, kit: Kit, counted: Counted) -> None:
    """After 500 and 503 on post and update each is tried again: one card, and in the end it tells
    the truth (S07).
    """
    for status in (500, 503):
        world.slack.faults.status("chat.postMessage", status, match=with_card)
        world.slack.faults.status("chat.update", status)
    thread = ask(world, ("note", {"text": "through faults"}))
    world.slack.wait(lambda: counted("chat.postMessage", 500) == 1)
    all_sent(world)
    card = world.card(SUPPORT, thread)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: counted("chat.update", 500) == 1)
    all_sent(world)
    assert len(showing(world, SUPPORT, thread, "Write a note")) == 1
    assert "approve" not in action_ids(now_at(world, SUPPORT, card["ts"]))
    assert kit.did("note", "through faults") == 1


def test_rate_limited_posts_keep_their_order(world: World, counted: Counted) -> None:
    """429 with Retry-After on a post: nothing overtakes within the channel, and another channel is
    not held up.
    """
    world.slack.faults.rate_limit(
        "chat.postMessage", retry_after=40, match=having("The earlier words.")
    )
    first = chat(world, "The earlier words.")
    world.slack.wait(lambda: counted("chat.postMessage", 429) == 1)
    second = chat(world, "The later words.")
    world.slack.wait(lambda: world.all(Message, col(Message.body).contains("The later words.")))
    world.said(GENERAL, chat(world, "Elsewhere.", GENERAL), "Elsewhere.")
    world.settle()
    assert not showing(world, SUPPORT, first, "The earlier words.")
    assert not showing(world, SUPPORT, second, "The later words.")
    world.clock.advance(41)
    later = world.said(SUPPORT, second, "The later words.")
    [earlier] = showing(world, SUPPORT, first, "The earlier words.")
    assert float(earlier["ts"]) < float(later["ts"])


def test_rate_limited_updates_keep_their_order(world: World, counted: Counted) -> None:
    """429 on an update: the line about the decision waits for the card; another channel goes on."""
    thread = ask(world, ("note", {"text": "limited"}), answer="All noted down.")
    card = world.card(SUPPORT, thread)
    world.slack.faults.rate_limit("chat.update", retry_after=40)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: counted("chat.update", 429) == 1)
    world.slack.wait(lambda: world.all(Message, col(Message.body).contains("All noted down.")))
    world.said(GENERAL, chat(world, "Not held up.", GENERAL), "Not held up.")
    world.settle()
    assert "approve" in action_ids(now_at(world, SUPPORT, card["ts"]))
    # neither the line about the decision nor the answer
    assert len(showing(world, SUPPORT, thread, "")) == 1
    world.clock.advance(41)
    world.said(SUPPORT, thread, "All noted down.")
    assert "approve" not in action_ids(now_at(world, SUPPORT, card["ts"]))


def test_a_slow_post_blocks_its_own_channel_only(world: World) -> None:
    """While Slack takes its time over one channel, another one is answered."""
    hold = world.slack.faults.hold("chat.postMessage", match=having("Slowly."))
    slow = chat(world, "Slowly.")
    assert hold.arrived.wait(20)
    world.said(GENERAL, chat(world, "Meanwhile.", GENERAL), "Meanwhile.")
    assert not showing(world, SUPPORT, slow, "Slowly.")
    hold.release()
    world.said(SUPPORT, slow, "Slowly.")


def test_a_card_for_an_archived_channel_fails_closed(world: World) -> None:
    """Its channel is archived: what nobody could see is not done, and the thread and the model hear
    so (S05).
    """
    world.slack.archive(FINANCE)
    try:
        thread = ask(
            world,
            ("cancel_order", {"order_id": 1043, "reason": "S05"}),
            answer="It was not cancelled.",
        )
        world.said(SUPPORT, thread, "could not show this to its approvers")
        world.said(SUPPORT, thread, "It was not cancelled.")
    finally:
        with world.slack.world.lock:
            world.slack.world.channel(FINANCE).is_archived = False
    [call] = world.calls_in(thread)
    assert call.status is C.CANCELLED
    assert world.outputs()[-1]["output"].startswith("CANCELLED")
    assert world.run_in(thread).status is RunStatus.COMPLETED


def test_the_bot_is_taken_out_of_the_channel(world: World, kit: Kit) -> None:
    """The card can no longer be posted where it was asked for: fails closed, the requester hears in
    a DM (S05, S13).
    """
    hold = world.slack.faults.hold("chat.postMessage", match=with_card)
    thread = ask(world, ("note", {"text": "kicked"}), who="ana", channel=FINANCE)
    assert hold.arrived.wait(20)
    world.slack.kick_bot(FINANCE)
    try:
        hold.release()
        ana = world.person("ana")
        unseen = "could not show this to its approvers"
        world.slack.wait(lambda: [m for m in ana.messages(ana.dm_channel) if unseen in words(m)])
        world.slack.wait(lambda: world.run_in(thread).status is RunStatus.COMPLETED)
        all_sent(world)
    finally:
        world.slack.invite_bot(FINANCE)
    assert world.calls_in(thread)[0].status is C.CANCELLED
    assert kit.did("note", "kicked") == 0


def test_a_deleted_card_comes_back(world: World, kit: Kit) -> None:
    """Someone deletes the card: a click still on its way counts, and the rest is asked in a new
    card (S08).
    """
    thread = ask(world, ("note", {"text": "kept"}), ("note", {"text": "also kept"}))
    card = world.card(SUPPORT, thread)
    world.slack.delete_message(SUPPORT, card["ts"])
    world.person("ana").click(
        SUPPORT, card["ts"], "approve", value=value_of(card, "approve"), seen=card
    )
    again = world.card(SUPPORT, thread)
    assert again["ts"] != card["ts"]
    world.person("cleo").click(SUPPORT, again["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    all_sent(world)
    assert [c.status for c in world.calls_in(thread)] == [C.SUCCEEDED, C.SUCCEEDED]
    assert kit.did("note", "kept") == kit.did("note", "also kept") == 1
    assert len(showing(world, SUPPORT, thread, "Write a note")) == 1


def test_a_message_that_cannot_be_drawn_is_set_aside(world: World) -> None:
    """A corrupt row in the outbox fails alone; what comes after it in the channel is said (D06)."""
    with world.app.core.store.write() as tx:
        outbox.put(tx, Message(key="bad", kind="card", channel=SUPPORT, body="{"))
    thread = chat(world, "After the corrupt one.")
    world.slack.wait(
        lambda: world.all(Message, col(Message.body).contains("After the corrupt one."))
    )
    all_sent(world)
    assert showing(world, SUPPORT, thread, "After the corrupt one.")
    [bad] = world.all(Message, Message.key == "bad")
    assert bad.status == "failed"
