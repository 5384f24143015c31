"""A call whose preview no longer holds does nothing, and people are asked again."""

from __future__ import annotations

from sqlalchemy import update
from sqlmodel import col

from storage.models import Call
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, ask, noted, now_at

C = CallStatus


def test_a_call_is_asked_again_if_its_preview_changed(harness: Harness, fakes: FakeTools) -> None:
    """Another card shows what is there now; the call runs once that one is approved."""
    thread = ask(harness, ("empty", {"text": "history"}))
    old = harness.card(SUPPORT, thread)
    assert "3 books stand on history" in words(old)
    fakes.shelf = 5
    harness.person("ana").click(SUPPORT, old["ts"], "approve")
    new = harness.slack.wait(
        lambda: next(
            (m for m in harness.thread(SUPPORT, thread) if "5 books stand" in words(m)), None
        )
    )
    assert fakes.did("empty", "history") == 0
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision) == (C.PENDING, 2)
    all_sent(harness)
    assert "approve" not in action_ids(now_at(harness, SUPPORT, old["ts"]))
    assert "another message asks for it again" in words(now_at(harness, SUPPORT, old["ts"]))
    assert "There are 5 books now, not 3." in words(now_at(harness, SUPPORT, new["ts"]))
    # an old copy of the card decides nothing
    harness.person("ana").click(SUPPORT, old["ts"], "approve", seen=old)
    harness.settle()
    assert harness.calls_in(thread)[0].status is C.PENDING
    harness.person("ana").click(SUPPORT, new["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert call.status is C.SUCCEEDED
    assert fakes.did("empty", "history") == 1
    assert "emptied history of 5" in harness.outputs()[0]["output"]
    assert harness.audit_of(call).count("call.running") == 2
    [first] = noted(harness, call.run_id, "call.born.pending")
    [again] = noted(harness, call.run_id, "call.pending")
    assert (again["why"], again["revision"]) == ("There are 5 books now, not 3.", 2)
    assert again["digest"] == call.digest != first["digest"]


def test_the_previewed_state_is_part_of_the_digest(harness: Harness, fakes: FakeTools) -> None:
    """The call does not run once that state was altered in storage."""
    thread = ask(harness, ("empty", {"text": "poetry"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    [call] = harness.calls_in(thread)
    with harness.app.core.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == call.id).values(expects=""))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert harness.calls_in(thread)[0].status is C.INVALIDATED
    assert fakes.did("empty", "poetry") == 0


def test_a_cancelled_request_asks_nobody_again(harness: Harness, fakes: FakeTools) -> None:
    """Its call, whose preview no longer holds, fails, and nothing is done."""
    thread = ask(harness, ("empty", {"text": "slowly"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    assert fakes.entered.wait(30)
    fakes.shelf += 1
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.slack.wait(lambda: harness.run_in(thread).status == "cancelled")
    fakes.go_on.set()
    harness.slack.wait(lambda: harness.calls_in(thread)[0].status is C.FAILED)
    assert "Nothing was done" in harness.calls_in(thread)[0].output
    assert fakes.did("empty", "slowly") == 0
