"""A relay that cuts a connection to PostgreSQL before the COMMIT of a DELETE or its answer."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


@contextmanager
def cut_connection(server: Path, folder: Path, *, arrives: bool) -> Iterator[Path]:
    """Listen in `folder` and relay one connection at a time to the server in `server`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / SOCKET))
    listener.listen()
    thread = threading.Thread(target=_serve, args=(listener, server, arrives), daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


def _serve(listener: socket.socket, server: Path, arrives: bool) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(str(server / SOCKET))
            _relay(near, far, arrives)


def _relay(near: socket.socket, far: socket.socket, arrives: bool) -> None:
    changed = False
    with selectors.DefaultSelector() as both:
        both.register(near, selectors.EVENT_READ, far)
        both.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in both.select(10):
                source: socket.socket = key.fileobj  # type: ignore[assignment] # what was registered
                data = source.recv(65_536)
                if not data:
                    return
                changed = changed or (source is near and b"DELETE" in data)
                if changed and source is near and b"COMMIT" in data:
                    if arrives:
                        far.sendall(data)
                        far.recv(65_536)  # the server's answer goes no further
                    return
                key.data.sendall(data)
