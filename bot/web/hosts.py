"""MCP hosts over HTTP: each shows a key of the API, and is offered what that may ask for.

Hosts are answered by a session manager of the SDK's, which begins with the first of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import mcp.types as types
from anyio import CapacityLimiter, to_thread
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from bot.tools import Effect, Registry, Tool
from bot.tools.people.question import ASK_PERSON
from bot.web.api.callers import Callers
from bot.web.api.gate import look_at_body, read_again, read_body
from bot.web.api.problems import ProblemError, later
from bot.web.api.rooms import HOSTS, FullError, Room
from bot.web.offered import Offered

if TYPE_CHECKING:
    from bot.core import Core

MOST = 1_000_000  # bytes of what a host sends at once
LOOKING = 2  # that have their keys looked at, at once


class HostsDoor:
    """An ASGI app at one path; for one event loop."""

    def __init__(self, core: Core, url: str, is_stopping: Callable[[], bool]) -> None:
        """`url`: where this process has its API; a host's calls are asked there with its key."""
        self._tools = core.tools
        self._callers = Callers(core.store, core.clock, core.identity.team)
        self._is_stopping = is_stopping
        self._turns = CapacityLimiter(LOOKING)
        self._room = Room(HOSTS)
        server = Offered(url, self._listed, is_stopping).server()
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=MOST
        )
        self._begun = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a host whose key is good."""
        try:
            _insist_on_own_page(Headers(scope=scope))
            if self._is_stopping():
                raise later(HTTPStatus.SERVICE_UNAVAILABLE, "This process is stopping.", 1)
            given = Headers(scope=scope).getlist("authorization")
            await to_thread.run_sync(self._callers.of, given, limiter=self._turns)
            with self._room.one():
                body = await read_body(receive)
                if body:
                    look_at_body(body, Headers(scope=scope))
                await self._begin()
                await self._manager.handle_request(scope, read_again(body, receive), send)
        except FullError:
            error = later(HTTPStatus.SERVICE_UNAVAILABLE, "Too much is asked at once.", 1, "limits")
            await error.answer()(scope, receive, send)
        except ProblemError as error:
            await error.answer()(scope, receive, send)

    async def _begin(self) -> None:
        """Have the manager run, in a task of its own, until the process ends."""
        async with self._begun:
            if self._running is not None:
                return
            runs = asyncio.Event()
            self._running = asyncio.create_task(self._run(runs))
            await runs.wait()

    async def _run(self, runs: asyncio.Event) -> None:
        async with self._manager.run():
            runs.set()
            await asyncio.Event().wait()

    def _listed(self, key: str) -> list[types.Tool]:
        """Return the tools that a key may ask for; waits for the record."""
        caller = self._callers.of([f"Bearer {key}"])
        return [_offer(each) for each in _own(self._tools) if caller.may_ask_for(each.name)]


def _insist_on_own_page(headers: Headers) -> None:
    """Raise ProblemError for what a page in a browser sends; but for one of this very address, of a
    kind that no name server can lead elsewhere.
    """
    origins = headers.getlist("origin")
    if not origins:
        return  # no browser
    origin = origins[0] if len(origins) == 1 else ""
    scheme, _, authority = origin.partition("://")
    host = authority.rpartition(":")[0] if re.search(r":\d+$", authority) else authority
    is_ours = scheme in ("http", "https") and [authority] == headers.getlist("host")
    if not (is_ours and (host == "localhost" or _is_number(host))):
        raise ProblemError(HTTPStatus.FORBIDDEN, "This takes nothing from a page of elsewhere.")


def _is_number(host: str) -> bool:
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _own(tools: Registry) -> list[Tool[Any]]:
    """Return what the bot runs itself, but what only its own agent can make use of."""
    return [each for each in tools if each.agent is None and each.name != ASK_PERSON.name]


def _offer(tool: Tool[Any]) -> types.Tool:
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
