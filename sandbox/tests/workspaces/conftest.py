"""Fixtures: a sandbox of two workspaces, with the app in the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.oauth.browser import BACK
from slack_sandbox.client.admin import Admin
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App

SECOND = "T0SANDBOXB"


@pytest.fixture
def manifest(manifest: Json) -> Json:
    """An app that people install, with a command and a shortcut."""
    manifest["oauth_config"]["redirect_urls"] = [BACK]
    manifest["features"]["slash_commands"] = [{"command": "/tea", "description": "Orders tea"}]
    form = {"name": "Form", "type": "global", "callback_id": "form", "description": "Opens a form"}
    manifest["features"]["shortcuts"] = [form]
    return manifest


@pytest.fixture
def sandbox(manifest: Json) -> Iterator[Sandbox]:
    """Two workspaces."""
    with Sandbox(manifest, workspaces=2) as running:
        yield running


@pytest.fixture
def second(sandbox: Sandbox) -> Admin:
    """The other workspace."""
    return sandbox.workspace(SECOND)


@pytest.fixture
def client_of(sandbox: Sandbox) -> Callable[[App], WebClient]:
    """A client with an installation's bot token, without retries."""
    return lambda app: WebClient(app.bot_token, base_url=sandbox.api_url, retry_handlers=[])
