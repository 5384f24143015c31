"""An MCP server for tests, made of the SDK's classes: `python depot.py FOLDER` uses stdio.

It records in FOLDER each start, each parcel and each cancelled call. A file `description` there is
the description of one of its tools.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    Image,
    MCPServer,
    Resolve,
)
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ResourceLink, TextContent, ToolAnnotations
from pydantic import BaseModel, Field


class Parcel(BaseModel):
    """A parcel to send."""

    to: str
    grams: int = 500


class Place(BaseModel):
    """Where a parcel is put."""

    shelf: Literal["upper", "lower"]
    place: int = Field(ge=1, le=40, description="counted from the door")
    note: str = ""


class Lock(BaseModel):
    """A secret, for which nobody is to be asked."""

    door_pin: str


def where(item: str) -> Elicit[Place]:
    """Ask where the item is put."""
    return Elicit(f"Where do I put {item}?", Place)


def lock() -> Elicit[Lock]:
    """Ask for a secret."""
    return Elicit("How is the door opened?", Lock)


def depot(folder: Path) -> MCPServer:
    """Return the server, which records in `folder`."""
    server = MCPServer("depot", log_level="ERROR")
    said = folder / "description"

    def note(name: str, text: str) -> None:
        with (folder / name).open("a") as file:
            file.write(f"{text}\n")

    note("starts", str(os.getpid()))

    def stock(item: str) -> str:
        return f"{len(item)} of {item}"

    def offer() -> None:
        text = said.read_text() if said.exists() else "How many there are."
        hint = ToolAnnotations(read_only_hint=True)
        server.add_tool(stock, description=text, annotations=hint)

    offer()

    @server.tool(title="Send a parcel")
    def send(parcel: Parcel, express: bool = False) -> dict[str, Any]:
        """Send something to somebody."""
        note("parcels", f"{parcel.to} {parcel.grams} {express}")
        return {"sent": parcel.to, "number": 7}

    @server.tool()
    async def rewrite(text: str, ctx: Context[Any, Any]) -> str:
        """Say something else of a tool."""
        said.write_text(text)
        server.remove_tool("stock")
        offer()
        await ctx.notify_tools_changed()
        return "rewritten"

    add_plain(server, note)
    return server


def add_plain(server: MCPServer, note: Callable[[str, str], None]) -> None:
    """Add tools that fail, wait, show, ask and end."""

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ToolError("no van today")

    @server.tool()
    async def wait(seconds: float) -> str:
        """Wait."""
        try:
            with anyio.move_on_after(seconds):
                await anyio.Event().wait()
        except anyio.get_cancelled_exc_class():
            note("cancelled", "wait")
            raise
        return "waited"

    @server.tool(structured_output=False)
    def show() -> list[Any]:
        """Show a picture and where more is."""
        link = ResourceLink(uri="https://depot.example/7", name="parcel 7")
        return [TextContent(text="A picture:"), Image(data=b"x" * 3000, format="png"), link]

    @server.tool()
    async def put(
        item: str, at: Annotated[ElicitationResult[Place], Resolve(where)], ctx: Context[Any, Any]
    ) -> str:
        """Put something somewhere."""
        if not isinstance(at, AcceptedElicitation):
            return f"{item} stays outside: {at.action}"
        await ctx.report_progress(1, 3, f"carrying {item}")
        note("put", f"{item} {at.data.shelf} {at.data.place} {at.data.note}")
        return f"{item} is on the {at.data.shelf} shelf"

    @server.tool()
    def unlock(key: Annotated[ElicitationResult[Lock], Resolve(lock)]) -> str:
        """Open the door."""
        return f"the door: {key.action}"

    @server.tool()
    def environment() -> list[str]:
        """Say which variables there are."""
        return sorted(os.environ)

    @server.tool()
    def end() -> str:
        """End the server in the midst of the call."""
        os._exit(3)


if __name__ == "__main__":
    depot(Path(sys.argv[1])).run()
