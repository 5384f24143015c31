"""A look at what a server offers now, by itself: for commands, beside a working bot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
from mcp.types import ElicitRequestParams, ElicitResult, Tool

from bot.mcp.definitions import PATIENCE, Definition, address_of
from bot.mcp.server_file import Server
from countersign.mcp_client.connection import NotReachedError, ServerConnection


class UnreachableError(Exception):
    """A server cannot be reached; says why."""


def look(server: Server) -> dict[str, Definition]:
    """Return the tools that a server has now, by its own names; the connection is ended again.

    Raises UnreachableError.
    """
    return anyio.run(_look, server)


async def _look(server: Server) -> dict[str, Definition]:
    patience = max(server.timeout, PATIENCE)
    connection = ServerConnection(
        address_of(server), open_within=patience, elicit=_decline if server.answer_within else None
    )
    try:
        return definitions(await connection.tools())
    except NotReachedError as error:
        raise UnreachableError(str(error)) from error
    finally:
        await connection.close()


async def _decline(context: Any, params: ElicitRequestParams) -> ElicitResult:
    """Answer no question: some servers offer certain tools only to clients that can be asked."""
    del context, params
    await anyio.lowlevel.checkpoint()
    return ElicitResult(action="decline")


def definitions(tools: Iterable[Tool]) -> dict[str, Definition]:
    """Return what a server says of its tools, by its own names."""
    return {each.name: _definition(each) for each in tools}


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
