"""From a message to an answer, through a card."""

from __future__ import annotations

from bot.demo.model_server import Turn
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words


def test_a_mention_is_approved_on_a_card_run_once_and_answered(harness: Harness) -> None:
    """In the end the card names the approver and has no buttons."""
    thread = harness.person("ben").say(
        SUPPORT, "@bot refund 40 EUR of order 1039, it arrived broken"
    )
    card = harness.card(SUPPORT, thread)
    assert "Refund 40.00 EUR of order 1039" in words(card)
    assert harness.shop.get_order(1039).refunded == 0

    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "feedback_buttons")
    harness.settle()

    assert harness.said(SUPPORT, thread, "Refunded 40.00 EUR of order 1039, 32.00 left")
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.SUCCEEDED
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    assert harness.shop.get_order(1039).refunded == 40
    [drawn] = [m for m in harness.thread(SUPPORT, thread) if m["ts"] == card["ts"]]
    assert "UANA00001" in words(drawn)
    assert '"button"' not in words(drawn)


def test_a_call_survives_a_restart_before_the_click(harness: Harness, fakes: FakeTools) -> None:
    """The card was posted by the process before the restart."""
    harness.planner.script(
        Turn(calls=[("note", {"text": "over the restart"})]), Turn(text="It is noted.")
    )
    thread = harness.person("ben").say(SUPPORT, "@bot note this")
    card = harness.card(SUPPORT, thread)
    harness.restart()

    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "It is noted.")
    harness.settle()

    assert fakes.did("note", "over the restart") == 1
    assert [c.status for c in harness.calls_in(thread)] == [CallStatus.SUCCEEDED]
