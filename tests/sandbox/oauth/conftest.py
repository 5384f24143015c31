"""Fixtures: an app that is installed by OAuth."""

from __future__ import annotations

import pytest

from bot.sandbox.server import Sandbox
from bot.sandbox.workspace.apps import App
from tests.sandbox.builders import Json
from tests.sandbox.oauth.browser import BACK


@pytest.fixture
def manifest(manifest: Json) -> Json:
    """An app with a place to come back to."""
    manifest["oauth_config"]["redirect_urls"] = [BACK]
    return manifest


@pytest.fixture
def app(sandbox: Sandbox) -> App:
    """The app."""
    return sandbox.world.app
