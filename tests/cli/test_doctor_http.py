"""`countersign doctor` on the HTTP side."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bot.checks.check import CheckResult
from bot.cli.doctor import http_checks as module
from bot.cli.doctor.doctor import run_checks_beyond_configuration
from bot.clock import SystemClock
from bot.config.connection_settings import ListeningAddress, Transport
from bot.config.settings import Settings
from bot.policy.evaluation import parse
from storage.sqlite import lock_database
from tests.stories.harness import Harness

SOUND = '[defaults]\napprovers = ["@shop-leads"]\n'


def run_http_checks(settings: Settings) -> dict[str, CheckResult]:
    """Run the checks of the HTTP side, and map them by subject."""
    return {each.subject: each for each in module.check_http_settings(settings)}


def test_socket_mode_and_http_have_their_own_checks(settings: Settings) -> None:
    """For Socket Mode the app token, for HTTP the signing secret and the address."""
    policy = parse(SOUND)
    about = {
        each.subject for each in run_checks_beyond_configuration(settings, policy, SystemClock())
    }
    assert "app token" in about
    assert not about & {"signing secret", "http address"}
    environ = {
        "SLACK_BOT_TOKEN": settings.slack_bot_token.get_secret_value(),
        "SLACK_SIGNING_SECRET": "sandbox-signing-secret",
        "SLACK_API_URL": settings.slack_api_url,
        "COUNTERSIGN_POLICY": str(settings.policy_path),
        "COUNTERSIGN_HTTP": "127.0.0.1:0",
    }
    served = Settings.load(environ, transport=None)
    checks = {
        each.subject: each
        for each in run_checks_beyond_configuration(served, policy, SystemClock())
    }
    assert "app token" not in checks
    assert checks["signing secret"].level == checks["http address"].level == "ok"
    assert checks["http address"].text == "127.0.0.1:0 is free"


def test_a_bot_at_the_http_address_is_asked_whether_it_is_ready(tmp_path: Path) -> None:
    """If it is not ready, the output says why."""
    harness = Harness(tmp_path, transport=Transport.HTTP)
    try:
        settings = harness.settings()
        harness.slack.wait(
            lambda: "a bot is ready" in run_http_checks(settings)["http address"].text
        )
        harness.app.endpoints.stop_receiving()
        stopping = run_http_checks(settings)["http address"]
        assert (stopping.level, "process: is stopping" in stopping.text) == ("warn", True)
    finally:
        harness.close()


def test_another_bot_at_the_http_address_fails(tmp_path: Path) -> None:
    """No process works with the database of these settings."""
    harness = Harness(tmp_path, transport=Transport.HTTP)
    try:
        settings = harness.settings()
        other = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'other.db'}"})
        harness.slack.wait(
            lambda: "a bot is ready" in run_http_checks(settings)["http address"].text
        )
        found = run_http_checks(other)["http address"]
        assert found.level == "fail"
        assert "is used by a bot that does not work with" in found.text
        lock_database(other.database_path).close()  # a bot was there, and has ended
        assert run_http_checks(other)["http address"] == found
    finally:
        harness.close()


def test_an_http_address_used_by_another_program_fails(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program does not answer like a bot."""
    monkeypatch.setattr(module, "HTTP_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        there = ListeningAddress("127.0.0.1", other.getsockname()[1])
        check = run_http_checks(settings.model_copy(update={"http": there}))["http address"]
    assert check.level == "fail"
    assert "cannot be listened to (Address already in use)" in check.text


def test_missing_packages_for_http_are_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output says how to install them."""
    monkeypatch.setattr(module, "HTTP_PACKAGES", ("starlette", "not_installed_here"))
    check = run_http_checks(settings.model_copy(update={"http": ListeningAddress("127.0.0.1", 0)}))[
        "http"
    ]
    assert check.level == "fail"
    assert str(check).endswith(
        "not_installed_here is not installed. pip install 'countersign-bot[serve]'"
    )
