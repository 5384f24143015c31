"""Fixtures: a running sandbox, the bot's client, and an app by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slack_sdk import WebClient

from bot.sandbox.server import Sandbox, load_manifest
from bot.sandbox.workspace.seed import Seed, default_seed
from tests.sandbox.builders import Json
from tests.sandbox.socket_app import HandApp


@pytest.fixture
def manifest(tmp_path: Path) -> Json:
    """A manifest that allows all that the sandbox knows."""

    return load_manifest(tmp_path / "none.yml")


@pytest.fixture
def seed() -> Seed:
    """The default workspace."""
    return default_seed()


@pytest.fixture
def sandbox(manifest: Json, seed: Seed) -> Iterator[Sandbox]:
    """A running sandbox."""
    with Sandbox(manifest, seed=seed) as running:
        yield running


@pytest.fixture
def client(sandbox: Sandbox) -> WebClient:
    """The bot's Web API client, without retries."""
    return WebClient(token=sandbox.bot_token, base_url=sandbox.api_url, retry_handlers=[])


@pytest.fixture
def app(sandbox: Sandbox) -> Iterator[HandApp]:
    """One connected socket, answered by hand."""
    connected = HandApp(sandbox)
    yield connected
    connected.close()
