"""Bolt's Socket Mode handler, which also says what has arrived and is not acknowledged yet."""

from __future__ import annotations

import errno
import logging
import socket
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk.socket_mode.builtin.client import SocketModeClient
from slack_sdk.socket_mode.builtin.connection import ConnectionState

from bot.signals import Arrivals

log = logging.getLogger("countersign.socket")

# seconds between two pings; the client gives a dead line up after five that failed, and is deaf
# till then
PING = 2.0
# Bytes read at once. The client takes what has arrived apart by recursion, a level for each read:
# with its own 1,024 a burst of some two hundred clicks would reach Python's limit.
BUFFER = 65_536


class _Ended(ConnectionState):
    """The state of a connection that is closed for good: nothing sets `terminated` back.

    The client's reader begins by setting `terminated = False` (slack_sdk 3.47,
    `_run_current_session`). Where `close()` had set it True just before, the reader would wait for
    ever for a socket that is gone, and `close()` for the reader.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, True if name == "terminated" else value)


class _Line:
    """A connection's socket that raises when the other side has ended it.

    The client's reader takes no bytes for nothing new and asks again at once, without end, until
    its pings are found unanswered (slack_sdk 3.47, `run_until_completion`): ten seconds deaf,
    with a processor kept busy.
    """

    def __init__(self, sock: Any, client: _Client) -> None:
        self._sock, self._client = sock, client

    def recv(self, size: int) -> bytes:
        """At most `size` bytes; ConnectionResetError where there will be no more."""
        received: bytes = self._sock.recv(size)
        if not received and not self._client.closed:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was ended without a word")
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class _Client(SocketModeClient):
    """The built-in client, whose `close` returns, and which does not connect again after it."""

    def connect(self) -> None:
        """Connect, unless it was closed, also while this was going on."""
        if not self.closed:
            super().connect()
            session = self.current_session
            if session is not None and session.sock is not None:
                session.sock = _Line(session.sock, self)  # type: ignore[assignment]  # all of a socket that it uses
        if self.closed:
            self._end()

    def close(self) -> None:
        """Disconnect for good; returns when no thread of the connection is left."""
        with self.connect_operation_lock:  # a reconnection under way comes to its end first
            self.closed = True
            self._end()
        super().close()

    def _end(self) -> None:
        self.default_auto_reconnect_enabled = self.auto_reconnect_enabled = False
        reading, self.current_session_state = self.current_session_state, _Ended()  # type: ignore[no-untyped-call]  # its own
        reading.terminated = True
        session = self.current_session
        if session is None:
            return
        try:
            if (sock := session.sock) is not None:
                # wakes the reader, who would wait for Slack up to three seconds
                sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("waking the reader: %s", error)
        session.close()


class SocketMode(SocketModeHandler):
    """One connection to Slack."""

    def __init__(self, app: App, token: str, arrivals: Arrivals) -> None:
        """`token` is the app-level one; `arrivals` counts what is not acknowledged yet."""
        self._arrivals = arrivals
        self.app, self.app_token = app, token
        self.client = _Client(
            token,
            app.logger,
            app.client,
            proxy=app.client.proxy,
            ping_interval=PING,
            receive_buffer_size=BUFFER,
        )
        self.client.socket_mode_request_listeners.append(self.handle)

    def handle(self, client: Any, req: Any) -> None:
        """One delivery, up to its acknowledgement."""
        with self._arrivals.one():
            super().handle(client, req)

    def close(self) -> None:
        """Disconnect for good; returns when no thread of the connection is left. Raises nothing."""
        try:
            self.client.close()
        except Exception as error:  # noqa: BLE001 - the client may raise here
            log.debug("closing the connection: %s", error)
