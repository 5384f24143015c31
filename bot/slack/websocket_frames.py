"""The socket under slack_sdk's WebSocket reader: it gives the reader one whole message at a time.

The reader (3.47) takes each frame for a message and forgets the frames of one that was split, which
a proxy may do with a large one (slackapi/python-slack-sdk, issue 1124). Of a frame that comes too
slowly it forgets the beginning. And it takes an empty read to mean that nothing is new and reads
again at once, until its pings stay unanswered.
"""

from __future__ import annotations

import errno
from typing import Any

from slack_sdk.socket_mode.builtin.frame_header import FrameHeader

RECEIVE_BUFFER_BYTES = 65_536  # read at once
_LAST_FRAME_BIT = 0x80  # in a frame's first byte: it ends a message
_OPCODE_BITS = 0x0F
_LENGTH_BITS = 0x7F  # in the second byte; 126 and 127: the length follows in two or eight bytes
_TWO_BYTE_LENGTH, _EIGHT_BYTE_LENGTH = 126, 127
_NEWLINE = b"\n"  # of the handshake, whose end slack_sdk does not read; it begins no valid frame


class MessageSocket:
    """A connected socket that receives whole messages, and sends whole frames."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._received = bytearray()
        self._message = b""  # the payload of a split message so far

    def recv(self, _size: int) -> bytes:
        """Return the next message or control frame as one frame, whatever its size.

        Raises ConnectionResetError at the end of the stream, and what the socket raises.
        """
        while (frame := self._take_message()) is None:
            if not (received := self._sock.recv(RECEIVE_BUFFER_BYTES)):
                raise ConnectionResetError(errno.ECONNRESET, "the connection was closed abruptly")
            self._received += received
        return frame

    def send(self, data: bytes) -> int:
        """Send all of `data`, and return its length."""
        self._sock.sendall(data)
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def _take_message(self) -> bytes | None:
        """Remove and return what has arrived first, as one frame; None if it is not complete."""
        while (frame := self._take_frame()) is not None:
            whole, payload = frame
            opcode, is_last = whole[0] & _OPCODE_BITS, bool(whole[0] & _LAST_FRAME_BIT)
            is_continued = opcode == FrameHeader.OPCODE_CONTINUATION
            if opcode >= FrameHeader.OPCODE_CLOSE or (is_last and not is_continued):
                return whole
            self._message = self._message + payload if is_continued else payload
            if is_last:
                head = bytes((_LAST_FRAME_BIT | FrameHeader.OPCODE_TEXT, _EIGHT_BYTE_LENGTH))
                return head + len(self._message).to_bytes(8, "big") + self._message
        return None

    def _take_frame(self) -> tuple[bytes, bytes] | None:
        """Remove and return the first frame that has arrived, and its payload; None for none."""
        data, start = self._received, 2
        if data.startswith(_NEWLINE):
            del data[:1]
        if len(data) < start:
            return None
        length = data[1] & _LENGTH_BITS  # servers mask nothing
        if length >= _TWO_BYTE_LENGTH:
            start += 2 if length == _TWO_BYTE_LENGTH else 8
            if len(data) < start:
                return None
            length = int.from_bytes(data[2:start], "big")
        if len(data) < start + length:
            return None
        whole = bytes(data[: start + length])
        del data[: start + length]
        return whole, whole[start:]
