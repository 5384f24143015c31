"""Home on the page: filtering by channel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.tests.page.page import Page
from tests.stories.fakes import FakeTools
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.steps import waiting

pytestmark = [pytest.mark.browser, pytest.mark.long]
HOME = "[data-testid=home-view]"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The real bot, with a call waiting in each of two channels."""
    world = Harness(tmp_path_factory.mktemp("home"), FakeTools().tools, POLICY)
    for channel, text in ((SUPPORT, "a rose bed"), (GENERAL, "a bench")):
        world.card(channel, waiting(world, ("note", {"text": text}), channel=channel))
    yield world
    world.close()


def test_home_can_be_filtered_by_channel(page: Page, world: Harness) -> None:
    """The list of channels filters, and a button shows everything again."""
    page.driver.get(f"{world.slack.url}/?as=ana&theme=light#/DANA00001/home")
    page.wait(lambda: "a rose bed" in page.text(HOME) and "a bench" in page.text(HOME))
    page.choose(f"{HOME} [data-block-id^=homec]", GENERAL)
    page.one(f"{HOME} [data-action-id=home_anywhere]")
    page.wait(lambda: "a bench" in page.text(HOME) and "a rose bed" not in page.text(HOME))
    page.press(f"{HOME} [data-action-id=home_anywhere]")
    page.gone(f"{HOME} [data-action-id=home_anywhere]")
    page.wait(lambda: "a rose bed" in page.text(HOME))
