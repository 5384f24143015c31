"""An MCP host that has started the proxy, and a server behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from tests.client_keys import make_key
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words

ROOT = Path(__file__).parents[2]
SERVER = """
import os
import sys
from pathlib import Path
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

book = Path(sys.argv[1])
server = MCPServer("book")


@server.tool(title="Add a line")
async def add_line(text: str, ctx: Context, times: int = 1) -> str:
    await ctx.report_progress(1, 2, "dips the pen")
    if text == "boom":
        raise ValueError("the pen is dry")
    with book.open("a") as file:
        file.write(f"{text}\\n" * times)
    return f"added {text}"


def repaint(shed: str) -> str:
    with book.open("a") as file:
        file.write(f"{shed} is painted\\n")
    return "painted"


server.add_tool(repaint, title="Repaint", description="With a brush.")


for name in ("shed.open", "shed_open"):
    server.add_tool(repaint, name=name, title="Open")


@server.tool(title="Say it otherwise")
def reword(words: str) -> str:
    server.remove_tool("repaint")
    server.add_tool(repaint, title="Repaint", description=words)
    return "reworded"


@server.tool(title="Leave")
def leave(why: str) -> str:
    os._exit(3)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count_lines() -> int:
    return len(book.read_text().splitlines()) if book.exists() else 0


server.run()
"""


@dataclass
class Host:
    """An MCP host, made of the SDK's classes, that has started the proxy."""

    harness: Harness
    portal: BlockingPortal
    client: Client
    book: Path
    parameters: StdioServerParameters
    progress: list[str] = field(default_factory=list)

    @contextmanager
    def start_another(self) -> Iterator[Host]:
        """Run a second host with the same proxy command, until the block ends."""
        client = Client(self.parameters)
        with self.portal.wrap_async_context_manager(client):
            yield replace(self, client=client, progress=[])

    def start_call(self, tool: str, **arguments: Any) -> Future[CallToolResult]:
        """Start a call of a tool; its progress messages are kept."""

        async def tell(_at: float, _of: float | None, message: str | None) -> None:
            self.progress.append(message or "")

        call = partial(self.client.call_tool, tool, arguments, progress_callback=tell)
        return self.portal.start_task_soon(call)

    def wait_for_card(self, text: str, having: str = "approve") -> dict[str, Any]:
        """The card with this text that Ana sees, once it has that button."""

        def look() -> dict[str, Any] | None:
            seen = self.harness.person("ana").everything(SUPPORT)
            found = (m for m in seen if text in words(m) and having in action_ids(m))
            return next(found, None)

        found: dict[str, Any] = self.harness.slack.wait(look, 20)
        return found

    def approve(self, text: str) -> None:
        """Have Ana approve the card with this text."""
        card = self.wait_for_card(text)
        self.harness.person("ana").click(SUPPORT, card["ts"], "approve")

    def read_book(self) -> list[str]:
        """The lines that the server wrote into the book."""
        return self.book.read_text().splitlines() if self.book.exists() else []


@contextmanager
def run_host(
    harness: Harness,
    name: str,
    server: list[str],
    book: Path,
    mode: str,
    *options: str,
    **more: str,
) -> Iterator[Host]:
    """Run a host whose proxy stands before this server, with a key of this name.

    `more` is added to the proxy's environment.
    """
    key = make_key(harness.app.core.store.path, name, "@ben", ["*"]).key
    web = harness.app.endpoints.web
    assert web is not None
    where = ["--channel", "#support", "--prefix", "shop_"]
    command = ["-m", "bot", "mcp-proxy", *where, *options, "--", *server]
    environment = {
        "COUNTERSIGN_URL": web.url,
        "COUNTERSIGN_API_KEY": key,
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        **more,
    }
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    with start_blocking_portal() as portal:
        client = Client(parameters, mode=mode)
        with portal.wrap_async_context_manager(client):
            yield Host(harness, portal, client, book, parameters)


def get_text(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))
