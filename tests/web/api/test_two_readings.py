"""Requests that two readers could read in two ways, or that foreign pages send, are refused."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.stories.harness import Harness
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "desk", "version": "1"},
    },
}
ACCEPTED = {"Accept": "application/json, text/event-stream"}


def exchange_bytes(bot: Harness, head: str, body: bytes) -> bytes:
    """Send bytes on a new connection and return all that is answered until it is closed."""
    web = bot.app.endpoints.web
    assert web is not None
    parts = urlsplit(web.url)
    with socket.create_connection((parts.hostname, parts.port), 10) as line:
        line.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        found = b""
        while part := line.recv(65_536):
            found += part
    return found


def post_to_mcp(program: Program, body: bytes, more: dict[str, str]) -> tuple[int, str]:
    """Post this as an MCP host; returns status and body."""
    web = program.harness.app.endpoints.web
    assert web is not None
    line = HTTPConnection(urlsplit(web.url).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {program.key}", "Content-Type": "application/json"}
    line.request("POST", "/mcp", body, {**headers, **ACCEPTED, **more})
    with line.getresponse() as answer:
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("path", ["/v1/requests", "/mcp", "/healthz", "/slack/events", "/v1/hooks"])
@pytest.mark.parametrize("length", [0, 3, 400])
def test_a_body_with_two_lengths_is_refused(path: str, length: int, bot: Harness) -> None:
    """The bytes after it are not read as a request. A coding agent's hook is denied."""
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: bot\r\n\r\n"
    found = exchange_bytes(
        bot,
        f"POST {path} HTTP/1.1\nHost: bot\nContent-Type: application/json\n"
        f"Content-Length: {length}\nTransfer-Encoding: chunked",
        b"0\r\n\r\n" + smuggled,
    )
    assert found.count(b"HTTP/1.1") == 1, found
    if path == "/v1/hooks":
        assert found.startswith(b"HTTP/1.1 200")
        assert b'"deny"' in found
    else:
        assert found.startswith(b"HTTP/1.1 400")


ORIGINS: dict[str, tuple[str, str | None, int]] = {  # Host, Origin, status
    "no browser": ("bot.example.com", None, 200),
    "this address": ("127.0.0.1:80", "http://127.0.0.1:80", 200),
    "this machine": ("localhost:80", "http://localhost:80", 200),
    "elsewhere": ("127.0.0.1:80", "https://evil.example", 403),
    "another port": ("127.0.0.1:80", "http://127.0.0.1:81", 403),
    "a name led here": ("evil.example", "http://evil.example", 403),
    "a name like this machine's": ("localhost.evil.example", "http://localhost.evil.example", 403),
    "no origin at all": ("127.0.0.1:80", "null", 403),
    "an empty one": ("127.0.0.1:80", "", 403),
    "a file": ("127.0.0.1:80", "file://127.0.0.1:80", 403),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_a_foreign_page_cannot_use_the_mcp_endpoint(name: str, new_program: NewProgram) -> None:
    """It may have a valid key."""
    host, origin, status = ORIGINS[name]
    more = {"Host": host, **({} if origin is None else {"Origin": origin})}
    assert (
        post_to_mcp(new_program(tools=("note",)), json.dumps(INITIALIZE).encode(), more)[0]
        == status
    )


def test_json_with_a_key_given_twice_is_refused(bot: Harness, new_program: NewProgram) -> None:
    """This holds at any depth: people might see another value than the one that runs."""
    program = new_program(tools=("note",))
    call: dict[str, Any] = {"name": "note", "arguments": {"text": "a first reading"}}
    whole = json.dumps({**INITIALIZE, "method": "tools/call", "params": call})
    twice = (
        whole.replace('"a first reading"', '"a first reading", "text": "two"'),
        whole.replace('"name": "note"', '"name": "put", "name": "note"'),
        whole.replace('"id": 1', '"id": 1, "id": 2'),
    )
    for each in twice:
        status, said = post_to_mcp(program, each.encode(), {})
        assert status == 400
        assert "twice" in said
    assert "a first reading" not in str(bot.person("ana").everything(bot.person("ana").dm_channel))
