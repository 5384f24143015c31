"""Who gives a command or clicks does not wait behind what many people write."""

from __future__ import annotations

import threading
from typing import Any

from slack_bolt import BoltResponse

from bot.signals import UnacknowledgedDeliveries
from bot.slack.socket import SocketModeConnection
from bot.slack.socket_client import MAX_PARALLEL_DELIVERIES
from tests.local_slack import build_local_slack
from tests.slack.test_socket import app_on


def test_a_command_amid_a_flood_of_messages() -> None:
    """It is acknowledged while as many messages as are dealt with at once are held up."""
    arrived, go = threading.Semaphore(0), threading.Event()

    def take(body: dict[str, Any]) -> BoltResponse:
        if "event" in body:
            arrived.release()
            go.wait(10)
        return BoltResponse(status=200)

    with build_local_slack() as sandbox:
        app, ana = app_on(sandbox), sandbox.person("ana")
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
            go.set()
            slack.close()
