"""An app that speaks Socket Mode by hand, frame by frame."""

from __future__ import annotations

import contextlib
import json

import websocket
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App


class HandApp:
    """One socket of an app (None: the first one), read and answered frame by frame."""

    def __init__(self, sandbox: Sandbox, app: App | None = None) -> None:
        client = WebClient(base_url=sandbox.api_url)
        self.url = client.apps_connections_open(app_token=(app or sandbox.world.app).app_token)[
            "url"
        ]
        self.ws = websocket.create_connection(self.url, timeout=5)
        self.hello = self.frame()

    def frame(self) -> Json:
        """The next frame, within five seconds."""
        frame: Json = json.loads(self.ws.recv())
        return frame

    def ack(self, frame: Json, payload: Json | None = None) -> None:
        """Acknowledge an envelope."""
        answer = {"envelope_id": frame["envelope_id"]} | (
            {} if payload is None else {"payload": payload}
        )
        self.ws.send(json.dumps(answer))

    def take(self, payload: Json | None = None) -> Json:
        """The next frame, acknowledged."""
        frame = self.frame()
        self.ack(frame, payload)
        return frame

    def close(self) -> None:
        """Drop the connection."""
        self.ws.close()


def close_bolt(sandbox: Sandbox, handler: SocketModeHandler) -> None:
    """Close Bolt's handler, which takes three seconds while its socket is open."""
    handler.client.auto_reconnect_enabled = False
    sandbox.faults.cut()
    sandbox.wait(lambda: sandbox.connections == 0)
    # the library takes its socket away itself when the server's end is reset in that moment
    with contextlib.suppress(AttributeError):
        handler.close()  # type: ignore[no-untyped-call]  # the library's has no annotations
