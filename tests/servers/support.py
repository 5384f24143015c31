"""The depot as a server over stdio and over HTTP, and its tools as the bot calls them."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import Server, ServerFile, write_accepted_tools
from bot.mcp.server_tools import load_server_tools
from bot.tools import Tool
from bot.tools.arguments import load_arguments
from bot.tools.preview import AsyncPortal
from bot.tools.runner import ToolOutcome, run_tool
from storage.digest import canonical_json
from tests.servers.depot import depot
from tests.tools import context

DEPOT = Path(__file__).with_name("depot.py")


def over_stdio(folder: Path, **options: Any) -> Server:
    """The depot as a process of its own."""
    command = {"command": sys.executable, "args": (str(DEPOT), str(folder))}
    return Server.model_validate({"name": "depot", **command, **options})


@contextmanager
def over_http(folder: Path, **options: Any) -> Iterator[Server]:
    """The depot at an address, until the block ends."""
    with at_an_address(depot(folder)) as url:
        yield Server.model_validate({"name": "depot", "url": url, **options})


@contextmanager
def at_an_address(server: MCPServer) -> Iterator[str]:
    """Run any server at an address, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        serving = uvicorn.Server(config)
        thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        serving.should_exit = True
        thread.join(30)


class ServerTools:
    """The accepted tools of one server, called as the bot calls them."""

    def __init__(self, folder: Path, server: Server, accept: Server | None = None) -> None:
        """Accept all tools that there are now (those of `accept`, if given)."""
        self.folder, self.server = folder, server
        self.file = ServerFile(folder / "servers.toml", (server,))
        write_accepted_tools(
            self.file.accepted_tools_path, {server.name: fetch_tool_definitions(accept or server)}
        )
        self.portal = AsyncPortal()
        self.pool = ThreadPoolExecutor(4)
        self.read()

    def read(self) -> None:
        """Make the tools, as the bot does when it starts."""
        self.tools: dict[str, Tool[Any]] = {
            each.name: each for each in load_server_tools(self.file)
        }

    def run(self, name: str, **arguments: Any) -> ToolOutcome:
        """Call a tool."""
        tool = self.tools[f"depot_{name}"]
        args = load_arguments(tool, canonical_json(arguments))
        return run_tool(tool, args, context(), portal=self.portal, executor=self.pool)

    def read_notes(self, name: str) -> list[str]:
        """The lines that the server recorded."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def close(self) -> None:
        self.pool.shutdown()
        self.portal.close()


def wait_until(found: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until `found` returns something, and return it."""
    end = time.monotonic() + seconds
    while not (there := found()):
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.02)
    return there
