"""What of a call really went over the wire, what the server itself answered, and what came of it.

The SDK makes up JSON-RPC errors of its own where an answer is missing or cannot be read, with
codes that servers use as well. So what the server said is noted here, where it arrives.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    TextContent,
)
from pydantic import ValidationError

# What can come of a call of a server's tool. Only the server's own answer says that it failed.

MOST_HEARD = 2_000  # characters of an answer that cannot be read


@dataclass(frozen=True, slots=True)
class GaveResult:
    """The server gave a result; `remark`: in which way it is not what the server promised."""

    result: CallToolResult
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The server itself says that it failed: by a result that says so, or a JSON-RPC error."""

    message: str
    code: int | None = None  # of the JSON-RPC error
    result: CallToolResult | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call was sent, and no answer of the server says what came of it."""

    why: str
    heard: str = ""  # what the server did say, cut to a length
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The call was never sent; it may be made again."""

    why: str


CallOutcome = GaveResult | Failed | Unknown | NotStarted


def words_of(result: CallToolResult) -> str:
    """Return the texts of a result, a line each."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


def heard(answer: Any) -> str:
    """Return an answer that cannot be read, as it came, cut to a length."""
    if answer is None:
        return ""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= MOST_HEARD else f"{text[:MOST_HEARD]}…"


MOST_BODY = 1_048_576  # bytes of one message that are looked at
FIRST_BAD = 300  # status of HTTP
GARBLED = -32700  # JSON-RPC's code for what cannot be read


@dataclass(slots=True)
class SentCall:
    """One call, and what is known of it; a new round of it begins anew."""

    sent: bool = False
    status: int = 0  # of HTTP, where it is no success
    error: ErrorData | None = None  # the server's own
    answer: Any = None  # the server's own, before it was read

    def failed_with(self, code: int, message: str) -> bool:
        """Whether the server itself said this."""
        found = self.error
        return found is not None and (found.code, found.message) == (code, message)


CURRENT_CALL: ContextVar[SentCall | None] = ContextVar("current_call", default=None)


@dataclass(slots=True)
class ServerWire:
    """What went over one connection, by request."""

    status: int = 0  # of HTTP, of the last answer that was no call's, where it is no success
    _calls: dict[str, SentCall] = field(default_factory=dict)

    def sending(self, item: SessionMessage) -> None:
        """Note that this is about to be sent; before it is."""
        message, call = item.message, CURRENT_CALL.get()
        is_call = isinstance(message, JSONRPCRequest) and message.method == "tools/call"
        if call is not None and isinstance(message, JSONRPCRequest) and is_call:
            call.sent, call.status, call.error, call.answer = True, 0, None, None
            self._calls[str(message.id)] = call

    def answered_with(self, status: int, posted: RequestId | None) -> None:
        """Note the status of an answer over HTTP; `posted`: the call that it answers."""
        status = status if status >= FIRST_BAD else 0
        if posted is None:
            self.status = status
        elif call := self._calls.get(str(posted)):
            call.status = status

    def forget(self, call: SentCall) -> None:
        """Note nothing more of a call."""
        self._calls = {name: each for name, each in self._calls.items() if each is not call}

    def error(self, request: RequestId | None, error: ErrorData) -> None:
        """Note an error that the server itself has sent."""
        if call := self._calls.get(str(request)):
            call.error = error

    def answer(self, request: RequestId | None, answer: Any) -> None:
        """Note any other answer that the server itself has sent."""
        if call := self._calls.get(str(request)):
            call.answer = answer

    def read(self, text: str, posted: RequestId | None = None) -> None:
        """Note what stands in a message; `posted`: the request that this answers over HTTP."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            self.answer(posted, text)
            return
        if not isinstance(message, dict) or "method" in message:
            return
        request = message.get("id") if posted is None else posted  # as the SDK has it
        try:
            self.error(request, ErrorData.model_validate(message.get("error")))
        except ValidationError:
            self.answer(request, message.get("result", message))

    def garbled(self, error: Exception) -> SessionMessage | Exception:
        """Return an error of our own for the request that an unreadable message answers, so that
        nobody waits for it; the message itself where it answers none.
        """
        texts = [each.get("input") for each in _errors(error)]
        for each in texts:
            request = each.get("id") if isinstance(each, dict) else None
            if isinstance(request, str | int):
                self.answer(request, each)
                made = ErrorData(code=GARBLED, message="the answer cannot be read")
                return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=made))
        return error


def _errors(error: Exception) -> list[Any]:
    return [*error.errors(include_url=False)] if isinstance(error, ValidationError) else []


class WatchedWrite:
    """The stream to a server, with what goes out noted."""

    def __init__(self, stream: Any, wire: ServerWire) -> None:
        self._stream, self._wire = stream, wire

    async def send(self, item: SessionMessage) -> None:
        """Send it, noted before."""
        self._wire.sending(item)
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    async def __aenter__(self) -> WatchedWrite:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)


class WatchedRead:
    """The stream from a server that is a process, with its answers noted."""

    def __init__(self, stream: Any, wire: ServerWire) -> None:
        self._stream, self._wire = stream, wire

    async def receive(self) -> SessionMessage | Exception:
        """Return what comes next."""
        return self._noted(await self._stream.receive())

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def __aiter__(self) -> WatchedRead:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._noted(await self._stream.__anext__())

    async def __aenter__(self) -> WatchedRead:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)

    def _noted(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception):
            return self._wire.garbled(item)
        match item.message:
            case JSONRPCError():
                self._wire.error(item.message.id, item.message.error)
            case JSONRPCResponse():
                self._wire.answer(item.message.id, item.message.result)
        return item


@asynccontextmanager
async def watched(streams: Any, wire: ServerWire, *, reads: bool) -> AsyncIterator[Any]:
    """Hand on a transport's streams, watched; `reads`: also the one from the server."""
    async with streams as (read, write):
        yield (WatchedRead(read, wire) if reads else read), WatchedWrite(write, wire)


class _WatchedBody(httpx2.AsyncByteStream):
    """The body of an answer over HTTP, read along."""

    def __init__(
        self, stream: Any, wire: ServerWire, posted: RequestId | None, events: bool
    ) -> None:
        self._stream, self._wire, self._posted, self._events = stream, wire, posted, events
        self._line, self._data, self._size = bytearray(), list[str](), 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._take(chunk)
            yield chunk
        if not self._events and self._size <= MOST_BODY:
            self._wire.read(self._line.decode("utf-8", "replace"), self._posted)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > MOST_BODY:  # too long to be looked at
            self._line.clear()
            self._data.clear()
            self._size = 0 if self._events else MOST_BODY + 1
            return
        self._line += chunk
        while self._events and b"\n" in self._line:
            line, _, rest = bytes(self._line).partition(b"\n")
            self._line, self._size = bytearray(rest), len(rest) + sum(map(len, self._data))
            self._event_line(line.decode("utf-8", "replace").rstrip("\r"))

    def _event_line(self, line: str) -> None:
        if line.startswith("data:"):
            self._data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and self._data:
            text, self._data = "\n".join(self._data), []
            self._wire.read(text, self._posted)


async def watch_answer(wire: ServerWire, response: httpx2.Response) -> None:
    """Read an answer over HTTP along; a hook of the HTTP client."""
    if response.request.method != "POST":
        return _watch_body(wire, response, None)
    posted = call_id(response.request)
    wire.answered_with(response.status_code, posted)
    if posted is not None:
        _watch_body(wire, response, posted)
    return None


def call_id(request: httpx2.Request) -> RequestId | None:
    """Return the id of the call that a request is; None where it is none."""
    if request.method != "POST":
        return None
    try:
        sent = json.loads(request.content)
        found: RequestId | None = sent["id"] if sent["method"] == "tools/call" else None
    except (ValueError, TypeError, KeyError, httpx2.StreamError):
        return None
    return found


def _watch_body(wire: ServerWire, response: httpx2.Response, posted: RequestId | None) -> None:
    kind = response.headers.get("content-type", "").lower()
    events = kind.startswith("text/event-stream")
    if events or kind.startswith("application/json"):
        response.stream = _WatchedBody(response.stream, wire, posted, events)
