"""While nobody decides: reminders, escalations, and what is never said twice."""

from __future__ import annotations

from storage.models import Delivery
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
    showing,
    statuses,
    told,
    typed,
    vote,
)

C = CallStatus
REMINDED, ESCALATED = "this is still waiting for a decision", "so now you can too"
POLICY = """
[defaults]
approvers = ["UANA00001"]
deadline = "1h"
escalation = [{after = "30m", approvers = ["UDAN00001"]}]

[[rule]]
tool = "put"
verdict = "ask"
post_to = "approvers"

[[rule]]
tool = "slow"
verdict = "ask"
quorum = 2

[[rule]]
tool = "lose"
verdict = "ask"
approvers = ["@nobody"]

[[rule]]
tool = "async_note"
verdict = "ask"
approvers = ["UANA00001", "UCLEO0001"]
quorum = 2
reminders = ["10m", "20m"]

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["@shop-leads"]
quorum = 2
reminders = ["10m"]
escalation = []
"""


def count_messages(harness: Harness, thread: str, what: str) -> int:
    """Count the messages of the thread with that text."""
    return len(showing(harness, SUPPORT, thread, what))


def test_an_escalation_lets_more_people_decide(harness: Harness, fakes: FakeTools) -> None:
    """Dan is told after half an hour, and decides on the card that was already there."""
    thread = ask(harness, ("note", {"text": "escalated"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 1700)
    vote(harness, "dan", card)
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert (statuses(harness, thread), count_messages(harness, thread, ESCALATED)) == (
        [C.PENDING],
        0,
    )
    later(harness, 120)
    assert "⏫ <@UDAN00001>: nobody has decided this yet" in words(
        harness.said(SUPPORT, thread, ESCALATED)
    )
    assert "<@UDAN00001>" in words(now_at(harness, SUPPORT, card["ts"]))
    vote(harness, "dan", card, seen=card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "escalated")) == ([C.SUCCEEDED], 1)


def test_the_first_approvers_can_still_decide_later(harness: Harness, fakes: FakeTools) -> None:
    """Their card from before the escalation still counts."""
    thread = ask(harness, ("note", {"text": "still mine"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 1801)
    harness.said(SUPPORT, thread, ESCALATED)
    vote(harness, "ana", card, seen=card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "still mine") == 1


def test_a_click_before_the_escalation_does_not_count(harness: Harness, fakes: FakeTools) -> None:
    """The click is handled after the escalation, but counts for the time it was stored."""
    thread = ask(harness, ("note", {"text": "too early"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.clock.advance(1500)
    harness.app.loop.pause()
    harness.person("dan").click(SUPPORT, card["ts"], "approve")
    harness.slack.wait(lambda: harness.all(Delivery, Delivery.status == "new"))
    harness.clock.advance(600)
    harness.app.loop.resume()
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    harness.said(SUPPORT, thread, ESCALATED)
    assert (statuses(harness, thread), fakes.did("note", "too early")) == ([C.PENDING], 0)
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "too early") == 1


def test_an_escalation_sends_further_direct_messages(harness: Harness, fakes: FakeTools) -> None:
    """The first approver's copy stays valid, and one decision updates both."""
    thread = ask(harness, ("put", {"text": "in private"}))
    [first] = harness.slack.wait(lambda: cards_of(harness, "ana", "in private"))
    harness.settle()
    assert not cards_of(harness, "dan", "in private")
    harness.clock.advance(1801)
    harness.slack.wait(lambda: cards_of(harness, "dan", "in private"))
    vote(harness, "ana", first, harness.person("ana").dm_channel, seen=first)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("put", "in private") == 1
    assert not cards_of(harness, "dan", "in private")


def test_a_quorum_can_be_reached_by_an_escalation(harness: Harness, fakes: FakeTools) -> None:
    """Two people are needed, and until the escalation there is only one; the call is asked all the
    same.
    """
    fakes.go_on.set()
    thread = ask(harness, ("slow", {"text": "both"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    vote(harness, "dan", card)
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    later(harness, 1801)
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("slow", "both")) == ([C.SUCCEEDED], 1)


def test_with_no_approvers_a_call_awaits_its_escalation(harness: Harness, fakes: FakeTools) -> None:
    """Nobody sees a card before."""
    thread = ask(harness, ("lose", {"text": "empty"}))
    harness.slack.wait(lambda: statuses(harness, thread) == [C.PENDING])
    harness.settle()
    assert count_messages(harness, thread, "I have asked") == 0
    later(harness, 1801)
    vote(harness, "dan", harness.card(SUPPORT, thread, "dan"))
    harness.slack.wait(lambda: fakes.did("lose", "empty") == 1)


def test_an_escalation_missed_while_down_is_told_once(harness: Harness, fakes: FakeTools) -> None:
    """Another start of the process does not repeat it."""
    thread = ask(harness, ("note", {"text": "while down"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.app.stop()
    harness.clock.advance(1801)
    harness.start()
    harness.said(SUPPORT, thread, ESCALATED)
    harness.restart()
    later(harness, 60)
    assert count_messages(harness, thread, ESCALATED) == 1
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "while down") == 1


def test_a_reminder_goes_to_those_who_have_not_voted(harness: Harness, fakes: FakeTools) -> None:
    """Each comes once, a restart repeats none, and none comes after the end."""
    thread = ask(harness, ("async_note", {"text": "remind"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    later(harness, 540)
    assert count_messages(harness, thread, REMINDED) == 0
    later(harness, 120)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert "<@UCLEO0001>" in line
    assert "<@UANA00001>" not in line
    harness.restart()
    later(harness, 300)
    assert count_messages(harness, thread, REMINDED) == 1
    later(harness, 300)
    assert count_messages(harness, thread, REMINDED) == 2
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    later(harness, 1800)
    assert (
        count_messages(harness, thread, REMINDED),
        count_messages(harness, thread, ESCALATED),
    ) == (2, 0)


def test_reminders_mention_a_group_until_a_member_votes(harness: Harness, fakes: FakeTools) -> None:
    """Afterwards they mention only the members who have not voted."""
    thread = ask(harness, ("wipe", {"text": "nobody yet"}))
    harness.card(SUPPORT, thread)
    later(harness, 660)
    assert "⏰ <!subteam^S0LEADS" in words(harness.said(SUPPORT, thread, REMINDED))
    harness.reset()
    thread = ask(harness, ("wipe", {"text": "one has"}))
    vote(harness, "cleo", harness.card(SUPPORT, thread))
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert "⏰ <@UANA00001>: this is still waiting" in line
    assert "S0LEADS" not in line


def test_no_reminder_or_escalation_follows_a_decision(harness: Harness, fakes: FakeTools) -> None:
    """None follows a cancelled request, either."""
    thread = ask(harness, ("note", {"text": "quick"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    later(harness, 3000)
    assert count_messages(harness, thread, ESCALATED) == 0
    thread = ask(harness, ("async_note", {"text": "over"}))
    harness.card(SUPPORT, thread)
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.CANCELLED])
    later(harness, 3000)
    assert (
        count_messages(harness, thread, REMINDED),
        count_messages(harness, thread, ESCALATED),
    ) == (0, 0)


def test_an_edit_repeats_no_reminder(harness: Harness, fakes: FakeTools) -> None:
    """Later reminders come when they are due, about the edited call."""
    thread = ask(harness, ("async_note", {"text": "plain"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 660)
    assert count_messages(harness, thread, REMINDED) == 1
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.person("ben").submit(typed(text="fancy"))
    arrived(harness)
    later(harness, 60)
    assert count_messages(harness, thread, REMINDED) == 1
    later(harness, 540)
    assert (
        count_messages(harness, thread, REMINDED),
        count_messages(harness, thread, ESCALATED),
    ) == (2, 0)
    later(harness, 600)
    assert (
        count_messages(harness, thread, REMINDED),
        count_messages(harness, thread, ESCALATED),
    ) == (2, 1)
    assert "Write “fancy”" in words(harness.said(SUPPORT, thread, ESCALATED))
    for who in ("dan", "cleo"):
        vote(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("async_note", "plain"), fakes.did("async_note", "fancy")) == (0, 1)


def test_only_the_deadline_is_told_if_all_were_missed(harness: Harness, fakes: FakeTools) -> None:
    """The process slept through reminders, escalation and deadline."""
    thread = ask(harness, ("async_note", {"text": "slept"}))
    harness.card(SUPPORT, thread)
    later(harness, 4000)
    harness.said(SUPPORT, thread, "That is all.")
    assert (
        count_messages(harness, thread, REMINDED),
        count_messages(harness, thread, ESCALATED),
    ) == (0, 0)
    assert statuses(harness, thread) == [C.EXPIRED]
