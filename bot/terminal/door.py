"""The socket beside the database at which commands reach the running bot.

Only the account that the bot runs under may open it; who connects speaks as the operator.
"""

from __future__ import annotations

import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bot.terminal.wire import LONGEST_PATH, MOST, GarbledError, read_asking, write_line

if TYPE_CHECKING:
    from bot.terminal.terminal import Terminal

log = logging.getLogger("countersign.terminal")
SIDE_BY_SIDE = 4  # commands that are answered at once
HEARING = 5.0  # seconds that a command has to say what it wants


class Door:
    """Takes in what commands say, one line each; `open` once, `close` once."""

    def __init__(self, path: Path, terminal: Terminal | None) -> None:
        """`terminal` may take its time to answer, on a thread of this door's; None: no operator."""
        self._path = path
        self._terminal = terminal
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="terminal")

    def open(self) -> None:
        """Begin to listen; without a place to do so, the log says why and nobody is heard."""
        if self._terminal is None:
            return
        if len(str(self._path.absolute()).encode()) > LONGEST_PATH:
            log.warning("the path of %s is too long for a socket: no terminal", self._path)
            return
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # what an earlier life left: the lock beside the database says that it is over
            self._path.unlink(missing_ok=True)
            made.bind(str(self._path.absolute()))
            self._path.chmod(0o600)  # before anybody is heard
            made.listen(SIDE_BY_SIDE)
        except OSError as error:
            made.close()
            log.warning("no terminal: %s: %s", self._path, error.strerror)
            return
        self._socket = made
        self._thread = threading.Thread(target=self._serve, args=(made,), name="door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear nobody any more."""
        if self._socket is not None:
            with suppress(OSError):  # wakes the thread that waits for somebody
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._path.unlink(missing_ok=True)
        if self._terminal is not None:
            self._terminal.stop()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                visitor, _ = listening.accept()
            except OSError:  # closed
                return
            with suppress(RuntimeError):  # closed just now
                self._pool.submit(self._hear, visitor)

    def _hear(self, visitor: socket.socket) -> None:
        assert self._terminal is not None
        with visitor:
            try:
                visitor.settimeout(HEARING)
                answer = self._terminal.answer(read_asking(_line(visitor)))
                visitor.sendall(write_line(answer))
            except GarbledError as error:
                log.warning("a command said nothing that is understood: %s", error)
            except OSError as error:
                log.warning("a command went away: %s", error)
            except Exception:
                log.exception("a command could not be answered")


def _line(visitor: socket.socket) -> bytes:
    """Read up to the end of the line; raises GarbledError for one without an end."""
    found = b""
    while not found.endswith(b"\n"):
        part = visitor.recv(4096)
        found += part
        if not part or len(found) > MOST:
            raise GarbledError("no whole line")
    return found
