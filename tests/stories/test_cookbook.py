"""Recipes of the documentation over the wire, as they stand on the page."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from storage.states import CallStatus
from tests.policy.recipes import FIRST, RECIPES
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, told

C = CallStatus


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The demo's shop and Slack."""
    harness = Harness(tmp_path_factory.mktemp("cookbook"))
    yield harness
    harness.close()


@pytest.fixture
def harness(made: Harness) -> Iterator[Harness]:
    """It, at rest."""
    yield made
    made.reset()


def cook(harness: Harness, title: str, limit: tuple[str, str] | None = None) -> None:
    """Start the bot with that recipe; `limit`: a number in it, and what stands in its place."""
    recipe = {**FIRST, **RECIPES}[title]
    assert limit is None or recipe.count(limit[0]) == 1
    harness.policy = recipe.replace(*limit) if limit else recipe
    harness.restart()


def refund(harness: Harness, amount: str, order: int = 1042, who: str = "ben") -> str:
    """Someone asks for a refund; returns the thread."""
    return ask(
        harness, ("refund_order", {"order_id": order, "amount": amount, "reason": "late"}), who=who
    )


def ended(harness: Harness, thread: str, who: str = "ben") -> list[CallStatus]:
    """How its calls ended, once the agent has answered."""
    harness.said(SUPPORT, thread, "That is all.", who)
    harness.settle()
    return [call.status for call in harness.calls_in(thread)]


def in_dm(harness: Harness, who: str) -> list[dict[str, Any]]:
    """The cards that this person has among their direct messages."""
    return [
        m
        for m in harness.person(who).messages(harness.person(who).dm_channel)
        if "approve" in action_ids(m)
    ]


def click(harness: Harness, who: str, channel: str, card: dict[str, Any]) -> None:
    """Approve, until that has been dealt with."""
    harness.person(who).click(channel, card["ts"], "approve")
    arrived(harness)


def test_refunds_with_a_daily_limit(harness: Harness) -> None:
    """A small one runs, a larger one asks the leads, and on a full day finance is asked."""
    cook(harness, "Refunds with a daily limit", limit=("500.0", "70.0"))
    left = harness.shop.get_order(1042).refundable_amount
    assert ended(harness, refund(harness, "10.00")) == [C.SUCCEEDED]
    assert harness.shop.get_order(1042).refundable_amount == left - 10
    thread = refund(harness, "55.00", 1044)
    card = harness.card(SUPPORT, thread)
    assert "S0LEADS" in words(card)
    harness.settle()
    harness.planner.clear_script()
    thread = refund(harness, "10.01")
    card = harness.card(SUPPORT, thread)
    assert "S0FINANCE" in words(card)
    click(harness, "ana", SUPPORT, card)
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    click(harness, "cleo", SUPPORT, card)
    assert ended(harness, thread) == [C.SUCCEEDED]
    assert harness.shop.get_order(1042).refundable_amount == left - Decimal("20.01")


def test_an_order_is_cancelled_in_two_stages(harness: Harness) -> None:
    """Both leads get a card, and finance gets one when a lead has approved.

    Then the order is cancelled.
    """
    cook(harness, "Two stages")
    thread = ask(harness, ("cancel_order", {"order_id": 1044, "reason": "changed their mind"}))
    [card] = harness.slack.wait(lambda: in_dm(harness, "ana"))
    harness.settle()
    assert len(in_dm(harness, "cleo")) == 1  # as a lead
    click(harness, "ana", harness.person("ana").dm_channel, card)
    [mine] = in_dm(harness, "cleo")
    assert "Step 2 of 2" in words(mine)
    assert harness.shop.get_order(1044).status != "cancelled"
    click(harness, "cleo", harness.person("cleo").dm_channel, mine)
    assert ended(harness, thread) == [C.SUCCEEDED]
    assert harness.shop.get_order(1044).status == "cancelled"


def test_a_change_takes_somebody_else_of_the_channel(harness: Harness) -> None:
    """Who asks is told to find somebody else; anybody of the channel will do."""
    cook(harness, "Reading is free, changes are asked")
    left = harness.shop.get_order(1042).refundable_amount
    thread = refund(harness, "1.00", who="dan")
    card = harness.card(SUPPORT, thread)
    click(harness, "dan", SUPPORT, card)
    told(harness, "dan", SUPPORT, thread, "somebody else has to approve it")
    assert harness.shop.get_order(1042).refundable_amount == left
    click(harness, "ben", SUPPORT, card)
    assert ended(harness, thread, "dan") == [C.SUCCEEDED]
    assert harness.shop.get_order(1042).refundable_amount == left - Decimal(1)


def test_a_team_of_one(harness: Harness) -> None:
    """Ben confirms his own request, in a direct message; the thread says where."""
    cook(harness, "A team of one")
    thread = refund(harness, "2.00")
    [card] = harness.slack.wait(lambda: in_dm(harness, "ben"))
    harness.said(SUPPORT, thread, "in direct messages")
    click(harness, "ben", harness.person("ben").dm_channel, card)
    assert ended(harness, thread) == [C.SUCCEEDED]


def test_a_paused_tool(harness: Harness) -> None:
    """Paused while a refund waits for a lead: neither that one nor a small one runs.

    All hear why.
    """
    cook(harness, "Refunds with a daily limit")
    left = harness.shop.get_order(1042).refundable_amount
    thread = refund(harness, "60.00")
    card = harness.card(SUPPORT, thread)
    cook(harness, "A paused tool")
    click(harness, "ana", SUPPORT, card)
    assert ended(harness, thread) == [C.INVALIDATED]
    assert "Refunds are paused until the books are closed" in harness.outputs()[-1]["output"]
    thread = refund(harness, "1.00")
    assert "Refunds are paused" in words(harness.said(SUPPORT, thread, "I did not ask anybody"))
    assert ended(harness, thread) == [C.REFUSED]
    assert harness.shop.get_order(1042).refundable_amount == left
