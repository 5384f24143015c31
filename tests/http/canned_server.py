"""A server that says whatever a test has it say, byte for byte, and keeps what it heard."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

CLOSING = b"Connection: close\r\n"  # in an answer, after which it keeps its word


class CannedServer:
    """Answers each request of each connection with the next of its texts; then it closes."""

    def __init__(self, *answers: bytes | Callable[[socket.socket], None]) -> None:
        """An answer that is no text is handed the connection and says what it likes."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answers = list(answers)
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard: list[bytes] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            near, _ = self._listener.accept()
            self.connections += 1
            with near:
                near.settimeout(10)
                while self._answers and (request := _request(near)):
                    self.heard.append(request)
                    answer = self._answers.pop(0)
                    if isinstance(answer, bytes):
                        near.sendall(answer)
                        if CLOSING in answer:
                            break
                    else:
                        answer(near)

    def close(self) -> None:
        """Wait for its end."""
        self._answers.clear()
        self._listener.close()
        self._thread.join(10)


def _request(near: socket.socket) -> bytes:
    """One request, with as much of a body as it names; b"" at the end."""
    request, length = b"", 0
    while b"\r\n\r\n" not in request or len(request.partition(b"\r\n\r\n")[2]) < length:
        received = near.recv(65_536)
        if not received:
            return b""
        request += received
        head = request.partition(b"\r\n\r\n")[0].lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0] or 0)
    return request
