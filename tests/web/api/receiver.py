"""An address that is told things: it keeps what came, and answers as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """One thing that it was told."""

    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """Keeps what came; answers with the `status` it has then."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.status = 204
        self.came = threading.Condition()
        self.url = ""

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """One thing has come; the status to answer with."""
        with self.came:
            self.heard.append(Heard(headers, body))
            self.came.notify_all()
        return self.status

    def wait(self, number: int) -> list[Heard]:
        """All that came, once it is so many."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.heard) >= number, 20), self.heard
            return list(self.heard)


@contextmanager
def listening() -> Iterator[Receiver]:
    """One, on a port of its own."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(receiver.take(headers, body))
            self.send_header("Location", "/elsewhere")  # which nobody may follow
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/told"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
