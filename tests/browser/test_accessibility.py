"""The way to a decision under an accessibility checker, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.demo.demo import build_visitor_guide
from sandbox.tests.page.axe import Checked
from sandbox.tests.page.page import THREAD, Page
from tests.stories.harness import SUPPORT, Harness

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, str]]:
    """The whole product with the demo's guide, and a thread in which a card waits for Ana."""
    world = Harness(tmp_path_factory.mktemp("product"))
    world.slack.world.guide = build_visitor_guide
    root = world.person("ben").say(
        SUPPORT, "@countersign refund 15 EUR of order 1042, the mug was chipped"
    )
    world.card(SUPPORT, root)
    yield world, root
    world.close()


def test_axe_finds_nothing_on_the_way_to_a_decision(
    page: Page, product: tuple[Harness, str]
) -> None:
    """First steps, the card, the hint, Edit with an error, notifications, deliveries and JSON."""
    world, root = product
    check = Checked(page)
    page.open(world.slack.url, "ben", "C0GENERAL").one("[data-testid=hint]")
    check.at("first steps")
    page.open(world.slack.url, "ben", SUPPORT, thread=root).one(f"{THREAD} [data-testid=next-hint]")
    check.at("the requester's thread")
    page.press("[data-testid=next-act]")
    page.click("edit")
    page.modal()
    page.fill("f:amount", "12.345")
    page.submit()
    page.wait_errors()
    check.at("an error in Edit")
    page.press("[data-testid=modal-json]")
    page.one("[data-testid=json-dialog]")
    check.at("the JSON of Edit")
    page.press("[data-testid=json-close]")
    page.close_modal()
    page.press("[data-testid=bell]")
    page.one("[data-testid=note]")
    check.at("notifications")
    page.press("[data-testid=inspect]")
    page.press("[data-testid=inspector-deliveries]")
    page.press("[data-testid=log-row] summary")
    page.one("[data-testid=log-row] .json")
    check.at("deliveries")
    assert check.found == {}
    assert page.complaints() == []
