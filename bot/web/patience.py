"""uvicorn's HTTP protocol, which also gives up on headers that do not come.

uvicorn waits for ever for the first request of a connection, and for the rest of a header that has
begun: some hundreds of such connections would keep Slack out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = 5.0  # seconds for the headers of a request to come, from its first byte or the connection


class Impatient(H11Protocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As uvicorn makes it."""
        super().__init__(*args, **options)
        self._giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for the first headers."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and go on waiting where that was no whole header."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(HEADERS, self._give_up)

    def _wait_no_more(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        """Close a connection in whose next header nothing but waiting happened."""
        self._giving_up = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
