"""The MCP SDK's client and its HTTP client, with what is done otherwise here."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client, ClientSession, MCPError
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, ClientCapabilities


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


_OPENING_METHODS = ("initialize", "server/discover")


class SeparateRequestsHttpClient(httpx2.AsyncClient):
    """An HTTP client of which each request is answered, and a failed one ends no other one.

    The SDK ends a connection to a server, with all calls that are under way, at the first request
    that fails. So here such a request is answered by an error, unless it opens the connection. And
    the SDK waits on after an error without an id, which a server sends if it could not read one.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and return the response, of JSON with its body."""
        await request.aread()  # after a redirect, its content is not read yet
        try:
            response = await super().send(request, **options)
            if response.headers.get("content-type", "").lower().startswith("application/json"):
                await response.aread()
                response = _fill_in_error_id(request, response)
        except httpx2.TransportError as error:
            answer = _build_error_answer(request, error)
            if answer is None:
                raise
            return answer
        return response


def _fill_in_error_id(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return a response of JSON; an error without an id in it gets that of the request."""
    try:
        answer, message = response.json(), json.loads(request.content)
    except (ValueError, RecursionError):
        return response
    has_id = not isinstance(answer, dict) or answer.get("id") is not None
    if has_id or "error" not in answer or "id" not in message:
        return response
    body = {**answer, "id": message["id"]}
    return httpx2.Response(response.status_code, json=body, request=request)


def _build_error_answer(request: httpx2.Request, error: Exception) -> httpx2.Response | None:
    """Return the answer to a message that failed; None if it was to open the connection."""
    message = json.loads(request.content) if request.method == "POST" else {}
    method = message.get("method")
    if request.method != "POST" or method in _OPENING_METHODS:
        return None
    if method is None or "id" not in message:  # an answer or a notification
        return httpx2.Response(202, request=request)
    why = " ".join(f"{type(error).__name__} {error}".split())
    body = {
        "jsonrpc": "2.0",
        "id": message["id"],
        "error": {"code": INTERNAL_ERROR, "message": why},
    }
    return httpx2.Response(200, json=body, request=request)
