"""What a bot says of itself to machines, and that it is so."""

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


def asked(sender: Sender, path: str) -> tuple[int, list[str]]:
    """The status and the lines of a page."""
    status, text = sender.ask("GET", path)
    return status, text.splitlines()


def sender_to(harness: Harness) -> Sender:
    """Who asks this bot."""
    found = harness.app.endpoints.web
    assert found is not None
    return Sender(found.url, "", 0)


def begun(harness: Harness, there: Sender) -> None:
    """Wait until the loop has looked for the first time: before, it is not ready."""
    harness.slack.wait(lambda: asked(there, "/healthz")[0] == 200)


def test_all_is_well(bot: Harness, sender: Sender) -> None:
    """A working bot lives and is ready, and says by what."""
    begun(bot, sender)
    assert asked(sender, "/healthz") == (200, ["alive", "loop: ok"])
    assert asked(sender, "/readyz") == (200, ["ready", "loop: ok", "database: ok", "slack: ok"])
    assert sender.ask("HEAD", "/healthz") == (200, "")


def test_beside_socket_mode(own_harness: Callable[..., Harness]) -> None:
    """`countersign run` says the same at COUNTERSIGN_HTTP, and takes no deliveries there."""
    harness = own_harness(transport=Transport.SOCKET, COUNTERSIGN_HTTP="127.0.0.1:0")
    there = sender_to(harness)
    begun(harness, there)
    assert asked(there, "/readyz")[0] == 200
    assert there.ask("POST", "/slack/events")[0] == 404
    harness.app.endpoints.stop_receiving()
    assert asked(there, "/readyz") == (503, ["not ready", "process: is stopping"])


@pytest.mark.skipif(ON_A_SERVER, reason="here a file is held")
def test_a_database_that_cannot_be_written(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another program holds it, no work is to be sent here; the process lives."""
    monkeypatch.setattr(health_checks, "CHECK_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(http_side, "DATABASE_CHECK_CACHE_SECONDS", 0.0)
    harness = own_harness(transport=Transport.HTTP)
    there = sender_to(harness)
    harness.slack.wait(lambda: asked(there, "/readyz")[0] == 200)
    with closing(sqlite3.connect(harness.folder / "countersign.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        status, lines = asked(there, "/readyz")
        assert (status, lines[2]) == (503, "database: no answer within 0.3 seconds")
        assert asked(there, "/healthz")[0] == 200
        other.execute("ROLLBACK")
    harness.slack.wait(lambda: asked(there, "/readyz")[0] == 200)


def test_a_token_that_slack_refuses(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once Slack no longer takes the bot's token, no work is to be sent here, until it does."""
    monkeypatch.setattr(http_side, "SLACK_CHECK_CACHE_SECONDS", 0.0)
    harness = own_harness(transport=Transport.HTTP)
    there = sender_to(harness)
    harness.slack.world.app.revoked = True
    harness.slack.wait(lambda: asked(there, "/readyz")[0] == 503)
    assert "slack: refuses the bot token" in asked(there, "/readyz")[1]
    harness.slack.world.app.installed, harness.slack.world.app.revoked = True, False
    harness.slack.wait(lambda: asked(there, "/readyz")[0] == 200)


def test_a_slack_that_does_not_answer(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That Slack is down says nothing about the token, and holds up no answer."""
    monkeypatch.setattr(http_side, "SLACK_CHECK_CACHE_SECONDS", 0.0)
    harness = own_harness(transport=Transport.HTTP)
    there = sender_to(harness)
    harness.slack.faults.hang("auth.test")
    for _ in range(3):
        assert asked(there, "/readyz")[0] == 200
    harness.slack.faults.clear()


def health(loop: Signal, tick: float = 30.0, **looks: Any) -> HealthPages:
    """Health of a process whose loop is this signal's."""
    well = CachedCheck(lambda: OK, 60.0)
    return HealthPages(loop, tick, looks.get("database", well), well, lambda: False)


def test_a_loop_that_does_not_look() -> None:
    """One that has not begun is neither; one that is late lives, until it is far too late."""
    loop = Signal()
    assert [each().status_code for each in health(loop).get_pages().values()] == [503, 503]
    loop.clear()
    assert [each().status_code for each in health(loop).get_pages().values()] == [200, 200]
    late = health(loop, tick=-module.MAX_READY_DELAY_SECONDS - 1)
    assert [each().status_code for each in late.get_pages().values()] == [200, 503]
    said = bytes(late.render_readiness_page().body)
    assert re.search(b"loop: is [6-9] seconds late", said)
    lost = health(loop, tick=-module.MAX_ALIVE_DELAY_SECONDS - 1)
    assert [each().status_code for each in lost.get_pages().values()] == [503, 503]


def test_what_went_wrong_is_not_told() -> None:
    """Of an error its kind alone: what it says may hold a secret."""

    def fails() -> str:
        raise OSError("postgresql://bot:hunter2@db/countersign")

    loop = Signal()
    loop.clear()
    said = health(loop, database=CachedCheck(fails, 60.0)).render_readiness_page()
    assert said.status_code == 503
    assert b"database: failed (OSError)" in bytes(said.body)
    assert b"hunter2" not in bytes(said.body)


def test_many_who_ask_are_one_look() -> None:
    """However often it is asked, the database is looked at once in a while."""
    looks: list[int] = []

    def look() -> str:
        looks.append(1)
        return OK

    loop = Signal()
    loop.clear()
    found = health(loop, database=CachedCheck(look, 60.0))
    assert {found.render_readiness_page().status_code for _ in range(50)} == {200}
    assert len(looks) == 1
