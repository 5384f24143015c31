"""Who is away by their status: what cards and reminders make of it, and what it never changes."""

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
    """Somebody sets their status, for so many seconds or for good, and the bot has heard of it."""
    until = int(harness.clock.now().timestamp()) + seconds if seconds else 0
    harness.person(who).set_status(emoji, until=until)
    arrived(harness)


@pytest.fixture(autouse=True)
def _all_there(harness: Harness) -> Iterator[None]:
    """No story leaves anybody away."""
    yield
    for who in ("ana", "cleo"):
        status(harness, who)


def test_the_card_says_who_is_away(harness: Harness, fakes: FakeTools) -> None:
    """With until when, if they say so; they may decide all the same."""
    status(harness, "ana", ":palm_tree:", 7200)
    thread = ask(harness, ("note", {"text": "hammock"}))
    card = harness.card(SUPPORT, thread)
    assert f"🌴 {ANA} is away until <!date^" in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "hammock") == 1


def test_home_says_who_is_away(harness: Harness) -> None:
    """Below the requests of whoever waits, as long as they wait for somebody who is away."""
    status(harness, "cleo", ":palm_tree:")
    thread = ask(harness, ("note", {"text": "sun hat"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "ben", "Your requests", "sun hat", f"🌴 {CLEO} is away")
    vote(harness, "ana", card)
    wait(harness, "ben", "✅ Done: ", "sun hat", without="is away")


def test_a_reminder_calls_those_who_are_there(harness: Harness) -> None:
    """Of people who are named and of a group only who is there is called, and who is back again."""
    status(harness, "ana", ":face_with_thermometer:")
    for tool in ("note", "wipe"):
        thread = waiting(harness, (tool, {"text": f"tea for {tool}"}))
        card = harness.card(SUPPORT, thread)
        named = ANA if tool == "note" else "Ana Ruiz"  # whom the card notifies is mentioned
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


def test_a_question_calls_those_who_are_there(harness: Harness) -> None:
    """Its message says who is away, its reminder names who is there; of a group only those."""
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


def test_where_all_are_away_all_are_called(harness: Harness) -> None:
    """Nobody else may decide for that: the escalation comes when the policy says, not sooner."""
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


def test_a_status_that_ends_is_over(harness: Harness) -> None:
    """Who said until when is back then, and a status of somebody who is just busy means nothing."""
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


def test_the_card_is_told_who_has_left_since(harness: Harness) -> None:
    """With a reminder the card says who is away by then."""
    thread = waiting(harness, ("note", {"text": "left early"}))
    card = harness.card(SUPPORT, thread)
    assert "away" not in words(card)
    status(harness, "cleo", ":palm_tree:")
    later(harness, 660)
    assert CLEO not in words(harness.said(SUPPORT, thread, REMINDED))
    harness.slack.wait(lambda: f"🌴 {CLEO} is away" in words(now_at(harness, SUPPORT, card["ts"])))
