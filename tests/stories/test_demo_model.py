"""Conversations with the demo's stand-in for the model."""

from __future__ import annotations

from decimal import Decimal

from storage.states import CallStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import menu


def test_the_stand_in_proposes_a_changed_plan_after_feedback(harness: Harness) -> None:
    """It asks for an amount above zero first, and says nothing is done before it is."""
    left = harness.shop.get_order(1042).refundable_amount
    ben, ana = harness.person("ben"), harness.person("ana")
    thread = ben.say(SUPPORT, "@bot refund −5 EUR of order 1042")
    harness.said(SUPPORT, thread, "I still need the amount in EUR, above zero.")
    ben.say(SUPPORT, "@bot 15 EUR, the mug was chipped", thread)
    card = harness.card(SUPPORT, thread)
    assert "Something in the order was damaged." in words(card)
    menu(harness, "ana", card, "send_back")
    harness.slack.wait(ana.view)
    assert ana.submit({"words": {"text": {"value": "less, please"}}})["outcome"] == "closed"
    harness.said(SUPPORT, thread, "Tell me what to change, and I will propose it again.")
    assert "is done" not in str([words(each) for each in harness.thread(SUPPORT, thread)])
    ben.say(SUPPORT, "@bot make it 10 EUR", thread)
    card = harness.card(SUPPORT, thread)
    ana.click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "That is done.")
    assert harness.shop.get_order(1042).refundable_amount == left - Decimal(10)


def test_the_stand_in_says_what_it_cannot_do(harness: Harness) -> None:
    """It offers requests to copy; a request that it can do only in part is not begun."""
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "@bot email the warehouse")
    harness.said(SUPPORT, thread, "Copy one of these and change it:")
    thread = ben.say(SUPPORT, "@bot refund 3 EUR of order 1042 and email the warehouse")
    harness.said(SUPPORT, thread, "I did not understand “email the warehouse”, or have no tool")
    assert not harness.calls_in(thread)


def test_the_stand_in_answers_while_its_call_waits(harness: Harness) -> None:
    """It says what waits, and replaces it only when told what to do instead."""
    left = harness.shop.get_order(1042).refundable_amount
    ben, ana = harness.person("ben"), harness.person("ana")
    thread = ben.say(SUPPORT, "@bot refund 14 EUR of order 1042, the mug was chipped")
    first = harness.card(SUPPORT, thread)
    ben.say(SUPPORT, "@bot what are you waiting for?", thread)
    harness.said(SUPPORT, thread, "waits for a decision, and has not run.")
    harness.settle()
    assert [call.status for call in harness.calls_in(thread)] == [CallStatus.PENDING]
    ben.say(SUPPORT, "@bot make it 11 EUR instead", thread)
    harness.slack.wait(lambda: len(harness.calls_in(thread)) == 2)
    harness.settle()
    card = harness.card(SUPPORT, thread)
    assert "11.00 EUR" in words(card)
    assert card["ts"] != first["ts"]
    ana.click(SUPPORT, card["ts"], "approve", seen=card)
    harness.said(SUPPORT, thread, "That is done.")
    assert harness.shop.get_order(1042).refundable_amount == left - Decimal(11)


def test_the_stand_in_asks_which_order_is_meant(harness: Harness) -> None:
    """A plain reply answers its question, and then it proposes the refund."""
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "@bot refund 3 EUR, the lid was missing")
    asked = harness.card(SUPPORT, thread, "ben", "answer")
    assert "Which order is it?" in words(asked)
    ben.say(SUPPORT, "1042", thread)
    card = harness.card(SUPPORT, thread)
    assert "Refund 3.00 EUR" in words(card)
    assert "1042" in words(card)
