"""An MCP server for pictures: `python warehouse.py` speaks over stdio."""

from __future__ import annotations

from typing import Literal

from mcp.server.mcpserver import MCPServer

server = MCPServer("warehouse", log_level="ERROR")


@server.tool(title="Reserve goods")
def reserve(goods: str, boxes: int, until: Literal["today", "this week"] = "today") -> str:
    """Keep boxes of something for us until then."""
    return f"{boxes} boxes of {goods} are kept until the end of {until}"


if __name__ == "__main__":
    server.run()
