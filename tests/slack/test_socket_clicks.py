"""Commands and clicks do not wait behind a flood of messages."""

from __future__ import annotations

import threading
from typing import Any

from slack_bolt import BoltResponse

from bot.signals import UnacknowledgedDeliveries
from bot.slack.socket import SocketModeConnection
from bot.slack.socket_client import MAX_PARALLEL_DELIVERIES
from tests.local_slack import build_local_slack
from tests.slack.test_socket import build_app


def test_a_command_is_acknowledged_during_a_flood_of_messages() -> None:
    """As many messages as are handled at once are held up."""
    arrived, release = threading.Semaphore(0), threading.Event()

    def take(body: dict[str, Any]) -> BoltResponse:
        if "event" in body:
            arrived.release()
            release.wait(10)
        return BoltResponse(status=200)

    with build_local_slack() as sandbox:
        app, ana = build_app(sandbox), sandbox.person("ana")
        app.middleware(take)
        slack = SocketModeConnection(app, sandbox.app_token, UnacknowledgedDeliveries())
        slack.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
        try:
            sandbox.wait(lambda: sandbox.connections == 1)
            for number in range(2 * MAX_PARALLEL_DELIVERIES):
                ana.say("support", f"message {number}")
            assert all(arrived.acquire(timeout=10) for _ in range(MAX_PARALLEL_DELIVERIES))
            sent: Any = ana.command("support", "/approvals")
            sandbox.wait(lambda: sent.acked_at is not None, 2)
        finally:
            release.set()
            slack.close()
