"""The connection to one server: begun with the first call, restarted with growing pauses, and held
to what was accepted before each call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
)
from pydantic import ValidationError

from bot.servers.amid import AmidCall
from bot.servers.definitions import Definitions
from bot.servers.file import Server
from bot.servers.session import OpenSession, definitions, reason
from bot.tools import ToolError
from bot.tools.line import CallLine

_LIST_SECONDS = 10.0  # in which a server says what tools it has
_LONGEST_PAUSE = 300.0  # seconds between two tries to reach it
_NOT_DONE = (INVALID_PARAMS, METHOD_NOT_FOUND)  # the server answers so before it does anything
_BROKEN = (
    *(MCPError, OSError, ValidationError),
    *(anyio.ClosedResourceError, anyio.BrokenResourceError),
)

_AMID: ContextVar[AmidCall | None] = ContextVar("amid", default=None)

log = logging.getLogger("countersign.servers")


class ServerFailedError(Exception):
    """The server says that a call went wrong; what it did by then is its own."""


class ServerConnection:
    """One server, for all calls of its tools; used on one loop."""

    def __init__(self, server: Server, accepted: Definitions) -> None:
        """Nothing is begun yet. `accepted`: what may be called, as it was when it was accepted."""
        self._server, self._accepted = server, accepted
        self._session: OpenSession | None = None
        self._failures, self._again_at = 0, 0.0
        self._off: dict[str, str] = {}  # tools that are not what was accepted, and why
        self._looking: asyncio.Task[None] | None = None
        self._under_way: list[AmidCall] = []

    def is_on(self, name: str) -> bool:
        """Whether a tool is, as far as is known, what was accepted; any thread may ask."""
        return name not in self._off

    async def check(self, name: str) -> None:
        """Make sure that a tool can be reached, and is what was accepted.

        Raises ToolError with a sentence where it is not.
        """
        await self._checked(name)

    async def call(self, name: str, arguments: dict[str, Any], line: CallLine) -> CallToolResult:
        """Call a tool that is what was accepted, and return its result.

        `line`: by which people hear how far it is, and are asked what the server wants to know.
        Raises ToolError where it was certainly not done, ServerFailedError where the server failed
        at it, ConnectionError or TimeoutError where nobody knows. A call that is given up is
        cancelled at the server.
        """
        client, server = await self._checked(name), self._server
        try:
            with self._amid(line) as amid:
                return await client.call_tool(name, arguments, progress_callback=amid.progress)
        except TimeoutError:
            waited = f"{server.timeout:g} seconds"
            raise TimeoutError(f"{server.name} did not answer within {waited}.") from None
        except MCPError as error:
            if error.code in _NOT_DONE:
                raise ToolError(f"{server.name} refuses it: {error.message}") from error
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise ConnectionError(f"{server.name} went away under the call.") from error
            raise ServerFailedError(f"{server.name} says: {error.message}") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ConnectionError(f"{server.name} went away under the call.") from error

    @contextmanager
    def _amid(self, line: CallLine) -> Iterator[AmidCall]:
        """Have what the server asks from now on be asked amid this call, and bound its time."""
        amid = AmidCall(self._server, line)
        self._under_way.append(amid)
        before = _AMID.set(amid)
        try:
            with amid.timed():
                yield amid
        finally:
            _AMID.reset(before)
            self._under_way.remove(amid)

    async def _elicit(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Ask people what the server wants to know, amid the call that it is about.

        Servers of the older protocol do not say over stdio which that is: then it has to be the
        only one.
        """
        amid = _AMID.get()
        if amid is None and len(self._under_way) == 1:
            [amid] = self._under_way
        if amid is None or amid not in self._under_way:
            name = self._server.name
            log.warning(
                "a question of the server %s is about none of its calls, or one of several", name
            )
            return ElicitResult(action="cancel")
        return await amid.elicit(params)

    async def _checked(self, name: str) -> Client:
        client, found = await self._listed()
        self._compare(found)
        if why := self._off.get(name, ""):
            raise ToolError(why)
        return client

    async def _listed(self) -> tuple[Client, Definitions]:
        """The open connection, and what tools there are now; one that died is begun anew, once."""
        error: Exception | None = None
        for _ in range(2):
            session, client = await self._open()
            try:
                with anyio.fail_after(_LIST_SECONDS):
                    return client, await definitions(client)
            except _BROKEN as broken:
                error = broken
                if self._session is session:
                    self._session = None
                session.abandon()
        raise self._down(reason(error) if error else "")

    async def _open(self) -> tuple[OpenSession, Client]:
        session = self._session
        if session is None or session.is_over:
            if (left := self._again_at - time.monotonic()) > 0:
                raise self._down(f"it is tried again in {left:.0f} seconds")
            session = self._session = OpenSession(self._server, self._look, self._elicit)
        client = await session.opened()
        if client is not None:
            self._failures = 0
            return session, client
        if self._session is session:
            self._session = None
            self._failures += 1
            self._again_at = time.monotonic() + min(2.0**self._failures, _LONGEST_PAUSE)
            log.warning("the server %s cannot be reached: %s", self._server.name, session.why)
        raise self._down(session.why)

    def _down(self, why: str) -> ToolError:
        because = f" ({why})" if why else ""
        return ToolError(
            f"The server {self._server.name} cannot be reached now{because}. Nothing was done."
        )

    def _look(self) -> None:
        """Look what has changed, soon and once."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_now())

    async def _look_now(self) -> None:
        try:
            self._compare((await self._listed())[1])
        except ToolError as error:
            log.warning("%s", error)

    def _compare(self, found: Definitions) -> None:
        """Switch off what is not what was accepted, and on again what is; told in the log once."""
        server, off = self._server.name, dict[str, str]()
        for name, accepted in self._accepted.items():
            now = found.get(name)
            if now == accepted:
                continue
            what = "has changed" if now else "no longer has"
            off[name] = (
                f"The server {server} {what} its tool {name} since that was accepted; it is"
                " switched off until its operator accepts it again."
            )
            if name not in self._off:
                log.warning("%s See `countersign mcp accept %s`.", off[name], server)
        self._off = off
