"""Requests without a model, on the page: the shortcut, the form, the card, asked again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.tests.page.page import MODAL, THREAD, Page
from tests.stories.harness import SUPPORT, Harness

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The whole product, without a model."""
    world = Harness(tmp_path_factory.mktemp("requests"), OPENAI_API_KEY="")
    yield world
    world.close()


def test_a_request_by_form_is_corrected_approved_and_repeated(page: Page, world: Harness) -> None:
    """Ben corrects an error in the form, Ana approves, and Ben asks for more."""
    page.open(world.slack.url, "ben", SUPPORT)
    page.say("/approvals request")
    page.modal("New request")
    page.choose(MODAL, "tool:refund_order")
    page.modal("Refund an order")
    page.fill("f:order_id", "9999")
    page.fill("f:amount", "12")
    page.fill("f:reason", "late")
    page.submit()
    assert page.wait_errors() == {"f:order_id": "There is no order 9999."}
    page.fill("f:order_id", "1036")
    page.fill("why", "It came ten days late.")
    page.submit()
    root = page.ts("asks: “Refund 12.00 EUR of order 1036")
    page.open_thread(root)
    page.be("ana")
    page.open_thread(root)
    assert "It came ten days late." in page.message_text("Refund 12.00", thread=True)
    page.click("approve", within=THREAD)
    page.message("Approved by", thread=True)
    assert world.shop.get_order(1036).refunded == 12
    page.be("ben")
    page.open_thread(root)
    page.press(f"{THREAD} [data-action-id=more]")
    page.press("[data-testid=menu] [role=menuitem]")
    page.modal("Refund an order")
    assert page.value("f:order_id") == "1036"
    page.fill("f:amount", "3")
    page.submit()
    page.message("asks: “Refund 3.00 EUR of order 1036")
    assert page.complaints() == []
    assert world.planner.requests == []
