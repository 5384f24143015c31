"""A tool that finds that what it showed no longer holds does nothing, and people are asked again."""

from __future__ import annotations

from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, World, action_ids, all_sent, ask, now_at, words

C = CallStatus


def test_what_changed_is_asked_again(world: World, kit: Kit) -> None:
    """It did nothing, its card gives way to one that shows what is there now, and that runs once
    approved (B01).
    """
    thread = ask(world, ("empty", {"text": "history"}))
    old = world.card(SUPPORT, thread)
    assert "3 books stand on history" in words(old)
    kit.shelf = 5
    world.person("ana").click(SUPPORT, old["ts"], "approve")
    new = world.slack.wait(
        lambda: next(
            (m for m in world.thread(SUPPORT, thread) if "5 books stand" in words(m)), None
        )
    )
    assert kit.did("empty", "history") == 0
    [call] = world.calls_in(thread)
    assert (call.status, call.revision) == (C.PENDING, 2)
    all_sent(world)
    assert "approve" not in action_ids(now_at(world, SUPPORT, old["ts"]))
    assert "asked again in another message" in words(now_at(world, SUPPORT, old["ts"]))
    assert "There are 5 books now, not 3." in words(now_at(world, SUPPORT, new["ts"]))
    # an old copy of the card decides nothing
    world.person("ana").click(SUPPORT, old["ts"], "approve", seen=old)
    world.settle()
    assert world.calls_in(thread)[0].status is C.PENDING
    world.person("ana").click(SUPPORT, new["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    [call] = world.calls_in(thread)
    assert call.status is C.SUCCEEDED
    assert kit.did("empty", "history") == 1
    assert "emptied history of 5" in world.outputs()[0]["output"]
    assert world.audit_of(call).count("call.running") == 2


def test_what_was_expected_is_part_of_the_digest(world: World, kit: Kit) -> None:
    """The same arguments under another expectation are another call: altered in storage, it does
    not run.
    """
    thread = ask(world, ("empty", {"text": "poetry"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    [call] = world.calls_in(thread)
    with world.app.core.store.write() as tx:
        tx.exec_driver_sql("UPDATE call SET expects = '' WHERE id = ?", (call.id,))
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    assert world.calls_in(thread)[0].status is C.INVALIDATED
    assert kit.did("empty", "poetry") == 0


def test_cancelled_meanwhile(world: World, kit: Kit) -> None:
    """A request that is over asks nobody again: the call has failed, and nothing was done."""
    thread = ask(world, ("empty", {"text": "slowly"}))
    card = world.card(SUPPORT, thread)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    assert kit.entered.wait(10)
    kit.shelf += 1
    world.person("ben").say(SUPPORT, "cancel", thread)
    world.slack.wait(lambda: world.run_in(thread).status == "cancelled")
    kit.go_on.set()
    world.slack.wait(lambda: world.calls_in(thread)[0].status is C.FAILED)
    assert "Nothing was done" in world.calls_in(thread)[0].output
    assert kit.did("empty", "slowly") == 0
