"""The health pages of a bot."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from bot.http import http_side
from bot.http import http_side as module
from bot.http.http_side import HealthPages
from bot.monitoring import health_checks
from bot.monitoring.health_checks import OK, CachedCheck
from bot.signals import Signal
from tests.records import ON_A_SERVER
from tests.stories.harness import Harness
from tests.web.requests import Sender


def get_page(sender: Sender, path: str) -> tuple[int, list[str]]:
    """Get the status and the lines of a page."""
    status, text = sender.ask("GET", path)
    return status, text.splitlines()


def make_sender(harness: Harness) -> Sender:
    """Make a sender for this bot."""
    found = harness.app.endpoints.web
    assert found is not None
    return Sender(found.url, "", 0)


def wait_until_alive(harness: Harness, there: Sender) -> None:
    """Wait until the loop has run for the first time: before that, the bot is not ready."""
    harness.slack.wait(lambda: get_page(there, "/healthz")[0] == 200)


def test_a_working_bot_is_alive_and_ready(bot: Harness, sender: Sender) -> None:
    """The pages list what was checked."""
    wait_until_alive(bot, sender)
    assert get_page(sender, "/healthz") == (200, ["alive", "loop: ok"])
    assert get_page(sender, "/readyz") == (200, ["ready", "loop: ok", "database: ok", "slack: ok"])
    assert sender.ask("HEAD", "/healthz") == (200, "")


def test_a_bot_over_socket_mode_has_health_pages_too(own_harness: Callable[..., Harness]) -> None:
    """They are at COUNTERSIGN_HTTP, where no deliveries are accepted."""
    harness = own_harness(transport=Transport.SOCKET, COUNTERSIGN_HTTP="127.0.0.1:0")
    there = make_sender(harness)
    wait_until_alive(harness, there)
    assert get_page(there, "/readyz")[0] == 200
    assert there.ask("POST", "/slack/events")[0] == 404
    harness.app.endpoints.stop_receiving()
    assert get_page(there, "/readyz") == (503, ["not ready", "process: is stopping"])


@pytest.mark.skipif(ON_A_SERVER, reason="the test locks a file")
def test_a_bot_with_a_locked_database_is_alive_but_not_ready(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program locks it. Once it is free, the bot is ready again."""
    monkeypatch.setattr(health_checks, "CHECK_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(http_side, "DATABASE_CHECK_CACHE_SECONDS", 0.0)
    harness = own_harness(transport=Transport.HTTP)
    there = make_sender(harness)
    harness.slack.wait(lambda: get_page(there, "/readyz")[0] == 200)
    with closing(sqlite3.connect(harness.folder / "countersign.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        status, lines = get_page(there, "/readyz")
        assert (status, lines[2]) == (503, "database: no answer within 0.3 seconds")
        assert get_page(there, "/healthz")[0] == 200
        other.execute("ROLLBACK")
    harness.slack.wait(lambda: get_page(there, "/readyz")[0] == 200)


def test_a_bot_with_a_refused_token_is_not_ready(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ready again once Slack accepts the token."""
    monkeypatch.setattr(http_side, "SLACK_CHECK_CACHE_SECONDS", 0.0)
    harness = own_harness(transport=Transport.HTTP)
    there = make_sender(harness)
    harness.slack.world.app.revoked = True
    harness.slack.wait(lambda: get_page(there, "/readyz")[0] == 503)
    assert "slack: refuses the bot token" in get_page(there, "/readyz")[1]
    harness.slack.world.app.installed, harness.slack.world.app.revoked = True, False
    harness.slack.wait(lambda: get_page(there, "/readyz")[0] == 200)


def test_a_bot_is_ready_while_slack_does_not_answer(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That says nothing about the token, and does not delay the page."""
    monkeypatch.setattr(http_side, "SLACK_CHECK_CACHE_SECONDS", 0.0)
    harness = own_harness(transport=Transport.HTTP)
    there = make_sender(harness)
    harness.slack.faults.hang("auth.test")
    for _ in range(3):
        assert get_page(there, "/readyz")[0] == 200
    harness.slack.faults.clear()


def make_health(loop: Signal, tick: float = 30.0, **looks: Any) -> HealthPages:
    """Make the health pages of a process whose loop has this signal."""
    well = CachedCheck(lambda: OK, 60.0)
    return HealthPages(loop, tick, looks.get("database", well), well, lambda: False)


def test_a_late_loop_is_not_ready_and_a_very_late_one_not_alive() -> None:
    """A loop that has not begun is neither."""
    loop = Signal()
    assert [each().status_code for each in make_health(loop).get_pages().values()] == [503, 503]
    loop.clear()
    assert [each().status_code for each in make_health(loop).get_pages().values()] == [200, 200]
    late = make_health(loop, tick=-module.MAX_READY_DELAY_SECONDS - 1)
    assert [each().status_code for each in late.get_pages().values()] == [200, 503]
    said = bytes(late.render_readiness_page().body)
    assert re.search(b"loop: is [6-9] seconds late", said)
    lost = make_health(loop, tick=-module.MAX_ALIVE_DELAY_SECONDS - 1)
    assert [each().status_code for each in lost.get_pages().values()] == [503, 503]


def test_a_failed_check_shows_only_the_kind_of_error() -> None:
    """The error's text may contain a secret."""

    def fails() -> str:
        raise OSError("postgresql://bot:hunter2@db/countersign")

    loop = Signal()
    loop.clear()
    said = make_health(loop, database=CachedCheck(fails, 60.0)).render_readiness_page()
    assert said.status_code == 503
    assert b"database: failed (OSError)" in bytes(said.body)
    assert b"hunter2" not in bytes(said.body)


def test_checks_are_cached() -> None:
    """The database is checked once for fifty requests."""
    looks: list[int] = []

    def look() -> str:
        looks.append(1)
        return OK

    loop = Signal()
    loop.clear()
    found = make_health(loop, database=CachedCheck(look, 60.0))
    assert {found.render_readiness_page().status_code for _ in range(50)} == {200}
    assert len(looks) == 1
