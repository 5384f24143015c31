"""One life of a connection to a server: opened, used by many calls at once, over.

All of it happens on the loop that it was begun on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bot import __version__
from bot.servers.definitions import Definition
from bot.servers.file import Server

MOST_PAGES, MOST_TOOLS = 50, 1_000  # of one server
PATIENCE = 30.0  # seconds in which a server has to be there, if calls have no more
_READ = 300.0  # seconds between two signs of life over HTTP


class OpenSession:
    """A connection that is being opened, is open, or is over; never opened a second time."""

    def __init__(self, server: Server, changed: Callable[[], None], elicit: ElicitationFnT) -> None:
        """Begin to open it; `changed` is called when the server says that its tools have.

        `elicit` is asked what the server wants to know of people, where it may ask them.
        """
        self._changed = changed
        self._elicit = elicit if server.answer_within else None
        self._server = server
        self._ready, self._closing = asyncio.Event(), asyncio.Event()
        self._client: Client | None = None
        self.is_over = False
        self.why = ""  # it is over; "" where it just ended
        self._task = asyncio.get_running_loop().create_task(self._live())
        self._task.add_done_callback(self._ended)

    async def opened(self) -> Client | None:
        """Wait until it is open; None where it is over.

        One that takes longer than a call may, and longer than half a minute, is given up.
        """
        patience = max(self._server.timeout, PATIENCE)
        with anyio.move_on_after(patience):
            await self._ready.wait()
        if not self._ready.is_set():
            self.why = f"it did not answer within {patience:g} seconds"
            self._task.cancel()
            return None
        return None if self.is_over else self._client

    def abandon(self) -> None:
        """End it; what it still has to do goes on by itself."""
        self._closing.set()

    async def close(self) -> None:
        """End it, and wait until it has."""
        self.abandon()
        await asyncio.wait([self._task])

    async def _live(self) -> None:
        client = Client(
            _transport(self._server),
            client_info=Implementation(name="countersign", version=__version__),
            message_handler=self._hear,
            elicitation_callback=self._elicit,
            cache=None,
        )
        async with client, anyio.create_task_group() as group:
            # what a tool did is told in any case, also where it is not what the server promised
            client.session.validate_tool_result = _as_it_is  # type: ignore[method-assign, assignment] # on purpose
            self._client = client
            self._ready.set()
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                group.start_soon(self._listen, client)
            await self._closing.wait()
            group.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Hear of changes from a server that tells them only to those who ask."""
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed()
        except (MCPError, SubscriptionLost, TimeoutError):
            return  # every call looks for itself as well

    async def _hear(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed()
        await anyio.lowlevel.checkpoint()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.is_over = True
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.why = self.why or reason(error)
        self._ready.set()


async def ask_nobody(context: Any, params: ElicitRequestParams) -> ElicitResult:
    """Answer what a server wants to know where no call is made."""
    del context, params
    return ElicitResult(action="cancel")


async def _as_it_is(_name: str, _result: Any) -> None:
    """Take a result as it comes."""


@asynccontextmanager
async def _transport(server: Server) -> AsyncGenerator[Any, None]:
    if server.url is not None:
        headers = {name: each.get_secret_value() for name, each in server.headers.items()}
        patience = httpx2.Timeout(server.timeout, read=_READ + server.answer_within)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=patience) as http,
            streamable_http_client(server.url, http_client=http) as streams,
        ):
            yield streams
        return
    assert server.command is not None
    parameters = StdioServerParameters(
        command=server.command,
        args=[each.get_secret_value() for each in server.args],
        env={name: each.get_secret_value() for name, each in server.env.items()},
    )
    async with stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as streams:
        yield streams


async def definitions(client: Client) -> dict[str, Definition]:
    """Ask a server what tools it has now, by its own names.

    Raises what the connection raises.
    """
    found: dict[str, Definition] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for each in page.tools[:MOST_TOOLS]:
            found[each.name] = _definition(each)
        cursor = page.next_cursor
        if cursor is None or len(found) >= MOST_TOOLS:
            break
    return found


def _definition(tool: Tool) -> Definition:
    hints = tool.annotations
    return Definition(
        name=tool.name,
        title=tool.title or (hints.title if hints else None) or "",
        description=tool.description or "",
        schema=tool.input_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
    )


def reason(error: BaseException) -> str:
    """Return why a connection failed, in a few words; of several reasons the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    if isinstance(error, MCPError):
        return error.message[:200]
    return " ".join(f"{type(error).__name__} {error}".split())[:200]
