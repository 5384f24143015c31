"""Bolt's Socket Mode handler, which also knows whether something that arrived is still unacknowledged."""

from __future__ import annotations

import threading
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler

PING = 2.0  # seconds between two pings; the client gives a dead line up after five that failed, and is deaf till then
# Bytes read at once. The client takes what has arrived apart by recursion, a level for each read: with its own 1,024
# a burst of some two hundred clicks would reach Python's limit.
BUFFER = 65_536
MOMENT = 0.1  # seconds the loop lets arriving deliveries go first


class SocketMode(SocketModeHandler):
    """One connection to Slack."""

    def __init__(self, app: App, token: str) -> None:
        """`token` is the app-level one."""
        self._calm = threading.Condition()
        self._open = 0
        super().__init__(app, token, ping_interval=PING, receive_buffer_size=BUFFER)

    def handle(self, client: Any, req: Any) -> None:
        """One delivery, up to its acknowledgement."""
        with self._calm:
            self._open += 1
        try:
            super().handle(client, req)
        finally:
            with self._calm:
                self._open -= 1
                self._calm.notify_all()

    def wait_calm(self) -> None:
        """Return once all that arrived is acknowledged, or after a moment: people wait for that first."""
        with self._calm:
            self._calm.wait_for(lambda: not self._open, MOMENT)
