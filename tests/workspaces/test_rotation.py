"""Tokens of twelve hours are renewed ahead of time, once, and again after Slack was away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from bot.workspaces.rotation import (
    CLAIM_DURATION,
    FIRST_RETRY_INTERVAL,
    MAX_RETRY_INTERVAL,
    REFUSED_RETRY_INTERVAL,
    RENEW_BEFORE_EXPIRY,
    TokenRotation,
)
from bot.workspaces.tokens import TokenCipher
from storage.installations import Installation
from storage.states import InstallationState
from tests.stories.harness import Machine
from tests.workspaces.installing import KEYS, Site

MakeSite = Callable[..., Site]
LIFE = timedelta(hours=12)


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """One whose tokens expire, and in which it is installed."""
    site = make_site(rotates=True)
    site.install()
    site.told.clear()
    return site


def advance(site: Site, by: timedelta) -> None:
    """Let time pass, for Slack as well."""
    site.clock.advance(by.total_seconds())


def renewals(site: Site) -> int:
    """How often Slack was asked to renew a token."""
    return sum(
        call.method == "oauth.v2.access" and "refresh_token" in call.args
        for call in site.slack.requests
    )


def row_of(site: Site) -> Installation:
    """The only installation."""
    [row] = site.record.list()
    return row


def renew(site: Site) -> datetime | None:
    """Renew what is due; when the only installation's token is next, as the record has it."""
    site.rotation.renew_due_tokens()
    row = row_of(site)
    return row.renewal_until or (
        row.token_expires_at and row.token_expires_at - RENEW_BEFORE_EXPIRY
    )


def test_two_hours_ahead(site: Site) -> None:
    """Not before; then with a token that Slack takes, of which the host is told."""
    before, first = row_of(site), site.tokens()
    assert before.token_expires_at is not None
    due_at = renew(site)
    assert due_at == before.token_expires_at - RENEW_BEFORE_EXPIRY
    assert renewals(site) == 0
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    next_at = renew(site)
    row, tokens = row_of(site), site.tokens()
    assert tokens.bot.get_secret_value() == site.slack.world.app.bot_token
    assert tokens.bot != first.bot
    assert site.oauth.find_bot_id_and_url(tokens.bot)[0] == row.bot_id
    assert row.token_expires_at is not None
    assert next_at == row.token_expires_at - RENEW_BEFORE_EXPIRY > due_at
    assert (site.told, renewals(site)) == ([row], 1)
    for _ in range(3):
        advance(site, LIFE - RENEW_BEFORE_EXPIRY)
        site.rotation.renew_due_tokens()
    assert (renewals(site), row_of(site).token_revision) == (4, 5)


def test_tokens_that_do_not_expire(make_site: MakeSite) -> None:
    """Nobody has to look again."""
    site = make_site()
    site.install()
    advance(site, 100 * LIFE)
    assert renew(site) is None
    assert renewals(site) == 0


def test_once_across_processes(site: Site) -> None:
    """Four processes that look at once ask Slack once; another one may if the first has died."""
    parts = (site.record, site.cipher, site.oauth, site.clock)
    rotations = [TokenRotation(*parts, site.told.append) for _ in range(4)]
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: each.renew_due_tokens(), rotations))
    assert (renewals(site), len(site.told)) == (1, 1)
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    now = site.clock.now()
    assert site.record.claim_rotation(row_of(site), now + CLAIM_DURATION)
    assert renew(site) == now + CLAIM_DURATION
    assert renewals(site) == 1
    advance(site, CLAIM_DURATION)
    rotations[0].renew_due_tokens()
    assert renewals(site) == 2


@pytest.mark.parametrize("how", ["drop", "fail", "status", "rate_limit"])
def test_slack_is_away(site: Site, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """It is tried again, each time twice as late and ten minutes at most; then it goes well."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    waits: list[timedelta] = []
    for _ in range(8):
        getattr(site.slack.faults, how)("oauth.v2.access")
        next_at = renew(site)
        assert next_at is not None
        waits.append(next_at - site.clock.now())
        asked = renewals(site)
        site.rotation.renew_due_tokens()
        assert renewals(site) == asked  # not before
        advance(site, waits[-1])
    rounded = [timedelta(seconds=round(each.total_seconds())) for each in waits]
    assert rounded == [min(FIRST_RETRY_INTERVAL * 2**n, MAX_RETRY_INTERVAL) for n in range(8)]
    assert "could not be renewed" in caplog.text
    site.rotation.renew_due_tokens()
    assert (len(site.told), row_of(site).renewal_failures) == (1, 0)


def test_a_clock_that_was_ahead(site: Site) -> None:
    """What failed by a clock that was a year ahead is tried again once that is right."""
    machine = Machine(site.clock)
    machine.behind = -timedelta(days=365)
    rotation = TokenRotation(site.record, site.cipher, site.oauth, machine, site.told.append)
    site.slack.faults.drop("oauth.v2.access")
    rotation.renew_due_tokens()
    assert (row_of(site).renewal_failures, site.told) == (1, [])
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.rotation.renew_due_tokens()
    assert len(site.told) == 1


def test_a_refresh_token_that_slack_refuses(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The log says what to do, once an hour; installing it again mends it."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.slack.world.app.refresh_token = "xoxe-1-of-somebody-else"
    again_at = [renew(site) for _ in range(3)][-1]
    assert again_at is not None
    assert again_at - site.clock.now() > REFUSED_RETRY_INTERVAL - CLAIM_DURATION
    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    said = line.getMessage()
    assert "(invalid_refresh_token)" in said
    assert "install Countersign again, from /slack/install" in said
    advance(site, REFUSED_RETRY_INTERVAL)
    site.rotation.renew_due_tokens()
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 2
    site.install()
    site.told.clear()
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.rotation.renew_due_tokens()
    assert len(site.told) == 1


def test_an_answer_that_is_lost(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Slack has renewed the token, and nobody knows it: the next attempt is refused, and told."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.slack.faults.drop("oauth.v2.access", "after")
    site.rotation.renew_due_tokens()
    assert "could not be renewed (Slack cannot be reached)" in caplog.text
    advance(site, FIRST_RETRY_INTERVAL)
    site.rotation.renew_due_tokens()
    assert "install Countersign again" in caplog.text


def test_installed_while_slack_renews(site: Site) -> None:
    """The tokens of the new installation stay, whichever answer comes last."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    hold = site.slack.faults.hold("oauth.v2.access", "after")
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(site.rotation.renew_due_tokens)
        site.slack.wait(lambda: row_of(site).renewal_until)
        site.slack.wait(lambda: site.slack.world.app.earlier_tokens)
        installed = site.install()
        hold.release()
        renewing.result()
    assert site.told == [installed]
    assert row_of(site) == installed
    assert site.oauth.find_bot_id_and_url(site.tokens().bot)[0] == installed.bot_id


def test_settings_that_slack_refuses(make_site: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    """A client secret that was changed at Slack alone is named."""
    site = make_site(rotates=True)
    site.install()
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.slack.world.app.client_secret = "changed at Slack"
    site.rotation.renew_due_tokens()
    assert "(bad_client_secret)" in caplog.text
    assert "Correct COUNTERSIGN_CLIENT_ID and COUNTERSIGN_CLIENT_SECRET" in caplog.text


def test_keys_that_do_not_decrypt_it(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Slack is not asked, and the log names the key that is missing."""
    other = TokenCipher.parse(SecretStr("two:" + "t" * 32))
    parts = (site.record, other, site.oauth, site.clock)
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    TokenRotation(*parts, site.told.append).renew_due_tokens()
    assert "encrypted with the key one, which is not among" in caplog.text
    assert renewals(site) == 0
    both = TokenCipher.parse(SecretStr(f"two:{'t' * 32},{KEYS.get_secret_value()}"))
    assert both.reseal_all(site.record) == 0
    advance(site, REFUSED_RETRY_INTERVAL)
    TokenRotation(*parts, site.told.append).renew_due_tokens()
    assert [each.token_key for each in site.told] == ["two"]


def test_a_removed_one_is_left_alone(site: Site) -> None:
    """Its token is gone, and nobody asks Slack for another."""
    site.record.set_state(row_of(site).workspace, InstallationState.REMOVED, site.clock.now())
    advance(site, LIFE)
    assert renew(site) is None
    assert renewals(site) == 0
