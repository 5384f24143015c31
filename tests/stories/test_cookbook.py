"""Recipes of the documentation over the wire, as they stand on the page."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from storage.states import CallStatus
from tests.policy.test_policy_cookbook import RECIPES
from tests.stories.world import SUPPORT, World, action_ids, arrived, ask, told, words

C = CallStatus


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The demo's shop and Slack."""
    world = World(tmp_path_factory.mktemp("cookbook"))
    yield world
    world.close()


@pytest.fixture
def world(made: World) -> Iterator[World]:
    """It, at rest."""
    yield made
    made.reset()


def cook(world: World, title: str) -> None:
    """Start the bot with that recipe."""
    world.policy = RECIPES[title]
    world.restart()


def refund(world: World, amount: str, order: int = 1042, who: str = "ben") -> str:
    """Someone asks for a refund; returns the thread."""
    return ask(
        world, ("refund_order", {"order_id": order, "amount": amount, "reason": "late"}), who=who
    )


def ended(world: World, thread: str, who: str = "ben") -> list[CallStatus]:
    """How its calls ended, once the agent has answered."""
    world.said(SUPPORT, thread, "That is all.", who)
    world.settle()
    return [call.status for call in world.calls_in(thread)]


def in_dm(world: World, who: str) -> list[dict[str, Any]]:
    """The cards that this person has among their direct messages."""
    return [
        m
        for m in world.person(who).messages(world.person(who).dm_channel)
        if "approve" in action_ids(m)
    ]


def click(world: World, who: str, channel: str, card: dict[str, Any]) -> None:
    """Approve, until that has been dealt with."""
    world.person(who).click(channel, card["ts"], "approve")
    arrived(world)


def test_refunds_with_a_daily_limit(world: World) -> None:
    """A small one runs, a larger one asks the leads, and when the day is full finance is asked
    about a small one.
    """
    cook(world, "Refunds with a daily limit")
    left = world.shop.order(1042).left
    assert ended(world, refund(world, "10.00")) == [C.SUCCEEDED]
    assert world.shop.order(1042).left == left - 10
    thread = refund(world, "480.00", 1044)
    card = world.card(SUPPORT, thread)
    assert "S0LEADS" in words(card)
    world.settle()
    world.planner.clear()
    thread = refund(world, "10.01")
    card = world.card(SUPPORT, thread)
    assert "S0FINANCE" in words(card)
    click(world, "ana", SUPPORT, card)
    told(world, "ana", SUPPORT, thread, "You cannot decide this one")
    click(world, "cleo", SUPPORT, card)
    assert ended(world, thread) == [C.SUCCEEDED]
    assert world.shop.order(1042).left == left - Decimal("20.01")


def test_two_stages(world: World) -> None:
    """Both leads get a card, finance gets one when a lead has approved, and then the order is
    cancelled.
    """
    cook(world, "Two stages")
    thread = ask(world, ("cancel_order", {"order_id": 1044, "reason": "changed their mind"}))
    [card] = world.slack.wait(lambda: in_dm(world, "ana"))
    world.settle()
    assert len(in_dm(world, "cleo")) == 1  # as a lead
    click(world, "ana", world.person("ana").dm_channel, card)
    [mine] = in_dm(world, "cleo")
    assert "Step 2 of 2" in words(mine)
    assert world.shop.order(1044).status != "cancelled"
    click(world, "cleo", world.person("cleo").dm_channel, mine)
    assert ended(world, thread) == [C.SUCCEEDED]
    assert world.shop.order(1044).status == "cancelled"


def test_four_eyes(world: World) -> None:
    """Who asks is told to find somebody else; anybody of the channel will do."""
    cook(world, "Four eyes")
    left = world.shop.order(1042).left
    thread = refund(world, "1.00", who="dan")
    card = world.card(SUPPORT, thread)
    click(world, "dan", SUPPORT, card)
    told(world, "dan", SUPPORT, thread, "somebody else has to approve it")
    assert world.shop.order(1042).left == left
    click(world, "ben", SUPPORT, card)
    assert ended(world, thread, "dan") == [C.SUCCEEDED]
    assert world.shop.order(1042).left == left - Decimal(1)


def test_a_team_of_one(world: World) -> None:
    """Ben confirms his own request, in a direct message; the thread says where."""
    cook(world, "A team of one")
    thread = refund(world, "2.00")
    [card] = world.slack.wait(lambda: in_dm(world, "ben"))
    world.said(SUPPORT, thread, "in direct messages")
    click(world, "ben", world.person("ben").dm_channel, card)
    assert ended(world, thread) == [C.SUCCEEDED]


def test_a_paused_tool(world: World) -> None:
    """Paused while a refund waits for a lead: neither that one nor a small one runs, and all hear
    why (B05).
    """
    cook(world, "Refunds with a daily limit")
    left = world.shop.order(1042).left
    thread = refund(world, "60.00")
    card = world.card(SUPPORT, thread)
    cook(world, "A paused tool")
    click(world, "ana", SUPPORT, card)
    assert ended(world, thread) == [C.INVALIDATED]
    assert "Refunds are paused until the books are closed" in world.outputs()[-1]["output"]
    thread = refund(world, "1.00")
    assert "Refunds are paused" in words(world.said(SUPPORT, thread, "I did not ask anybody"))
    assert ended(world, thread) == [C.REFUSED]
    assert world.shop.order(1042).left == left
