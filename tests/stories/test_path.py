"""From a message to an answer, through a card: the path everything else stands on."""

from __future__ import annotations

from storage.states import CallStatus, RunStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, Turn, World, words


def test_mention_card_approve_effect_answer(world: World) -> None:
    """A mention becomes a card, the click runs the tool once, the thread gets the answer and the
    card the truth.
    """
    thread = world.person("ben").say(SUPPORT, "@bot refund 40 EUR of order 1042, it arrived broken")
    card = world.card(SUPPORT, thread)
    assert "Refund 40.00 EUR of order 1042" in words(card)
    assert world.shop.order(1042).refunded == 0

    world.person("ana").click(SUPPORT, card["ts"], "approve")
    answer = world.said(SUPPORT, thread, "feedback_buttons")
    world.settle()

    assert "1042" in words(answer)
    [call] = world.calls_in(thread)
    assert call.status is CallStatus.SUCCEEDED
    assert world.run_in(thread).status is RunStatus.COMPLETED
    assert world.shop.order(1042).refunded == 40
    [drawn] = [m for m in world.thread(SUPPORT, thread) if m["ts"] == card["ts"]]
    assert "UANA00001" in words(drawn)
    assert '"button"' not in words(drawn)


def test_the_call_survives_a_restart_between_card_and_click(world: World, kit: Kit) -> None:
    """A card posted by an earlier life of the process is decided by the next one (S09, X05)."""
    world.planner.script(
        Turn(calls=[("note", {"text": "over the restart"})]), Turn(text="It is noted.")
    )
    thread = world.person("ben").say(SUPPORT, "@bot note this")
    card = world.card(SUPPORT, thread)
    world.restart()

    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "It is noted.")
    world.settle()

    assert kit.did("note", "over the restart") == 1
    assert [c.status for c in world.calls_in(thread)] == [CallStatus.SUCCEEDED]
