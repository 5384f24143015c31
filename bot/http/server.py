"""The HTTP server: uvicorn on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from typing import Any, Self
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.config.connection_settings import ListeningAddress, describe_listening_error
from bot.config.startup import StartupError
from bot.http.api_gate import MAX_QUIET_CONNECTIONS
from bot.http.claude_code import UNREADABLE_REQUEST_ERROR, build_hook_denial_body, is_hook_request

MAX_FIRST_LINE_BYTES = 16_384  # of a request; its first line is looked for in these only
HEADERS_TIMEOUT_SECONDS = 5.0  # from the first byte of a request or the start of the connection


class HeaderTimeoutProtocol(H11Protocol):
    """One connection, which is closed if the headers of a request do not come in time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._giving_up: asyncio.TimerHandle | None = None
        self._quiet_since = time.monotonic()
        self._head = b""  # what has come of the next request; h11 keeps nothing of an invalid one

    @property
    def is_idle(self) -> bool:
        """Return whether no request is being answered: no full headers since the last answer."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first headers; close the longest quiet connection if there are too many."""
        super().connection_made(transport)
        self._update_header_timeout()
        others = [each for each in self.connections if isinstance(each, HeaderTimeoutProtocol)]
        quiet = [each for each in others if each is not self and each.is_idle]
        if len(quiet) >= MAX_QUIET_CONNECTIONS:
            min(quiet, key=lambda each: each._quiet_since)._close_without_headers()

    def data_received(self, data: bytes) -> None:
        """Take in data; go on waiting if the headers of a request are not complete yet."""
        if self.is_idle and len(self._head) < MAX_FIRST_LINE_BYTES:
            self._head += data[:MAX_FIRST_LINE_BYTES]
        super().data_received(data)
        self._update_header_timeout()

    def on_response_complete(self) -> None:
        """Note that the connection waits for its next request from now on."""
        self._quiet_since = time.monotonic()
        self._head = self.conn.trailing_data[0][:MAX_FIRST_LINE_BYTES]
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout for headers, as the connection is gone."""
        self._cancel_header_timeout()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer that this is not HTTP; a coding agent's hook is answered with a denial."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer has begun
        elif self._is_hook_request():
            self._send_denial()
        else:
            super().send_400_response(msg)

    def _update_header_timeout(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._cancel_header_timeout()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(
                HEADERS_TIMEOUT_SECONDS, self._close_without_headers
            )

    def _cancel_header_timeout(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _close_without_headers(self) -> None:
        """Close the connection if no whole header has come; a hook gets a denial first."""
        self._cancel_header_timeout()
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            return
        if self._is_hook_request() and self.conn.our_state is h11.IDLE:
            self._send_denial()
        else:
            self.transport.close()

    def _is_hook_request(self) -> bool:
        """Return whether the request, as far as it has come, is for a hook."""
        if not self.is_idle:
            return is_hook_request(self.scope["method"], self.scope["path"])
        line = self._head.lstrip().partition(b"\n")[0].decode("latin-1").split()
        return len(line) > 1 and is_hook_request(line[0], unquote(line[1].partition("?")[0]))

    def _send_denial(self) -> None:
        """Answer a hook's unreadable request with a denial, and close the connection."""
        body = build_hook_denial_body(UNREADABLE_REQUEST_ERROR)
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=200, headers=headers, reason=b"OK"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


log = logging.getLogger("countersign.http")
SHUTDOWN_GRACE_SECONDS = 3  # for answers to be sent when the server stops
BACKLOG = 1024  # connections that wait to be accepted


class WebServer:
    """An HTTP server at one listening socket."""

    def __init__(self, listening: socket.socket, url: str) -> None:
        """`listening`: a socket whose connections wait for `start`. `url`: the socket's address."""
        self._socket, self.url = listening, url
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def create_listening_server(cls, address: ListeningAddress) -> Self:
        """Return a server whose socket listens at `address` already; raises StartupError."""
        listening = _open_listening_socket(address)
        host, port = address.host, listening.getsockname()[1]
        return cls(listening, f"http://{f'[{host}]' if ':' in host else host}:{port}")

    def start(self, app: ASGIApp) -> None:
        """Begin to answer requests with `app`, on a thread."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        config = Config(
            app,
            http=HeaderTimeoutProtocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            # nobody needs the client's address, so no header that states it is trusted
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_GRACE_SECONDS,
        )
        config.load()
        self._server = Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="http"
        )
        self._thread.daemon = True
        self._thread.start()
        log.info("listening at %s", self.url)

    def close(self) -> None:
        """Finish the answers under way for a few seconds, then stop listening."""
        if self._server is None or self._thread is None:
            self._socket.close()
            return
        self._server.should_exit = True
        self._thread.join(SHUTDOWN_GRACE_SECONDS + 2)


def _open_listening_socket(address: ListeningAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        where, why = f"{address.host}:{address.port}", describe_listening_error(error)
        remedy = "choose another address, or stop the program that uses it"
        said = f"COUNTERSIGN_HTTP: {where} cannot be listened to ({why}); {remedy}"
        raise StartupError([said], ()) from None
