"""HTTP/1.1 connections to one address that stay open: what is sent on them, and what is answered.

`http.client` connects, and names what goes wrong. It is not asked to write requests and read
answers: it takes the head of each answer apart as that of an e-mail, which takes longer than all
the rest of a call.
"""

from __future__ import annotations

import functools
import io
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPSConnection,
    IncompleteRead,
    LineTooLong,
    RemoteDisconnected,
    parse_headers,
)

IDLE = 15.0  # seconds after which a connection is not used again: servers allow at least that
KEPT = 16  # connections that are kept for later; more may be in use at once
LONGEST_LINE = 65_536  # bytes of one line of a head, as of http.client
MOST_HEADERS = 100  # the same
PIECE = 65_536  # bytes of a body that are read at once, at most
BARE = (204, 304)  # statuses of answers without a body


@dataclass(frozen=True, slots=True)
class HttpHead:
    """What a server says before the body of an answer."""

    status: int
    reason: str
    lines: tuple[bytes, ...]  # of its headers, without the end of the head
    headers: Mapping[str, str]  # by name, as they are written; of those that come twice the first

    @property
    def message(self) -> HTTPMessage:
        """Its headers as urllib has them."""
        return parse_headers(io.BytesIO(b"".join(self.lines) + b"\r\n"))


@dataclass(frozen=True, slots=True)
class HttpAnswer(HttpHead):
    """What a server answered to one request."""

    body: bytes


class Connection:
    """One connection, used by one thread at a time; connects with its first request."""

    def __init__(self, scheme: str, host: str, timeout: float, context: ssl.SSLContext | None):
        """`host` may name a port; a `context` is for https only."""
        if scheme == "https":
            context = context or _usual_context()
            self._opens: HTTPConnection = HTTPSConnection(host, timeout=timeout, context=context)
        else:
            self._opens = HTTPConnection(host, timeout=timeout)
        self._host = self._named()
        self._source: io.BufferedReader | None = None
        self.stays = False  # whether the server keeps it open after the last answer

    def send(self, method: str, path: str, headers: Mapping[str, object], body: bytes) -> None:
        """Send one request; OSError for what keeps it from it, ValueError for a broken head."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", "Accept-Encoding: identity"]
        if "Content-length" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header with more than one line")
        if self._opens.sock is None:
            self._opens.connect()
        self.stays = False
        self._opens.sock.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + body)

    def answer(self) -> HttpAnswer:
        """Read the answer to what was sent.

        OSErrors and HTTPExceptions, as http.client raises them, for what is cut short or no HTTP.
        """
        head, pieces = self.begin()
        return HttpAnswer(head.status, head.reason, head.lines, head.headers, b"".join(pieces))

    def begin(self) -> tuple[HttpHead, Iterator[bytes]]:
        """Read the head of the answer; the body follows piece by piece, as it comes.

        Both raise what `answer` raises.
        """
        source = self._source = self._opens.sock.makefile("rb")
        status = 100
        while 100 <= status < 200:
            version, status, reason = _status(_line(source))
            lines = tuple(_head(source))
        named: dict[str, str] = {}
        for name, value in map(_header, lines):
            named.setdefault(name, value)
        head = HttpHead(status, reason, lines, named)
        headers = {name.lower(): value for name, value in named.items()}
        keeps = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
        return head, self._pieces(source, status, headers, keeps)

    def _pieces(
        self, source: io.BufferedReader, status: int, headers: Mapping[str, str], keeps: bool
    ) -> Iterator[bytes]:
        with source:
            if status in BARE:
                pass
            elif headers.get("transfer-encoding", "").lower() == "chunked":
                yield from _chunks(source)
            elif (length := headers.get("content-length", "")).isdecimal():
                yield from _counted(source, int(length))
            else:
                keeps = False
                yield from iter(lambda: source.read1(PIECE), b"")
        self.stays = keeps

    def is_silent(self) -> bool:
        """Whether its server has said nothing since the last answer, its end included."""
        asks = select.poll()
        asks.register(self._opens.sock, select.POLLIN)
        return not asks.poll(0)

    def close(self) -> None:
        """Close it; the next request opens it anew."""
        self.stays = False
        if self._source is not None:
            self._source.close()  # else the socket stays open for it
        self._opens.close()

    def cut(self) -> None:
        """End it under the hands of the thread that uses it, for which it then breaks off."""
        with suppress(OSError, AttributeError):  # not open yet, or no more
            self._opens.sock.shutdown(socket.SHUT_RDWR)

    def _named(self) -> str:
        """The address as requests name it: without a port that goes without saying."""
        host, port = self._opens.host, self._opens.port
        name = f"[{host}]" if ":" in host else host
        return name if port == self._opens.default_port else f"{name}:{port}"


@functools.cache
def _usual_context() -> ssl.SSLContext:
    """The context that urllib makes for each of its connections, made once."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@functools.lru_cache(64)
def media_type(content_type: str) -> tuple[str, str]:
    """The type and the charset (utf-8, if none) that a Content-Type names."""
    message = Message()
    message["Content-Type"] = content_type
    return message.get_content_type(), message.get_content_charset() or "utf-8"


def _line(source: io.BufferedReader) -> bytes:
    line = source.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise LineTooLong("answer")
    return line


def _status(line: bytes) -> tuple[str, int, str]:
    """Version, status and reason from the first line."""
    if not line:
        raise RemoteDisconnected("Remote end closed connection without response")
    version, _, rest = line.decode("latin-1").strip().partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (status.isdecimal() and len(status) == 3):
        raise BadStatusLine(repr(line))
    return version, int(status), reason


def _head(source: io.BufferedReader) -> list[bytes]:
    """The lines of the headers."""
    lines: list[bytes] = []
    while (line := _line(source)) not in (b"\r\n", b"\n", b""):
        lines.append(line)
        if len(lines) > MOST_HEADERS:
            raise HTTPException(f"got more than {MOST_HEADERS} headers")
    return lines


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.partition(b":")
    return name.strip().decode("latin-1"), value.strip().decode("latin-1")


def _counted(source: io.BufferedReader, length: int) -> Iterator[bytes]:
    """So many bytes, as they come."""
    while length:
        piece = source.read1(min(length, PIECE))
        if not piece:
            raise IncompleteRead(b"", length)
        length -= len(piece)
        yield piece


def _chunks(source: io.BufferedReader) -> Iterator[bytes]:
    """A body that comes in chunks, each behind its length, and what follows the last."""
    while True:
        size = _line(source).partition(b";")[0].strip()
        try:
            length = int(size, 16)
        except ValueError:
            raise IncompleteRead(b"") from None
        if not length:
            _head(source)
            return
        yield from _counted(source, length)
        _line(source)


class Connections:
    """Open connections that no call is using, the latest used first; any thread."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        """`make` makes another, where none is open."""
        self._make = make
        self._lock = threading.Lock()
        self._idle: deque[tuple[Connection, float]] = deque()  # with when it was last used
        self._closed = False

    def take(self) -> Connection:
        """A connection that is open and silent, or a new one that opens with its first request."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, used = self._idle.pop()
            if time.monotonic() - used < IDLE and connection.is_silent():
                return connection
            connection.close()
        return self._make()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose answer has been read, unless its server has had enough."""
        if not connection.stays:
            connection.close()
            return
        now, dropped = time.monotonic(), []
        with self._lock:
            self._idle.append((connection, now))
            while self._idle and (
                self._closed or len(self._idle) > KEPT or now - self._idle[0][1] >= IDLE
            ):
                dropped.append(self._idle.popleft()[0])
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close all, and keep none from now on."""
        with self._lock:
            self._closed = True
            dropped, self._idle = self._idle, deque()
        for connection, _ in dropped:
            connection.close()
