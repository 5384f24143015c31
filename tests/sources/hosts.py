"""MCP hosts: with the proxy before another server, and at the bot's own address."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import ClassVar

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CallToolResult, TextContent

from tests.pages import ROOT
from tests.sources.place import PATIENCE, Place
from tests.sources.source import Asked, End, ReportedEnd, Source, Stage
from tests.stories.harness import SUPPORT

REPORTED = {
    End.DONE: "result",
    End.REJECTED: "error",
    End.EXPIRED: "error",
    End.CANCELLED: "error",
}
SERVER = """
import sys
from xmlrpc.client import ServerProxy
from mcp.server.mcpserver import MCPServer

server = MCPServer("book")


@server.tool(title="Write")
def write(text: str) -> str:
    return ServerProxy(sys.argv[1]).did(text)


server.run()
"""


class _Calling(Asked):
    """One call of a host."""

    def __init__(
        self,
        place: Place,
        text: str,
        call: Callable[..., Future[CallToolResult]],
        *,
        is_cut: bool = False,
    ) -> None:
        """`is_cut`: its connection ends with the bot."""
        super().__init__(place, text)
        self.is_cut = is_cut
        self._waits = threading.Event()  # set once the host was told that it waits
        self._call = partial(call, waits=self._waits)
        self._calling = self._call(text)

    def outcome(self) -> ReportedEnd:
        """See Asked."""
        result = self._calling.result(PATIENCE)
        said = "\n".join(e.text for e in result.content if isinstance(e, TextContent))
        return ReportedEnd("error" if result.is_error else "result", said)

    def come_back(self) -> None:
        """Make the same call again, as it was told to, or after its connection broke."""
        if self.is_cut:
            if self._calling.exception(PATIENCE) is None:
                assert "Make the same call again" in str(self._calling.result().content)
            self._waits.clear()
            self._calling = self._call(self.text)
            self.place.wait(self._waits.is_set)


class BeforeAServer(Source):
    """A host that has started `countersign mcp-proxy` before a server."""

    name = "mcp-proxy"
    claims = True
    hears = REPORTED

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ends = ExitStack()
        script = place.harness.folder / "book.py"
        script.write_text(SERVER)
        words = ["mcp-proxy", "--channel", SUPPORT, "--prefix", "book_"]
        around = {"COUNTERSIGN_URL": place.line.url, "COUNTERSIGN_API_KEY": place.key}
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "bot", *words, "--", sys.executable, str(script), place.book],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **around},
        )
        self._portal = self._ends.enter_context(start_blocking_portal())
        self._client = Client(parameters)
        self._ends.enter_context(self._portal.wrap_async_context_manager(self._client))

    def close(self) -> None:
        """See Source."""
        self._ends.close()

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _Calling(self.place, text, self._calls)

    def _calls(self, text: str, waits: threading.Event) -> Future[CallToolResult]:
        call = partial(self._client.call_tool, progress_callback=_watch_progress(waits))
        return self._portal.start_task_soon(call, "write", {"text": text})


class AtTheEndpoint(Source):
    """A host that talks to the bot itself, at /mcp, and is offered the bot's own tools."""

    name = "/mcp"
    hears = REPORTED
    says: ClassVar = {Stage.STORED: "POST /mcp tools/call"}

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ends = ExitStack()
        self._portal: BlockingPortal = self._ends.enter_context(start_blocking_portal())

    def close(self) -> None:
        """See Source."""
        self._ends.close()

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _Calling(self.place, text, self._calls, is_cut=True)

    def _calls(self, text: str, waits: threading.Event) -> Future[CallToolResult]:
        return self._portal.start_task_soon(self._call, text, waits)

    async def _call(self, text: str, waits: threading.Event) -> CallToolResult:
        headers = {"Authorization": f"Bearer {self.place.key}"}
        async with create_mcp_http_client(headers=headers) as http:
            line = streamable_http_client(f"{self.place.line.url}/mcp", http_client=http)
            async with Client(line) as client:
                return await client.call_tool(
                    "note", {"text": text}, progress_callback=_watch_progress(waits)
                )


def _watch_progress(waits: threading.Event) -> ProgressFnT:
    """Set the event when the host is told that it waits."""

    async def tell(_at: float, _of: float | None, _message: str | None) -> None:
        waits.set()

    return tell
