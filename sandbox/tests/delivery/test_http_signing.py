"""By whose clock HTTP requests are signed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sandbox.tests.builders import Json
from sandbox.tests.http_app import HttpApp, serving
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import Delivery


@pytest.fixture
def there() -> Iterator[HttpApp]:
    """The app's server."""
    with serving() as app:
        yield app


def test_requests_are_signed_by_the_clock_of_the_app(manifest: Json, there: HttpApp) -> None:
    """Apps of the same process may go by the sandbox's clock; others go by the machine's."""
    for shares, ahead in ((False, 0), (True, 3600)):
        with Sandbox(there.manifest(manifest), shares_clock=shares) as sandbox:
            sandbox.clock.advance(3600)
            fields = {"command": "/weather", "text": "Berlin", "team_id": sandbox.team_id}
            asked = Delivery("slash_commands", fields, sandbox.world.app)
            sandbox.world.send(asked)
            assert asked.wait() == "acked"
            signed_at = int(there.requests[-1].headers["x-slack-request-timestamp"])
            assert abs(signed_at - time.time() - ahead) < 60
