"""A receiver of webhooks, which keeps the messages and answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class ReceivedMessage(NamedTuple):
    """One message that the receiver got."""

    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """Keeps messages, and answers each with its `status` at that time."""

    def __init__(self) -> None:
        self.heard: list[ReceivedMessage] = []
        self.status = 204
        self.came = threading.Condition()
        self.url = ""

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Keep a message; returns the status to answer with."""
        with self.came:
            self.heard.append(ReceivedMessage(headers, body))
            self.came.notify_all()
        return self.status

    def wait(self, number: int) -> list[ReceivedMessage]:
        """Wait until there are so many messages, and return all of them."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.heard) >= number, 20), self.heard
            return list(self.heard)


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    """Run a receiver on a port of its own."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(receiver.take(headers, body))
            self.send_header("Location", "/elsewhere")  # nobody may follow this
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/told"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
