"""The Bolt app that receives from Slack: what it shares with the clients that call Slack."""

from __future__ import annotations

import ssl

import pytest

from bot.identity import Identity
from bot.slack.client import SlackClient
from bot.slack.listeners import build_bolt_app


def test_the_systems_certificates_are_read_once() -> None:
    """All clients and the receiving app share one context."""
    clients = [SlackClient("xoxb-1", base_url="https://127.0.0.1:9/api/") for _ in range(2)]
    arriving = build_bolt_app(Identity("T0", "U0", "B0"), clients[0])
    assert isinstance(arriving.client.ssl, ssl.SSLContext)
    assert {id(each.ssl) for each in (arriving.client, *clients)} == {id(arriving.client.ssl)}


def test_bolt_does_not_warn_about_a_token_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Bolt would warn, as it does not know that the bot uses it."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    build_bolt_app(Identity("T0", "U0", "B0"), SlackClient("xoxb-1"))
    assert caplog.messages == []
