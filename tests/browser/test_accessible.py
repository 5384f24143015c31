"""The whole page under an accessibility checker: light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from bot.sandbox.guide import first_steps
from tests.stories.harness import SUPPORT, Harness

from .axe import findings
from .office import Office
from .page import MAIN, THREAD, Page

pytestmark = pytest.mark.browser
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1280, 390)]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, str]]:
    """The whole product with the demo's guide, and the thread in which a card waits for Ana."""
    world = Harness(tmp_path_factory.mktemp("product"))
    world.slack.world.guide = first_steps
    root = world.person("ben").say(
        SUPPORT, "@countersign refund 15 EUR of order 1042, the mug was chipped"
    )
    world.card(SUPPORT, root)
    yield world, root
    world.close()


class Checked:
    """Collects what axe finds at each place, in every look, so that a test names all of it at once."""

    def __init__(self, page: Page) -> None:
        self.page, self.found = page, dict[str, list[str]]()
        still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
        # no colour on its way to another
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", still)

    def at(self, place: str, looks: Iterable[tuple[str, int]] = LOOKS) -> None:
        """Look here: light and dark, wide and narrow."""
        for theme, width in looks:
            self.page.size(width, 900)
            self.page.driver.execute_script(
                "document.documentElement.dataset.theme = arguments[0]", theme
            )
            if found := findings(self.page):
                self.found[f"{place}, {theme}, {width}"] = found
        self.page.size(1280, 900)


def test_axe_finds_nothing_on_the_way_to_a_decision(
    page: Page, product: tuple[Harness, str]
) -> None:
    """First steps, the card in its thread, the hint, Edit with an error, the phone, deliveries and
    JSON.
    """
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


def test_axe_finds_nothing_in_the_shell(at: Page, office: Office) -> None:
    """A furnished channel, its menus, the picker, suggestions, editing, a question, Home, and the
    drawer.
    """
    check = Checked(at)
    everything = office.furnish()
    at.message("Only for Ben")
    check.at("a channel")
    at.press(f'{MAIN} [data-ts="{everything}"] .reaction.add')
    check.at("the picker")
    at.keys(Keys.ESCAPE)
    at.menu(everything, "edit")
    check.at("editing")
    at.press("[data-testid=edit-cancel]")
    at.menu(everything, "delete")
    at.one("[data-testid=confirm]")
    check.at("a question")
    at.confirm(yes=False)
    at.press("[data-testid=person-switch]")
    check.at("a menu")
    at.keys(Keys.ESCAPE)
    at.type("[data-testid=composer]", "/")
    at.one("[data-testid=suggest]")
    check.at("suggestions")
    at.keys(Keys.ESCAPE, Keys.BACKSPACE)
    at.go("Countersign")
    at.press("[data-testid=tab-home]")
    at.one("[data-testid=home] [data-block-type]")
    check.at("Home")
    at.size(390, 844)
    at.press("[data-testid=menu-button]")
    at.one("[data-testid=sidebar]")
    check.at("the drawer", [("light", 390), ("dark", 390)])
    assert check.found == {}
