"""Fixtures: a thread to answer in, and a channel that the bot made."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from slack_sandbox.server import Sandbox


@pytest.fixture
def thread(sandbox: Sandbox) -> str:
    """A thread in #support."""
    return sandbox.person("ben").say("support", "@bot hello")


@pytest.fixture
def bot_channel(client: WebClient) -> str:
    """A channel that the bot created, with Ana in it."""
    channel = str(client.conversations_create(name="launch")["channel"]["id"])
    client.conversations_invite(channel=channel, users="UANA00001")
    return channel
