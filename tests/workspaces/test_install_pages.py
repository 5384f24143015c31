"""The pages to install the bot from: a real server, Slack's consent page, real answers."""

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
from tests.workspaces.installing import Browser, Site, parse_query, read_title

MINUTES = 60.0


def test_a_person_installs_the_bot_from_its_page(site: Site, ana: Browser) -> None:
    """The page says what the bot will be able to do; Slack's page follows."""
    page = ana.open(site.url + INSTALL_PATH)
    assert read_title(page) == pages.PAGE_TITLE
    for phrase in pages.ABILITY_BY_SCOPE_PREFIXES.values():
        assert phrase in page.text
    assert not page.cookies
    leaving = ana.leave()
    assert site.record.list() == []
    back = ana.allow(leaving)
    done = ana.open(back)
    assert (done.status_code, read_title(done)) == (200, "Countersign is now in Sandbox Coffee")
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


def test_the_install_page_describes_every_scope() -> None:
    """An additional scope without a phrase is shown by its name."""
    assert list(pages.describe_scopes(read_manifest_scopes())) == [
        *pages.ABILITY_BY_SCOPE_PREFIXES.values()
    ]
    assert list(pages.describe_scopes(["calls:write", "dnd:read"])) == [
        pages.ABILITY_BY_SCOPE_PREFIXES["users dnd:"],
        "calls:write",
    ]


def test_opening_an_install_page_changes_nothing(site: Site, ana: Browser) -> None:
    """Scanners open it: there is no state, no cookie and no request to Slack."""
    for path in (
        INSTALL_PATH,
        REDIRECT_PATH,
        f"{REDIRECT_PATH}?state=x&code=y",
        f"{REDIRECT_PATH}?error=access_denied",
    ):
        page = ana.open(site.url + path)
        assert not page.cookies
        assert not site.slack.requests
    assert count_states(site) == 0
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
def test_the_install_button_works_only_from_its_own_page(
    site: Site, ana: Browser, headers: dict[str, str]
) -> None:
    """Another site cannot send anybody to Slack."""
    page = ana.press(**headers)
    assert (page.status_code, read_title(page)) == (403, pages.NOT_FROM_PAGE_ERROR)
    assert not page.cookies
    assert count_states(site) == 0


def test_install_pages_have_strict_security_headers(site: Site, ana: Browser) -> None:
    """No scripts, frames or caching, and no referrer for other sites."""
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


def test_the_cookie_is_secure_over_https(site: Site) -> None:
    """Its name has a prefix so that no other host can set it."""
    address = parse_page_address("https://approve.example.com/bot")
    parts = (site.record, site.cipher, site.oauth, site.clock)
    app = Starlette(routes=pages.InstallPages(*parts, address, site.told.append).list_routes())
    page = TestClient(app).post(INSTALL_PATH, headers={"Origin": "https://approve.example.com"})
    [cookie] = page.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-countersign-install=")
    assert "; Secure" in cookie
    assert "Path=/" in cookie
    asked = parse_query(page.headers["refresh"])
    assert asked["redirect_uri"] == "https://approve.example.com/bot/slack/oauth_redirect"


def test_the_way_back_works_once_in_time_and_in_the_same_browser(site: Site, ana: Browser) -> None:
    """Nothing is installed in another browser, a second time, or after ten minutes."""
    back = ana.allow(ana.leave())
    with Browser(site) as other:
        page = other.open(back)
        assert (page.status_code, read_title(page)) == (410, pages.PAGE_EXPIRED_ERROR)
    assert read_title(ana.open(back)).startswith("Countersign is now in")
    page = ana.open(back)
    assert (page.status_code, read_title(page)) == (410, pages.PAGE_EXPIRED_ERROR)
    assert len(site.told) == 1
    late = ana.allow(ana.leave())
    site.clock.advance(10 * MINUTES)
    page = ana.open(late)
    assert (page.status_code, read_title(page)) == (410, pages.PAGE_EXPIRED_ERROR)
    assert f'href="{site.url}{INSTALL_PATH}"' in page.text
    assert len(site.told) == 1


def test_a_link_with_an_attackers_code_installs_nothing(site: Site, ana: Browser) -> None:
    """Somebody else opens it in their own browser."""
    with Browser(site) as mallory:
        theirs = mallory.allow(mallory.leave())
    ana.leave()  # so that she has a cookie as well
    assert read_title(ana.open(theirs)) == pages.PAGE_EXPIRED_ERROR
    own = parse_query(ana.allow(ana.leave()))
    mixed = f"{site.url}{REDIRECT_PATH}?state={own['state']}&code={parse_query(theirs)['code']}x"
    assert read_title(ana.open(mixed)) == pages.PAGE_EXPIRED_ERROR
    assert site.record.list() == []


def test_two_tabs_of_one_browser_can_both_install(site: Site, ana: Browser) -> None:
    """Slack sends each of them back."""
    first, second = ana.leave(), ana.leave()
    for each in (first, second):
        assert read_title(ana.open(ana.allow(each))).startswith("Countersign is now in")


def test_a_person_who_does_not_allow_it_is_told_so(site: Site, ana: Browser) -> None:
    """The way back cannot be used again."""
    back = ana.allow(ana.leave(), "cancel")
    page = ana.open(back)
    assert (page.status_code, read_title(page)) == (200, pages.DENIED_ERROR)
    assert read_title(ana.open(back)) == pages.PAGE_EXPIRED_ERROR
    state = parse_query(ana.leave())["state"]
    odd = ana.open(f"{site.url}{REDIRECT_PATH}?state={state}&error=<b>no</b>")
    assert read_title(odd) == pages.REFUSED_ERROR.format(code="unknown_error")
    assert "<b>" not in odd.text


@pytest.mark.parametrize("method", ["oauth.v2.access", "auth.test"])
@pytest.mark.parametrize("how", ["drop", "fail", "status", "rate_limit"])
def test_the_page_says_that_slack_cannot_be_reached(
    site: Site, ana: Browser, method: str, how: str
) -> None:
    """A second attempt succeeds."""
    getattr(site.slack.faults, how)(method)
    page = ana.open(ana.allow(ana.leave()))
    assert (page.status_code, read_title(page)) == (502, pages.UNREACHABLE_ERROR)
    assert site.record.list() == []
    site.install()


def test_a_code_that_slack_refuses_makes_the_page_expire(site: Site, ana: Browser) -> None:
    """The code is made up or missing."""
    state = parse_query(ana.leave())["state"]
    made_up = ana.open(f"{site.url}{REDIRECT_PATH}?state={state}&code=1.2.3")
    assert (made_up.status_code, read_title(made_up)) == (410, pages.PAGE_EXPIRED_ERROR)
    state = parse_query(ana.leave())["state"]
    assert (
        read_title(ana.open(f"{site.url}{REDIRECT_PATH}?state={state}")) == pages.PAGE_EXPIRED_ERROR
    )


def test_a_wrong_client_secret_is_logged_for_the_operator(
    make_site: Callable[..., Site], caplog: pytest.LogCaptureFixture
) -> None:
    """The person is told to tell the operator; the log says what to correct."""
    site = make_site(secret="of another app")
    with Browser(site) as ana:
        page = ana.open(ana.allow(ana.leave()))
    assert (page.status_code, read_title(page)) == (502, pages.SETUP_ERROR)
    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert (
        "bad_client_secret; correct COUNTERSIGN_CLIENT_ID, COUNTERSIGN_CLIENT_SECRET"
        in line.getMessage()
    )
    assert "of another app" not in caplog.text


def test_another_slack_app_than_that_of_the_other_workspaces_is_refused(
    site: Site, ana: Browser
) -> None:
    """Workspaces where the bot was removed do not count."""
    site.record.insert_or_update_installation(installed("T0OTHER", app_id="A0OTHER"))
    page = ana.open(ana.allow(ana.leave()))
    assert (page.status_code, read_title(page)) == (409, pages.WRONG_APP_ERROR)
    assert [each.workspace for each in site.record.list()] == ["T0OTHER"]
    site.record.set_state("T0OTHER", InstallationState.REMOVED, AT)
    assert read_title(ana.open(ana.allow(ana.leave()))).startswith("Countersign is now in")


def test_a_paused_workspace_stays_paused_when_installed_again(site: Site, ana: Browser) -> None:
    """It gets its new token, and the page says that it is paused."""
    site.install()
    site.record.set_state(TEAM, InstallationState.PAUSED, site.clock.now())
    page = ana.open(ana.allow(ana.leave()))
    assert read_title(page) == "Countersign is paused in Sandbox Coffee"
    assert pages.PAUSED_TEXT in page.text
    [row] = site.record.list()
    assert (row.state, row.token_revision) == (InstallationState.PAUSED, 2)


def test_a_page_whose_record_cannot_be_written_says_so(
    make_hosting: Callable[..., Hosting], caplog: pytest.LogCaptureFixture
) -> None:
    """This holds for pages to install from and to sign on; the log says why."""
    hosting = make_hosting()
    hosting.start()
    folder, refuse = hosting.folder / "workspaces", "BEGIN SELECT RAISE(FAIL, 'full'); END"
    with Browser(hosting) as ana, sqlite3.connect(folder / "installations.db") as database:  # type: ignore[arg-type]  # of a site it wants the address
        back = ana.allow(ana.leave())
        database.execute(f"CREATE TRIGGER full BEFORE INSERT ON installation {refuse}")
        database.commit()
        page = ana.open(back)
        assert (page.status_code, read_title(page)) == (500, UNAVAILABLE_ERROR)
        assert caplog.text.count("a page could not be built") == 1
        database.execute("DROP TRIGGER full")
        database.commit()
        assert (
            read_title(ana.open(ana.allow(ana.leave()))) == "Countersign is now in Sandbox Coffee"
        )
        one = hosting.workspace(TEAM)
        hosting.wait(lambda: one.app)
        with sqlite3.connect(folder / TEAM / "countersign.db") as record:
            record.execute("ALTER TABLE signing_link RENAME TO elsewhere")
            record.commit()
            page = ana.open(f"{hosting.url}/w/{TEAM}/sign/{'a' * 43}")
            assert (page.status_code, read_title(page)) == (500, UNAVAILABLE_ERROR)


def test_no_token_is_in_pages_logs_or_files(
    make_site: Callable[..., Site], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """This includes addresses, cookies, the debug log, and a copy of the files."""
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


def count_states(site: Site) -> int:
    """Count the stored states."""
    with site.record.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM oauth_state")).scalar_one())
