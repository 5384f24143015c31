"""The Unix socket beside the database, for HTTP requests of this account's programs.

The HTTP server is imported at the first connection; until then one thread waits.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from storage.backend import MAX_SOCKET_PATH_BYTES, socket_path

if TYPE_CHECKING:
    from bot.http.local_api import SocketApiServer
    from bot.runs.surfaces import Host

log = logging.getLogger("countersign.socket")
BACKLOG = 128  # connections that wait to be accepted
IMPORT_TIMEOUT_SECONDS = 10.0  # how long stopping waits for an import of the server that has begun


class LocalSocket:
    """The Unix socket of the local API, open to the bot's own account. `start` and `stop` once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._path = socket_path(host.store.path).absolute()
        self._listening: socket.socket | None = None
        self._inode = 0  # of our own socket file
        self._stop_writer, self._stop_reader = socket.socketpair()
        self._thread: threading.Thread | None = None
        self._api: SocketApiServer | None = None

    def start(self) -> None:
        """Begin to listen; if that is not possible, log why and go on without a socket."""
        self._listening = _open_private_socket(self._path)
        if self._listening is not None:
            self._inode = self._path.stat().st_ino
            self._thread = threading.Thread(
                target=self._serve_from_first_connection,
                args=(self._listening,),
                name="socket",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop listening; clients that wait are told how their requests stand."""
        self._stop_writer.close()  # this wakes the thread
        if self._thread is not None:
            self._thread.join(IMPORT_TIMEOUT_SECONDS)
        self._stop_reader.close()
        if self._api is not None:
            self._api.close()
        if self._listening is not None:
            # another process may have its own there by now, or a file that got the same inode
            with suppress(OSError):
                if self._path.is_socket() and self._path.stat().st_ino == self._inode:
                    self._path.unlink()
            self._listening.close()

    def _serve_from_first_connection(self, listening: socket.socket) -> None:
        """Start an HTTP server at the first connection; return if `stop` comes before that."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(listening, selectors.EVENT_READ)
            waiting.register(self._stop_reader, selectors.EVENT_READ)
            if any(key.fileobj is self._stop_reader for key, _ in waiting.select()):
                return
        try:
            # imported late: it takes memory and a moment, and most bots are used in Slack alone
            from bot.http.local_api import SocketApiServer

            if self._stop_writer.fileno() < 0:  # it was stopped during the import
                return
            self._api = SocketApiServer(self._host, listening)
        except Exception:
            log.exception("commands and programs cannot be answered at %s", self._path)
            listening.close()


def _open_private_socket(path: Path) -> socket.socket | None:
    """Return a socket that listens at this path; None, with a logged warning, if it cannot."""
    if len(str(path).encode()) > MAX_SOCKET_PATH_BYTES:
        log.warning("the path of %s is too long for a socket: no command can reach the bot", path)
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # left by an earlier process; the lock beside the database shows that it has ended
        if path.is_socket():  # anything else is not ours to remove
            path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)  # before any connection is accepted
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        log.warning("no command can reach the bot: %s: %s", path, error.strerror)
        return None
    return listener
