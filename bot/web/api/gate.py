"""Before FastAPI sees a request: whose it is, whether it may be read, and whether it is sound JSON.

A body is read only for who has a key, up to a bound and within a time; JSON that could be read in
two ways (a name twice), or that no database keeps, is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.messages.forms.reader import UnreadableError, parsed_json
from bot.web.api.described import KEY
from bot.web.api.problems import NEVER_KEPT, ProblemError, later
from bot.web.api.rooms import KEYED, FullError, Room

if TYPE_CHECKING:
    from bot.web.api.callers import Callers

log = logging.getLogger("countersign.api")
MOST = 1_000_000  # bytes of a body
READ = 10.0  # seconds for a body to come
JSON = "application/json"
NUL = "\x00"  # PostgreSQL keeps no text that holds it


class Gate:
    """ASGI middleware; hands on what comes from a good key, with its body read."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        callers: Callers,
        turns: CapacityLimiter,
        is_stopping: Callable[[], bool],
    ) -> None:
        """`turns`: how many look at the record at once."""
        self._app = app
        self._callers = callers
        self._turns = turns
        self._is_stopping = is_stopping
        self._room = Room(KEYED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        if scope["type"] != "http":
            return
        try:
            await self._look_at_the_key(scope)
            with self._room.one():
                body = await self._body(scope, receive)
                await self._app(scope, read_again(body, receive), _never_kept(send))
        except FullError:
            many = "Too much is asked at once; say the same again."
            error = later(HTTPStatus.SERVICE_UNAVAILABLE, many, 1, "limits")
            await error.answer()(scope, receive, send)
        except ProblemError as error:
            if error.status is not HTTPStatus.UNAUTHORIZED:
                log.info("refused a request: %d %s", error.status, error.problem.title)
            await error.answer()(scope, receive, send)

    async def _look_at_the_key(self, scope: Scope) -> None:
        """Have a good key stand in the request's state from now on; raises ProblemError."""
        if self._is_stopping():
            raise later(HTTPStatus.SERVICE_UNAVAILABLE, "This process is stopping.", 1)
        key = await to_thread.run_sync(
            self._callers.of, Headers(scope=scope).getlist("authorization"), limiter=self._turns
        )
        scope["state"] = {**scope.get("state", {}), KEY: key}

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request; raises ProblemError for one that is not taken."""
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length) > MOST:
            raise _too_long()
        body = await read_body(receive)
        if body:
            look_at_body(body, headers)
        return body


async def read_body(receive: Receive) -> bytes:
    """Return the whole body; raises ProblemError for one that is too long or too slow."""
    found = bytearray()
    try:
        async with asyncio.timeout(READ):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ProblemError(HTTPStatus.BAD_REQUEST, "The body did not come to its end.")
                found += message.get("body", b"")
                if len(found) > MOST:
                    raise _too_long()
                if not message.get("more_body", False):
                    return bytes(found)
    except TimeoutError:
        raise ProblemError(
            HTTPStatus.REQUEST_TIMEOUT, f"The body did not come within {READ:.0f} seconds."
        ) from None


def _too_long() -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A body has {MOST:,} bytes at most.", about="limits"
    )


def look_at_body(body: bytes, headers: Headers) -> None:
    """Raise ProblemError for a body that is no sound JSON."""
    if headers.get("content-encoding", "identity") != "identity" or _kind(headers) != JSON:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A body is {JSON}, and is not compressed."
        )
    try:
        found = parsed_json(body.decode())
    except UnicodeDecodeError:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "The body is not UTF-8.") from None
    except UnreadableError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from None
    if any(NUL in each for each in _texts(found)):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "The body holds a character U+0000.")


def _kind(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _texts(value: Any) -> list[str]:
    """Every text in a JSON value, names among them."""
    found, left = [], [value]
    while left:
        match left.pop():
            case str() as text:
                found.append(text)
            case list() as items:
                left += items
            case dict() as fields:
                found += fields
                left += fields.values()
    return found


def _never_kept(send: Send) -> Send:
    """Have no cache keep the answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(raw=message["headers"]).update(NEVER_KEPT)
        await send(message)

    return sent


def read_again(body: bytes, receive: Receive) -> Receive:
    """Hand out the body that was read, then whatever comes."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def handed() -> Message:
        return parts.pop() if parts else await receive()

    return handed
