"""Dialogs and clicks that were stored before an earlier one was handled: they change nothing more.

Each dialog was checked when it was submitted, and found to be in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bot.approvals.delegation import ONLY_MEMBERS_DECIDE_ERROR
from bot.cards.sentences import OUTDATED_CARD_REPLY
from storage.delegations import Delegation
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    arrived,
    ask,
    forget_people,
    menu,
    now_at,
    open_modal,
    press,
    showing,
    statuses,
    told,
    typed,
    waiting,
)
from tests.stories.test_delegation import fill_delegation_dialog, open_delegation_dialog
from tests.stories.test_edit import list_revisions
from tests.stories.test_hand_overs import HANDED, choose_assignee

C = CallStatus
ALREADY_APPROVED = "<@UCLEO0001> already approved this"


def submit(harness: Harness, who: str, state: dict[str, Any]) -> None:
    """Submit this person's dialog, which is accepted."""
    assert harness.person(who).submit(state)["outcome"] == "closed"


def approve_first(harness: Harness, card: dict[str, Any], then: Callable[[], object]) -> None:
    """Cleo approves, and somebody does something else before that is decided."""
    harness.app.loop.pause()
    assert press(harness, "cleo", SUPPORT, card, "approve").wait() == "acked"
    then()
    harness.app.loop.resume()
    arrived(harness)


def test_the_second_of_two_edits_submitted_at_once_is_refused(
    harness: Harness, fakes: FakeTools
) -> None:
    """Its editor is told so, once, and the card shows the first."""
    thread = ask(harness, ("note", {"text": "both edit"}))
    card = harness.card(SUPPORT, thread)
    for name in ("ana", "cleo"):
        open_modal(harness, name, SUPPORT, card, "edit")
    harness.app.loop.pause()
    for name in ("ana", "cleo"):
        submit(harness, name, typed(text=f"by {name}"))
    harness.app.loop.resume()
    told(harness, "cleo", SUPPORT, thread, OUTDATED_CARD_REPLY)
    arrived(harness)
    assert [each["text"] for each in list_revisions(harness, thread)] == ["both edit", "by ana"]
    assert "Edited by <@UANA00001>" in words(now_at(harness, SUPPORT, card["ts"]))
    for name, replies in (("ana", 0), ("cleo", 1)):
        seen = [m for m in harness.person(name).everything(SUPPORT) if m["ts"] > thread]
        assert sum(OUTDATED_CARD_REPLY in words(each) for each in seen) == replies


def test_an_edit_of_a_call_just_approved_is_refused(harness: Harness, fakes: FakeTools) -> None:
    """The call runs as it was approved."""
    thread = ask(harness, ("note", {"text": "as shown"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    approve_first(harness, card, lambda: submit(harness, "ana", typed(text="otherwise")))
    told(harness, "ana", SUPPORT, thread, ALREADY_APPROVED)
    assert (fakes.did("note", "as shown"), fakes.did("note", "otherwise")) == (1, 0)
    assert not showing(harness, SUPPORT, thread, "✏️")


def test_a_plan_just_approved_is_not_sent_back(harness: Harness, fakes: FakeTools) -> None:
    """The call runs, and nothing says that the plan was sent back."""
    thread = ask(harness, ("note", {"text": "go"}))
    card = harness.card(SUPPORT, thread)
    menu(harness, "ana", card, "send_back")
    harness.slack.wait(harness.person("ana").view)
    feedback = {"words": {"text": {"value": "rather not"}}}
    approve_first(harness, card, lambda: submit(harness, "ana", feedback))
    told(harness, "ana", SUPPORT, thread, ALREADY_APPROVED)
    assert (statuses(harness, thread), fakes.did("note", "go")) == ([C.SUCCEEDED], 1)
    assert not showing(harness, SUPPORT, thread, "rather not")


def test_a_call_just_approved_is_not_withdrawn(harness: Harness, fakes: FakeTools) -> None:
    """The requester is told that it was approved."""
    thread = ask(harness, ("note", {"text": "kept"}), ("note", {"text": "also"}))
    card = harness.card(SUPPORT, thread)
    approve_first(harness, card, lambda: menu(harness, "ben", card, "withdraw").wait())
    told(harness, "ben", SUPPORT, thread, ALREADY_APPROVED)
    assert statuses(harness, thread) == [C.APPROVED, C.PENDING]
    assert not showing(harness, SUPPORT, thread, "withdrew")


def test_a_call_just_approved_is_not_handed_over(harness: Harness) -> None:
    """Nobody is asked to decide it."""
    thread = waiting(harness, ("note", {"text": "hot potato"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "hand_over")
    approve_first(harness, card, lambda: submit(harness, "ana", choose_assignee("UCLEO0001")))
    told(harness, "ana", SUPPORT, thread, ALREADY_APPROVED)
    assert not showing(harness, SUPPORT, thread, HANDED)
    [call] = harness.calls_in(thread)
    assert not harness.all(Audit, Audit.call_id == call.id, Audit.event == "call.assigned")


@pytest.fixture
def former_approver(harness: Harness) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Submit Ana's dialog; she is no approver any more when it is handled."""

    def submit_and_leave(state: dict[str, Any]) -> None:
        harness.app.loop.pause()
        submit(harness, "ana", state)
        harness.slack.set_group("shop-leads", ["cleo"])
        forget_people(harness)
        harness.app.loop.resume()
        arrived(harness)

    yield submit_and_leave
    harness.slack.set_group("shop-leads", ["ana", "cleo"])
    arrived(harness)


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("edit", typed(text="otherwise")),
        ("send_back", {"words": {"text": {"value": "rather not"}}}),
        ("hand_over", choose_assignee("UCLEO0001")),
    ],
    ids=["edit", "send_back", "hand_over"],
)
def test_a_dialog_of_a_former_approver_changes_nothing(
    harness: Harness, former_approver: Callable[..., None], action: str, state: dict[str, Any]
) -> None:
    """She is told so, and the call waits as before."""
    thread = waiting(harness, ("note", {"text": "as it was"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, action)
    former_approver(state)
    told(harness, "ana", SUPPORT, thread, "You cannot")
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision, call.assignee) == (C.PENDING, 1, "")


@pytest.mark.parametrize("who", ["ana", "dan"])
def test_nobody_decides_for_others_where_one_has_just_become_a_guest(
    harness: Harness, who: str
) -> None:
    """The delegation is not stored, and the person who submitted it is told why."""
    open_delegation_dialog(harness, "ana")
    before = len(harness.all(Delegation))
    harness.app.loop.pause()
    submit(harness, "ana", fill_delegation_dialog(harness, "UDAN00001", 2))
    harness.slack.people[who].is_restricted = True
    harness.clock.advance(61)  # past the lifetime of a look-up
    harness.app.loop.resume()
    arrived(harness)
    harness.slack.people[who].is_restricted = False
    ana = harness.person("ana")
    assert ONLY_MEMBERS_DECIDE_ERROR in words(ana.everything(ana.dm_channel)[-1])
    assert len(harness.all(Delegation)) == before
    harness.clock.advance(61)
