"""Stands between a program and the bot's socket beside the database, and can lose an answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

from bot.programs.program_client import MOST, MOST_TOLD, socket_path
from bot.surfaces.private_socket import GarbledError, line_of


class Relay:
    """Listens beside `database`, which is no database, and hands on to the bot's own socket."""

    def __init__(self, folder: Path, bots: Path) -> None:
        """`folder` is made; `bots`: the database that the bot works on."""
        folder.mkdir()
        self.database, self._there = folder / bots.name, socket_path(bots)
        self._lost: list[threading.Event] = []
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(socket_path(self.database)))
        self._listening.listen()
        self._thread = threading.Thread(target=self._hear)
        self._thread.start()

    def close(self) -> None:
        """Hand on nothing more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def losing(self) -> threading.Event:
        """Have the bot do what is said next, and lose its answer; the event is set then."""
        lost = threading.Event()
        self._lost.append(lost)
        return lost

    def _hear(self) -> None:
        with suppress(OSError):  # closed
            while True:
                visitor, _ = self._listening.accept()
                threading.Thread(target=self._hand_on, args=(visitor,), daemon=True).start()

    def _hand_on(self, visitor: socket.socket) -> None:
        with visitor, suppress(OSError, GarbledError):  # one of the two has gone
            said = line_of(visitor, MOST)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
                bot.connect(str(self._there))
                bot.sendall(said)
                answer = line_of(bot, MOST_TOLD)
            if self._lost:
                self._lost.pop().set()
                return
            visitor.sendall(answer)
