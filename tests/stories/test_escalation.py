"""While nobody answers: who is reminded, who may decide besides after a time, and what is never
said twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from storage.models import Delivery
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    SUPPORT,
    World,
    action_ids,
    arrived,
    ask,
    now_at,
    open_modal,
    showing,
    told,
    typed,
    words,
)

C = CallStatus
REMINDED, ESCALATED = "this still waits for a decision", "now you may as well"
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Kit]]:
    """A world where Dan may decide besides after half an hour."""
    kit = Kit()
    world = World(tmp_path_factory.mktemp("escalation"), kit.tools, POLICY)
    yield world, kit
    world.close()


@pytest.fixture
def world(made: tuple[World, Kit]) -> Iterator[World]:
    """It, at rest."""
    yield made[0]
    made[0].reset()


@pytest.fixture
def kit(made: tuple[World, Kit]) -> Kit:
    """Its tools, and what they did."""
    return made[1]


def vote(world: World, who: str, card: dict[str, Any], channel: str = SUPPORT, **how: Any) -> None:
    """Approve, until that has been dealt with."""
    world.person(who).click(channel, card["ts"], "approve", **how)
    arrived(world)


def statuses(world: World, thread: str) -> list[CallStatus]:
    return [call.status for call in world.calls_in(thread)]


def later(world: World, seconds: int) -> None:
    """Time passes, and everything that came due has been said."""
    world.clock.advance(seconds)
    world.settle()


def said(world: World, thread: str, what: str) -> int:
    """How many lines of the thread say that."""
    return len(showing(world, SUPPORT, thread, what))


def cards_of(world: World, who: str, text: str) -> list[dict[str, Any]]:
    """The cards about `text` among this person's direct messages."""
    mine = world.person(who)
    return [
        m for m in mine.messages(mine.dm_channel) if text in words(m) and "approve" in action_ids(m)
    ]


def test_more_people_after_a_time(world: World, kit: Kit) -> None:
    """Before, Dan is no approver.

    After half an hour he is told, and decides on the very card that was there.
    """
    thread = ask(world, ("note", {"text": "escalated"}))
    card = world.card(SUPPORT, thread)
    later(world, 1700)
    vote(world, "dan", card)
    told(world, "dan", SUPPORT, thread, "You cannot decide this one")
    assert (statuses(world, thread), said(world, thread, ESCALATED)) == ([C.PENDING], 0)
    later(world, 120)
    assert "⏫ <@UDAN00001>: nobody has decided this yet" in words(
        world.said(SUPPORT, thread, ESCALATED)
    )
    assert "<@UDAN00001>" in words(now_at(world, SUPPORT, card["ts"]))
    vote(world, "dan", card, seen=card)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("note", "escalated")) == ([C.SUCCEEDED], 1)


def test_the_first_people_keep_their_say(world: World, kit: Kit) -> None:
    """After the escalation the earlier card is as good as before for those it named."""
    thread = ask(world, ("note", {"text": "still mine"}))
    card = world.card(SUPPORT, thread)
    later(world, 1801)
    world.said(SUPPORT, thread, ESCALATED)
    vote(world, "ana", card, seen=card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "still mine") == 1


def test_a_click_just_before_the_escalation(world: World, kit: Kit) -> None:
    """A click counts at the time it was stored: decided after the escalation, it was still too
    early (T01).
    """
    thread = ask(world, ("note", {"text": "too early"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.clock.advance(1500)
    world.app.loop.pause()
    world.person("dan").click(SUPPORT, card["ts"], "approve")
    world.slack.wait(lambda: world.all(Delivery, Delivery.status == "new"))
    world.clock.advance(600)
    world.app.loop.resume()
    told(world, "dan", SUPPORT, thread, "You cannot decide this one")
    world.said(SUPPORT, thread, ESCALATED)
    assert (statuses(world, thread), kit.did("note", "too early")) == ([C.PENDING], 0)
    vote(world, "dan", card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "too early") == 1


def test_in_direct_messages(world: World, kit: Kit) -> None:
    """Who comes in gets a card of their own.

    The copy that was there goes on being valid, and both die together.
    """
    thread = ask(world, ("put", {"text": "in private"}))
    [first] = world.slack.wait(lambda: cards_of(world, "ana", "in private"))
    world.settle()
    assert not cards_of(world, "dan", "in private")
    world.clock.advance(1801)
    world.slack.wait(lambda: cards_of(world, "dan", "in private"))
    vote(world, "ana", first, world.person("ana").dm_channel, seen=first)
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("put", "in private") == 1
    assert not cards_of(world, "dan", "in private")


def test_a_quorum_that_takes_the_escalation(world: World, kit: Kit) -> None:
    """It needs two people and has one until Dan comes in: asked all the same, and run with both
    (A08).
    """
    kit.go_on.set()
    thread = ask(world, ("slow", {"text": "both"}))
    card = world.card(SUPPORT, thread)
    vote(world, "ana", card)
    vote(world, "dan", card)
    told(world, "dan", SUPPORT, thread, "You cannot decide this one")
    later(world, 1801)
    vote(world, "dan", card)
    world.said(SUPPORT, thread, "That is all.")
    assert (statuses(world, thread), kit.did("slow", "both")) == ([C.SUCCEEDED], 1)


def test_nobody_until_the_escalation(world: World, kit: Kit) -> None:
    """The list is empty at first: nobody sees a card until somebody can decide, and then they do
    (S05).
    """
    thread = ask(world, ("lose", {"text": "empty"}))
    world.slack.wait(lambda: statuses(world, thread) == [C.PENDING])
    world.settle()
    assert said(world, thread, "I have asked") == 0
    later(world, 1801)
    vote(world, "dan", world.card(SUPPORT, thread, "dan"))
    world.slack.wait(lambda: kit.did("lose", "empty") == 1)


def test_down_over_the_escalation(world: World, kit: Kit) -> None:
    """The process was down at the moment: it is said at the start, once, however often it starts."""
    thread = ask(world, ("note", {"text": "while down"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.app.stop()
    world.clock.advance(1801)
    world.start()
    world.said(SUPPORT, thread, ESCALATED)
    world.restart()
    later(world, 60)
    assert said(world, thread, ESCALATED) == 1
    vote(world, "dan", card)
    world.said(SUPPORT, thread, "That is all.")
    assert kit.did("note", "while down") == 1


def test_a_reminder_goes_to_who_has_not_voted(world: World, kit: Kit) -> None:
    """Each reminder once, to those who are still needed, not repeated by a restart, never after the
    end (T08).
    """
    thread = ask(world, ("async_note", {"text": "remind"}))
    card = world.card(SUPPORT, thread)
    vote(world, "ana", card)
    later(world, 540)
    assert said(world, thread, REMINDED) == 0
    later(world, 120)
    line = words(world.said(SUPPORT, thread, REMINDED))
    assert "<@UCLEO0001>" in line
    assert "<@UANA00001>" not in line
    world.restart()
    later(world, 300)
    assert said(world, thread, REMINDED) == 1
    later(world, 300)
    assert said(world, thread, REMINDED) == 2
    vote(world, "cleo", card)
    world.said(SUPPORT, thread, "That is all.")
    later(world, 1800)
    assert (said(world, thread, REMINDED), said(world, thread, ESCALATED)) == (2, 0)


def test_a_reminder_does_not_call_a_whole_group(world: World, kit: Kit) -> None:
    """While nobody of the group has voted it is called by its name.

    Then only those who have not (T08).
    """
    thread = ask(world, ("wipe", {"text": "nobody yet"}))
    world.card(SUPPORT, thread)
    later(world, 660)
    assert "⏰ <!subteam^S0LEADS" in words(world.said(SUPPORT, thread, REMINDED))
    world.reset()
    thread = ask(world, ("wipe", {"text": "one has"}))
    vote(world, "cleo", world.card(SUPPORT, thread))
    later(world, 660)
    line = words(world.said(SUPPORT, thread, REMINDED))
    assert "⏰ <@UANA00001>: this still waits" in line
    assert "S0LEADS" not in line


def test_nothing_is_said_after_the_decision(world: World, kit: Kit) -> None:
    """Decided before its time came: neither a reminder nor an escalation follows (T08)."""
    thread = ask(world, ("note", {"text": "quick"}))
    vote(world, "ana", world.card(SUPPORT, thread))
    world.said(SUPPORT, thread, "That is all.")
    later(world, 3000)
    assert said(world, thread, ESCALATED) == 0
    thread = ask(world, ("async_note", {"text": "over"}))
    world.card(SUPPORT, thread)
    world.person("ben").say(SUPPORT, "@bot cancel", thread)
    world.slack.wait(lambda: statuses(world, thread) == [C.CANCELLED])
    later(world, 3000)
    assert (said(world, thread, REMINDED), said(world, thread, ESCALATED)) == (0, 0)


def test_an_edit_repeats_nothing(world: World, kit: Kit) -> None:
    """What was said before an edit is not said again after it.

    What is due later is, about what it has become (T08).
    """
    thread = ask(world, ("async_note", {"text": "plain"}))
    card = world.card(SUPPORT, thread)
    later(world, 660)
    assert said(world, thread, REMINDED) == 1
    open_modal(world, "ben", SUPPORT, card, "edit")
    world.person("ben").submit(typed(text="fancy"))
    arrived(world)
    later(world, 60)
    assert said(world, thread, REMINDED) == 1
    later(world, 540)
    assert (said(world, thread, REMINDED), said(world, thread, ESCALATED)) == (2, 0)
    later(world, 600)
    assert (said(world, thread, REMINDED), said(world, thread, ESCALATED)) == (2, 1)
    assert "Write “fancy”" in words(world.said(SUPPORT, thread, ESCALATED))
    for who in ("dan", "cleo"):
        vote(world, who, card)
    world.said(SUPPORT, thread, "That is all.")
    assert (kit.did("async_note", "plain"), kit.did("async_note", "fancy")) == (0, 1)


def test_the_deadline_comes_first(world: World, kit: Kit) -> None:
    """The process slept over reminder, escalation and deadline: only the deadline is told (T02)."""
    thread = ask(world, ("async_note", {"text": "slept"}))
    world.card(SUPPORT, thread)
    later(world, 4000)
    world.said(SUPPORT, thread, "That is all.")
    assert (said(world, thread, REMINDED), said(world, thread, ESCALATED)) == (0, 0)
    assert statuses(world, thread) == [C.EXPIRED]
