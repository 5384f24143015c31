"""An approver hands one waiting call over to somebody else: who may, and whom reminders name."""

from __future__ import annotations

import json
from typing import Any

from storage.models import Audit
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import (
    arrived,
    ask,
    cards_of,
    later,
    now_at,
    open_modal,
    press,
    showing,
    statuses,
    told,
    typed,
    vote,
    waiting,
)
from tests.stories.test_commands import asked
from tests.stories.test_delegation import DAY, delegate
from tests.stories.test_home import opened, press_home_button

POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "1h"
reminders = ["10m", "20m"]
editor_counts = true

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "wipe"
verdict = "ask"
stages = [{approvers = ["UANA00001", "UCLEO0001"]}, {approvers = ["UDAN00001"]}]

[[rule]]
tool = "async_note"
verdict = "ask"
quorum = 2
"""
ANA, CLEO, DAN = "<@UANA00001>", "<@UCLEO0001>", "<@UDAN00001>"
HANDED, REMINDED = "hands this over to you", "this is still waiting for a decision"


def choose_assignee(person: str) -> dict[str, Any]:
    """The state of the dialog with this person chosen."""
    return {"assignee": {"person": {"selected_user": person}}}


def hand_over(
    harness: Harness, card: dict[str, Any], who: str, person: str, channel: str = SUPPORT
) -> Any:
    """Somebody hands the card's call over; returns the outcome of the dialog."""
    open_modal(harness, who, channel, card, "hand_over")
    outcome = harness.person(who).submit(choose_assignee(person))
    arrived(harness)
    return outcome


def test_an_approver_hands_a_call_over_to_another(harness: Harness, fakes: FakeTools) -> None:
    """Thread and card say so, and reminders name only the assignee, across a restart. Ana may still
    decide, and the audit has it.
    """
    thread = ask(harness, ("note", {"text": "night shift"}))
    card = harness.card(SUPPORT, thread)
    assert hand_over(harness, card, "ana", "UCLEO0001")["outcome"] == "closed"
    line = words(harness.said(SUPPORT, thread, HANDED))
    assert f"🤝 {CLEO}: Ana Ruiz hands this over to you, by <!date^" in line
    assert "Write “night shift”" in line
    small = f"🤝 Handed over to {CLEO} by {ANA}"
    harness.slack.wait(lambda: words(now_at(harness, SUPPORT, card["ts"])).count(small) == 1)
    later(harness, 660)
    reminder = words(harness.said(SUPPORT, thread, REMINDED))
    assert CLEO in reminder
    assert ANA not in reminder
    harness.restart()
    later(harness, 600)
    harness.slack.wait(lambda: len(showing(harness, SUPPORT, thread, REMINDED)) == 2)
    assert all(ANA not in words(m) for m in showing(harness, SUPPORT, thread, REMINDED))
    [call] = harness.calls_in(thread)
    [fact] = harness.all(Audit, Audit.call_id == call.id, Audit.event == "call.assigned")
    assert (fact.actor, json.loads(fact.data)["to"]) == ("UANA00001", "UCLEO0001")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "night shift") == 1
    assert "🤝 handed over to" in asked(harness, f"/approvals show {call.id}", "ana")


def test_a_call_is_handed_over_only_to_one_who_may_decide_it(harness: Harness) -> None:
    """The requester, other people and oneself are refused; the error names who may."""
    thread = waiting(harness, ("note", {"text": "hot potato"}))
    card = harness.card(SUPPORT, thread)
    for person, said in (
        ("UBEN00001", "Ben Okafor cannot approve this now. These can: Ana Ruiz, Cleo Martin."),
        ("UDAN00001", "cannot approve this now"),
        ("UGUS00001", "cannot approve this now"),
        ("UANA00001", "somebody other than yourself"),
    ):
        open_modal(harness, "ana", SUPPORT, card, "hand_over")
        outcome = harness.person("ana").submit(choose_assignee(person))
        assert said in outcome["errors"]["assignee"]
        harness.person("ana").close_view()
    assert not showing(harness, SUPPORT, thread, HANDED)


def test_a_call_is_handed_over_only_by_one_who_may_decide_it(harness: Harness) -> None:
    """Others get no dialog, and an approver who is too late is told so."""
    thread = waiting(harness, ("note", {"text": "not mine"}))
    card = harness.card(SUPPORT, thread)
    for who in ("dan", "ben"):
        press(harness, who, SUPPORT, card, "hand_over")
        told(harness, who, SUPPORT, thread, "You cannot")
    open_modal(harness, "ana", SUPPORT, card, "hand_over")
    vote(harness, "cleo", card)
    arrived(harness)
    assert harness.person("ana").submit(choose_assignee("UCLEO0001"))["outcome"] == "updated"
    assert "already approved" in str(harness.person("ana").view())
    harness.person("ana").close_view()
    assert not showing(harness, SUPPORT, thread, HANDED)


def test_a_call_is_not_handed_over_to_one_who_has_approved(harness: Harness) -> None:
    """Two approvals are needed, and Cleo's is one of them."""
    thread = waiting(harness, ("async_note", {"text": "second pair of eyes"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "cleo", card)
    arrived(harness)
    open_modal(harness, "ana", SUPPORT, card, "hand_over")
    outcome = harness.person("ana").submit(choose_assignee("UCLEO0001"))
    assert "cannot approve this now" in outcome["errors"]["assignee"]
    harness.person("ana").close_view()


def test_a_call_is_not_handed_over_to_the_delegate_of_a_voter(harness: Harness) -> None:
    """Dan is Ana's delegate. Reminders do not name the one who had it handed over before,
    either.
    """
    delegate(harness, "ana", "UDAN00001")
    cards = []
    for who, other in (("dan", "UANA00001"), ("ana", "UDAN00001")):
        thread = waiting(harness, ("async_note", {"text": f"{who} goes first"}))
        cards.append((thread, harness.card(SUPPORT, thread)))
        hand_over(harness, cards[-1][1], "cleo", other)
        harness.said(SUPPORT, thread, HANDED)
        vote(harness, who, cards[-1][1])
        arrived(harness)
        open_modal(
            harness, "cleo", SUPPORT, now_at(harness, SUPPORT, cards[-1][1]["ts"]), "hand_over"
        )
        outcome = harness.person("cleo").submit(choose_assignee(other))
        assert "cannot approve this now" in outcome["errors"]["assignee"]
        harness.person("cleo").close_view()
    later(harness, 660)
    for thread, _ in cards:
        reminder = words(harness.said(SUPPORT, thread, REMINDED))
        assert CLEO in reminder
        assert ANA not in reminder
        assert DAN not in reminder
    harness.clock.advance(3 * DAY)  # until the delegation has ended


def test_an_edit_ends_a_hand_over(harness: Harness) -> None:
    """Card and reminder name all approvers of the new revision."""
    thread = waiting(harness, ("note", {"text": "first draft"}))
    card = harness.card(SUPPORT, thread)
    hand_over(harness, card, "ana", "UCLEO0001")
    harness.said(SUPPORT, thread, HANDED)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text="second draft"))["outcome"] == "closed"
    arrived(harness)
    harness.slack.wait(lambda: "second draft" in words(now_at(harness, SUPPORT, card["ts"])))
    assert "Handed over" not in words(now_at(harness, SUPPORT, card["ts"]))
    later(harness, 660)
    reminder = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in reminder
    assert CLEO in reminder


def test_a_hand_over_ends_with_its_step(harness: Harness) -> None:
    """The reminder names the people of the second step."""
    thread = waiting(harness, ("wipe", {"text": "two steps"}))
    card = harness.card(SUPPORT, thread)
    hand_over(harness, card, "ana", "UCLEO0001")
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "your approval is needed next")
    later(harness, 660)
    reminder = words(harness.said(SUPPORT, thread, REMINDED))
    assert DAN in reminder
    assert CLEO not in reminder
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_a_hand_over_from_home_is_told_in_direct_messages(harness: Harness) -> None:
    """Cleo is told below her own copy of the card, and Ana's copy gets no message."""
    waiting(harness, ("put", {"text": "in the drawer"}))
    harness.slack.wait(lambda: cards_of(harness, "cleo", "in the drawer"))
    harness.settle()  # the bot knows where Cleo's copy is
    opened(harness, "ana", "in the drawer", "Hand over…")
    ana, cleo = harness.person("ana"), harness.person("cleo")
    press_home_button(harness, "ana", "hand_over")
    assert ana.submit(choose_assignee("UCLEO0001"))["outcome"] == "closed"
    arrived(harness)
    harness.slack.wait(lambda: any(HANDED in words(m) for m in cleo.everything(cleo.dm_channel)))
    assert not any(HANDED in words(m) for m in ana.everything(ana.dm_channel))
