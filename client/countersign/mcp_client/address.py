"""Where a server is: a command to be started, or an address; and how it is spoken to there."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import httpx2
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from countersign.mcp_client.sent_calls import ServerWire, call_id, watch_answer, watched

if TYPE_CHECKING:
    from countersign.mcp_client.login import ServerLogin


# How requests go out to a server over HTTP: a tool's call goes once, whatever the answer is.

MOST_MOVES = 5  # from one address to the next, that are remembered


class CallsOnce(httpx2.Auth):
    """One connection's."""

    def __init__(self, login: ServerLogin | None) -> None:
        """`login`: by which the server is told who asks."""
        self._login = login
        self._leading: WeakKeyDictionary[httpx2.Request, httpx2.URL] = WeakKeyDictionary()
        self._moved: dict[httpx2.URL, httpx2.URL] = {}  # as redirects of other requests have shown

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send one request."""
        if (came_from := self._leading.pop(request, None)) is not None:
            self._moved[came_from] = request.url  # the SDK has followed it
        is_call = call_id(request) is not None
        if is_call:
            request.url = self._place(request.url)
        if self._login is None:
            response = yield request
            self._note(response, is_call)
            return
        async with aclosing(self._login.flow(request, is_call)) as flow:
            outgoing = await anext(flow, None)
            while outgoing is not None:
                response = yield outgoing
                self._note(response, is_call)
                try:
                    outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    return

    def _place(self, url: httpx2.URL) -> httpx2.URL:
        """Where requests to an address end up."""
        for _ in range(MOST_MOVES):
            url = self._moved.get(url, url)
        return url

    def _note(self, response: httpx2.Response, is_call: bool) -> None:
        """Have no call be redirected, and remember where others are."""
        if is_call:
            response.next_request = None
        elif response.next_request is not None:
            self._leading[response.next_request] = response.request.url


@dataclass(frozen=True, slots=True)
class CommandAddress:
    """A program that speaks over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class UrlAddress:
    """An address that is spoken to over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    connect_within: float = 60.0  # seconds
    quiet_for: float = 300.0  # seconds between two signs of life
    login: ServerLogin | None = field(default=None, repr=False)  # None: the headers say who asks


Address = CommandAddress | UrlAddress


@asynccontextmanager
async def transport(address: Address, wire: ServerWire) -> AsyncGenerator[Any, None]:
    """Connect, and yield the two streams; what goes over them is noted in `wire`."""
    if isinstance(address, UrlAddress):
        # as it is, for what the server answers is read along
        headers = {"Accept-Encoding": "identity", **address.headers}
        patience = httpx2.Timeout(address.connect_within, read=address.quiet_for)
        hooks: dict[str, list[Callable[..., Any]]] = {"response": [partial(watch_answer, wire)]}
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=patience, event_hooks=hooks, auth=CallsOnce(address.login)
            ) as http,
            watched(
                streamable_http_client(address.url, http_client=http), wire, reads=False
            ) as streams,
        ):
            yield streams
        return
    parameters = StdioServerParameters(
        command=address.command, args=list(address.args), env=dict(address.env)
    )
    started = stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)
    async with watched(started, wire, reads=True) as streams:
        yield streams
