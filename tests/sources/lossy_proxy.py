"""An HTTP proxy between the sources and the bot, which repeats, loses and holds up requests.

It stands for the network: it passes requests on unchanged.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

LONGEST = 90.0  # seconds
HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "date", "server")
STREAM = "text/event-stream"
Answer = tuple[int, list[tuple[str, str]], Iterator[bytes]]


@dataclass
class Trouble:
    """What happens to the next request of one kind."""

    kind: str  # POST /claim: method, end of the path, and text of the body, if it matters
    met: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)  # lets a held request go on


class LossyProxy:
    """Listens at `url`, and passes on to the address that `there` returns."""

    def __init__(self, there: Callable[[], str]) -> None:
        """Start without any trouble."""
        self._there = there
        self.twice = False  # each request reaches the bot twice at the same time
        self.cut = threading.Event()  # set when a request did not reach the bot
        self._held: list[Trouble] = []
        self._lost: list[Trouble] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # cut by us
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Pass on nothing more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextmanager
    def holding(self, kind: str) -> Iterator[Trouble]:
        """Keep requests of this kind from the bot until the block ends."""
        trouble = Trouble(kind)
        self._held.append(trouble)
        try:
            yield trouble
        finally:
            self._held.remove(trouble)
            trouble.over.set()

    def losing(self, kind: str) -> Trouble:
        """Let the bot handle the next request of this kind, and lose its answer."""
        trouble = Trouble(kind)
        self._lost.append(trouble)
        return trouble

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        line = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                line.handle(self)

            do_GET = do_POST = do_DELETE = _handle

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler

    def handle(self, visitor: BaseHTTPRequestHandler) -> None:
        """Pass on one request and its answer, with the trouble for its kind."""
        said = f"{visitor.command} {visitor.path.partition('?')[0]}"
        body = visitor.rfile.read(int(visitor.headers.get("Content-Length", 0)))
        for trouble in [each for each in self._held if _is(each.kind, said, body)]:
            trouble.met.set()
            trouble.over.wait(LONGEST)
        try:
            answer = self._answer(visitor, body)
        except (OSError, HTTPException):
            self.cut.set()
            _cut(visitor)
            return
        for trouble in [each for each in self._lost if _is(each.kind, said, body)]:
            self._lost.remove(trouble)
            next(answer[2], b"")  # the answer had begun
            trouble.met.set()
            _cut(visitor)
            return
        with suppress(OSError, HTTPException):  # one side has closed
            _send(visitor, *answer)

    def _answer(self, visitor: BaseHTTPRequestHandler, body: bytes) -> Answer:
        if not self.twice:
            return self._ask(visitor, body)
        other = threading.Thread(target=self._once_more, args=(visitor, body))
        other.start()
        try:
            return self._ask(visitor, body)
        finally:
            other.join()

    def _once_more(self, visitor: BaseHTTPRequestHandler, body: bytes) -> None:
        with suppress(OSError, HTTPException):
            _, _, parts = self._ask(visitor, body)
            deque(parts, 0)

    def _ask(self, visitor: BaseHTTPRequestHandler, body: bytes) -> Answer:
        there = urlsplit(self._there())
        line = HTTPConnection(there.netloc, timeout=LONGEST)
        headers = {k: v for k, v in visitor.headers.items() if k.lower() not in (*HOP, "host")}
        line.request(visitor.command, visitor.path, body or None, headers)
        answer = line.getresponse()
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP]
        if STREAM in answer.getheader("Content-Type", ""):
            return answer.status, kept, iter(answer.read1, b"")
        return answer.status, kept, iter([answer.read()])


def _is(wanted: str, said: str, body: bytes) -> bool:
    method, end, *saying = wanted.split(" ", 2)
    is_there = said.startswith(f"{method} ") and said.endswith(end)
    return is_there and all(each.encode() in body for each in saying)


def _cut(visitor: BaseHTTPRequestHandler) -> None:
    visitor.close_connection = True
    with suppress(OSError):
        visitor.connection.shutdown(socket.SHUT_RDWR)


def _send(
    visitor: BaseHTTPRequestHandler,
    status: int,
    headers: list[tuple[str, str]],
    parts: Iterator[bytes],
) -> None:
    visitor.send_response_only(status)
    for name, value in headers:
        visitor.send_header(name, value)
    visitor.end_headers()  # the answer ends with the connection
    for part in parts:
        visitor.wfile.write(part)
        visitor.wfile.flush()
