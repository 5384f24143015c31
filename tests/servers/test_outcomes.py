"""What came of a call: only the server's own answer says failed, all else that was sent is unknown,
and what was given as a result is kept.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from mcp_types import HEADER_MISMATCH
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from countersign.mcp_client.connection import (
    Address,
    CommandAddress,
    ServerConnection,
    ServerNotReachedError,
    UrlAddress,
)
from countersign.mcp_client.sent_calls import (
    CallOutcome,
    FailedOutcome,
    NotSentOutcome,
    ResultOutcome,
    UnknownOutcome,
    extract_result_text,
)
from tests.servers.scripted import END, answered

SCRIPTED = Path(__file__).with_name("scripted.py")
TEXT = [{"type": "text", "text": "seven"}]


def result(**found: Any) -> list[str]:
    """A result as a line."""
    return [json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": found})]


def error(code: Any, message: Any = "it says no") -> list[str]:
    """An error as a line."""
    body = {"code": code, "message": message}
    return [json.dumps({"jsonrpc": "2.0", "id": "$ID", "error": body})]


GIVEN = {
    "fits": result(content=TEXT, structuredContent={"number": 7}),
    "misses_a_value": result(content=TEXT, structuredContent={"other": 7}),
    "has_another_type": result(content=TEXT, structuredContent={"number": "7"}),
    "has_no_values": result(content=TEXT),
    "cut": [
        '{"jsonrpc": "2.0", "id": "$ID", "result": {"content": [{"type": "text", "text": "seven", '
        '"_meta": {"half": "\\ud83d \\\\ud83d \\ud83d\\ude00"}}]}}'
    ],
}
SAID_NO = {
    "is_error": result(content=TEXT, isError=True),
    "own_words": error(-1),
    **{f"code_{-code}": error(code) for code in (-32000, -32001, -32600, -32601, -32602, -32603)},
    "sdk_words": error(-32000, "Connection closed"),
    "parse": error(-32700),
}
NOT_TOLD = {
    "no_content": result(other=1),
    "content_is_text": result(content="seven"),
    "unknown_content": result(content=[{"type": "hologram"}]),
    "result_is_text": [json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": "seven"})],
    "nothing_in_it": [json.dumps({"jsonrpc": "2.0", "id": "$ID"})],
    "error_is_text": [json.dumps({"jsonrpc": "2.0", "id": "$ID", "error": "seven"})],
    "code_is_text": error("seven"),
}
LEFT = {"ends": [END], "says_nothing": list[str]()}
TOOLS = {**GIVEN, **SAID_NO, **NOT_TOLD, **LEFT}


def write(folder: Path, **more: Any) -> None:
    """Write what the server says."""
    (folder / "answers.json").write_text(json.dumps({"tools": TOOLS, **more}))


def over_stdio(folder: Path) -> Address:
    """The server as a process."""
    return CommandAddress(sys.executable, (str(SCRIPTED), str(folder)))


@contextmanager
def over_http(folder: Path, how: str, status: int = 200) -> Iterator[Address]:
    """The server at an address, its calls answered as JSON, as events, or by this status alone."""

    async def answer(request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        lines = answered(folder, message)
        if not lines:
            return Response(status_code=202)
        calls = message["method"] == "tools/call"
        if how == "html" and calls:
            return Response("<h1>oh</h1>", status, media_type="text/html")
        if how == "events":
            body = "".join(f"event: message\r\ndata: {each}\r\n\r\n" for each in lines)
            return Response(body, media_type="text/event-stream")
        return Response(lines[0], status if calls else 200, media_type="application/json")

    app = Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
        thread.start()
        yield UrlAddress(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
        serving.should_exit = True
        thread.join(30)


def called(address: Address, *tools: str, seconds: float = 20.0) -> list[CallOutcome]:
    """What came of calls of these tools, one after the other."""

    async def work() -> list[CallOutcome]:
        connection = ServerConnection(address, open_within=20)
        try:
            return [
                await connection.call(
                    each, {}, lambda _tools: None, lambda: anyio.fail_after(seconds)
                )
                for each in tools
            ]
        finally:
            await connection.close()

    return anyio.run(work)


def calls(folder: Path) -> list[str]:
    """The calls that came to the server."""
    return (folder / "calls").read_text().split() if (folder / "calls").exists() else []


@pytest.fixture(params=["stdio", "json", "events"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """The server over each way there is."""
    write(tmp_path)
    if request.param == "stdio":
        yield over_stdio(tmp_path)
        return
    with over_http(tmp_path, request.param) as found:
        yield found


def test_every_answer_means_what_it_says(address: Address, tmp_path: Path) -> None:
    """A result is a result, whatever was promised; the server's own error is one, whatever its
    code; and no other answer says what came of the call. Each call is sent once.
    """
    names = [*GIVEN, *SAID_NO, *NOT_TOLD]
    found = dict(zip(names, called(address, *names), strict=True))
    for name in GIVEN:
        outcome = found[name]
        assert isinstance(outcome, ResultOutcome), (name, outcome)
        assert extract_result_text(outcome.result) == "seven"
        assert bool(outcome.remark) == (name != "fits")
    cut = found["cut"]
    assert isinstance(cut, ResultOutcome)
    assert cut.result.content[0].meta == {"half": "\ufffd \\ud83d \U0001f600"}
    for name in SAID_NO:
        assert isinstance(found[name], FailedOutcome), (name, found[name])
    for name in NOT_TOLD:
        outcome = found[name]
        assert isinstance(outcome, UnknownOutcome), (name, outcome)
        assert outcome.unread_answer, name
    assert calls(tmp_path) == names


def test_no_call_is_sent_again_to_a_changed_tool(tmp_path: Path) -> None:
    """A server of the newer protocol says that the tool is another one by now: the SDK would look
    at it and send the call once more, and nobody has approved a call of what is there now.
    """
    newer = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
    about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    listed = {"tools": [{"name": "fits", "inputSchema": {"type": "object"}}]}
    instead = {"server/discover": {**about, **newer}, "tools/list": {**listed, **newer}}
    write(tmp_path, tools={"fits": error(HEADER_MISMATCH)}, instead=instead)
    [outcome] = called(over_stdio(tmp_path), "fits")
    assert outcome == FailedOutcome("it says no", HEADER_MISMATCH)
    assert calls(tmp_path) == ["fits"]


@pytest.mark.parametrize("status", [200, 202, 400, 404, 429, 500, 502, 503])
def test_a_status_of_http_says_nothing_of_the_call(status: int, tmp_path: Path) -> None:
    """A page of a gateway's is no answer of the server's; a JSON-RPC error beside a status is."""
    write(tmp_path)
    with over_http(tmp_path, "html", status) as found:
        [outcome] = called(found, "fits")
    assert isinstance(outcome, UnknownOutcome), outcome
    if status >= 400:
        with over_http(tmp_path, "json", status) as found:
            [outcome] = called(found, "own_words")
        assert isinstance(outcome, FailedOutcome), outcome


def test_a_server_that_ends_or_says_nothing(tmp_path: Path) -> None:
    """Nobody knows what it did; the next call begins it anew."""
    write(tmp_path)
    ended, after = called(over_stdio(tmp_path), "ends", "fits")
    assert isinstance(ended, UnknownOutcome)
    assert isinstance(after, ResultOutcome)
    assert len((tmp_path / "starts").read_text().split()) == 2
    [silent] = called(over_stdio(tmp_path), "says_nothing", seconds=0.5)
    assert silent == UnknownOutcome("it did not answer in time", timed_out=True)


def test_one_odd_byte_ends_nothing(tmp_path: Path) -> None:
    """A log line in another encoding, where only messages belong, is passed over."""
    write(tmp_path)
    line = f'printf "\\377\\n"; exec {sys.executable} {SCRIPTED} {tmp_path}'
    [outcome] = called(CommandAddress("sh", ("-c", line)), "fits")
    assert isinstance(outcome, ResultOutcome), outcome


PLAIN = {"type": "object"}
LISTED: list[Any] = [
    {"name": "fits", "inputSchema": PLAIN},
    {"name": "no_type", "inputSchema": {}},
    {"name": 5, "inputSchema": PLAIN},
    "text",
    {"name": "twice", "inputSchema": PLAIN},
    {"name": "twice", "inputSchema": PLAIN, "description": "another"},
    {"name": "half", "inputSchema": PLAIN},
    {"name": "half"},
    {"name": "fits", "inputSchema": PLAIN},
]


@pytest.mark.parametrize("how", ["stdio", "json", "events"])
def test_tools_that_cannot_be_read_take_no_others_away(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a list the tools remain that can be read, and whose names stand for no other; which are
    left out, and why, is said in a line each, once.
    """
    write(tmp_path, instead={"tools/list": {"tools": LISTED}})

    async def listed(address: Address) -> list[str]:
        connection = ServerConnection(address, open_within=20)
        try:
            first, again = [await connection.list_current_tools() for _ in range(2)]
        finally:
            await connection.close()
        assert first == again
        return [each.name for each in first]

    with nullcontext(over_stdio(tmp_path)) if how == "stdio" else over_http(tmp_path, how) as found:
        assert anyio.run(listed, found) == ["fits"]
    lines = [each.getMessage() for each in caplog.records if each.name == "countersign.servers"]
    assert len(lines) == 4
    said = "a tool of an MCP server cannot be read and is left out"
    assert lines[0] == f"{said}: 'no_type', inputSchema.type: Field required"


def test_what_cannot_be_reached_was_not_started(tmp_path: Path) -> None:
    """It may be made again; a list of tools that does not end is no list."""
    write(tmp_path, endless=True)
    [outcome] = called(over_stdio(tmp_path), "fits")
    assert outcome == NotSentOutcome("its list of tools has more than 50 pages")
    [outcome] = called(CommandAddress("/nowhere/x"), "fits")
    assert outcome == NotSentOutcome("there is no /nowhere/x")
    assert calls(tmp_path) == []


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("tools/list", {}),
        ("tools/list", {"tools": "none"}),
        ("tools/list", {"tools": [{"name": 5, "note": "a secret"}], "nextCursor": 5}),
        ("tools/list", {"tools": [], "nextCursor": {}}),
        ("initialize", {"tools": []}),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_said_in_words(
    tmp_path: Path, method: str, answer: dict[str, Any]
) -> None:
    """Whatever the server was asked, and without what it has answered."""
    write(tmp_path, instead={method: answer})
    [outcome] = called(over_stdio(tmp_path), "fits")
    assert isinstance(outcome, NotSentOutcome)
    assert outcome.why.startswith("its answer cannot be read: ")
    assert "secret" not in outcome.why


def test_the_next_try_waits_for_longer_each_time(tmp_path: Path) -> None:
    """A server that dies whenever it is asked is not begun without end."""
    write(tmp_path)
    told: list[str] = []

    async def work() -> str:
        dying = CommandAddress(sys.executable, ("-c", "pass"))
        connection = ServerConnection(dying, open_within=20, put_off=told.append)
        with pytest.raises(ServerNotReachedError):
            await connection.list_current_tools()
        with pytest.raises(ServerNotReachedError) as again:
            await connection.list_current_tools()
        return str(again.value)

    assert "trying again in" in anyio.run(work)
    assert told == ["it ended the connection"]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
