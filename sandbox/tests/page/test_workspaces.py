"""The rail of workspaces: what it shows and opens, and that a single workspace has no rail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest

from .axe import Checked
from .page import MAIN, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]
SECOND, THIRD = "T0SANDBOXB", "T0SANDBOXC"
RAIL = "[data-testid=rail]"


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Three workspaces; the app is in two of them."""
    with Sandbox(full_manifest(), workspaces=3) as running:
        running.install(running.world.app, ["support"], SECOND)
        yield running


def test_the_rail_switches_workspaces(page: Page, sandbox: Sandbox) -> None:
    """It works by keyboard too; the workspace's channels are shown, also after a reload."""
    second = sandbox.workspace(SECOND)
    second.person("ana").say("support", "tea is ready")
    page.open(sandbox.url, "ana")
    assert page.one(f"{RAIL} [aria-current]").get_attribute("data-team") == sandbox.team_id
    page.driver.execute_script("document.querySelector('[data-team=T0SANDBOXB]').focus()")
    page.keys(Keys.ENTER)
    page.one(f'{MAIN}[data-of="C0SUPPORTB"]')
    page.wait(lambda: "tea is ready" in page.text(MAIN), "no tea")
    page.driver.refresh()
    page.wait(lambda: "tea is ready" in page.text(MAIN), "no tea after a reload")
    assert page.text("[data-testid=side-team]") == "Sandbox Tea"
    page.say("for me, too")
    ana = second.person("ana")
    sandbox.wait(lambda: "for me, too" in [m["text"] for m in ana.messages("support")])
    assert sandbox.person("ana").messages("support") == []
    assert page.complaints() == []


def test_a_workspace_without_the_app_shows_nothing_of_it(page: Page, sandbox: Sandbox) -> None:
    """The page shows nothing of the app there, and people can still post."""
    page.driver.get(f"{sandbox.url}/?as=ana&team={THIRD}")
    page.one(f'{MAIN}[data-of="C0SUPPORTC"]')
    page.say("nobody here but us")
    page.wait(lambda: "nobody here but us" in page.text(MAIN), "not said")
    assert not page.all("[data-testid=mention-bot]")
    assert "not a member" not in page.text("[data-testid=channel-head]")
    assert sandbox.deliveries == []
    assert page.complaints() == []


def test_an_admin_removes_the_app(page: Page, sandbox: Sandbox) -> None:
    """An admin removes the app from one workspace in its direct message; the other keeps it."""
    page.driver.get(f"{sandbox.url}/?as=ana&team={SECOND}")
    page.one(f'{MAIN}[data-of="C0SUPPORTB"]')
    page.go("Countersign")
    page.press("[data-testid=app-menu]")
    page.press("[data-remove]")
    page.gone("[data-testid=app-menu]")
    assert not sandbox.workspace(SECOND).world.app.installed
    assert sandbox.world.app.installed
    assert {d.payload["team_id"] for d in sandbox.deliveries if "tokens" in d.event} == {SECOND}


def test_the_rail_is_accessible(page: Page, sandbox: Sandbox) -> None:
    """In both themes, wide and in the drawer of a phone."""
    page.open(sandbox.url, "ana")
    check = Checked(page)
    check.at("the rail")
    page.size(390, 844)
    page.press("[data-testid=menu-button]")
    page.one(f"{RAIL} a")
    check.at("the drawer", [("light", 390), ("dark", 390)])
    page.press(f'{RAIL} [data-team="{SECOND}"]')
    page.one(f'{MAIN}[data-of="C0SUPPORTB"]')
    assert check.found == {}


def test_one_workspace_has_no_rail(page: Page) -> None:
    """The page shows no rail if there is one workspace."""
    with Sandbox(full_manifest()) as alone:
        page.open(alone.url)
        assert not page.all(RAIL)
        assert not page.all("[data-testid=side-team]")
        page.driver.get("about:blank")
