"""HTTP at the Unix socket beside the bot's record, where the bot's account asks without a key."""

from __future__ import annotations

import hashlib
import os
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.request import HTTPHandler, Request

SCHEME = "unix:"


def address_beside(record: str | os.PathLike[str] = "") -> str:
    """Return the address, unix:…, of the bot on this machine.

    `record`: its SQLite file, by default that of DATABASE_URL, else countersign.db here.
    """
    return f"{SCHEME}{os.path.abspath(os.fspath(record) or _record())}.socket"


def _record() -> str:
    url = os.environ.get("DATABASE_URL", "sqlite:///countersign.db")
    if url.startswith("postgres"):  # as `storage.backend.local_path` has it
        address = f"postgresql://{url.partition('://')[2]}"
        folder = os.environ.get("RUNTIME_DIRECTORY") or os.environ.get("XDG_RUNTIME_DIR") or "."
        return f"{folder}/countersign-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    return url.removeprefix("sqlite:///")


class UnixConnection(HTTPConnection):
    """A connection to the socket at this path."""

    def __init__(self, path: str, host: str = "localhost", **options: Any) -> None:
        """`host`: what stands in the header Host; `options`: as HTTPConnection has them."""
        super().__init__(host, **options)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class UnixHandler(HTTPHandler):
    """Opens http addresses at the socket, whatever host they name."""

    def __init__(self, path: str) -> None:
        """`path`: of the socket."""
        super().__init__()
        self._path = path

    def http_open(self, req: Request) -> Any:
        """Open one."""

        def connect(host: str, **options: Any) -> UnixConnection:
            return UnixConnection(self._path, host, **options)

        return self.do_open(connect, req)
