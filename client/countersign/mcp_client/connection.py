"""The connection to one MCP server, at a URL or started as a command, and the outcome of its calls.

Opened on first use, and opened again after it ends, with growing pauses.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio.lowlevel
import httpx2
import mcp_types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.client import ConnectMode
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from referencing import Registry

from countersign.mcp_client import sent_calls
from countersign.mcp_client.tool_list import ToolListTooLongError, list_server_tools
from countersign.version import VERSION

if TYPE_CHECKING:
    from countersign.mcp_client.login import ServerLogin


# Requests to a server over HTTP: a tool call is sent only once, whatever the answer is.

MAX_REDIRECTS = 5  # followed from one remembered address to the next


class SendCallsOnceAuth(httpx2.Auth):
    """HTTP authentication of one connection that never sends a tool call twice or redirects it."""

    def __init__(self, login: ServerLogin | None) -> None:
        """`login`: the login with which requests are sent; None for none."""
        self._login = login
        self._redirect_source: WeakKeyDictionary[httpx2.Request, httpx2.URL] = WeakKeyDictionary()
        self._redirects: dict[
            httpx2.URL, httpx2.URL
        ] = {}  # learned from requests other than tool calls

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send one request, with the token of the login if there is one."""
        if (came_from := self._redirect_source.pop(request, None)) is not None:
            self._redirects[came_from] = request.url  # the SDK has followed the redirect
        is_call = sent_calls.find_tool_call_id(request) is not None
        if is_call:
            request.url = self._resolve_known_redirects(request.url)
        if self._login is None:
            response = yield request
            self._note_redirect(response, is_call)
            return
        async with aclosing(self._login.send_with_login_token(request, is_call)) as flow:
            outgoing = await anext(flow, None)
            while outgoing is not None:
                response = yield outgoing
                self._note_redirect(response, is_call)
                try:
                    outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    return

    def _resolve_known_redirects(self, url: httpx2.URL) -> httpx2.URL:
        """Return the address to which earlier requests to `url` were redirected in the end."""
        for _ in range(MAX_REDIRECTS):
            url = self._redirects.get(url, url)
        return url

    def _note_redirect(self, response: httpx2.Response, is_call: bool) -> None:
        """Drop the redirect of a tool call, and remember where other requests are redirected."""
        if is_call:
            response.next_request = None
        elif response.next_request is not None:
            self._redirect_source[response.next_request] = response.request.url


# A server's address (a command to start, or a URL), and the transport to it.


@dataclass(frozen=True, slots=True)
class CommandAddress:
    """A server that is started as a command and speaks over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class UrlAddress:
    """A server that is reached at a URL over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_timeout: float = 60.0  # seconds
    read_timeout: float = 300.0  # seconds without data
    login: ServerLogin | None = field(default=None, repr=False)  # None: `headers` authenticate


Address = CommandAddress | UrlAddress


@asynccontextmanager
async def open_transport(
    address: Address, wire: sent_calls.ServerTraffic
) -> AsyncGenerator[Any, None]:
    """Connect and yield the two message streams; their traffic is noted in `wire`."""
    if isinstance(address, UrlAddress):
        # uncompressed: the answer is inspected on its way
        headers = {"Accept-Encoding": "identity", **address.headers}
        note = partial(sent_calls.note_http_response, wire)
        async with (
            sent_calls.SeparateRequestsHttpClient(
                headers=headers,
                timeout=httpx2.Timeout(address.connect_timeout, read=address.read_timeout),
                event_hooks={"response": [note]},
                auth=SendCallsOnceAuth(address.login),
            ) as http,
            sent_calls.watch_streams(
                # events of any size: a picture in a result has megabytes
                streamable_http_client(address.url, http_client=http, max_sse_event_size=None),
                wire,
                reads=False,
            ) as streams,
        ):
            yield streams
        return
    parameters = StdioServerParameters(
        command=address.command,
        args=list(address.args),
        env=dict(address.env),
        encoding_error_handler="replace",  # else one invalid byte, as in a log line, ends all
    )
    started = stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)
    async with sent_calls.watch_streams(started, wire, reads=True) as streams:
        yield streams


# One connection to a server: opened, shared by many calls at once, then closed for good.


class ServerSession:
    """One connection that is being opened, open or over; it is never opened a second time."""

    def __init__(
        self,
        address: Address,
        patience: float,
        changed: Callable[[], None],
        elicit: ElicitationFnT | None,
        mode: ConnectMode = "auto",
    ) -> None:
        """Start to open the connection; `changed` is called when the server's tools have changed.

        `patience`: seconds in which it has to be open. `elicit` handles the server's questions to
        people; None: it may ask nobody. `mode`: "legacy" speaks only the older protocol.
        """
        self._address, self._timeout_seconds, self._mode = address, patience, mode
        self._changed, self._elicit = changed, elicit
        self._ready, self._closing = asyncio.Event(), asyncio.Event()
        self._scope = anyio.CancelScope()
        self._client: Client | None = None
        self.wire = sent_calls.ServerTraffic()
        self.is_over = False
        self.end_reason = ""  # why it is over; "" if without an error
        self.ended_at_start = False  # whether a started command ended before it was open
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._handle_end)

    async def wait_until_open(self) -> Client | None:
        """Return the client once the connection is open; None if it is over, or took too long."""
        with anyio.move_on_after(self._timeout_seconds):
            await self._ready.wait()
        if not self._ready.is_set():
            self.end_reason = f"it did not answer within {self._timeout_seconds:g} seconds"
            self._scope.cancel()
            return None
        return None if self.is_over else self._client

    def close_without_waiting(self) -> None:
        """End the connection without waiting until it is closed."""
        self._closing.set()
        if not self._ready.is_set():
            self._scope.cancel()

    async def close(self) -> None:
        """End the connection, and wait until it is closed."""
        self.close_without_waiting()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        client = sent_calls.SingleCallClient(
            open_transport(self._address, self.wire),
            client_info=mcp_types.Implementation(name="countersign", version=VERSION),
            message_handler=self._notice_changed_tool_list,
            elicitation_callback=self._elicit,
            cache=None,
            mode=self._mode,
        )
        with self._scope:
            async with client, anyio.create_task_group() as group:
                self._client = client
                self._ready.set()
                if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    group.start_soon(self._listen_for_tool_changes, client)
                await self._closing.wait()
                group.cancel_scope.cancel()

    async def _listen_for_tool_changes(self, client: Client) -> None:
        """Call `changed` for tool changes at a server that announces them only on request."""
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed()
        except (MCPError, SubscriptionLost, TimeoutError):
            return  # each call checks the tool list as well

    async def _notice_changed_tool_list(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._changed()
        await anyio.lowlevel.checkpoint()

    def _handle_end(self, task: asyncio.Task[None]) -> None:
        self.is_over = True
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.end_reason = self.end_reason or describe_connection_error(error)
            is_command = isinstance(self._address, CommandAddress)
            self.ended_at_start = is_command and not self._ready.is_set()
        self._ready.set()


def describe_connection_error(error: BaseException) -> str:
    """Return in a few words why a connection failed; for a group of errors, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"its answer cannot be read: {where}: {first['msg']}"[:200]
    if isinstance(error, MCPError):
        ended = error.code == mcp_types.CONNECTION_CLOSED
        return "it ended the connection" if ended else error.message[:200]
    return " ".join(f"{type(error).__name__} {error}".split())[:200]


# Checks a result against its tool's output schema; a mismatch only adds a remark.

MAX_REMARK_CHARS = 300


# patterns may take forever to match, and nothing depends on this check
_Plain: Any = extend(  # type: ignore[no-untyped-call] # jsonschema has no types
    Draft202012Validator, dict.fromkeys(("pattern", "patternProperties"), lambda *_: iter(()))
)


def describe_schema_mismatch(
    result: mcp_types.CallToolResult, schema: Mapping[str, Any] | None
) -> str:
    """Return how a result breaks its tool's output schema; "" if it fits or cannot be checked."""
    if schema is None:
        return ""
    if result.structured_content is None:
        return "The tool promises values, but its result has none."
    try:
        validator = _Plain(schema, registry=Registry())  # an empty registry fetches nothing
        wrong = best_match(validator.iter_errors(result.structured_content))
    except Exception:  # noqa: BLE001 # a schema that cannot be used promises nothing
        return ""
    if wrong is None:
        return ""
    return f"The result is not what the tool promises: {wrong.message}"[:MAX_REMARK_CHARS]


LIST_TIMEOUT_SECONDS = 10.0  # to list its tools
MAX_RECONNECT_SECONDS = 300.0  # between two attempts
NO_REASON_TEXT = "The server says that it failed, but not why."


class ServerNotReachedError(Exception):
    """Raised when a server cannot be reached or does not list its tools; the message says why."""


class ServerConnection:
    """The connection to one server, for all calls of its tools; used on one event loop."""

    def __init__(
        self,
        address: Address,
        *,
        open_within: float,
        changed: Callable[[], None] = lambda: None,
        put_off: Callable[[str], None] = lambda _why: None,
        elicit: ElicitationFnT | None = None,
    ) -> None:
        """Store the address; nothing is opened yet. `open_within`: seconds that opening may take.

        `changed` is called when the server says that its tools have changed; `put_off`, with the
        reason, when it cannot be reached and the next try waits; `elicit` handles its questions to
        people.
        """
        self._address, self._open_timeout = address, open_within
        self._login = address.login if isinstance(address, UrlAddress) else None
        self._changed, self._elicit, self._report_put_off = changed, elicit, put_off
        self._session: ServerSession | None = None
        self._failures, self._retry_at = 0, 0.0
        self._opening = asyncio.Lock()

    async def list_current_tools(self) -> list[mcp_types.Tool]:
        """Return the tools that the server has now. Raises ServerNotReachedError."""
        return (await self._open_and_list_tools())[2]

    async def get_open_client(self) -> Client:
        """Return the client of the connection, opened if needed. Raises ServerNotReachedError."""
        return (await self._get_open_session())[1]

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        check: Callable[[list[mcp_types.Tool]], None],
        within: Callable[[], AbstractContextManager[object]],
        progress: ProgressFnT | None = None,
    ) -> sent_calls.CallOutcome:
        """Call a tool once, and return the outcome.

        `check` gets the server's current tools right before the call, and raises an exception to
        prevent it: that one is raised here as well, and no other. `within` bounds the time, by
        TimeoutError. A call that is given up is cancelled at the server.
        """
        try:
            session, client, tools = await self._open_and_list_tools()
        except ServerNotReachedError as error:
            return sent_calls.NotSentOutcome(str(error))
        check(tools)
        call = sent_calls.TrackedCall()
        token = sent_calls.CURRENT_CALL.set(call)
        try:
            with within():
                result = await client.call_tool(tool, arguments, progress_callback=progress)
        except Exception as error:  # noqa: BLE001 # whatever it is: what counts is what was heard
            return _build_error_outcome(error, call)
        finally:
            sent_calls.CURRENT_CALL.reset(token)
            session.wire.forget_call(call)
        if result.is_error:
            return sent_calls.FailedOutcome(
                sent_calls.extract_result_text(result) or NO_REASON_TEXT, result=result
            )
        promised = next((each.output_schema for each in tools if each.name == tool), None)
        return sent_calls.ResultOutcome(result, describe_schema_mismatch(result, promised))

    async def wait_for_login(self) -> bool:
        """Wait until a person has logged in at the server; return False if no login is wanted.

        Raises ServerNotReachedError if nobody logged in.
        """
        if self._login is None or not self._login.login_needed_reason:
            return False
        if not await self._login.wait_until_login_ends():
            raise ServerNotReachedError(self._login.login_needed_reason)
        return True

    async def close(self) -> None:
        """Stop a login that is under way, end the connection, and wait until it is closed."""
        if self._login is not None:
            await self._login.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open_and_list_tools(self) -> tuple[ServerSession, Client, list[mcp_types.Tool]]:
        """Return the open connection and its tools; try once more if they cannot be listed."""
        why = ""
        for _ in range(2):
            session, client = await self._get_open_session()
            try:
                with anyio.fail_after(LIST_TIMEOUT_SECONDS):
                    tools = await list_server_tools(client)
            except ToolListTooLongError as error:
                raise ServerNotReachedError(str(error)) from None
            except Exception as error:  # noqa: BLE001 # nothing was sent that does anything
                why = self._abandon_session(session, error)
                continue
            self._failures = 0
            return session, client, tools
        raise await self._note_failed_attempt(why)

    def _abandon_session(self, session: ServerSession, error: Exception) -> str:
        """Abandon a connection that does not answer, and return the reason.

        It is kept while it has calls: many servers list no tools while they work on one.
        """
        if not session.wire.has_running_calls:
            if self._session is session:
                self._session = None
            session.close_without_waiting()
        if isinstance(error, TimeoutError):
            return f"it did not list its tools within {LIST_TIMEOUT_SECONDS:g} seconds"
        return _append_http_status(describe_connection_error(error), session.wire.http_status)

    async def _get_open_session(self) -> tuple[ServerSession, Client]:
        async with self._opening:
            session = self._session
            if session is None or session.is_over:
                if (seconds_left := self._retry_at - time.monotonic()) > 0:
                    raise ServerNotReachedError(f"trying again in {seconds_left:.0f} seconds")
                session = self._start_session("auto")
            client = await session.wait_until_open()
            if client is None and self._session is session and session.ended_at_start:
                # some servers of the older protocol end at the first request of the newer one
                session = self._start_session("legacy")
                client = await session.wait_until_open()
            if client is not None:
                return session, client
            self._session = None
            why = session.end_reason or "it ended at once"
            why = _append_http_status(why, session.wire.http_status)
        raise await self._note_failed_attempt(why)

    def _start_session(self, mode: ConnectMode) -> ServerSession:
        self._session = ServerSession(
            self._address, self._open_timeout, self._changed, self._elicit, mode
        )
        return self._session

    async def _note_failed_attempt(self, why: str) -> ServerNotReachedError:
        """Return the error, and delay the next try, longer each time, unless a login is wanted."""
        if self._login is not None:
            await self._login.wait_until_login_address_known()
            if self._login.login_needed_reason:
                return ServerNotReachedError(self._login.login_needed_reason)
        self._failures += 1
        self._retry_at = time.monotonic() + min(2.0**self._failures, MAX_RECONNECT_SECONDS)
        self._report_put_off(why)
        return ServerNotReachedError(why)


def _append_http_status(why: str, status: int) -> str:
    return f"{why}, HTTP {status}" if status else why


def _build_error_outcome(error: Exception, call: sent_calls.TrackedCall) -> sent_calls.CallOutcome:
    """Return the outcome that an error means: failed at the server, never sent, or unknown."""
    if isinstance(error, MCPError) and call.matches_server_error(error.code, error.message):
        return sent_calls.FailedOutcome(error.message, error.code)
    if not call.was_sent:
        return sent_calls.NotSentOutcome(describe_connection_error(error))
    answer_text = sent_calls.format_unreadable_answer(call.answer)
    if call.http_status:
        return sent_calls.UnknownOutcome(
            f"the only answer was HTTP {call.http_status}", answer_text
        )
    if isinstance(error, TimeoutError):
        return sent_calls.UnknownOutcome("it did not answer in time", answer_text, timed_out=True)
    if isinstance(error, ValidationError) or answer_text:
        return sent_calls.UnknownOutcome("its answer cannot be read", answer_text)
    why = describe_connection_error(error)
    return sent_calls.UnknownOutcome(f"the connection was lost during the call ({why})")
