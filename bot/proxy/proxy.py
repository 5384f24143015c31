"""The proxy itself: a server to the host, a client of the server behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as types
from anyio import BrokenResourceError, ClosedResourceError
from mcp import Client, MCPError, StdioServerParameters
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from bot import __version__
from bot.client.troubles import CountersignError
from bot.proxy.held_calls import HeldCalls, LostError, NotRunError
from bot.proxy.people import TOOLS, PeopleTools
from bot.proxy.waiting import StillWaitsError
from bot.proxy.wording import action_of, server_name

AWAY = "The server behind has gone away. Nothing was done."
CHANGED = (
    "The server behind has changed its tool {tool} since people were asked. Nothing was done; make "
    "the call again to have them asked about the tool as it is now."
)
NOT_KNOWN = (
    "The server behind went away under the call: nobody knows how it ended. Do not make it again "
    "before you know; people are asked what became of it."
)
LOST = (MCPError, BrokenResourceError, ClosedResourceError)
_ON_THE_WAY = (CONNECTION_CLOSED, REQUEST_TIMEOUT)
MOST_REPORTED = 20_000  # characters of a result that the record keeps
Context = ServerRequestContext[Any]


class Proxy:
    """One server behind it, one host before it."""

    def __init__(
        self,
        behind: Client,
        held_calls: HeldCalls,
        people: PeopleTools,
        *,
        name: str = "",
        prefix: str = "",
        trusted: bool = False,
    ) -> None:
        """`behind` is connected; `name`: what people call it, "" for what its prefix says.

        `prefix` stands before its tools' names where people are asked.
        """
        own = behind.server_info
        self._name = name or server_name(prefix, own.name if own else "")
        self._behind = behind
        self._held_calls = held_calls
        self._people = people
        self._prefix = prefix
        self._trusted = trusted

    def server(self) -> Server[Any]:
        """Return what the host talks to: the same tools, each held until it is approved."""
        return Server(
            "countersign",
            version=__version__,
            instructions=self._behind.instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        cursor = params.cursor if params else None
        listed = await self._behind.list_tools(cursor=cursor)
        if cursor is None:  # the server's own of these names go before
            own = {each.name for each in listed.tools}
            more = [each for each in TOOLS if each.name not in own]
            listed = listed.model_copy(update={"tools": [*listed.tools, *more]})
        return listed

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = await self._tool(params.name)
        given, told = dict(params.arguments or {}), 0

        async def tell(words: str) -> None:
            nonlocal told
            told += 1
            await context.session.report_progress(float(told), None, f"{params.name} {words}")

        async def far(progress: float, total: float | None, message: str | None) -> None:
            of = f" of {total:g}" if total else ""
            await tell(" · ".join(filter(None, [f"is at {progress:g}{of}", message])))

        async def run(arguments: dict[str, Any]) -> types.CallToolResult:
            try:
                now = await self._tool(params.name)
            except LOST:
                raise NotRunError(AWAY) from None
            if now is None or tool is None or _seen(now) != _seen(tool):
                raise NotRunError(CHANGED.format(tool=params.name))
            try:
                return await self._behind.call_tool(params.name, arguments, progress_callback=far)
            except LOST as error:
                if isinstance(error, MCPError) and error.code not in _ON_THE_WAY:
                    raise
                raise LostError(NOT_KNOWN) from None

        try:
            if tool is None and params.name in {each.name for each in TOOLS}:
                return await self._people.call(params.name, given, tell)
            if tool is None:
                return _said(f"There is no tool {params.name!r}.")
            return await self._held_calls.held(
                action_of(tool, self._prefix, self._name, trusted=self._trusted),
                given,
                run,
                _outcome,
                tell,
            )
        except (StillWaitsError, CountersignError) as refusal:
            return _said(str(refusal))

    async def _tool(self, name: str) -> types.Tool | None:
        cursor: str | None = None
        while True:
            listed = await self._behind.list_tools(cursor=cursor)
            if found := next((each for each in listed.tools if each.name == name), None):
                return found
            if not listed.next_cursor:
                return None
            cursor = listed.next_cursor


def _seen(tool: types.Tool) -> tuple[Any, ...]:
    """Return what a tool is by its server's words: people approved a call of this."""
    return tool.name, tool.title, tool.description, tool.input_schema, tool.annotations


def _said(sentence: str) -> types.CallToolResult:
    content = types.TextContent(type="text", text=sentence)
    return types.CallToolResult(content=[content], is_error=True)


def _outcome(result: types.CallToolResult) -> tuple[bool, Any]:
    """Return whether the tool worked, and what of its result is reported."""
    if result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
        if len(text) <= MOST_REPORTED:
            return not result.is_error, result.structured_content
    words = [each.text for each in result.content if isinstance(each, types.TextContent)]
    others = len(result.content) - len(words)
    words += [f"({others} more that are no text)"] if others else []
    return not result.is_error, "\n".join(words)[:MOST_REPORTED]


@asynccontextmanager
async def behind(command: list[str], environment: dict[str, str]) -> AsyncIterator[Client]:
    """Start a server by its command, and connect to it."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment)
    async with Client(parameters) as client:
        yield client


async def serve(
    command: list[str],
    environment: dict[str, str],
    held_calls: HeldCalls,
    people: PeopleTools,
    **options: Any,
) -> None:
    """Be the server that a host has started, until it goes away; `options` are those of a Proxy."""
    async with behind(command, environment) as client, stdio_server() as (read, write):
        server = Proxy(client, held_calls, people, **options).server()
        await server.run(read, write, server.create_initialization_options())
