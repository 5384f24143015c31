"""A relay between a program and the bot's socket, which can lose an answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

from storage.backend import socket_path


class Relay:
    """Listens beside `database`, which is no database, and passes on to the bot's socket."""

    def __init__(self, folder: Path, bots: Path, cut: threading.Event) -> None:
        """`folder` is made; `bots`: the bot's database; `cut` is set if there is no bot to ask."""
        folder.mkdir()
        self.database, self._there = folder / bots.name, socket_path(bots)
        self._cut = cut
        self._lost: list[threading.Event] = []
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(socket_path(self.database)))
        self._listening.listen()
        self._thread = threading.Thread(target=self._hear)
        self._thread.start()

    def close(self) -> None:
        """Pass on nothing more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def losing(self) -> threading.Event:
        """Let the bot handle the next request, and lose its answer; then the event is set."""
        lost = threading.Event()
        self._lost.append(lost)
        return lost

    def _hear(self) -> None:
        with suppress(OSError):  # closed
            while True:
                visitor, _ = self._listening.accept()
                threading.Thread(target=self._hand_on, args=(visitor,), daemon=True).start()

    def _hand_on(self, visitor: socket.socket) -> None:
        """Pass on one request and its answer, which ends with the connection."""
        with visitor, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
            try:
                bot.connect(str(self._there))
            except OSError:
                self._cut.set()
                return
            asking = threading.Thread(target=_pump, args=(visitor, bot), daemon=True)
            asking.start()
            with suppress(OSError):  # one side has closed
                answer = b"".join(iter(lambda: bot.recv(65_536), b""))
                if not answer:
                    self._cut.set()
                elif self._lost:
                    self._lost.pop().set()
                else:
                    visitor.sendall(answer)
                visitor.shutdown(socket.SHUT_RDWR)
            asking.join()


def _pump(visitor: socket.socket, bot: socket.socket) -> None:
    with suppress(OSError):
        while part := visitor.recv(65_536):
            bot.sendall(part)
