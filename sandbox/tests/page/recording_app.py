"""A tiny app on the sandbox's socket that records what arrives and answers as the test says."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import websocket
from slack_sdk import WebClient

from slack_sandbox.server import Sandbox

Payload = dict[str, Any]


class RecordingApp:
    """`answer(payload)` gives the acknowledgement's payload (or None).

    `may_ack` unset makes acknowledgements wait.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url)
        self.answer: Callable[[Payload], Payload | None] = lambda payload: None
        self.may_ack = threading.Event()
        self.may_ack.set()
        self.seen: list[Payload] = []
        url = self.client.apps_connections_open(app_token=sandbox.app_token)["url"]
        self._socket = websocket.create_connection(url, timeout=60)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Begin to take deliveries; returns when the sandbox counts the socket as open."""
        self._thread.start()
        self.sandbox.wait_connected()

    def stop(self) -> None:
        """Disconnect for good; a second time does nothing."""
        self.may_ack.set()
        if self._thread.is_alive():
            assert self._socket.sock is not None
            self._socket.sock.shutdown(socket.SHUT_RDWR)  # wakes the reader, which sees the end
            self._thread.join(30)
            self._socket.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, websocket.WebSocketException):  # `stop` shut the socket
            while text := self._socket.recv():
                frame = json.loads(text)
                if frame["type"] == "interactive":
                    self.seen.append(frame["payload"])
                    answer = self.answer(frame["payload"])
                    self.may_ack.wait(10)
                    self._ack(frame, answer)
                elif "envelope_id" in frame:
                    self._ack(frame, None)

    def _ack(self, frame: Payload, answer: Payload | None) -> None:
        payload = {} if answer is None else {"payload": answer}
        self._socket.send(json.dumps({"envelope_id": frame["envelope_id"]} | payload))

    def wait(self, kind: str) -> Payload:
        """The newest interactive payload of that type ("block_actions" …), waited for."""
        found = self.sandbox.wait(lambda: [p for p in self.seen if p["type"] == kind])
        return found[-1]

    def open_modal_on_click(self, view: Payload) -> None:
        """Answer every click in a message by opening that modal."""

        def answer(payload: Payload) -> Payload | None:
            if payload["type"] == "block_actions" and "view" not in payload:
                self.client.views_open(trigger_id=payload["trigger_id"], view=view)
            return None

        self.answer = answer
