"""The MCP server over HTTP: a host sends an API key and is offered the tools that key allows.

A session manager of the MCP SDK answers; it starts with the first request.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import mcp.types as types
from anyio import CapacityLimiter, create_task_group, sleep, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.types import Receive, Scope, Send

from bot import __version__
from bot.http import api_gate
from bot.http.api_bodies import ProblemError
from bot.tools import Effect, Tool
from bot.tools.person_question import ASK_PERSON
from countersign.client import Countersign
from countersign.mcp_proxy.held_calls import (
    TOOLS,
    HeldCallRunner,
    ProgressSender,
    StillPendingError,
    build_progress_sender,
    build_text_result,
    call_own_tool,
)
from countersign.request import CountersignError, NotAllowed, Request

if TYPE_CHECKING:
    from bot.core import Core


MAX_HOLD_SECONDS = 50.0  # hosts give up after a minute without any message
REASON_FIELD = "reason_for_approver"  # added to the tools' schemas; sent apart from the arguments
NOT_ENDED_TEXT = "It has not ended yet{link}."
STOPPING_ERROR = (
    "Countersign is stopping or restarting. Make the same call again in a moment, with the same"
    " arguments: nothing is asked twice."
)
STOP_POLL_SECONDS = 0.25  # between checks whether this process stops
MAX_REMEMBERED_RUNNERS = 200  # runners of held calls: one for each key, channel and requester
PLACE_FIELDS = ("channel", "requester")  # a host may state these; by default they are the key's
HEADER_NAME_TEMPLATE = "countersign-{}"  # a host states them in these headers
META_NAME_TEMPLATE = "countersign/{}"
Context = ServerRequestContext[Any]


async def _ask_people_for_call(
    held_calls: HeldCallRunner, tool: str, given: Mapping[str, Any], progress: ProgressSender
) -> types.CallToolResult:
    """Ask people for a call of one of the bot's own tools; return its result once it has run."""
    arguments = {name: value for name, value in given.items() if name != REASON_FIELD}
    reason = str(given.get(REASON_FIELD) or "")
    ask = partial(held_calls.countersign.open_request, tool, arguments, reason=reason)
    request = await held_calls.ask_until_end(
        tool, arguments, ask, progress, says="waits for people", still=NOT_ENDED_TEXT
    )
    return _build_call_result(request)


def _build_call_result(request: Request) -> types.CallToolResult:
    is_text = isinstance(request.result, str)
    text = request.result if is_text else json.dumps(request.result, ensure_ascii=False)
    structured = request.result if isinstance(request.result, dict) else None
    return build_text_result(text).model_copy(update={"structured_content": structured})


def _get_api_key(context: Context) -> str:
    """Return the API key that the host has sent, which has been checked before."""
    return _get_headers(context).get("authorization", "").partition(" ")[2].strip()


def _read_request_options(context: Context, params: types.CallToolRequestParams) -> dict[str, str]:
    """Return the channel and requester named by a call's metadata, or else by the host's headers.

    The API checks whether the key may use them. Raises NotAllowed for a value that is not a text.
    """
    options: dict[str, str] = {}
    meta: Mapping[str, Any] = {**(params.meta or {})}
    for each in PLACE_FIELDS:
        value = meta.get(META_NAME_TEMPLATE.format(each))
        if value is None:
            value = _get_headers(context).get(HEADER_NAME_TEMPLATE.format(each), "")
        if not isinstance(value, str):
            raise NotAllowed(f"The metadata {META_NAME_TEMPLATE.format(each)} must be a text.")
        if value.strip():
            options[each] = value.strip()
    return options


def _get_headers(context: Context) -> Mapping[str, str]:
    request = context.request
    assert isinstance(request, HttpRequest)
    return request.headers


MAX_CONCURRENT_KEY_CHECKS = 2


class McpEndpoint:
    """The ASGI app at the MCP server's path; for one event loop."""

    def __init__(self, core: Core, url: str, is_stopping: Callable[[], bool]) -> None:
        """`url`: this process's API, which is asked for a host's calls with the host's key."""
        self._tools, self._url, self._is_stopping = core.tools, url, is_stopping
        # by key, channel and requester
        self._held_calls: OrderedDict[tuple[str, ...], HeldCallRunner] = OrderedDict()
        self._callers = api_gate.ApiKeyChecker(core.store, core.clock, core.identity.team)
        self._gate = api_gate.ApiKeyMiddleware(
            self._handle_checked_request,
            callers=self._callers,
            turns=CapacityLimiter(MAX_CONCURRENT_KEY_CHECKS),
            is_stopping=is_stopping,
            most=api_gate.MAX_MCP_HOST_REQUESTS,
        )
        server = Server[Any](
            "countersign",
            version=__version__,
            on_list_tools=self._handle_list_tools,
            on_call_tool=self._handle_call_tool,
        )
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=api_gate.MAX_BODY_BYTES
        )
        self._begun = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a host; with a problem if its key or its body is refused."""
        try:
            _check_origin(Headers(scope=scope))
        except ProblemError as error:
            await error.build_response()(scope, receive, send)
        else:
            await self._gate(scope, receive, send)

    async def _handle_checked_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a host whose key is valid.

        Most hosts also ask for a stream of messages by GET. There are none to send, and each stream
        would hold one of the few places for as long as the host runs.
        """
        if scope["method"] != "POST":
            raise ProblemError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "Only POST is answered here.",
                headers={"Allow": "POST"},
            )
        await self._start_session_manager()
        await self._manager.handle_request(scope, receive, send)

    async def _start_session_manager(self) -> None:
        """Start the session manager, unless it runs, in a task that lasts until the loop ends."""
        async with self._begun:
            if self._running is not None:
                return
            runs = asyncio.Event()
            self._running = asyncio.create_task(self._run_session_manager(runs))
            await runs.wait()

    async def _run_session_manager(self, runs: asyncio.Event) -> None:
        async with self._manager.run():
            runs.set()
            await asyncio.Event().wait()

    async def _handle_list_tools(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        found = await to_thread.run_sync(partial(self._list_tools_of_key, _get_api_key(context)))
        return types.ListToolsResult(tools=[*found, *TOOLS.values()])

    async def _handle_call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer a call, or tell the host to make it again if this process ends before that."""
        result = build_text_result(STOPPING_ERROR, is_error=True)
        async with create_task_group() as both:

            async def look() -> None:
                while not self._is_stopping():
                    await sleep(STOP_POLL_SECONDS)
                both.cancel_scope.cancel()

            both.start_soon(look)
            result = await self._run_tool_call(context, params)
            both.cancel_scope.cancel()
        return result

    async def _run_tool_call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        given, tell = dict(params.arguments or {}), build_progress_sender(context, params.name)
        try:
            held_calls = self._get_held_calls(
                _get_api_key(context), _read_request_options(context, params)
            )
            if params.name in TOOLS:
                return await call_own_tool(held_calls, params.name, given, tell)
            return await _ask_people_for_call(held_calls, params.name, given, tell)
        except (StillPendingError, CountersignError) as refusal:
            return build_text_result(str(refusal), is_error=True)

    def _get_held_calls(self, key: str, around: dict[str, str]) -> HeldCallRunner:
        """Return the runner of the calls that a key makes for one requester in one channel."""
        name = (key, *(around.get(each, "") for each in PLACE_FIELDS))
        runner = self._held_calls.pop(name, None)
        if runner is None:
            runner = HeldCallRunner(
                Countersign(self._url, key), around, MAX_HOLD_SECONDS, api_gate.MCP_PATH
            )
        self._held_calls[name] = runner
        while len(self._held_calls) > MAX_REMEMBERED_RUNNERS:
            self._held_calls.popitem(last=False)
        return runner

    def _list_tools_of_key(self, key: str) -> list[types.Tool]:
        """Return the tools that a key may ask for; blocks on the database."""
        caller = self._callers.get_authenticated_key([f"Bearer {key}"])
        return [
            _build_mcp_tool(each)
            for each in self._tools
            # no sub-agents, and `ask_person` is one of TOOLS
            if each.agent is None and each.name != ASK_PERSON.name
            if caller.may_ask_for(each.name)
        ]


def _check_origin(headers: Headers) -> None:
    """Raise ProblemError for a request from a web page, unless the page has this server's address.

    The address has to be localhost or an IP address, which no name server can redirect.
    """
    origins = headers.getlist("origin")
    if not origins:
        return  # not a browser
    origin = origins[0] if len(origins) == 1 else ""
    scheme, _, authority = origin.partition("://")
    host = authority.rpartition(":")[0] if re.search(r":\d+$", authority) else authority
    is_ours = scheme in ("http", "https") and [authority] == headers.getlist("host")
    if not (is_ours and (host == "localhost" or _is_ip_address(host))):
        raise ProblemError(HTTPStatus.FORBIDDEN, "Requests from other websites are refused.")


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _build_mcp_tool(tool: Tool[Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.does is Effect.READ,
            destructive_hint=tool.does is Effect.DESTRUCTIVE,
            idempotent_hint=tool.idempotent,
        ),
    )
