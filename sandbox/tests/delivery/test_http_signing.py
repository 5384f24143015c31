"""Which clock the signatures of HTTP requests use."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sandbox.tests.builders import Json
from sandbox.tests.http_app import HttpApp, serve_http_app
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import Delivery


@pytest.fixture
def app_server() -> Iterator[HttpApp]:
    """The HTTP server of the app."""
    with serve_http_app() as app:
        yield app


def test_requests_are_signed_by_the_clock_of_the_app(manifest: Json, app_server: HttpApp) -> None:
    """Apps in the same process can share the sandbox's clock; others use the machine's."""
    for shares, ahead in ((False, 0), (True, 3600)):
        with Sandbox(app_server.manifest(manifest), shares_clock=shares) as sandbox:
            sandbox.clock.advance(3600)
            fields = {"command": "/weather", "text": "Berlin", "team_id": sandbox.team_id}
            asked = Delivery("slash_commands", fields, sandbox.world.app)
            sandbox.world.send(asked)
            assert asked.wait() == "acked"
            signed_at = int(app_server.requests[-1].headers["x-slack-request-timestamp"])
            assert abs(signed_at - time.time() - ahead) < 60
