"""Installations of several workspaces and of an organisation, from the pages to install from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.workspaces import install_pages as pages
from bot.workspaces import oauth_client
from bot.workspaces.removals import REMOVAL_EVENTS, apply_installation_event
from storage.states import InstallationState
from tests.workspaces.installing import Browser, Site, read_title

pytest.importorskip("slack_sandbox.web_api.orgs", reason="the sandbox has one workspace")
FIRST, SECOND, THIRD, ORG = "T0SANDBOX", "T0SANDBOXB", "T0SANDBOXC", "E0SANDBOX"


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """A site for three workspaces, two of them in an organisation."""
    return make_site(rotates=True, workspaces=3, org=2)


@pytest.fixture
def ana(site: Site) -> Browser:
    """Ana's browser, for any workspace."""
    return Browser(site)


def install(ana: Browser, team: str, **more: Any) -> str:
    """Have Ana install the bot there; returns the heading of the last page."""
    back = ana.allow(ana.leave(), **{"as": f"{team}/ana", **more})
    return read_title(ana.open(back))


def apply_events(site: Site, begun: int) -> list[str | None]:
    """Apply the events that Slack has sent since then to the record."""
    told = [each.payload for each in site.slack.deliveries[begun:]]
    own = [each for each in told if each["event"]["type"] in REMOVAL_EVENTS]
    now = site.clock.now()
    return [apply_installation_event(site.record, each, now, lambda _: True) for each in own]


def test_each_workspace_has_an_installation_of_its_own(site: Site, ana: Browser) -> None:
    """Each has its own token; uninstalling one does not affect the other."""
    assert install(ana, SECOND) == "Countersign is now in Sandbox Tea"
    assert install(ana, THIRD).startswith("Countersign is now in")
    rows = {each.workspace: each for each in site.record.list()}
    tokens = {each: site.cipher.open(row).bot for each, row in rows.items()}
    assert [*tokens] == [SECOND, THIRD]
    assert len(set(tokens.values())) == 2
    assert (rows[SECOND].enterprise, rows[THIRD].enterprise) == (ORG, "")
    for workspace, token in tokens.items():
        assert site.oauth.find_bot_id_and_url(token)[0] == rows[workspace].bot_id
    site.clock.advance(60)
    begun = len(site.slack.deliveries)
    site.slack.workspace(SECOND).uninstall()
    assert apply_events(site, begun) == [SECOND, None]
    states = [each.state for each in site.record.list()]
    assert states == [InstallationState.REMOVED, InstallationState.ACTIVE]
    site.clock.advance(10.5 * 3600)
    site.rotation.renew_due_tokens()
    assert [each.workspace for each in site.told[2:]] == [THIRD]


def test_an_organisation_has_one_installation_for_its_workspaces(
    site: Site, ana: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack says which workspaces it serves, at the installation and later."""
    more = {"for": ORG, "add": [FIRST]}
    assert install(ana, FIRST, **more) == "Countersign is now in Sandbox Org"
    [row] = site.record.list()
    assert (row.workspace, row.enterprise, row.is_org_wide) == (ORG, ORG, True)
    assert row.name == "Sandbox Org"
    find = site.record.find_workspace_of
    assert (find(FIRST, ORG), find(SECOND, ORG), find(THIRD, "")) == (ORG, None, None)
    begun = len(site.slack.deliveries)
    site.slack.workspace(SECOND).grant_access()
    assert apply_events(site, begun) == [ORG]
    assert find(SECOND, ORG) == ORG
    monkeypatch.setattr(oauth_client, "MAX_WORKSPACES_PER_PAGE", 1)  # so that there are two pages
    assert site.oauth.list_granted_teams(site.tokens().bot) == [FIRST, SECOND]
    begun = len(site.slack.deliveries)
    site.slack.workspace(FIRST).revoke_access()
    assert apply_events(site, begun) == [ORG]
    assert find(FIRST, ORG) is None
    with Browser(site) as other:
        assert install(other, SECOND) == pages.ORG_HAS_APP_ERROR
    site.clock.advance(10.5 * 3600)
    site.rotation.renew_due_tokens()
    [renewed] = site.record.list()
    assert site.oauth.list_granted_teams(site.cipher.open(renewed).bot) == [SECOND]
    begun = len(site.slack.deliveries)
    site.slack.uninstall()
    assert apply_events(site, begun) == [ORG, None]
    assert find(SECOND, ORG) is None


def test_an_organisation_is_installed_if_its_workspaces_cannot_be_listed(
    site: Site, ana: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why they cannot be listed."""
    site.slack.faults.fail("auth.teams.list", "fatal_error")
    back = ana.allow(ana.leave(), **{"as": f"{FIRST}/ana", "for": ORG})
    page = ana.open(back)
    assert pages.ORG_NEXT_STEP_TEXT in page.text
    assert "its workspaces cannot be listed (Slack answers fatal_error)" in caplog.text
    assert site.record.find_workspace_of("", ORG) == ORG


def test_an_organisation_is_installed_if_the_second_page_fails(
    site: Site, ana: Browser, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack's answer for the second page of workspaces is not JSON."""
    monkeypatch.setattr(oauth_client, "MAX_WORKSPACES_PER_PAGE", 1)
    site.slack.faults.status("auth.teams.list", 502, match=lambda args: "cursor" in args)
    more: dict[str, Any] = {"as": f"{FIRST}/ana", "for": ORG, "add": [FIRST, SECOND]}
    page = ana.open(ana.allow(ana.leave(), **more))
    assert pages.ORG_NEXT_STEP_TEXT in page.text
    assert "its workspaces cannot be listed (Slack cannot be reached)" in caplog.text
