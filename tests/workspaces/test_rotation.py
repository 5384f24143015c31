"""The rotation of tokens that expire after twelve hours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from bot.workspaces.oauth_client import (
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
    """A site whose tokens expire, with the bot installed."""
    site = make_site(rotates=True)
    site.install()
    site.told.clear()
    return site


def advance(site: Site, by: timedelta) -> None:
    """Let time pass, for Slack as well."""
    site.clock.advance(by.total_seconds())


def count_renewals(site: Site) -> int:
    """Count how often Slack was asked to renew a token."""
    return sum(
        call.method == "oauth.v2.access" and "refresh_token" in call.args
        for call in site.slack.requests
    )


def read_row(site: Site) -> Installation:
    """Read the only installation."""
    [row] = site.record.list()
    return row


def renew(site: Site) -> datetime | None:
    """Renew due tokens; returns when the only installation's token is due next."""
    site.rotation.renew_due_tokens()
    row = read_row(site)
    return row.renewal_until or (
        row.token_expires_at and row.token_expires_at - RENEW_BEFORE_EXPIRY
    )


def test_a_token_is_renewed_two_hours_before_it_expires(site: Site) -> None:
    """Not earlier. Slack accepts the new token, and the host is told."""
    before, first = read_row(site), site.tokens()
    assert before.token_expires_at is not None
    due_at = renew(site)
    assert due_at == before.token_expires_at - RENEW_BEFORE_EXPIRY
    assert count_renewals(site) == 0
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    next_at = renew(site)
    row, tokens = read_row(site), site.tokens()
    assert tokens.bot.get_secret_value() == site.slack.world.app.bot_token
    assert tokens.bot != first.bot
    assert site.oauth.find_bot_id_and_url(tokens.bot)[0] == row.bot_id
    assert row.token_expires_at is not None
    assert next_at == row.token_expires_at - RENEW_BEFORE_EXPIRY > due_at
    assert (site.told, count_renewals(site)) == ([row], 1)
    for _ in range(3):
        advance(site, LIFE - RENEW_BEFORE_EXPIRY)
        site.rotation.renew_due_tokens()
    assert (count_renewals(site), read_row(site).token_revision) == (4, 5)


def test_tokens_that_do_not_expire_are_not_renewed(make_site: MakeSite) -> None:
    """They have no next time."""
    site = make_site()
    site.install()
    advance(site, 100 * LIFE)
    assert renew(site) is None
    assert count_renewals(site) == 0


def test_only_one_of_several_processes_renews_a_token(site: Site) -> None:
    """Four processes look at once. Another one may renew it if the first one has died."""
    parts = (site.record, site.cipher, site.oauth, site.clock)
    rotations = [TokenRotation(*parts, site.told.append) for _ in range(4)]
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: each.renew_due_tokens(), rotations))
    assert (count_renewals(site), len(site.told)) == (1, 1)
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    now = site.clock.now()
    assert site.record.claim_rotation(read_row(site), now + CLAIM_DURATION)
    assert renew(site) == now + CLAIM_DURATION
    assert count_renewals(site) == 1
    advance(site, CLAIM_DURATION)
    rotations[0].renew_due_tokens()
    assert count_renewals(site) == 2


@pytest.mark.parametrize("how", ["drop", "fail", "status", "rate_limit"])
def test_a_failed_renewal_is_tried_again_with_longer_pauses(
    site: Site, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Slack cannot be reached. Each pause is twice as long, up to ten minutes."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    waits: list[timedelta] = []
    for _ in range(8):
        getattr(site.slack.faults, how)("oauth.v2.access")
        next_at = renew(site)
        assert next_at is not None
        waits.append(next_at - site.clock.now())
        asked = count_renewals(site)
        site.rotation.renew_due_tokens()
        assert count_renewals(site) == asked  # not earlier
        advance(site, waits[-1])
    rounded = [timedelta(seconds=round(each.total_seconds())) for each in waits]
    assert rounded == [min(FIRST_RETRY_INTERVAL * 2**n, MAX_RETRY_INTERVAL) for n in range(8)]
    assert "could not be renewed" in caplog.text
    site.rotation.renew_due_tokens()
    assert (len(site.told), read_row(site).renewal_failures) == (1, 0)


def test_a_renewal_that_failed_by_a_fast_clock_is_tried_again(site: Site) -> None:
    """The clock was a year ahead, and is right again."""
    machine = Machine(site.clock)
    machine.behind = -timedelta(days=365)
    rotation = TokenRotation(site.record, site.cipher, site.oauth, machine, site.told.append)
    site.slack.faults.drop("oauth.v2.access")
    rotation.renew_due_tokens()
    assert (read_row(site).renewal_failures, site.told) == (1, [])
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.rotation.renew_due_tokens()
    assert len(site.told) == 1


def test_a_refused_refresh_token_is_logged_once_an_hour(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what to do: installing the bot again mends it."""
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


def test_a_lost_answer_to_a_renewal_needs_a_new_installation(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Slack has renewed the token, so it refuses the next attempt; the log says so."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.slack.faults.drop("oauth.v2.access", "after")
    site.rotation.renew_due_tokens()
    assert "could not be renewed (Slack cannot be reached)" in caplog.text
    advance(site, FIRST_RETRY_INTERVAL)
    site.rotation.renew_due_tokens()
    assert "install Countersign again" in caplog.text


def test_the_tokens_of_a_new_installation_win_over_a_renewal(site: Site) -> None:
    """The answer to the renewal comes last."""
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    hold = site.slack.faults.hold("oauth.v2.access", "after")
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(site.rotation.renew_due_tokens)
        site.slack.wait(lambda: read_row(site).renewal_until)
        site.slack.wait(lambda: site.slack.world.app.earlier_tokens)
        installed = site.install()
        hold.release()
        renewing.result()
    assert site.told == [installed]
    assert read_row(site) == installed
    assert site.oauth.find_bot_id_and_url(site.tokens().bot)[0] == installed.bot_id


def test_a_client_secret_that_slack_refuses_is_logged(
    make_site: MakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    """It was changed at Slack only."""
    site = make_site(rotates=True)
    site.install()
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    site.slack.world.app.client_secret = "changed at Slack"
    site.rotation.renew_due_tokens()
    assert "(bad_client_secret)" in caplog.text
    assert "Correct COUNTERSIGN_CLIENT_ID and COUNTERSIGN_CLIENT_SECRET" in caplog.text


def test_a_token_that_no_key_decrypts_is_not_renewed(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the missing key."""
    other = TokenCipher.parse(SecretStr("two:" + "t" * 32))
    parts = (site.record, other, site.oauth, site.clock)
    advance(site, LIFE - RENEW_BEFORE_EXPIRY)
    TokenRotation(*parts, site.told.append).renew_due_tokens()
    assert "encrypted with the key one, which is not among" in caplog.text
    assert count_renewals(site) == 0
    both = TokenCipher.parse(SecretStr(f"two:{'t' * 32},{KEYS.get_secret_value()}"))
    assert both.reseal_all(site.record) == 0
    advance(site, REFUSED_RETRY_INTERVAL)
    TokenRotation(*parts, site.told.append).renew_due_tokens()
    assert [each.token_key for each in site.told] == ["two"]


def test_the_token_of_a_removed_installation_is_not_renewed(site: Site) -> None:
    """Its token has been deleted."""
    site.record.set_state(read_row(site).workspace, InstallationState.REMOVED, site.clock.now())
    advance(site, LIFE)
    assert renew(site) is None
    assert count_renewals(site) == 0
