"""Recipes of the documentation, run as they stand on the page."""

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
def recipe_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """One bot with the demo's shop for all recipes."""
    harness = Harness(tmp_path_factory.mktemp("cookbook"))
    yield harness
    harness.close()


@pytest.fixture
def harness(recipe_harness: Harness) -> Iterator[Harness]:
    """That bot, at rest."""
    yield recipe_harness
    recipe_harness.reset()


def start_with_recipe(harness: Harness, title: str, limit: tuple[str, str] | None = None) -> None:
    """Start the bot with that recipe; `limit`: a number in it, and what replaces it."""
    recipe = {**FIRST, **RECIPES}[title]
    assert limit is None or recipe.count(limit[0]) == 1
    harness.policy = recipe.replace(*limit) if limit else recipe
    harness.restart()


def ask_for_refund(harness: Harness, amount: str, order: int = 1042, who: str = "ben") -> str:
    """Ask for a refund; returns the thread."""
    return ask(
        harness, ("refund_order", {"order_id": order, "amount": amount, "reason": "late"}), who=who
    )


def wait_for_statuses(harness: Harness, thread: str, who: str = "ben") -> list[CallStatus]:
    """The statuses of the thread's calls once the agent has answered."""
    harness.said(SUPPORT, thread, "That is all.", who)
    harness.settle()
    return [call.status for call in harness.calls_in(thread)]


def list_cards_in_dm(harness: Harness, who: str) -> list[dict[str, Any]]:
    """The cards among this person's direct messages."""
    return [
        m
        for m in harness.person(who).messages(harness.person(who).dm_channel)
        if "approve" in action_ids(m)
    ]


def approve(harness: Harness, who: str, channel: str, card: dict[str, Any]) -> None:
    """Approve, and wait until that is handled."""
    harness.person(who).click(channel, card["ts"], "approve")
    arrived(harness)


def test_refunds_are_decided_by_amount_and_daily_limit(harness: Harness) -> None:
    """A small one runs, a larger one asks the leads, and above the daily limit finance is asked."""
    start_with_recipe(harness, "Refunds with a daily limit", limit=("500.0", "70.0"))
    left = harness.shop.get_order(1042).refundable_amount
    assert wait_for_statuses(harness, ask_for_refund(harness, "10.00")) == [C.SUCCEEDED]
    assert harness.shop.get_order(1042).refundable_amount == left - 10
    thread = ask_for_refund(harness, "55.00", 1044)
    card = harness.card(SUPPORT, thread)
    assert "S0LEADS" in words(card)
    harness.settle()
    harness.planner.clear_script()
    thread = ask_for_refund(harness, "10.01")
    card = harness.card(SUPPORT, thread)
    assert "S0FINANCE" in words(card)
    approve(harness, "ana", SUPPORT, card)
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    approve(harness, "cleo", SUPPORT, card)
    assert wait_for_statuses(harness, thread) == [C.SUCCEEDED]
    assert harness.shop.get_order(1042).refundable_amount == left - Decimal("20.01")


def test_an_order_is_cancelled_in_two_stages(harness: Harness) -> None:
    """Finance is asked once a lead has approved."""
    start_with_recipe(harness, "Two stages")
    thread = ask(harness, ("cancel_order", {"order_id": 1044, "reason": "changed their mind"}))
    [card] = harness.slack.wait(lambda: list_cards_in_dm(harness, "ana"))
    harness.settle()
    assert len(list_cards_in_dm(harness, "cleo")) == 1  # as a lead
    approve(harness, "ana", harness.person("ana").dm_channel, card)
    [mine] = list_cards_in_dm(harness, "cleo")
    assert "Step 2 of 2" in words(mine)
    assert harness.shop.get_order(1044).status != "cancelled"
    approve(harness, "cleo", harness.person("cleo").dm_channel, mine)
    assert wait_for_statuses(harness, thread) == [C.SUCCEEDED]
    assert harness.shop.get_order(1044).status == "cancelled"


def test_a_change_is_approved_by_somebody_else_in_the_channel(harness: Harness) -> None:
    """Anybody else in the channel may approve it."""
    start_with_recipe(harness, "Reading is free, changes are asked")
    left = harness.shop.get_order(1042).refundable_amount
    thread = ask_for_refund(harness, "1.00", who="dan")
    card = harness.card(SUPPORT, thread)
    approve(harness, "dan", SUPPORT, card)
    told(harness, "dan", SUPPORT, thread, "somebody else has to approve it")
    assert harness.shop.get_order(1042).refundable_amount == left
    approve(harness, "ben", SUPPORT, card)
    assert wait_for_statuses(harness, thread, "dan") == [C.SUCCEEDED]
    assert harness.shop.get_order(1042).refundable_amount == left - Decimal(1)


def test_a_team_of_one_confirms_its_own_requests(harness: Harness) -> None:
    """The card comes in a direct message, and the thread says so."""
    start_with_recipe(harness, "A team of one")
    thread = ask_for_refund(harness, "2.00")
    [card] = harness.slack.wait(lambda: list_cards_in_dm(harness, "ben"))
    harness.said(SUPPORT, thread, "in direct messages")
    approve(harness, "ben", harness.person("ben").dm_channel, card)
    assert wait_for_statuses(harness, thread) == [C.SUCCEEDED]


def test_a_paused_tool_does_not_run_even_if_approved(harness: Harness) -> None:
    """A refund that waits for a lead does not run, nor does a new small one; both are told why."""
    start_with_recipe(harness, "Refunds with a daily limit")
    left = harness.shop.get_order(1042).refundable_amount
    thread = ask_for_refund(harness, "60.00")
    card = harness.card(SUPPORT, thread)
    start_with_recipe(harness, "A paused tool")
    approve(harness, "ana", SUPPORT, card)
    assert wait_for_statuses(harness, thread) == [C.INVALIDATED]
    assert "Refunds are paused until the books are closed" in harness.outputs()[-1]["output"]
    thread = ask_for_refund(harness, "1.00")
    assert "Refunds are paused" in words(harness.said(SUPPORT, thread, "I did not ask anybody"))
    assert wait_for_statuses(harness, thread) == [C.REFUSED]
    assert harness.shop.get_order(1042).refundable_amount == left
