"""A socket of this machine that only one account may open: how other processes reach the bot."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger("countersign.socket")
LONGEST_PATH = 100  # bytes, below what systems allow
HEARING = 5.0  # seconds that whoever connects has to say something


class GarbledError(ValueError):
    """The other side said something that is not understood."""


class PrivateSocket:
    """Hands each visitor to `hear`; `open` once, `close` once."""

    def __init__(
        self, path: Path, hear: Callable[[socket.socket], None], *, name: str, side_by_side: int
    ) -> None:
        """`hear` is called on a thread of this socket's, `side_by_side` of them at most, and closes
        the visitor's socket. `name` says in the log and on the threads what it is for.
        """
        self._path = path.absolute()
        self._hear = hear
        self._name = name
        self._side_by_side = side_by_side
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._pool = ThreadPoolExecutor(side_by_side, thread_name_prefix=name)

    def open(self) -> None:
        """Begin to listen; without a place to do so, the log says why and nobody is heard."""
        if len(str(self._path).encode()) > LONGEST_PATH:
            log.warning("the path of %s is too long for a socket: no %s", self._path, self._name)
            return
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # what an earlier life left: the lock beside the database says that it is over
            self._path.unlink(missing_ok=True)
            made.bind(str(self._path))
            self._path.chmod(0o600)  # before anybody is heard
            made.listen(self._side_by_side)
        except OSError as error:
            made.close()
            log.warning("no %s: %s: %s", self._name, self._path, error.strerror)
            return
        self._socket = made
        self._thread = threading.Thread(
            target=self._serve, args=(made,), name=self._name, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Hear nobody any more; whoever is being heard is left to `hear`."""
        if self._socket is not None:
            with suppress(OSError):  # wakes the thread that waits for somebody
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._path.unlink(missing_ok=True)
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                visitor, _ = listening.accept()
            except OSError:  # closed
                return
            visitor.settimeout(HEARING)
            with suppress(RuntimeError):  # closed just now
                self._pool.submit(self._hear, visitor)


def line_of(visitor: socket.socket, most: int) -> bytes:
    """Read a line of at most `most` bytes; raises GarbledError where it does not end."""
    found = bytearray()
    while not found.endswith(b"\n"):
        part = visitor.recv(65_536)
        found += part
        if not part or len(found) > most:
            raise GarbledError("no whole line")
    return bytes(found)


def object_in(line: bytes) -> dict[str, Any]:
    """Read a line as a JSON object; raises GarbledError where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise GarbledError("no JSON") from None
    if not isinstance(found, dict):
        raise GarbledError("no object")
    return found
