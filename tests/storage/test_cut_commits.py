"""A connection to PostgreSQL cut at the commit: its outcome is found out, never guessed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy.exc import DBAPIError

from storage import inbox
from storage.database_errors import is_temporary_database_error
from storage.store import Store
from tests.postgres_server import Server, binaries, serve
from tests.storage.builders import delivery

KEY = b"k" * 32
pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for this module."""
    programs = binaries()
    assert programs is not None
    with serve(programs) as running:
        yield running


class CuttableConnection:
    """Forwards between a store and its server, and cuts the connection when told."""

    def __init__(self, server: Server, folder: Path) -> None:
        """Listen where a client looks for a server's socket."""
        self._server, self.folder = server, folder
        self.cut_at: tuple[bytes, bool] | None = None  # at these bytes, which are delivered or not
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(str(self._server.folder / ".s.PGSQL.5432"))
                for one, other in ((client, there), (there, client)):
                    args = (one, other, one is client)
                    threading.Thread(target=self._carry, args=args, daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, says: bool) -> None:
        writes = False  # a reader's commit may still be on its way
        with suppress(OSError):
            while data := one.recv(65536):
                writes = writes or b"INSERT" in data
                if says and writes and self.cut_at and self.cut_at[0] in data:
                    self._cut(one, other, data)
                    return
                other.sendall(data)
                writes = writes and b"COMMIT" not in data
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _cut(self, client: socket.socket, there: socket.socket, data: bytes) -> None:
        """Cut off the client; the server gets the bytes or not."""
        assert self.cut_at
        delivered, self.cut_at = self.cut_at[1], None
        client.shutdown(socket.SHUT_RDWR)
        if delivered:
            there.sendall(data)
            with suppress(OSError):
                there.settimeout(5)
                there.recv(65536)
        there.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening."""
        self._listening.close()


@pytest.mark.parametrize("delivered", [True, False])
def test_the_outcome_of_a_cut_commit_is_found_out(server: Server, delivered: bool) -> None:
    """The caller is told what the server really did."""
    server.fresh("cut")
    with TemporaryDirectory(prefix="csln", dir="/tmp") as name:
        line = CuttableConnection(server, Path(name))
        store = Store(f"postgresql://owner@/cut?host={name}", key=KEY).open()
        line.cut_at = (b"COMMIT\0", delivered)
        if delivered:
            with store.write() as tx:
                inbox.insert_delivery(tx, delivery("said"))
        else:
            with pytest.raises(DBAPIError) as caught, store.write() as tx:
                inbox.insert_delivery(tx, delivery("said"))
            assert is_temporary_database_error(caught.value)
        with store.read() as tx:
            assert inbox.has_delivery(tx, "said") == delivered
        store.close()
        line.close()
