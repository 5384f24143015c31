"""Helpers for tests that call many methods: a refusal in one line, events by type."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.sandbox.server import Sandbox
from tests.sandbox.support import Json


def refused(client: WebClient, method: str, /, **arguments: Any) -> str:
    """Slack's error code for a call that must be refused."""
    with pytest.raises(SlackApiError) as error:
        client.api_call(method, params=arguments)
    return str(error.value.response["error"])


def events(sandbox: Sandbox, *types: str) -> list[Json]:
    """The events of these types that were sent to the apps, in their order."""
    return [d.event for d in sandbox.deliveries if d.event.get("type") in types]


def second_client(sandbox: Sandbox, *channels: str) -> WebClient:
    """The client of a second app with the scopes and events of the first, in these channels."""
    app = sandbox.install(sandbox.world.app.manifest, channels)
    return WebClient(token=app.bot_token, base_url=sandbox.api_url, retry_handlers=[])
