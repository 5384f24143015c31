"""The Bolt app that receives: what it shares with the clients that call."""

from __future__ import annotations

import ssl

from bot.identity import Identity
from bot.slack.client import SlackClient
from bot.slack.listeners import build_bolt_app


def test_the_systems_certificates_are_read_once() -> None:
    """Every client, and the connection that events come by, has the same context."""
    clients = [SlackClient("xoxb-1", base_url="https://127.0.0.1:9/api/") for _ in range(2)]
    arriving = build_bolt_app(Identity("T0", "U0", "B0"), clients[0])
    assert isinstance(arriving.client.ssl, ssl.SSLContext)
    assert {id(each.ssl) for each in (arriving.client, *clients)} == {id(arriving.client.ssl)}
