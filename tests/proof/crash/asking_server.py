"""An MCP server that asks somebody amid a call, and outlives the bot.

It notes what it did in the world's ledger, with what the record says of the call at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import (
    AcceptedElicitation,
    Elicit,
    ElicitationResult,
    MCPServer,
    Resolve,
)
from pydantic import BaseModel

from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import Server, write_accepted_tools
from tests.servers.support import at_an_address

NAME = "desk"
TOOL = f"{NAME}_shelve"


class Fits(BaseModel):
    """What it wants to know."""

    fits: bool


def where(text: str) -> Elicit[Fits]:
    """Ask whether something fits."""
    return Elicit(f"Does the {text} fit on the shelf?", Fits)


@contextmanager
def asking_server(folder: Path, did: Callable[[str, str], None]) -> Iterator[Path]:
    """Serve, and yield the file that names it, beside what was accepted of it.

    `did` is told by which tool of the bot something was shelved, and what.
    """
    server = MCPServer(NAME, log_level="ERROR")

    @server.tool()
    def shelve(text: str, fits: Annotated[ElicitationResult[Fits], Resolve(where)]) -> str:
        """Put something on the shelf."""
        if not isinstance(fits, AcceptedElicitation):
            return f"{text} stays outside: {fits.action}"
        did(TOOL, text)
        return f"{text} is on the shelf"

    with at_an_address(server) as url:
        file = folder / "servers.toml"
        file.write_text(f'[[server]]\nname = "{NAME}"\nurl = "{url}"\n', "utf-8")
        found = fetch_tool_definitions(Server.model_validate({"name": NAME, "url": url}))
        write_accepted_tools(folder / "servers.lock.json", {NAME: found})
        yield file
