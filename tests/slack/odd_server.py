"""A server in Slack's place that answers every call in one odd way."""

from __future__ import annotations

import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class _Handler(BaseHTTPRequestHandler):
    """Answers as its server says."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer, or break off."""
        odd = self.server.odd
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        odd.asked += 1
        if odd.asked > odd.most:
            self._answer(odd.status, odd.right, {})
            return
        if odd.breaks == "never":
            odd.ended.wait()
            self.close_connection = True
            return
        if odd.breaks == "before":
            self._reset()
            return
        self._answer(odd.status, odd.body, odd.headers, odd.missing)
        if odd.breaks == "within" or odd.missing:
            self._reset()

    def _answer(self, status: int, body: bytes, more: dict[str, str], missing: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body) + missing))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.wfile.flush()
        if self.server.odd.breaks:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    odd: OddServer


class OddServer:
    """On 127.0.0.1; its answer may be changed between two calls."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        self.headers: dict[str, str] = {}
        self.missing = 0  # bytes that the announced length has and the body has not
        # "before" or "within" the answer the connection is reset; "never": no answer comes
        self.breaks = ""
        self.asked = 0
        self.most, self.right = sys.maxsize, b""  # number of odd answers; the body of later ones
        self.ended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.odd = self
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        """Its address as one of the Web API."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
