"""Whether a tool call was really sent, what the server itself answered, and the outcome.

The SDK makes up JSON-RPC errors of its own if an answer is missing or unreadable, with codes that
servers use as well. So the server's own messages are noted here as they arrive.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

import httpx2
import mcp_types
from mcp import Client, ClientSession, MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from countersign.mcp_client import tool_list

# The outcomes of a tool call. It counts as failed only if the server itself says so.

MAX_UNREADABLE_CHARS = 2_000  # of an unreadable answer


@dataclass(frozen=True, slots=True)
class ResultOutcome:
    """The server gave a result; `remark` says how it breaks the tool's output schema, if so."""

    result: mcp_types.CallToolResult
    remark: str = ""


@dataclass(frozen=True, slots=True)
class FailedOutcome:
    """The server itself reported a failure, as a result or as a JSON-RPC error."""

    message: str
    code: int | None = None  # the JSON-RPC error code
    result: mcp_types.CallToolResult | None = None


@dataclass(frozen=True, slots=True)
class UnknownOutcome:
    """The call was sent, and no answer from the server says how it ended."""

    why: str
    unread_answer: str = ""  # the server's answer, shortened
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class NotSentOutcome:
    """The call was never sent; it may be made again."""

    why: str


CallOutcome = ResultOutcome | FailedOutcome | UnknownOutcome | NotSentOutcome


def extract_result_text(result: mcp_types.CallToolResult) -> str:
    """Return the text parts of a result, one after the other on lines of their own."""
    return "\n".join(
        each.text for each in result.content if isinstance(each, mcp_types.TextContent)
    )


def format_unreadable_answer(answer: Any) -> str:
    """Return an unreadable answer as text, cut to 2,000 characters; "" for None."""
    if answer is None:
        return ""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= MAX_UNREADABLE_CHARS else f"{text[:MAX_UNREADABLE_CHARS]}…"


# JSON may hold half of a surrogate pair, from a text cut in the middle; the SDK cannot read it

_JSON_ESCAPE_PATTERN = re.compile(
    r"\\(?:ud[89ab]\w\w\\ud[c-f]\w\w|(?P<half>ud[89a-f]\w\w)|.)", re.IGNORECASE | re.DOTALL
)


def replace_half_characters(text: str) -> str:
    """Return JSON text with U+FFFD in the place of each half of a character."""
    return _JSON_ESCAPE_PATTERN.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)


def read_whole_message(error: Exception) -> SessionMessage | Exception:
    """Return the message that the SDK could not read because of half a character, else `error`."""
    text = error.errors()[0]["input"] if isinstance(error, ValidationError) else None
    if isinstance(text, str) and (whole := replace_half_characters(text)) != text:
        with suppress(ValidationError):
            message = mcp_types.jsonrpc_message_adapter.validate_json(whole, by_name=False)
            return SessionMessage(message)
    return error


MAX_MESSAGE_BYTES = 1_048_576  # a longer answer is not inspected
FIRST_ERROR_STATUS = 300
PARSE_ERROR_CODE = -32700  # JSON-RPC's code for invalid JSON


@dataclass(slots=True)
class TrackedCall:
    """What is known of one call: whether it was sent, and the server's answer.

    Sending the call once more resets all of that.
    """

    was_sent: bool = False
    http_status: int = 0  # 0 for success
    error: mcp_types.ErrorData | None = None  # as sent by the server itself
    answer: Any = None  # as sent by the server itself, before parsing

    def matches_server_error(self, code: int, message: str) -> bool:
        """Return whether the server itself sent this error."""
        found = self.error
        return found is not None and (found.code, found.message) == (code, message)


CURRENT_CALL: ContextVar[TrackedCall | None] = ContextVar("current_call", default=None)


@dataclass(slots=True)
class ServerTraffic:
    """Notes on the traffic of one connection, by request id."""

    http_status: int = 0  # of the last answer to anything but a call; 0 for success
    _calls: dict[str, TrackedCall] = field(default_factory=dict)

    def note_sent_message(self, item: SessionMessage) -> None:
        """Note a tool call right before it is sent; other messages are not noted."""
        message, call = item.message, CURRENT_CALL.get()
        if not isinstance(message, mcp_types.JSONRPCRequest) or message.method != "tools/call":
            return
        if call is not None:
            call.was_sent, call.http_status, call.error, call.answer = True, 0, None, None
            self._calls[str(message.id)] = call

    def note_http_status(self, status: int, posted: mcp_types.RequestId | None) -> None:
        """Note the HTTP status of an answer; `posted`: the id of the call it answers, else None."""
        status = status if status >= FIRST_ERROR_STATUS else 0
        if posted is None:
            self.http_status = status
        elif call := self._calls.get(str(posted)):
            call.http_status = status

    @property
    def has_running_calls(self) -> bool:
        """Return whether calls have been sent that have not ended."""
        return bool(self._calls)

    def forget_call(self, call: TrackedCall) -> None:
        """Stop noting what the server sends about a call."""
        self._calls = {name: each for name, each in self._calls.items() if each is not call}

    def note_server_error(
        self, request: mcp_types.RequestId | None, error: mcp_types.ErrorData
    ) -> None:
        """Note an error that the server itself has sent."""
        if call := self._calls.get(str(request)):
            call.error = error

    def note_server_answer(self, request: mcp_types.RequestId | None, answer: Any) -> None:
        """Note an answer other than an error that the server itself has sent."""
        if call := self._calls.get(str(request)):
            call.answer = answer

    def note_json_message(self, text: str, posted: mcp_types.RequestId | None = None) -> None:
        """Note the answer in a JSON message; `posted`: the id of the HTTP request it answers."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            self.note_server_answer(posted, text)
            return
        if not isinstance(message, dict) or "method" in message:
            return
        request = message.get("id") if posted is None else posted  # as the SDK assigns it
        try:
            self.note_server_error(
                request, mcp_types.ErrorData.model_validate(message.get("error"))
            )
        except ValidationError:
            self.note_server_answer(request, message.get("result", message))

    def convert_unreadable_message_to_error(self, error: Exception) -> SessionMessage | Exception:
        """Return a JSON-RPC error for the request that an unreadable message answers, else `error`.

        So nobody waits for an answer that cannot be read.
        """
        errors = error.errors(include_url=False) if isinstance(error, ValidationError) else []
        for each in (found.get("input") for found in errors):
            request = each.get("id") if isinstance(each, dict) else None
            if isinstance(request, str | int):
                self.note_server_answer(request, each)
                made = mcp_types.ErrorData(
                    code=PARSE_ERROR_CODE, message="the answer cannot be read"
                )
                return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=request, error=made))
        return error


def _mend_call_result(item: SessionMessage | Exception) -> None:
    """Bring a call's result into the form that the SDK needs, as some servers do not.

    The empty `content` that they leave out is added, an `isError` of null counts as left out, and
    values that are no object become the only value, `result`, of one. The newest protocol allows
    such values.
    """
    if not isinstance(item, SessionMessage) or not isinstance(
        item.message, mcp_types.JSONRPCResponse
    ):
        return
    result = item.message.result
    if "isError" in result and result["isError"] is None:
        del result["isError"]
    values = result.get("structuredContent")
    is_call_result = values is not None or "isError" in result
    if is_call_result and result.get("content") is None:
        result["content"] = []
    if values is not None and not isinstance(values, dict) and "resultType" not in result:
        result["structuredContent"] = {"result": values}


class _WatchedStream:
    """A stream to or from a server, on which its messages are noted."""

    def __init__(self, stream: Any, wire: ServerTraffic) -> None:
        self._stream, self._wire = stream, wire

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)


class WatchedWriteStream(_WatchedStream):
    """The stream to a server, which notes outgoing messages."""

    async def send(self, item: SessionMessage) -> None:
        """Note the message, then send it."""
        self._wire.note_sent_message(item)
        await self._stream.send(item)


class WatchedReadStream(_WatchedStream):
    """The stream from a server; tools that cannot be used are taken out of its lists of them."""

    def __init__(self, stream: Any, wire: ServerTraffic, *, notes: bool) -> None:
        """`notes`: note the server's answers."""
        super().__init__(stream, wire)
        self._notes = notes
        self._told = set[str]()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message from the server, after noting it."""
        return self._take(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._take(await self._stream.__anext__())

    def _take(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        item = self._note_message(item) if self._notes else item
        tool_list.leave_out_unusable_tools(item, self._told)
        _mend_call_result(item)
        return item

    def _note_message(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception):
            item = read_whole_message(item)
        if isinstance(item, Exception):
            return self._wire.convert_unreadable_message_to_error(item)
        match item.message:
            case mcp_types.JSONRPCError():
                self._wire.note_server_error(item.message.id, item.message.error)
            case mcp_types.JSONRPCResponse():
                self._wire.note_server_answer(item.message.id, item.message.result)
        return item


@asynccontextmanager
async def watch_streams(streams: Any, wire: ServerTraffic, *, reads: bool) -> AsyncIterator[Any]:
    """Yield a transport's streams with notes taken; `reads`: also on the stream from the server."""
    async with streams as (read, write):
        yield WatchedReadStream(read, wire, notes=reads), WatchedWriteStream(write, wire)


class _WatchedResponseBody(httpx2.AsyncByteStream):
    """The body of an HTTP answer, noted while the SDK reads it."""

    def __init__(
        self,
        source: httpx2.Response,
        wire: ServerTraffic,
        posted: mcp_types.RequestId | None,
        events: bool,
    ) -> None:
        self._source, self._wire, self._posted, self._events = source, wire, posted, events
        self._line, self._data, self._size = bytearray(), list[str](), 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = bytearray()  # the last line so far, still incomplete
        async for chunk in self._source.aiter_bytes():
            line += chunk
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            if end >= 0:
                end += len(line) - len(chunk) + 1
                yield self._note_chunk(line[:end])
                del line[:end]
        yield self._note_chunk(line)
        if not self._events and self._size <= MAX_MESSAGE_BYTES:
            self._wire.note_json_message(self._line.decode("utf-8", "replace"), self._posted)

    async def aclose(self) -> None:
        await self._source.aclose()

    def _note_chunk(self, part: bytearray) -> bytes:
        """Note whole lines of the body, and return them with each half of a character replaced."""
        chunk = replace_half_characters(part.decode("latin-1")).encode("latin-1")
        self._size += len(chunk)
        if self._size > MAX_MESSAGE_BYTES:  # too long to inspect
            self._line.clear()
            self._data.clear()
            self._size = 0 if self._events else MAX_MESSAGE_BYTES + 1
            return chunk
        self._line += chunk
        while self._events and b"\n" in self._line:
            line, _, rest = bytes(self._line).partition(b"\n")
            self._line, self._size = bytearray(rest), len(rest) + sum(map(len, self._data))
            self._note_event_line(line.decode("utf-8", "replace").rstrip("\r"))
        return chunk

    def _note_event_line(self, line: str) -> None:
        if line.startswith("data:"):
            self._data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and self._data:
            text, self._data = "\n".join(self._data), []
            self._wire.note_json_message(text, self._posted)


async def note_http_response(wire: ServerTraffic, response: httpx2.Response) -> None:
    """Note an HTTP answer's status, and its body as it is read; a hook of the HTTP client."""
    if response.request.method != "POST":
        return _watch_response_body(wire, response, None)
    posted = find_tool_call_id(response.request)
    wire.note_http_status(response.status_code, posted)
    if posted is not None:
        _watch_response_body(wire, response, posted)
    return None


def find_tool_call_id(request: httpx2.Request) -> mcp_types.RequestId | None:
    """Return the JSON-RPC id if an HTTP request is a tool call; None if it is not."""
    if request.method != "POST":
        return None
    try:
        sent = json.loads(request.content)
        found: mcp_types.RequestId | None = sent["id"] if sent["method"] == "tools/call" else None
    except (ValueError, TypeError, KeyError, httpx2.StreamError):
        return None
    return found


def _watch_response_body(
    wire: ServerTraffic, response: httpx2.Response, posted: mcp_types.RequestId | None
) -> None:
    kind = response.headers.get("content-type", "").lower()
    events = kind.startswith("text/event-stream")
    if events or kind.startswith("application/json"):
        # some servers compress although they were asked not to
        source = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream
        )
        response.headers.pop("Content-Encoding", None)
        response.stream = _WatchedResponseBody(source, wire, posted, events)


# The SDK's client and its HTTP client, with what is done otherwise here.


class SingleCallClient(Client):
    """A client that sends each call of a tool once, and takes any result of it.

    Servers are told that people answer forms, and open no address: the SDK offers both.
    """

    async def _relist_tool(self, name: str) -> None:
        """Raise an error when the SDK is about to list a tool again and to repeat a call of it.

        The SDK does so if the server says that the tool has changed; nobody has approved the
        changed tool.
        """
        raise MCPError(mcp_types.HEADER_MISMATCH, f"{name} has changed")

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        build_capabilities = session._build_capabilities

        def build_without_addresses(version: str) -> mcp_types.ClientCapabilities:
            capabilities = build_capabilities(version)
            if capabilities.elicitation is not None:
                capabilities.elicitation.url = None
            return capabilities

        session._build_capabilities = build_without_addresses  # type: ignore[method-assign] # on purpose
        session.validate_tool_result = _accept_any_result  # type: ignore[method-assign, assignment] # on purpose
        return session


async def _accept_any_result(_name: str, _result: Any) -> None:
    """Accept any tool result, in place of the SDK's check against the tool's output schema."""


_OPENING_METHODS = ("initialize", "server/discover")


class SeparateRequestsHttpClient(httpx2.AsyncClient):
    """An HTTP client of which each request is answered, and a failed one ends no other one.

    The SDK ends a connection to a server, with all calls that are under way, at the first request
    that fails. So here such a request is answered by an error, unless it opens the connection. And
    the SDK waits on after an error without an id, which a server sends if it could not read one.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and return the response, of JSON with its body."""
        await request.aread()  # after a redirect, its content is not read yet
        try:
            response = await super().send(request, **options)
            if response.headers.get("content-type", "").lower().startswith("application/json"):
                await response.aread()
                response = _fill_in_error_id(request, response)
        except httpx2.RequestError as error:
            answer = _build_error_answer(request, error)
            if answer is None:
                raise
            return answer
        return response


def _fill_in_error_id(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return a response of JSON; an error without an id in it gets that of the request."""
    try:
        answer, message = response.json(), json.loads(request.content)
    except (ValueError, RecursionError):
        return response
    has_id = not isinstance(answer, dict) or answer.get("id") is not None
    if has_id or "error" not in answer or "id" not in message:
        return response
    body = {**answer, "id": message["id"]}
    return httpx2.Response(response.status_code, json=body, request=request)


def _build_error_answer(request: httpx2.Request, error: Exception) -> httpx2.Response | None:
    """Return the answer to a message that failed; None if it was to open the connection."""
    message = json.loads(request.content) if request.method == "POST" else {}
    method = message.get("method")
    if request.method != "POST" or method in _OPENING_METHODS:
        return None
    if method is None or "id" not in message:  # an answer or a notification
        return httpx2.Response(202, request=request)
    why = " ".join(f"{type(error).__name__} {error}".split())
    body = {
        "jsonrpc": "2.0",
        "id": message["id"],
        "error": {"code": mcp_types.INTERNAL_ERROR, "message": why},
    }
    return httpx2.Response(200, json=body, request=request)
