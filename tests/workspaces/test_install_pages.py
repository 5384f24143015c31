"""Somebody installs the bot from its page: real server, Slack's consent page, real answers."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bot.checks.slack import read_manifest_scopes
from bot.config.connection_settings import parse_page_address
from bot.http.http_side import UNAVAILABLE_ERROR
from bot.workspaces import install_pages as pages
from bot.workspaces.install_pages import INSTALL_PATH, REDIRECT_PATH
from slack_sandbox.workspace.people import TEAM
from storage.states import InstallationState
from tests.local_slack import read_countersign_manifest
from tests.workspaces.builders import AT, installed
from tests.workspaces.hosting import Hosting
from tests.workspaces.installing import Browser, Site, query, title

MINUTES = 60.0


def test_ana_installs_it(site: Site, ana: Browser) -> None:
    """The page says what it will be able to do; then Slack's, and the installation is stored."""
    page = ana.open(site.url + INSTALL_PATH)
    assert title(page) == pages.PAGE_TITLE
    for phrase in pages.ABILITY_BY_SCOPE_PREFIXES.values():
        assert phrase in page.text
    assert not page.cookies
    leaving = ana.leave()
    assert site.record.list() == []
    back = ana.allow(leaving)
    done = ana.open(back)
    assert (done.status_code, title(done)) == (200, "Countersign is now in Sandbox Coffee")
    app = site.slack.world.app
    assert f'href="slack://app?team={TEAM}&amp;id={app.id}"' in done.text
    [row] = site.record.list()
    assert (row.workspace, row.is_org_wide, row.state) == (TEAM, False, InstallationState.ACTIVE)
    assert (row.bot_user, row.bot_id, row.app_id) == (app.bot_user, app.bot_id, app.id)
    scopes = read_countersign_manifest()["oauth_config"]["scopes"]["bot"]
    assert row.scopes.split(",") == sorted(scopes)
    assert row.installed_by == ana.site.slack.people["ana"].id
    assert site.tokens().bot.get_secret_value() == app.bot_token
    assert site.told == [row]


def test_the_page_covers_every_scope() -> None:
    """Each scope of the manifest has a phrase; one that is added without is named itself."""
    assert list(pages.describe_scopes(read_manifest_scopes())) == [
        *pages.ABILITY_BY_SCOPE_PREFIXES.values()
    ]
    assert list(pages.describe_scopes(["calls:write", "dnd:read"])) == [
        pages.ABILITY_BY_SCOPE_PREFIXES["users dnd:"],
        "calls:write",
    ]


def test_opening_an_install_page_changes_nothing(site: Site, ana: Browser) -> None:
    """However often scanners open them: no state, no cookie, no request to Slack."""
    for path in (
        INSTALL_PATH,
        REDIRECT_PATH,
        f"{REDIRECT_PATH}?state=x&code=y",
        f"{REDIRECT_PATH}?error=access_denied",
    ):
        page = ana.open(site.url + path)
        assert not page.cookies
        assert not site.slack.requests
    assert states(site) == 0
    assert ana.http.put(site.url + INSTALL_PATH).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_sends_nobody_to_slack(
    site: Site, ana: Browser, headers: dict[str, str]
) -> None:
    """The button counts only from the page it stands on."""
    page = ana.press(**headers)
    assert (page.status_code, title(page)) == (403, pages.NOT_FROM_PAGE_ERROR)
    assert not page.cookies
    assert states(site) == 0


def test_headers_are_strict(site: Site, ana: Browser) -> None:
    """No script, no frame, no cache; and no page is told from where somebody came."""
    going = ana.press()
    back = ana.allow(going.headers["refresh"].removeprefix("0;url="))
    for page in (ana.open(site.url + INSTALL_PATH), going, ana.open(back), ana.open(back)):
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "script" not in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] in ("no-referrer", "same-origin")
        assert re.findall("<script>(.*?)</script>", page.text, re.S) == [""]
    [cookie] = going.headers.get_list("set-cookie")
    for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=600"):
        assert part in cookie
    assert "Secure" not in cookie  # it is http://localhost


def test_a_secure_cookie_over_https(site: Site) -> None:
    """Over https the cookie is Secure, and of a name that no other host can set."""
    address = parse_page_address("https://approve.example.com/bot")
    parts = (site.record, site.cipher, site.oauth, site.clock)
    app = Starlette(routes=pages.InstallPages(*parts, address, site.told.append).list_routes())
    page = TestClient(app).post(INSTALL_PATH, headers={"Origin": "https://approve.example.com"})
    [cookie] = page.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-countersign-install=")
    assert "; Secure" in cookie
    assert "Path=/" in cookie
    asked = query(page.headers["refresh"])
    assert asked["redirect_uri"] == "https://approve.example.com/bot/slack/oauth_redirect"


def test_once_in_time_and_here(site: Site, ana: Browser) -> None:
    """Another browser, a second time, and after ten minutes: nothing is installed."""
    back = ana.allow(ana.leave())
    with Browser(site) as other:
        page = other.open(back)
        assert (page.status_code, title(page)) == (410, pages.PAGE_EXPIRED_ERROR)
    assert title(ana.open(back)).startswith("Countersign is now in")
    page = ana.open(back)
    assert (page.status_code, title(page)) == (410, pages.PAGE_EXPIRED_ERROR)
    assert len(site.told) == 1
    late = ana.allow(ana.leave())
    site.clock.advance(10 * MINUTES)
    page = ana.open(late)
    assert (page.status_code, title(page)) == (410, pages.PAGE_EXPIRED_ERROR)
    assert f'href="{site.url}{INSTALL_PATH}"' in page.text
    assert len(site.told) == 1


def test_somebody_elses_way_back_is_no_use(site: Site, ana: Browser) -> None:
    """A link with an attacker's code installs nothing in the browser of who follows it."""
    with Browser(site) as mallory:
        theirs = mallory.allow(mallory.leave())
    ana.leave()  # she has a cookie, too
    assert title(ana.open(theirs)) == pages.PAGE_EXPIRED_ERROR
    own = query(ana.allow(ana.leave()))
    mixed = f"{site.url}{REDIRECT_PATH}?state={own['state']}&code={query(theirs)['code']}x"
    assert title(ana.open(mixed)) == pages.PAGE_EXPIRED_ERROR
    assert site.record.list() == []


def test_two_tabs_of_one_browser(site: Site, ana: Browser) -> None:
    """Each of them comes back."""
    first, second = ana.leave(), ana.leave()
    for each in (first, second):
        assert title(ana.open(ana.allow(each))).startswith("Countersign is now in")


def test_ana_does_not_allow_it(site: Site, ana: Browser) -> None:
    """Slack sends her back, the page says so, and the state is used up."""
    back = ana.allow(ana.leave(), "cancel")
    page = ana.open(back)
    assert (page.status_code, title(page)) == (200, pages.DENIED_ERROR)
    assert title(ana.open(back)) == pages.PAGE_EXPIRED_ERROR
    state = query(ana.leave())["state"]
    odd = ana.open(f"{site.url}{REDIRECT_PATH}?state={state}&error=<b>no</b>")
    assert title(odd) == pages.REFUSED_ERROR.format(code="unknown_error")
    assert "<b>" not in odd.text


@pytest.mark.parametrize("method", ["oauth.v2.access", "auth.test"])
@pytest.mark.parametrize("how", ["drop", "fail", "status", "rate_limit"])
def test_slack_is_away(site: Site, ana: Browser, method: str, how: str) -> None:
    """The page says so; a minute later it goes well."""
    getattr(site.slack.faults, how)(method)
    page = ana.open(ana.allow(ana.leave()))
    assert (page.status_code, title(page)) == (502, pages.UNREACHABLE_ERROR)
    assert site.record.list() == []
    site.install()


def test_a_code_that_slack_does_not_take(site: Site, ana: Browser) -> None:
    """One that was made up, and one that has expired at Slack."""
    state = query(ana.leave())["state"]
    made_up = ana.open(f"{site.url}{REDIRECT_PATH}?state={state}&code=1.2.3")
    assert (made_up.status_code, title(made_up)) == (410, pages.PAGE_EXPIRED_ERROR)
    state = query(ana.leave())["state"]
    assert title(ana.open(f"{site.url}{REDIRECT_PATH}?state={state}")) == pages.PAGE_EXPIRED_ERROR


def test_a_wrong_secret(make_site: Callable[..., Site], caplog: pytest.LogCaptureFixture) -> None:
    """The person is told to tell the operator, and the log what to correct."""
    site = make_site(secret="of another app")
    with Browser(site) as ana:
        page = ana.open(ana.allow(ana.leave()))
    assert (page.status_code, title(page)) == (502, pages.SETUP_ERROR)
    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert (
        "bad_client_secret; correct COUNTERSIGN_CLIENT_ID, COUNTERSIGN_CLIENT_SECRET"
        in line.getMessage()
    )
    assert "of another app" not in caplog.text


def test_another_slack_app(site: Site, ana: Browser) -> None:
    """Where workspaces have one app, no other is mixed in; a removed one is no matter."""
    site.record.insert_or_update_installation(installed("T0OTHER", app_id="A0OTHER"))
    page = ana.open(ana.allow(ana.leave()))
    assert (page.status_code, title(page)) == (409, pages.WRONG_APP_ERROR)
    assert [each.workspace for each in site.record.list()] == ["T0OTHER"]
    site.record.set_state("T0OTHER", InstallationState.REMOVED, AT)
    assert title(ana.open(ana.allow(ana.leave()))).startswith("Countersign is now in")


def test_a_paused_workspace_is_told(site: Site, ana: Browser) -> None:
    """It gets its new token and stays paused."""
    site.install()
    site.record.set_state(TEAM, InstallationState.PAUSED, site.clock.now())
    page = ana.open(ana.allow(ana.leave()))
    assert title(page) == "Countersign is paused in Sandbox Coffee"
    assert pages.PAUSED_TEXT in page.text
    [row] = site.record.list()
    assert (row.state, row.token_revision) == (InstallationState.PAUSED, 2)


def test_it_cannot_be_stored(
    make_hosting: Callable[..., Hosting], caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody who installs it, or who signs, is told in words; why is in the log."""
    hosting = make_hosting()
    hosting.start()
    folder, refuse = hosting.folder / "workspaces", "BEGIN SELECT RAISE(FAIL, 'full'); END"
    with Browser(hosting) as ana, sqlite3.connect(folder / "installations.db") as database:  # type: ignore[arg-type]  # of a site it wants the address
        back = ana.allow(ana.leave())
        database.execute(f"CREATE TRIGGER full BEFORE INSERT ON installation {refuse}")
        database.commit()
        page = ana.open(back)
        assert (page.status_code, title(page)) == (500, UNAVAILABLE_ERROR)
        assert caplog.text.count("a page could not be built") == 1
        database.execute("DROP TRIGGER full")
        database.commit()
        assert title(ana.open(ana.allow(ana.leave()))) == "Countersign is now in Sandbox Coffee"
        one = hosting.workspace(TEAM)
        hosting.wait(lambda: one.app)
        with sqlite3.connect(folder / TEAM / "countersign.db") as record:
            record.execute("ALTER TABLE signing_link RENAME TO elsewhere")
            record.commit()
            page = ana.open(f"{hosting.url}/w/{TEAM}/sign/{'a' * 43}")
            assert (page.status_code, title(page)) == (500, UNAVAILABLE_ERROR)


def test_no_token_is_seen_anywhere(
    make_site: Callable[..., Site], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in pages, addresses, cookies, the log at its loudest, the files or a copy of them."""
    caplog.set_level(logging.DEBUG)
    site = make_site(rotates=True)
    seen: list[str] = []
    with Browser(site) as ana:
        for page in (ana.open(site.url + INSTALL_PATH), ana.press()):
            seen += [page.text, str(page.headers), str(page.url)]
        back = ana.allow(ana.leave())
        for page in (ana.open(back), ana.open(back)):
            seen += [page.text, str(page.headers), str(page.url)]
        site.slack.faults.fail("oauth.v2.access", "internal_error")
        seen.append(ana.open(ana.allow(ana.leave())).text)
    site.slack.faults.fail("oauth.v2.access", "invalid_refresh_token")
    first = site.tokens()
    site.clock.advance(10.5 * 3600)
    site.rotation.renew_due_tokens()
    site.clock.advance(3600)
    site.rotation.renew_due_tokens()
    tokens = site.tokens()
    assert tokens != first
    with (
        sqlite3.connect(tmp_path / "copied.db") as copy,
        sqlite3.connect(tmp_path / "installations.db") as database,
    ):
        database.backup(copy)
    app = site.slack.world.app
    secrets = [app.client_secret, app.bot_token, app.refresh_token]
    secrets += [each.get_secret_value() for each in (first.bot, tokens.bot)]
    secrets += [each.get_secret_value() for each in (first.refresh, tokens.refresh) if each]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir()).decode("latin-1")
    told = json.dumps([repr(each) for each in site.told])
    for secret in secrets:
        assert len(secret) > 10
        for place in (*seen, caplog.text, kept, told):
            assert secret not in place


def states(site: Site) -> int:
    """How many states are stored."""
    with site.record.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM oauth_state")).scalar_one())
