"""uvicorn's HTTP protocol, which also gives up on headers that do not come.

uvicorn waits for ever for the first request of a connection, and for the rest of a header that has
begun: some hundreds of such connections would keep others out. It also has no answer but 400 for
what cannot be read, which a coding agent takes for a yes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import unquote

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.web.api.hook_answers import UNREADABLE, is_hook, refusal
from bot.web.api.rooms import QUIET

LINE = 16_384  # bytes of a request in which its first line is looked for
HEADERS = 5.0  # seconds for the headers of a request to come, from its first byte or the connection


class Impatient(H11Protocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As uvicorn makes it."""
        super().__init__(*args, **options)
        self._giving_up: asyncio.TimerHandle | None = None
        self._quiet_since = time.monotonic()
        self._head = b""  # what has come of the next request: h11 keeps nothing of what is wrong

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is asked on it: no whole header has come, and no answer is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for the first headers; there is always room for one more."""
        super().connection_made(transport)
        self._look()
        others = [each for each in self.connections if isinstance(each, Impatient)]
        quiet = [each for each in others if each is not self and each.is_quiet]
        if len(quiet) >= QUIET:
            min(quiet, key=lambda each: each._quiet_since)._give_up()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and go on waiting where that was no whole header."""
        if self.is_quiet and len(self._head) < LINE:
            self._head += data[:LINE]
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """From now on it is quiet."""
        self._quiet_since = time.monotonic()
        self._head = self.conn.trailing_data[0][:LINE]
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Say that this is no HTTP; to a coding agent's hook, no."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # amid an answer
        elif self._is_hook():
            self._refuse()
        else:
            super().send_400_response(msg)

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
        self._wait_no_more()
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            return
        if self._is_hook() and self.conn.our_state is h11.IDLE:
            self._refuse()
        else:
            self.transport.close()

    def _is_hook(self) -> bool:
        """Whether what is being asked, as far as it has come, is a hook's."""
        if not self.is_quiet:
            return is_hook(self.scope["method"], self.scope["path"])
        line = self._head.lstrip().partition(b"\n")[0].decode("latin-1").split()
        return len(line) > 1 and is_hook(line[0], unquote(line[1].partition("?")[0]))

    def _refuse(self) -> None:
        """Answer a hook that cannot be read, and close the connection."""
        body = refusal(UNREADABLE)
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=200, headers=headers, reason=b"OK"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
