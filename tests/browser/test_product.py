"""The product as a person meets it: through the page, with the real bot behind it and the stand-in planner planning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.states import CallStatus
from tests.stories.world import SUPPORT, World

from .page import Page

REFUND = "@countersign refund 40 EUR of order 1042, it arrived broken"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """The whole product, its own."""
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def asked(world: World, page: Page) -> Page:
    """Ben asked for a refund in #support; Ana has the thread with the card open."""
    page.open(world.slack.url, "ben", SUPPORT)
    page.say(REFUND)
    root = page.ts("refund 40 EUR")
    page.message("Refund 40.00 EUR of order 1042", thread=True)
    page.be("ana")
    page.open_thread(root)
    page.message("Refund 40.00 EUR of order 1042", thread=True)
    return page


def test_chat_and_approve(asked: Page, world: World) -> None:
    """Ask, approve, read the answer: the card then says who approved and what came of it, without buttons."""
    asked.click("approve")
    asked.message("is done", thread=True)
    world.settle()
    asked.gone('[data-testid="thread"] [data-action-id="approve"]')
    assert world.shop.order(1042).refunded == 40
    assert "Ana Ruiz approved" in asked.message("approved: Refund", thread=True).text
    assert asked.complaints() == []


def test_edit_with_an_error_then_approve_by_another(asked: Page, world: World) -> None:
    """An impossible amount is said at its field; the corrected one makes a new revision that somebody else approves."""
    asked.click("edit")
    asked.modal("Refund an order")
    asked.fill("f:amount", "12.345")
    asked.submit()
    assert "f:amount" in asked.wait_errors()
    asked.fill("f:amount", "25.50")
    asked.submit()
    asked.message("edited: Refund 25.50 EUR", thread=True)
    assert "40.00" in asked.message("Amount (EUR)", thread=True).text
    asked.click("approve")
    asked.message("You edited this, so somebody else has to approve it", thread=True)
    asked.be("cleo")
    asked.click("approve")
    asked.message("is done", thread=True)
    assert world.shop.order(1042).refunded == pytest.approx(25.5)


def test_reject_with_a_reason(asked: Page, world: World) -> None:
    """The dialog asks why; the reason stands in the thread and reaches the agent; nothing is refunded."""
    asked.click("reject")
    asked.modal("Reject")
    asked.fill("reason", "value")
    asked.fill("words", "Only the mug broke")
    asked.submit()
    asked.message("rejected: Refund 40.00 EUR of order 1042", thread=True)
    world.settle()
    assert "Only the mug broke" in str(world.planner.requests[-1]["input"])
    assert world.shop.order(1042).refunded == 0


def test_watch_a_deadline_pass(asked: Page, world: World) -> None:
    """Move the clock: the card loses its buttons and says that nobody answered."""
    asked.advance(3600)
    asked.message("Nobody answered by", thread=True)
    asked.gone('[data-testid="thread"] [data-action-id="approve"]')
    world.settle()
    assert [call.status for call in world.calls_in(world.slack.person("ben").messages(SUPPORT)[0]["ts"])] == [
        CallStatus.EXPIRED
    ]


def test_destructive_asks_twice_and_the_narrow_dark_page_works(world: World, page: Page) -> None:
    """On a phone's width, in the dark: a cancellation asks for confirmation before it is approved."""
    page.size(390, 844)
    page.open(world.slack.url, "ben", SUPPORT, theme="dark")
    page.say("@countersign cancel order 1043, the customer changed her mind")
    world.card("C0FINANCE", None, "cleo")
    page.be("cleo")
    page.go("C0FINANCE")
    page.message("This cannot be undone")
    page.click("approve")
    page.confirm(False)
    assert world.shop.order(1043).status == "processing"
    page.click("approve")
    page.confirm()
    page.message("Done")
    world.settle()
    assert world.shop.order(1043).status == "cancelled"
