"""A look at what a server offers now, by itself: for commands, beside a working bot."""

from __future__ import annotations

import anyio

from bot.servers.definitions import Definition
from bot.servers.file import Server
from bot.servers.session import OpenSession, ask_nobody, definitions


class UnreachableError(Exception):
    """A server cannot be reached; says why."""


def look(server: Server) -> dict[str, Definition]:
    """Return the tools that a server has now, by its own names; the connection is ended again.

    Raises UnreachableError.
    """
    return anyio.run(_look, server)


async def _look(server: Server) -> dict[str, Definition]:
    session = OpenSession(server, lambda: None, ask_nobody)
    client = await session.opened()
    if client is None:
        raise UnreachableError(session.why or "it ended at once")
    try:
        with anyio.move_on_after(server.timeout):
            return await definitions(client)
        raise UnreachableError(f"it did not answer within {server.timeout:g} seconds")
    finally:
        await session.close()
