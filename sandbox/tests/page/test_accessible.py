"""The page's shell under an accessibility checker: light and dark, wide and narrow."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from .axe import Checked
from .page import MAIN, Page
from .workspace import Workspace

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_the_pages_shell_is_accessible(at: Page, workspace: Workspace) -> None:
    """A channel, menus, picker, editing, a question, Home and the drawer are accessible."""
    check = Checked(at)
    everything = workspace.furnish()
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
