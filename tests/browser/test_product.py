"""The product on the page, with the real bot and the stand-in for the model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from bot.demo.demo import build_visitor_guide
from sandbox.tests.page.page import THREAD, Page
from storage.states import CallStatus
from tests.stories.harness import SUPPORT, Harness

pytestmark = [pytest.mark.browser, pytest.mark.long]
HINT = "[data-testid=next-hint]"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The whole product with the demo's guide; each test uses an order of its own."""
    world = Harness(tmp_path_factory.mktemp("product"))
    world.slack.world.guide = build_visitor_guide
    yield world
    world.close()


def ask_for_refund(page: Page, world: Harness, order: int) -> str:
    """Ben asks for a refund in #support, and Ana opens its thread; return the thread."""
    page.open(world.slack.url, "ben", SUPPORT)
    page.say(f"@countersign refund 40 EUR of order {order}, it arrived broken")
    root = page.ts(f"refund 40 EUR of order {order}")
    page.message(f"Refund 40.00 EUR of order {order}", thread=True)
    page.be("ana")
    page.open_thread(root)
    page.message(f"Refund 40.00 EUR of order {order}", thread=True)
    return root


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 664)])
def test_the_first_screen_says_what_to_try(
    page: Page, world: Harness, width: int, height: int
) -> None:
    """The welcome and three prompts, without scrolling, on a laptop and a small phone."""
    page.size(width, height)
    page.open(world.slack.url, "ben", "C0GENERAL")
    assert page.driver.title == "#general · Countersign"
    welcome = page.text("[data-testid=hint]")
    assert "Welcome to Countersign" in welcome
    assert "Ben Okafor (you) asks for things." in welcome
    assert "Cleo Martin may, too" in welcome
    below = page.one("[data-testid=below]").rect["y"]
    boxes = [each.rect for each in page.all("[data-testid=example]")]
    assert len(boxes) == 3
    assert all(box["y"] > 52 and box["y"] + box["height"] <= below for box in boxes)


def test_a_first_visitor_is_led_to_an_answer(page: Page, world: Harness) -> None:
    """By the page's hints alone: a prompt, whom to act as, the card, the answer."""
    page.open(world.slack.url, "ben", SUPPORT)
    assert len(page.all("[data-testid=example]")) == 3
    page.press("[data-testid=example]:first-child")
    assert "Only visible to you" in page.message_text("an AI assistant")
    page.message("Refund 15.00 EUR of order 1042", thread=True)
    assert page.text(f"{THREAD} {HINT} span") == "Ana Ruiz or Cleo Martin can decide this."
    page.press("[data-testid=next-act]")
    page.one("[data-testid=person-switch][data-me=ana]")
    page.message("Refund 15.00 EUR of order 1042", thread=True)
    page.gone(HINT)
    assert "an AI assistant" not in page.driver.page_source
    page.click("approve")
    page.message("is done", thread=True)
    world.settle()
    page.gone(f"{THREAD} [data-action-id=approve]")
    assert world.shop.get_order(1042).refunded == 15
    told = page.message_text("Approved by", thread=True)
    assert "Refunded 15.00 EUR of order 1042, 74.90 left" in told
    assert "Ana Ruiz" in told
    page.be("ben")
    assert not page.all("[data-testid=hint]")
    page.press("[data-testid=bell]")
    assert "That is done." in page.text("[data-testid=note]")
    assert page.complaints() == []


def test_the_newest_card_is_within_ten_tabs(page: Page, world: Harness) -> None:
    """Within ten tabs from the message box, by a link that leads to it."""
    root = world.person("ben").say(SUPPORT, "@countersign refund 11 EUR of order 1030, it was late")
    world.card(SUPPORT, root)
    page.open(world.slack.url, "ana", SUPPORT)
    page.one("[data-testid=composer]").click()
    for _ in range(10):
        page.keys(Keys.TAB)
        if page.focused().get_attribute("data-testid") == "to-card":
            page.keys(Keys.ENTER)
            break
    page.has_focus(f'{THREAD}[data-thread="{root}"] [data-action-id=approve]')


def test_asking_and_approving_work_by_keyboard(page: Page, world: Harness) -> None:
    """Ask, become Ana, open Edit and leave it, approve; the focus is never lost."""
    page.open(world.slack.url, "ben", SUPPORT)
    page.tab_to("[data-testid=composer]")
    page.keys("@countersign refund 20 EUR of order 1033, it came late", Keys.ENTER)
    page.message("Refund 20.00 EUR of order 1033", thread=True)
    page.keys(Keys.ALT, "p")
    page.keys("a", Keys.ENTER)
    page.one("[data-testid=person-switch][data-me=ana]")
    page.message("Refund 20.00 EUR of order 1033", thread=True)
    page.tab_to(f"{THREAD} [data-action-id=edit]")
    page.keys(Keys.ENTER)
    page.modal("Refund an order")
    page.has_focus("[data-testid=modal] *")
    page.keys(Keys.ESCAPE)
    page.gone("[data-testid=modal]")
    page.has_focus(f"{THREAD} [data-action-id=edit]")
    page.tab_to(f"{THREAD} [data-action-id=approve]", back=True)
    page.keys(Keys.ENTER)
    page.message("is done", thread=True)
    page.has_focus(f"{THREAD} *")
    assert world.shop.get_order(1033).refunded == 20


def test_a_hint_in_another_channel_leads_to_the_card(page: Page, world: Harness) -> None:
    """Ana reads #general while a card waits for her."""
    page.open(world.slack.url, "ana", "C0GENERAL")
    root = world.person("ben").say(
        SUPPORT, "@countersign refund 12 EUR of order 1037, one packet was open"
    )
    world.card(SUPPORT, root)
    assert "waits for your decision" in page.text(HINT)
    page.press("[data-testid=next-act]")
    page.click("approve", within=f'{THREAD}[data-thread="{root}"]')
    page.gone(HINT)
    page.message("is done", thread=True)
    assert world.shop.get_order(1037).refunded == 12


def test_an_edit_is_corrected_and_approved_by_another_person(page: Page, world: Harness) -> None:
    """The error is at its field.

    The corrected amount is a new revision that somebody else approves.
    """
    ask_for_refund(page, world, 1036)
    page.click("edit")
    page.modal("Refund an order")
    page.fill("f:amount", "12.345")
    page.submit()
    assert "f:amount" in page.wait_errors()
    page.fill("f:amount", "25.50")
    page.submit()
    page.message("edited: Refund 25.50 EUR", thread=True)
    assert "40.00" in page.message_text("Amount (EUR)", thread=True)
    page.click("approve")
    page.message("You edited this, so somebody else has to approve it", thread=True)
    page.be("cleo")
    page.click("approve")
    page.message("is done", thread=True)
    assert world.shop.get_order(1036).refunded == pytest.approx(25.5)


def test_a_rejection_has_a_reason(page: Page, world: Harness) -> None:
    """The thread and the agent get the reason. Nothing is refunded."""
    ask_for_refund(page, world, 1039)
    page.press(f"{THREAD} .overflow")
    page.press('[role=menu] [data-value^="reject:"]')
    page.modal("Reject")
    page.fill("reason", "value")
    page.fill("words", "Only the mug broke")
    page.submit()
    page.message("rejected: Refund 40.00 EUR of order 1039", thread=True)
    world.settle()
    assert "Only the mug broke" in str(world.planner.requests[-1]["input"])
    assert world.shop.get_order(1039).refunded == 0


def test_a_card_expires_when_the_clock_is_moved(page: Page, world: Harness) -> None:
    """The card loses its buttons and says that nobody answered."""
    root = ask_for_refund(page, world, 1041)
    page.advance(3600)
    page.message("Nobody answered by", thread=True)
    page.gone(f"{THREAD} [data-action-id=approve]")
    world.settle()
    assert [call.status for call in world.calls_in(root)] == [CallStatus.EXPIRED]


def test_approving_a_cancellation_asks_for_confirmation(page: Page, world: Harness) -> None:
    """On a phone, in the dark theme."""
    page.size(390, 844)
    page.open(world.slack.url, "ben", SUPPORT, theme="dark")
    page.say("@countersign cancel order 1043, the customer changed her mind")
    world.card("C0FINANCE", None, "cleo")
    page.be("cleo")
    page.go("C0FINANCE")
    page.message("This cannot be undone")
    page.click("approve")
    page.confirm(False)
    assert world.shop.get_order(1043).status == "processing"
    page.click("approve")
    page.confirm()
    page.message("Done")
    world.settle()
    assert world.shop.get_order(1043).status == "cancelled"


def test_a_large_refund_takes_two_approvals(page: Page, world: Harness) -> None:
    """The card says how many approvals are missing; the first one runs nothing."""
    page.open(world.slack.url, "ben", SUPPORT)
    page.say("@countersign refund 110 EUR of order 1031, it arrived broken")
    root = page.ts("refund 110 EUR of order 1031")
    page.be("ana")
    page.open_thread(root)
    assert "2 approvals needed" in page.message_text("Refund 110.00 EUR of order 1031", thread=True)
    page.click("approve")
    page.message("1 more approval needed", thread=True)
    world.settle()
    assert world.shop.get_order(1031).refunded == 0
    page.be("cleo")
    page.open_thread(root)
    page.message("1 more approval needed", thread=True)
    page.click("approve")
    page.message("is done", thread=True)
    world.settle()
    assert world.shop.get_order(1031).refunded == 110
    assert "Ana Ruiz and Cleo Martin" in page.message_text("Approved by", thread=True).replace(
        "@", ""
    )
