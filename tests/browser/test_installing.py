"""Ana installs the bot in Chromium: our page, Slack's, and back, in each theme and width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.workspaces import install_pages as pages
from sandbox.tests.page.axe import findings
from sandbox.tests.page.tab import Tab
from tests.browser.test_signing import LOOKS, read_browser_log, set_look
from tests.workspaces.installing import Site

pytestmark = [pytest.mark.browser, pytest.mark.long]
BUTTON, AGAIN = "footer button", "footer a.button"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An installation of the bot."""
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def tab(driver: Any) -> Iterator[Tab]:
    """Ana's tab."""
    tab = Tab(driver)
    read_browser_log(tab)
    yield tab
    driver.get("about:blank")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def check_looks(tab: Tab) -> None:
    """Check that in each theme and width nothing overflows and axe finds nothing."""
    for theme, width in LOOKS:
        set_look(tab, theme, width)
        wide = tab.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, (theme, width)
        assert findings(tab) == [], (theme, width)  # type: ignore[arg-type]  # it needs a driver alone


def test_ana_installs_the_bot_in_two_clicks(site: Site, tab: Tab) -> None:
    """One button on each page; then the page names the workspace and links to Slack."""
    tab.driver.get(site.url + pages.INSTALL_PATH)
    assert tab.text("h1") == pages.PAGE_TITLE
    assert len(tab.all("main li")) == len(pages.ABILITY_BY_SCOPE_PREFIXES)
    check_looks(tab)
    tab.press(BUTTON)
    tab.press("button[value=allow]")
    tab.wait(lambda: "Countersign is now in Sandbox Coffee" in tab.text("h1"))
    assert str(tab.one(AGAIN).get_attribute("href")).startswith("slack://app?team=T0SANDBOX&id=A")
    check_looks(tab)
    assert [row.workspace for row in site.told] == ["T0SANDBOX"]
    # Chromium complains that the local Slack has no icon
    assert [each for each in read_browser_log(tab) if site.url in each["message"]] == []
    tab.driver.refresh()
    assert tab.text("h1") == pages.PAGE_EXPIRED_ERROR
    check_looks(tab)


def test_ana_cancels_and_then_installs_the_bot(site: Site, tab: Tab) -> None:
    """She cancels at Slack, starts again from the page that says so, and allows it."""
    tab.driver.get(site.url + pages.INSTALL_PATH)
    tab.press(BUTTON)
    tab.press("button[value=cancel]")
    tab.wait(lambda: tab.text("h1") == pages.DENIED_ERROR)
    check_looks(tab)
    assert site.told == []
    tab.press(AGAIN)
    tab.press(BUTTON)
    tab.press("button[value=allow]")
    tab.wait(lambda: "Countersign is now in" in tab.text("h1"))
    assert len(site.told) == 1


def test_a_browser_without_cookies_cannot_install(site: Site, tab: Tab) -> None:
    """It counts as another browser, and the page says so."""
    tab.driver.get(site.url + pages.INSTALL_PATH)
    tab.press(BUTTON)
    tab.one("button[value=allow]")
    tab.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    tab.press("button[value=allow]")
    tab.wait(lambda: tab.text("h1") == pages.PAGE_EXPIRED_ERROR)
    assert site.told == []
