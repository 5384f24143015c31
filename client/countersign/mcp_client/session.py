"""One life of a connection to a server: opened, used by many calls at once, over.

All of it happens on the loop that it was begun on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
from mcp import Client, MCPError
from mcp.client.session import ElicitationFnT
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import CONNECTION_CLOSED, Implementation, Tool, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from countersign.mcp_client.address import Address, transport
from countersign.mcp_client.wire import ServerWire
from countersign.version import VERSION

MOST_PAGES, MOST_TOOLS = 50, 1_000  # of one server


class EndlessListError(Exception):
    """A server's list of tools comes to no end, or is longer than can be used."""


class OpenSession:
    """A connection that is being opened, is open, or is over; never opened a second time."""

    def __init__(
        self,
        address: Address,
        patience: float,
        changed: Callable[[], None],
        elicit: ElicitationFnT | None,
    ) -> None:
        """Begin to open it; `changed` is called when the server says that its tools have.

        `patience`: seconds in which it has to be open. `elicit` is asked what the server wants to
        know of people; None: it may ask nobody.
        """
        self._address, self._patience = address, patience
        self._changed, self._elicit = changed, elicit
        self._ready, self._closing = asyncio.Event(), asyncio.Event()
        self._scope = anyio.CancelScope()
        self._client: Client | None = None
        self.wire = ServerWire()
        self.is_over = False
        self.why = ""  # it is over; "" where it just ended
        self._task = asyncio.get_running_loop().create_task(self._live())
        self._task.add_done_callback(self._ended)

    async def opened(self) -> Client | None:
        """Wait until it is open; None where it is over, or took too long and was given up."""
        with anyio.move_on_after(self._patience):
            await self._ready.wait()
        if not self._ready.is_set():
            self.why = f"it did not answer within {self._patience:g} seconds"
            self._scope.cancel()
            return None
        return None if self.is_over else self._client

    def abandon(self) -> None:
        """End it; what it still has to do goes on by itself."""
        self._closing.set()
        if not self._ready.is_set():
            self._scope.cancel()

    async def close(self) -> None:
        """End it, and wait until it has."""
        self.abandon()
        await asyncio.wait([self._task])

    async def _live(self) -> None:
        client = Client(
            transport(self._address, self.wire),
            client_info=Implementation(name="countersign", version=VERSION),
            message_handler=self._hear,
            elicitation_callback=self._elicit,
            cache=None,
        )
        with self._scope:
            async with client, anyio.create_task_group() as group:
                # what a tool did is told in any case, also where it is not what was promised
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


async def _as_it_is(_name: str, _result: Any) -> None:
    """Take a result as it comes."""


async def listed(client: Client) -> list[Tool]:
    """Ask a server what tools it has now.

    Raises EndlessListError, and what the connection raises.
    """
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        if len(found) > MOST_TOOLS:
            raise EndlessListError(f"it has more than {MOST_TOOLS:,} tools")
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise EndlessListError(f"its list of tools has more than {MOST_PAGES} pages")


def reason(error: BaseException) -> str:
    """Return why a connection failed, in a few words; of several reasons the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    if isinstance(error, MCPError):
        ended = error.code == CONNECTION_CLOSED
        return "it has ended the connection" if ended else error.message[:200]
    return " ".join(f"{type(error).__name__} {error}".split())[:200]
