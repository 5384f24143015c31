"""The socket beside the database at which commands reach the running bot.

Only the account that the bot runs under may open it; who connects speaks as the operator.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bot.terminal.wire import (
    LONGEST_PATH,
    MOST,
    Asking,
    GarbledError,
    Wish,
    read_asking,
    write_line,
)

if TYPE_CHECKING:
    from bot.terminal.terminal import Terminal

log = logging.getLogger("countersign.terminal")
SIDE_BY_SIDE = 4  # commands that are answered at once
CHATS = 16  # that are followed at once
HEARING = 5.0  # seconds that a command has to say what it wants


class Door:
    """Takes in what commands say, one line each; `open` once, `close` once."""

    def __init__(self, path: Path, terminal: Terminal | None) -> None:
        """`terminal` may take its time to answer, on a thread of this door's; None: no operator."""
        self._path = path
        self._terminal = terminal
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._followers = threading.Semaphore(CHATS)
        self._chats: list[threading.Thread] = []
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
        for thread in [*self._chats, *([self._thread] if self._thread else [])]:
            thread.join(timeout=5)
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
        visitor.settimeout(HEARING)
        try:
            asking = read_asking(_line(visitor))
            if asking.wish is Wish.FOLLOW and self._followers.acquire(blocking=False):
                # it stays as long as the chat: on a thread of its own
                follow = threading.Thread(target=self._follow, args=(visitor, asking), daemon=True)
                self._chats = [each for each in self._chats if each.is_alive()] + [follow]
                follow.start()
                return
            visitor.sendall(write_line(self._terminal.answer(asking)))
        except GarbledError as error:
            log.warning("a command said nothing that is understood: %s", error)
        except OSError as error:
            log.warning("a command went away: %s", error)
        except Exception:
            log.exception("a command could not be answered")
        visitor.close()

    def _follow(self, visitor: socket.socket, asking: Asking) -> None:
        """Tell a visitor what happens in a chat until they go, or this door is closed."""
        assert self._terminal is not None
        try:
            with visitor:
                self._terminal.follow(
                    asking,
                    lambda happening: visitor.sendall(write_line(happening)),
                    lambda: _is_gone(visitor),
                )
        except OSError:
            log.info("who followed a chat went away")
        except Exception:
            log.exception("a chat could not be followed")
        finally:
            self._followers.release()


def _is_gone(visitor: socket.socket) -> bool:
    """Return whether the other side has hung up; it says nothing more while it follows."""
    readable, _, _ = select.select([visitor], [], [], 0)
    return bool(readable) and not visitor.recv(4096)


def _line(visitor: socket.socket) -> bytes:
    """Read up to the end of the line; raises GarbledError for one without an end."""
    found = b""
    while not found.endswith(b"\n"):
        part = visitor.recv(4096)
        found += part
        if not part or len(found) > MOST:
            raise GarbledError("no whole line")
    return found
