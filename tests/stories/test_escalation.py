"""While nobody answers: who is reminded, who may decide later, what is never said twice."""

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


def said(harness: Harness, thread: str, what: str) -> int:
    """How many lines of the thread say that."""
    return len(showing(harness, SUPPORT, thread, what))


def test_more_people_after_a_time(harness: Harness, fakes: FakeTools) -> None:
    """Before, Dan is no approver.

    After half an hour he is told, and decides on the very card that was there.
    """
    thread = ask(harness, ("note", {"text": "escalated"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 1700)
    vote(harness, "dan", card)
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert (statuses(harness, thread), said(harness, thread, ESCALATED)) == ([C.PENDING], 0)
    later(harness, 120)
    assert "⏫ <@UDAN00001>: nobody has decided this yet" in words(
        harness.said(SUPPORT, thread, ESCALATED)
    )
    assert "<@UDAN00001>" in words(now_at(harness, SUPPORT, card["ts"]))
    vote(harness, "dan", card, seen=card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "escalated")) == ([C.SUCCEEDED], 1)


def test_the_first_people_keep_their_say(harness: Harness, fakes: FakeTools) -> None:
    """After the escalation the earlier card is as good as before for those it named."""
    thread = ask(harness, ("note", {"text": "still mine"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 1801)
    harness.said(SUPPORT, thread, ESCALATED)
    vote(harness, "ana", card, seen=card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "still mine") == 1


def test_a_click_just_before_the_escalation(harness: Harness, fakes: FakeTools) -> None:
    """A click counts at the time it was stored.

    Decided after the escalation, it was still too early.
    """
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


def test_in_direct_messages(harness: Harness, fakes: FakeTools) -> None:
    """Who comes in gets a card of their own.

    The copy that was there goes on being valid, and both die together.
    """
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


def test_a_quorum_that_takes_the_escalation(harness: Harness, fakes: FakeTools) -> None:
    """It needs two people and has one until Dan comes in: asked all the same, and run with both."""
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


def test_nobody_until_the_escalation(harness: Harness, fakes: FakeTools) -> None:
    """The list is empty at first: nobody sees a card until somebody can decide."""
    thread = ask(harness, ("lose", {"text": "empty"}))
    harness.slack.wait(lambda: statuses(harness, thread) == [C.PENDING])
    harness.settle()
    assert said(harness, thread, "I have asked") == 0
    later(harness, 1801)
    vote(harness, "dan", harness.card(SUPPORT, thread, "dan"))
    harness.slack.wait(lambda: fakes.did("lose", "empty") == 1)


def test_down_over_the_escalation(harness: Harness, fakes: FakeTools) -> None:
    """The process was down at the moment: it is said once, however often it starts."""
    thread = ask(harness, ("note", {"text": "while down"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.app.stop()
    harness.clock.advance(1801)
    harness.start()
    harness.said(SUPPORT, thread, ESCALATED)
    harness.restart()
    later(harness, 60)
    assert said(harness, thread, ESCALATED) == 1
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "while down") == 1


def test_a_reminder_goes_to_who_has_not_voted(harness: Harness, fakes: FakeTools) -> None:
    """Each reminder comes once, to those who are still needed, and never after the end.

    A restart does not repeat it.
    """
    thread = ask(harness, ("async_note", {"text": "remind"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    later(harness, 540)
    assert said(harness, thread, REMINDED) == 0
    later(harness, 120)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert "<@UCLEO0001>" in line
    assert "<@UANA00001>" not in line
    harness.restart()
    later(harness, 300)
    assert said(harness, thread, REMINDED) == 1
    later(harness, 300)
    assert said(harness, thread, REMINDED) == 2
    vote(harness, "cleo", card)
    harness.said(SUPPORT, thread, "That is all.")
    later(harness, 1800)
    assert (said(harness, thread, REMINDED), said(harness, thread, ESCALATED)) == (2, 0)


def test_a_reminder_does_not_call_a_whole_group(harness: Harness, fakes: FakeTools) -> None:
    """While nobody of the group has voted it is called by its name.

    Then only those who have not.
    """
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


def test_nothing_is_said_after_the_decision(harness: Harness, fakes: FakeTools) -> None:
    """Decided before its time came: neither a reminder nor an escalation follows."""
    thread = ask(harness, ("note", {"text": "quick"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    later(harness, 3000)
    assert said(harness, thread, ESCALATED) == 0
    thread = ask(harness, ("async_note", {"text": "over"}))
    harness.card(SUPPORT, thread)
    harness.person("ben").say(SUPPORT, "@bot cancel", thread)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.CANCELLED])
    later(harness, 3000)
    assert (said(harness, thread, REMINDED), said(harness, thread, ESCALATED)) == (0, 0)


def test_an_edit_repeats_nothing(harness: Harness, fakes: FakeTools) -> None:
    """What was said before an edit is not said again after it.

    What is due later is, about what it has become.
    """
    thread = ask(harness, ("async_note", {"text": "plain"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 660)
    assert said(harness, thread, REMINDED) == 1
    open_modal(harness, "ben", SUPPORT, card, "edit")
    harness.person("ben").submit(typed(text="fancy"))
    arrived(harness)
    later(harness, 60)
    assert said(harness, thread, REMINDED) == 1
    later(harness, 540)
    assert (said(harness, thread, REMINDED), said(harness, thread, ESCALATED)) == (2, 0)
    later(harness, 600)
    assert (said(harness, thread, REMINDED), said(harness, thread, ESCALATED)) == (2, 1)
    assert "Write “fancy”" in words(harness.said(SUPPORT, thread, ESCALATED))
    for who in ("dan", "cleo"):
        vote(harness, who, card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("async_note", "plain"), fakes.did("async_note", "fancy")) == (0, 1)


def test_the_deadline_comes_first(harness: Harness, fakes: FakeTools) -> None:
    """The process slept over reminder, escalation and deadline: only the deadline is told."""
    thread = ask(harness, ("async_note", {"text": "slept"}))
    harness.card(SUPPORT, thread)
    later(harness, 4000)
    harness.said(SUPPORT, thread, "That is all.")
    assert (said(harness, thread, REMINDED), said(harness, thread, ESCALATED)) == (0, 0)
    assert statuses(harness, thread) == [C.EXPIRED]
