"""Fixtures: an app that is installed by OAuth."""

from __future__ import annotations

import pytest

from sandbox.tests.builders import Json
from sandbox.tests.oauth.browser import BACK
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App


@pytest.fixture
def manifest(manifest: Json) -> Json:
    """A manifest with a redirect URL."""
    manifest["oauth_config"]["redirect_urls"] = [BACK]
    return manifest


@pytest.fixture
def app(sandbox: Sandbox) -> App:
    """The app."""
    return sandbox.world.app
