"""The network between a replica and its database, which can be cut or held up half-way.

It is a Unix socket in a folder of its own that passes everything on.
"""

from __future__ import annotations

import selectors
import socket
import threading
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


class Proxy:
    """Passes from the start; `hold` and `cut` may be called from any thread."""

    def __init__(self, folder: Path, database: Path) -> None:
        """Listen in `folder` for clients of the database that listens in the other one."""
        self.folder, self._database = folder, database
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen(64)
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._passes = threading.Event()  # set: answers are passed on
        self._passes.set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Pass on no more answers: requests arrive, and nobody gets the result."""
        self._passes.clear()

    def cut(self) -> None:
        """End every connection; new ones are accepted."""
        self._passes.set()
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for each in pair:
                _end(each)

    def close(self) -> None:
        """Accept no more connections, and end all."""
        self._closed = True
        _end(self._listener)
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(str(self._database / SOCKET))
        except OSError:
            near.close()
            return
        pair = (near, far)
        with self._lock:
            self._pairs.add(pair)
        try:
            self._hand_on(near, far)
        except OSError:
            pass  # it was cut
        finally:
            with self._lock:
                self._pairs.discard(pair)
            for each in pair:
                each.close()

    def _hand_on(self, near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(near, selectors.EVENT_READ, far)
            ready.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(65_536)
                    if not data:
                        return
                    if source is far:
                        self._passes.wait()
                    target.sendall(data)


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        sock.close()
