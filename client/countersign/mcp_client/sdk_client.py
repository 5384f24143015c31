"""The MCP SDK's client, with what is done otherwise here."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, ClientSession, MCPError
from mcp_types import HEADER_MISMATCH, ClientCapabilities


class SingleCallClient(Client):
    """A client that sends each call of a tool once, and takes any result of it.

    Servers are told that people answer forms, and open no address: the SDK offers both.
    """

    async def _relist_tool(self, name: str) -> None:
        """Raise an error when the SDK is about to list a tool again and to repeat a call of it.

        The SDK does so if the server says that the tool has changed; nobody has approved the
        changed tool.
        """
        raise MCPError(HEADER_MISMATCH, f"{name} has changed")

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        build_capabilities = session._build_capabilities

        def build_without_addresses(version: str) -> ClientCapabilities:
            capabilities = build_capabilities(version)
            if capabilities.elicitation is not None:
                capabilities.elicitation.url = None
            return capabilities

        session._build_capabilities = build_without_addresses  # type: ignore[method-assign] # on purpose
        session.validate_tool_result = _accept_any_result  # type: ignore[method-assign, assignment] # on purpose
        return session


async def _accept_any_result(_name: str, _result: Any) -> None:
    """Accept any tool result, in place of the SDK's check against the tool's output schema."""
