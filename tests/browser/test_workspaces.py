"""Two workspaces install the bot from its page; each sees only its own requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.support.ui import Select

from bench.pictures.installing import FIRST, REQUEST, SECOND, SUPPORT, Places, two_workspaces
from bot.workspaces.install_pages import INSTALL_PATH
from sandbox.tests.page.page import THREAD, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    """Both workspaces, with the bot in neither."""
    with two_workspaces(tmp_path) as made:
        yield made


def install(page: Page, places: Places, team: str) -> None:
    """Ana installs the bot in her workspace, from its page through Slack's."""
    page.driver.get(places.url + INSTALL_PATH)
    page.press("footer button")
    Select(page.one("select")).select_by_value(f"{team}/ana")  # type: ignore[no-untyped-call]  # as it is
    page.press("button[value=allow]")
    page.wait(lambda: "Countersign is now in" in page.text("h1"), "not installed")
    places.invite(team)


def open_support(page: Page, places: Places, person: str, team: str) -> None:
    """Act as that person, in #support of that workspace."""
    page.driver.get("about:blank")
    page.driver.get(f"{places.sandbox.url}/?as={person}&team={team}#/{SUPPORT[team]}")
    page.one(f'[data-testid=messages][data-of="{SUPPORT[team]}"]')


def test_a_request_and_an_approval_in_both(page: Page, places: Places) -> None:
    """Each has its own card; a refund in one shop is not in the other's."""
    for team in (FIRST, SECOND):
        install(page, places, team)
        open_support(page, places, "ben", team)
        page.say(REQUEST)
        root = page.ts("refund 40 EUR of order 1042")
        open_support(page, places, "ana", team)
        page.open_thread(root)
        preview = page.message_text("Refund 40.00 EUR of order 1042", thread=True)
        assert "refunded 0.00 EUR → 40.00 EUR" in " ".join(preview.split())
        page.click("approve", within=THREAD)
        page.message("Refunded 40.00 EUR", thread=True)
    folders = places.host.settings.workspaces
    assert all((folders / team / "countersign.db").is_file() for team in (FIRST, SECOND))
    rows = {each.workspace: each for each in places.host.record.list()}
    assert {*rows} == {FIRST, SECOND}
    assert len({each.bot_user for each in rows.values()}) == 2
    open_support(page, places, "ana", FIRST)
    assert len(page.messages()) == len([each for each in page.messages() if "1042" in each])
    # Chromium complains that the local Slack has no icon
    assert [each for each in page.complaints() if "favicon" not in str(each)] == []
