"""Where a server is: a command to be started, or an address; and how it is spoken to there."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from countersign.mcp_client.once import CallsOnce
from countersign.mcp_client.wire import ServerWire, watch_answer, watched

if TYPE_CHECKING:
    from countersign.mcp_client.login import ServerLogin


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
