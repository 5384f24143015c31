"""How many requests are under way at once, counted apart for each kind of visitor.

So nobody without a key keeps out who has one, nor Slack. Used on the server's loop alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

QUIET = 128  # connections that say nothing; of more, those that have been quiet longest are closed
SLACK = 256  # deliveries of Slack's, or what looks like them
PAGES = 64  # what machines ask without a key, and paths that are not there
KEYED = 320  # requests with a good key; 200 of them may wait for people
HOSTS = 96  # requests of MCP hosts


class FullError(Exception):
    """There is no room for one more now."""


class Room:
    """For requests of one kind."""

    def __init__(self, most: int) -> None:
        """`most`: at once."""
        self.most = most
        self._inside = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Be one of them; raises FullError."""
        if self._inside >= self.most:
            raise FullError
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1


class Crowded:
    """ASGI: an app in which there is room for so many; who comes then is told 503."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """`most`: at once."""
        self._app, self._room = app, Room(most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            with self._room.one():
                await self._app(scope, receive, send)
        except FullError:
            busy = PlainTextResponse(
                "Too many at once.", HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"}
            )
            await busy(scope, receive, send)
