"""An MCP server that asks somebody during a call, and outlives the bot.

It notes what it did in the world's ledger, with what the record says about the call then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, MCPServer, Resolve
from pydantic import BaseModel

from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import Server, write_accepted_tools
from tests.servers.support import at_an_address

NAME = "desk"
TOOL = f"{NAME}_shelve"


class FitAnswer(BaseModel):
    """The answer it asks for."""

    fits: bool


def ask_fit(text: str) -> Elicit[FitAnswer]:
    """Ask whether something fits."""
    return Elicit(f"Does the {text} fit on the shelf?", FitAnswer)


@contextmanager
def serve_asking_server(folder: Path, did: Callable[[str, str], None]) -> Iterator[Path]:
    """Serve, and yield the file that names it, beside its accepted tools.

    `did` is called with the bot's name of the tool and what was shelved.
    """
    server = MCPServer(NAME, log_level="ERROR")

    @server.tool()
    def shelve(text: str, fits: Annotated[ElicitationResult[FitAnswer], Resolve(ask_fit)]) -> str:
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
