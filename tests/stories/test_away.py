"""Approvers whose status says that they are away: on cards, in reminders, and what it never
changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.states import CallStatus
from tests.stories.asked_people import question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, later, now_at, showing, statuses, told, vote, waiting
from tests.stories.test_home import opened, wait

C = CallStatus
ANA, CLEO = "<@UANA00001>", "<@UCLEO0001>"
REMINDED, ESCALATED = "this is still waiting for a decision", "so now you can too"
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "1h"
reminders = ["10m"]
escalation = [{after = "30m", approvers = ["UDAN00001"]}]

[[rule]]
tool = "wipe"
verdict = "ask"
approvers = ["@shop-leads"]
escalation = []
"""


def status(harness: Harness, who: str, emoji: str = "", seconds: int = 0) -> None:
    """Set somebody's status, for so many seconds or for good, and wait until the bot knows it."""
    until = int(harness.clock.now().timestamp()) + seconds if seconds else 0
    harness.person(who).set_status(emoji, until=until)
    arrived(harness)


@pytest.fixture(autouse=True)
def _statuses_cleared(harness: Harness) -> Iterator[None]:
    """Nobody is away after a story."""
    yield
    for who in ("ana", "cleo"):
        status(harness, who)


def test_a_card_names_approvers_who_are_away(harness: Harness, fakes: FakeTools) -> None:
    """It gives the time of their return if that is known. They can still decide."""
    status(harness, "ana", ":palm_tree:", 7200)
    thread = ask(harness, ("note", {"text": "hammock"}))
    card = harness.card(SUPPORT, thread)
    assert f"🌴 {ANA} is away until <!date^" in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "hammock") == 1


def test_home_names_approvers_who_are_away(harness: Harness) -> None:
    """The names stand below the requester's waiting requests until those are decided."""
    status(harness, "cleo", ":palm_tree:")
    thread = ask(harness, ("note", {"text": "sun hat"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "ben", "Your requests", "sun hat", f"🌴 {CLEO} is away")
    vote(harness, "ana", card)
    wait(harness, "ben", "✅ Done: ", "sun hat", without="is away")


def test_a_reminder_mentions_only_people_who_are_not_away(harness: Harness) -> None:
    """It does not matter whether the rule names people or a group. Ana is mentioned again once she
    is back.
    """
    status(harness, "ana", ":face_with_thermometer:")
    for tool in ("note", "wipe"):
        thread = waiting(harness, (tool, {"text": f"tea for {tool}"}))
        card = harness.card(SUPPORT, thread)
        named = ANA if tool == "note" else "Ana Ruiz"  # mentioned only if the card notifies her
        assert f"🌴 {named} is away  " in words(card)
        later(harness, 660)
        line = words(harness.said(SUPPORT, thread, REMINDED))
        assert CLEO in line
        assert ANA not in line
        assert "S0LEADS" not in line
    status(harness, "ana")
    thread = waiting(harness, ("note", {"text": "well again"}))
    assert "is away" not in words(harness.card(SUPPORT, thread))
    later(harness, 660)
    assert ANA in words(harness.said(SUPPORT, thread, REMINDED))


def test_a_question_reminds_only_people_who_are_not_away(harness: Harness) -> None:
    """The question's message says who is away, and its reminder names only the others."""
    status(harness, "ana", ":palm_tree:")
    thread = waiting(harness, question(question="Which kettle?", to="@shop-leads"))
    asked = harness.card(SUPPORT, thread, "ana", "answer")
    assert "🌴 Ana Ruiz is away" in words(asked)
    later(harness, 1860)
    line = words(harness.said(SUPPORT, thread, "is still waiting for an answer"))
    assert CLEO in line
    assert ANA not in line
    assert "S0LEADS" not in line
    status(harness, "ana")
    thread = waiting(harness, question(question="Which cup?", to="@shop-leads"))
    asked = harness.card(SUPPORT, thread, "ana", "answer")
    assert "is away" not in words(asked)
    status(harness, "cleo", ":palm_tree:")
    later(harness, 1860)
    assert ANA in words(harness.said(SUPPORT, thread, "is still waiting for an answer"))
    harness.slack.wait(lambda: f"🌴 {CLEO} is away" in words(now_at(harness, SUPPORT, asked["ts"])))


def test_a_reminder_mentions_everybody_if_all_are_away(harness: Harness) -> None:
    """The escalation comes when the policy says, not sooner."""
    for who in ("ana", "cleo"):
        status(harness, who, ":palm_tree:")
    thread = ask(harness, ("note", {"text": "empty office"}))
    card = harness.card(SUPPORT, thread)
    assert f"🌴 {ANA} and {CLEO} are away" in words(card)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO in line
    vote(harness, "dan", card)
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert not showing(harness, SUPPORT, thread, ESCALATED)
    later(harness, 1200)
    harness.said(SUPPORT, thread, ESCALATED)
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.SUCCEEDED]


def test_people_whose_status_has_ended_are_not_away(harness: Harness) -> None:
    """A status that only says "busy" or "travelling" does not count as away either."""
    status(harness, "ana", ":palm_tree:", 300)
    status(harness, "cleo", ":bus:")
    thread = waiting(harness, ("note", {"text": "short holiday"}))
    card = harness.card(SUPPORT, thread)
    assert f"🌴 {ANA} is away until" in words(card)
    later(harness, 660)
    line = words(harness.said(SUPPORT, thread, REMINDED))
    assert ANA in line
    assert CLEO in line
    harness.slack.wait(lambda: "is away" not in words(now_at(harness, SUPPORT, card["ts"])))


def test_a_waiting_card_adds_approvers_who_go_away_later(harness: Harness) -> None:
    """It is updated with the next reminder."""
    thread = waiting(harness, ("note", {"text": "left early"}))
    card = harness.card(SUPPORT, thread)
    assert "away" not in words(card)
    status(harness, "cleo", ":palm_tree:")
    later(harness, 660)
    assert CLEO not in words(harness.said(SUPPORT, thread, REMINDED))
    harness.slack.wait(lambda: f"🌴 {CLEO} is away" in words(now_at(harness, SUPPORT, card["ts"])))
