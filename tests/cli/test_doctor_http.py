"""What the doctor says of the HTTP side."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bot.checks.check import CheckResult
from bot.cli.doctor import checks as module
from bot.cli.doctor.doctor import run_checks_beyond_configuration
from bot.clock import SystemClock
from bot.config.connection_settings import ListeningAddress, Transport
from bot.config.settings import Settings
from bot.policy.evaluation import parse
from tests.stories.harness import Harness

SOUND = '[defaults]\napprovers = ["@shop-leads"]\n'


def found(settings: Settings) -> dict[str, CheckResult]:
    """The checks of the HTTP side."""
    return {each.subject: each for each in module.check_http_settings(settings)}


def test_both_ways_are_looked_at(settings: Settings) -> None:
    """By Socket Mode the app's token is tried; by HTTP the secret and the address are looked at."""
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


def test_a_bot_that_listens_there_is_asked(tmp_path: Path) -> None:
    """A working bot is named as that, one that is not ready with the reason."""
    harness = Harness(tmp_path, transport=Transport.HTTP)
    try:
        settings = harness.settings()
        harness.slack.wait(lambda: "a bot is ready" in found(settings)["http address"].text)
        harness.app.endpoints.stop_receiving()
        stopping = found(settings)["http address"]
        assert (stopping.level, "process: is stopping" in stopping.text) == ("warn", True)
    finally:
        harness.close()


def test_an_address_of_somebody_else(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not answer, or answers otherwise, cannot be listened to, and that is said."""
    monkeypatch.setattr(module, "HTTP_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        there = ListeningAddress("127.0.0.1", other.getsockname()[1])
        check = found(settings.model_copy(update={"http": there}))["http address"]
    assert check.level == "fail"
    assert "cannot be listened to (Address already in use)" in check.text


def test_packages_that_are_missing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the extra brings is named where it is not there."""
    monkeypatch.setattr(module, "HTTP_PACKAGES", ("starlette", "not_installed_here"))
    check = found(settings.model_copy(update={"http": ListeningAddress("127.0.0.1", 0)}))["http"]
    assert check.level == "fail"
    assert str(check).endswith(
        "not_installed_here is not installed. pip install 'countersign-bot[serve]'"
    )
