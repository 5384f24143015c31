"""The terminal as a surface: one class, with a door at which the operator's commands are heard."""

from __future__ import annotations

import logging
import select
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from bot.surfaces.port import Host
from bot.surfaces.private_socket import GarbledError, PrivateSocket, line_of
from bot.terminal.terminal import Terminal
from bot.terminal.terminal_messages import MOST, Asking, Wish, read_asking, socket_path, write_line

if TYPE_CHECKING:
    from bot.terminal.terminal import Terminal


# The socket beside the database at which commands reach the running bot.

log = logging.getLogger("countersign.terminal")
SIDE_BY_SIDE = 4  # commands that are answered at once
CHATS = 16  # that are followed at once


class Door:
    """Takes in what commands say, one line each; `open` once, `close` once."""

    def __init__(self, path: Path, terminal: Terminal | None) -> None:
        """`terminal` may take its time to answer, on a thread of this door's; None: no operator."""
        self._terminal = terminal
        self._followers = threading.Semaphore(CHATS)
        self._chats: list[threading.Thread] = []
        self._socket = PrivateSocket(path, self._hear, name="terminal", side_by_side=SIDE_BY_SIDE)

    def open(self) -> None:
        """Begin to listen; without a place to do so, the log says why and nobody is heard."""
        if self._terminal is not None:
            self._socket.open()

    def close(self) -> None:
        """Hear nobody any more."""
        if self._terminal is not None:
            self._terminal.stop()
        self._socket.close()
        for thread in self._chats:
            thread.join(timeout=5)

    def _hear(self, visitor: socket.socket) -> None:
        assert self._terminal is not None
        try:
            asking = read_asking(line_of(visitor, MOST))
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


class TerminalSurface:
    """Heard while the settings name an operator; the entry point `terminal`."""

    def __init__(self, host: Host) -> None:
        """Nobody is heard yet."""
        operator = host.settings.operator
        terminal = Terminal(host, operator) if operator is not None else None
        self._door = Door(socket_path(host.store.path), terminal)

    def start(self) -> None:
        """Hear the operator; without one, do nothing."""
        self._door.open()

    def stop(self) -> None:
        """Hear nobody any more; what is stored stays."""
        self._door.close()
