"""One WebSocket to Slack: read by a thread of its own, and ended with a close frame."""

from __future__ import annotations

import errno
import json
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from slack_sdk.errors import SlackClientNotConnectedError
from slack_sdk.socket_mode.builtin.connection import Connection
from slack_sdk.socket_mode.builtin.frame_header import FrameHeader
from slack_sdk.socket_mode.builtin.internals import _build_data_frame_for_sending as frame_of

log = logging.getLogger("countersign.socket")
Json = dict[str, Any]
NORMAL = 1000  # the code of a close frame that says that all is well
# Bytes read at once. The library takes what has arrived apart by recursion, a level for each read:
# with its own 1,024 a burst of some two hundred clicks would reach Python's limit.
BUFFER = 65_536


class _Reading:
    """Whether the reader of a line is to end: the line has, or the library says so."""

    def __init__(self, line: Line) -> None:
        self._line, self._is_over = line, False

    @property
    def terminated(self) -> bool:
        """Whether it is."""
        return self._is_over or not self._line.is_active()

    @terminated.setter
    def terminated(self, value: bool) -> None:
        self._is_over = value


class _Socket:
    """A line's socket: it raises when the other side has ended it, and sends the whole of a frame.

    The library's reader takes no bytes for nothing new and asks again at once, without end, until
    its pings are found unanswered (slack_sdk 3.47, `run_until_completion`): ten seconds deaf,
    with a processor kept busy.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def recv(self, size: int) -> bytes:
        """At most `size` bytes; ConnectionResetError where there will be no more."""
        received: bytes = self._sock.recv(size)
        if not received:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was ended without a word")
        return received

    def send(self, data: bytes) -> int:
        """Send all of it."""
        self._sock.sendall(data)
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Line(Connection):
    """A connection from its handshake to its close frame.

    `close` and `disconnect` may be called from any thread, and wait for no reader.
    """

    def __init__(
        self,
        url: str,
        *,
        heard: Callable[[Line, Json], None],
        ended: Callable[[Line], None],
        **options: Any,
    ) -> None:
        """`heard` gets each message that Slack says, on the reader's thread; `ended` is told last.

        Neither may wait.
        """
        super().__init__(
            url,
            on_message_listener=self._said,
            on_error_listener=self._failed,
            on_close_listener=lambda *_: self.say_goodbye(),
            receive_buffer_size=BUFFER,
            **options,
        )
        self._heard, self._ended = heard, ended
        self._unanswered: set[str] = set()  # envelopes
        self._has_said_goodbye = False
        self._reader = threading.Thread(target=self._read, name="slack-reader", daemon=True)
        self.born = time.monotonic()
        self.left: float | None = None  # since when another takes its place
        self.died: float | None = None  # since when it is no more

    def connect(self) -> None:
        """Connect and begin to read; `is_active` says whether that went well."""
        super().connect()
        if self.sock is not None:
            self.sock = _Socket(self.sock)  # type: ignore[assignment]  # all of one that is used
            self._reader.start()
        else:
            self.died = time.monotonic()

    def leave(self) -> None:
        """Another line takes the place of this one."""
        self.left = time.monotonic()

    def send(self, payload: str) -> None:
        """Send text; SlackClientNotConnectedError where that is no longer possible."""
        data = frame_of(payload, FrameHeader.OPCODE_TEXT)
        with self.sock_send_lock:
            if self.sock is None or self._has_said_goodbye:
                raise SlackClientNotConnectedError("the connection has ended")
            try:
                self.sock.send(data)
            except OSError as error:
                raise SlackClientNotConnectedError(f"the connection broke: {error}") from error

    def is_answered(self) -> bool:
        """Return whether nothing that came by this line is being dealt with."""
        return not self._unanswered

    def settled(self, envelope: str) -> None:
        """An envelope that came by this line is dealt with."""
        self._unanswered.discard(envelope)

    def say_goodbye(self) -> None:
        """Send the close frame, once; the reader goes on until Slack's own comes."""
        data = frame_of(struct.pack("!H", NORMAL), FrameHeader.OPCODE_CLOSE)
        with self.sock_send_lock, suppress(OSError):
            if self.sock is not None and not self._has_said_goodbye:
                self._has_said_goodbye = True
                self.sock.send(data)

    def wait(self, seconds: float) -> None:
        """Return when nothing is read any more, or after so many seconds."""
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(max(0.0, seconds))

    def disconnect(self) -> None:
        """Take the socket away."""
        if (sock := self.sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the reader, who would wait for Slack
        with self.sock_send_lock, self.sock_receive_lock:
            if self.sock is not None:
                self.sock.close()
                self.sock = None

    def _read(self) -> None:
        try:
            self.run_until_completion(_Reading(self))  # type: ignore[arg-type]  # all that it asks
        except Exception:
            log.exception("the connection to Slack could not be read")
        self.disconnect()
        self.died = time.monotonic()
        self._ended(self)

    def _said(self, text: str) -> None:
        if not text.startswith("{"):
            return
        message = json.loads(text)
        if envelope := message.get("envelope_id"):
            self._unanswered.add(envelope)
        self._heard(self, message)

    def _failed(self, error: Exception) -> None:
        """An error of the library's: what else is the end of a line that is left is none."""
        is_over = self.left is not None or self._has_said_goodbye
        log.log(logging.DEBUG if is_over else logging.ERROR, "the connection to Slack: %s", error)
