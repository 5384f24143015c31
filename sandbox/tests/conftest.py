"""Fixtures: a running sandbox, the bot's client, and an app by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest
from slack_sandbox.workspace.seed import Seed, default_seed


@pytest.fixture
def manifest(tmp_path: Path) -> Json:
    """A manifest that allows all that the sandbox knows."""

    return full_manifest()


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
