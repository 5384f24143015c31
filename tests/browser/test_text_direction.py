"""Right-to-left text and emoji on a card, as the page draws them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from pydantic import BaseModel, Field

from bot.demo.model_server import Turn
from bot.tools import Effect, Preview, ToolContext, tool
from sandbox.tests.page.page import THREAD, Page
from tests.stories.harness import SUPPORT, Harness

pytestmark = [pytest.mark.browser, pytest.mark.long]
COFFEE = "קפה"
# the left edge of each text, in the first element with all of them
PLACES = """
const [root, texts] = arguments;
const walk = document.createTreeWalker(document.querySelector(root), NodeFilter.SHOW_TEXT);
for (let node = walk.nextNode(); node; node = walk.nextNode()) {
  const at = texts.map((text) => node.data.indexOf(text));
  if (at.some((place) => place < 0)) continue;
  return texts.map((text, n) => {
    const range = document.createRange();
    range.setStart(node, at[n]);
    range.setEnd(node, at[n] + text.length);
    return range.getBoundingClientRect().left;
  });
}
return null;
"""


class Price(BaseModel):
    """An item and its price."""

    item: str = Field(title="Item")
    mood: str = Field(title="Mood")
    amount: Decimal = Field(title="Amount", decimal_places=2)


def preview_price(args: Price, context: ToolContext) -> Preview:
    """Old and new price side by side."""
    return Preview(f"{args.item}: 40 → 30\n{args.item} 71 / {args.item} 72")


@tool(
    title="Set a price",
    effect="Set {item} 51 to {amount} EUR",
    does=Effect.WRITE,
    preview=preview_price,
)
def set_price(args: Price, context: ToolContext) -> None:
    """Set the price of an item."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The whole product with that tool."""
    world = Harness(tmp_path_factory.mktemp("order"), [set_price])
    yield world
    world.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_numbers_stay_in_order_beside_hebrew(page: Page, world: Harness, width: int) -> None:
    """In the headline and in the preview."""
    given = {"item": COFFEE, "mood": "👩🏽‍💻 ❤️", "amount": "412.5"}
    world.planner.script(Turn(calls=[("set_price", given)]))
    page.size(width, 844)
    page.open(world.slack.url, "ben", SUPPORT)
    root = world.person("ben").say(SUPPORT, f"@bot a price, on {width}")
    page.ts(f"on {width}")
    page.open(world.slack.url, "ben", SUPPORT, thread=root)
    page.message("412.50", thread=True)
    for texts in (["51", "412.50"], ["40", "→", "30"], ["71", "/", "72"]):
        places = page.driver.execute_script(PLACES, THREAD, texts)
        assert places is not None, texts
        assert places == sorted(places), texts
    shown = page.text(THREAD)
    assert "👩🏽‍💻 ❤️" in shown
    assert "U+200D" not in shown
