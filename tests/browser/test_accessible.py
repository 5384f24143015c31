"""The whole page under an accessibility checker, and the place of the focus in it: light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from bot.sandbox.guide import first_steps
from tests.stories.world import SUPPORT, World

from .axe import findings
from .office import Office
from .page import MAIN, THREAD, Page

pytestmark = pytest.mark.browser
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1280, 390)]
# What holds the focus, and whether a ring, a border's shadow or a background of its own shows it.
FOCUS_SHOWS = """const node = document.activeElement;
const look = (one) => { const s = getComputedStyle(one); return [s.outlineStyle, s.outlineWidth, s.boxShadow, s.borderColor, s.backgroundColor].join("/"); };
const around = [node, node.closest(".composer"), node.closest("label")].filter(Boolean);
const focused = around.map(look);
node.blur();
const plain = around.map(look);
node.focus({focusVisible: true});
return [node.outerHTML.slice(0, 120), JSON.stringify(focused) !== JSON.stringify(plain), node === document.body];"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    """The whole product with the demo's guide, and the thread in which a card waits for Ana."""
    world = World(tmp_path_factory.mktemp("product"))
    world.slack.world.guide = first_steps
    root = world.person("ben").say(SUPPORT, "@countersign refund 15 EUR of order 1042, the mug was chipped")
    world.card(SUPPORT, root)
    yield world, root
    world.close()


@pytest.fixture(scope="module")
def furnished(office: Office) -> str:
    """The ts of the message in #support that has everything a message can have."""
    return office.furnish()


class Checked:
    """Collects what axe finds at each place, so that a test names all of it at once."""

    def __init__(self, page: Page, theme: str, width: int) -> None:
        page.size(width, 900 if width > 500 else 844)
        self.page, self.theme, self.found = page, theme, dict[str, list[str]]()

    def at(self, place: str) -> None:
        """Look here."""
        if found := findings(self.page):
            self.found[place] = found


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_on_the_way_to_a_decision(
    page: Page, product: tuple[World, str], theme: str, width: int
) -> None:
    """First steps, the card in its thread, the hint, Edit with an error, the phone, deliveries and JSON."""
    world, root = product
    check = Checked(page, theme, width)
    page.open(world.slack.url, "ben", "C0GENERAL", theme).one("[data-testid=hint]")
    check.at("first steps")
    page.open(world.slack.url, "ben", SUPPORT, theme, root).one(f"{THREAD} [data-testid=next-hint]")
    check.at("the requester's thread")
    page.press("[data-testid=next-act]")
    page.click("edit")
    page.modal()
    check.at("Edit")
    page.fill("f:amount", "12.345")
    page.submit()
    page.wait_errors()
    check.at("an error in Edit")
    page.close_modal()
    check.at("the approver's thread")
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


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_in_the_shell(page: Page, office: Office, furnished: str, theme: str, width: int) -> None:
    """A furnished channel, its menus, the picker, suggestions, editing, a question, Home, and places not joined."""
    check = Checked(page, theme, width)
    page.open(office.sandbox.url, "ben", SUPPORT, theme).message("Only for Ben")
    check.at("a channel")
    page.press(f'{MAIN} [data-ts="{furnished}"] .reaction.add')
    check.at("the picker")
    page.keys(Keys.ESCAPE)
    page.menu(furnished, "edit")
    check.at("editing")
    page.press("[data-testid=edit-cancel]")
    page.menu(furnished, "delete")
    page.one("[data-testid=confirm]")
    check.at("a question")
    page.confirm(yes=False)
    for button in ("pins", "shortcuts", "clock-menu", "person-switch"):
        page.press(f"[data-testid={button}]")
        check.at(button)
        page.keys(Keys.ESCAPE)
    page.type("[data-testid=composer]", "/")
    page.one("[data-testid=suggest]")
    check.at("suggestions")
    page.keys(Keys.ESCAPE, Keys.BACKSPACE)
    page.go("Countersign")
    page.press("[data-testid=tab-home]")
    page.one("[data-testid=home] [data-block-type]")
    check.at("Home")
    if width < 500:
        page.press("[data-testid=menu-button]")
        page.one("[data-testid=sidebar]")
        check.at("the drawer")
    assert check.found == {}
