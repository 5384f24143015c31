"""Outcomes of calls: only the server's own error means failed, any other trouble after sending is
unknown, and a result is kept.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from anyio import to_thread
from mcp_types import HEADER_MISMATCH, Tool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from countersign.mcp_client import connection
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
from countersign.mcp_proxy.proxy import build_action
from tests.servers.scripted import END, WAIT, answer_message
from tests.servers.support import wait_until

SCRIPTED = Path(__file__).with_name("scripted.py")
TEXT = [{"type": "text", "text": "seven"}]


def build_result(**found: Any) -> list[str]:
    """A result as a line."""
    return [json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": found})]


def build_error(code: Any, message: Any = "it says no") -> list[str]:
    """An error as a line."""
    body = {"code": code, "message": message}
    return [json.dumps({"jsonrpc": "2.0", "id": "$ID", "error": body})]


RESULTS = {
    "fits": build_result(content=TEXT, structuredContent={"number": 7}),
    "misses_a_value": build_result(content=TEXT, structuredContent={"other": 7}),
    "has_another_type": build_result(content=TEXT, structuredContent={"number": "7"}),
    "has_no_values": build_result(content=TEXT),
    "has_a_list": build_result(content=TEXT, structuredContent=[7]),
    "is_large": build_result(
        content=[*TEXT, {"type": "image", "mimeType": "image/png", "data": "A" * 1_500_000}]
    ),
    "cut": [
        '{"jsonrpc": "2.0", "id": "$ID", "result": {"content": [{"type": "text", "text": "seven", '
        '"_meta": {"half": "\\ud83d \\\\ud83d \\ud83d\\ude00"}}]}}'
    ],
}
INCOMPLETE = {
    "values_alone": build_result(structuredContent={"number": 7}),
    "null_content": build_result(content=None, structuredContent={"number": 7}),
    "null_error": build_result(content=TEXT, structuredContent={"number": 7}, isError=None),
}
ERRORS = {
    "is_error": build_result(content=TEXT, isError=True),
    "is_error_alone": build_result(isError=True),
    "own_words": build_error(-1),
    **{
        f"code_{-code}": build_error(code)
        for code in (-32000, -32001, -32600, -32601, -32602, -32603)
    },
    "sdk_words": build_error(-32000, "Connection closed"),
    "parse": build_error(-32700),
}
UNCLEAR = {
    "no_content": build_result(other=1),
    "content_is_text": build_result(content="seven"),
    "unknown_content": build_result(content=[{"type": "hologram"}]),
    "result_is_text": [json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": "seven"})],
    "nothing_in_it": [json.dumps({"jsonrpc": "2.0", "id": "$ID"})],
    "error_is_text": [json.dumps({"jsonrpc": "2.0", "id": "$ID", "error": "seven"})],
    "code_is_text": build_error("seven"),
}
LEFT = {
    "ends": [END],
    "says_nothing": list[str](),
    "works": [WAIT, *build_result(content=TEXT)],
}
TOOLS = {**RESULTS, **INCOMPLETE, **ERRORS, **UNCLEAR, **LEFT}


def write_script(folder: Path, **more: Any) -> None:
    """Write the server's answers."""
    (folder / "answers.json").write_text(json.dumps({"tools": TOOLS, **more}))


def over_stdio(folder: Path) -> Address:
    """The server as a process."""
    return CommandAddress(sys.executable, (str(SCRIPTED), str(folder)))


@contextmanager
def over_http(folder: Path, how: str, status: int = 200) -> Iterator[Address]:
    """The server at an address; calls are answered as JSON, as events, or by this status alone.

    "packed" answers are compressed, though the client asks for others; "mispacked" ones say so.
    """

    async def answer(request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        lines = answer_message(folder, message)
        if not lines:
            return Response(status_code=202)
        is_call = message["method"] == "tools/call"
        if how == "html" and is_call:
            return Response("<h1>oh</h1>", status, media_type="text/html")
        says_packed = "packed" in how and is_call
        headers = {"Content-Encoding": "gzip"} if says_packed else None
        pack = gzip.compress if says_packed and how.startswith("packed") else bytes
        if how.endswith("events"):
            body = "".join(f"event: message\r\ndata: {each}\r\n\r\n" for each in lines).encode()
            return Response(pack(body), headers=headers, media_type="text/event-stream")
        answered, body = status if is_call else 200, pack(lines[0].encode())
        return Response(body, answered, headers, media_type="application/json")

    app = Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
        thread.start()
        yield UrlAddress(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
        serving.should_exit = True
        thread.join(30)


def call_tools(address: Address, *tools: str, seconds: float = 20.0) -> list[CallOutcome]:
    """The outcomes of calls of these tools, one after the other."""

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


def read_calls(folder: Path) -> list[str]:
    """The calls that reached the server."""
    return (folder / "calls").read_text().split() if (folder / "calls").exists() else []


@pytest.fixture(params=["stdio", "json", "events", "packed json", "packed events"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """The server, over each transport."""
    write_script(tmp_path)
    if request.param == "stdio":
        yield over_stdio(tmp_path)
        return
    with over_http(tmp_path, request.param) as found:
        yield found


def test_each_kind_of_answer_has_its_outcome(address: Address, tmp_path: Path) -> None:
    """A result is success and the server's own error a failure; no other answer tells.

    Each call is sent once.
    """
    names = [*RESULTS, *INCOMPLETE, *ERRORS, *UNCLEAR]
    found = dict(zip(names, call_tools(address, *names), strict=True))
    for name in RESULTS:
        outcome = found[name]
        assert isinstance(outcome, ResultOutcome), (name, outcome)
        assert extract_result_text(outcome.result) == "seven"
        assert bool(outcome.remark) == (name != "fits")
    for name in INCOMPLETE:
        outcome = found[name]
        assert isinstance(outcome, ResultOutcome), (name, outcome)
        assert outcome.result.structured_content == {"number": 7}
    listed = found["has_a_list"]
    assert isinstance(listed, ResultOutcome)
    assert listed.result.structured_content == {"result": [7]}
    cut = found["cut"]
    assert isinstance(cut, ResultOutcome)
    assert cut.result.content[0].meta == {"half": "\ufffd \\ud83d \U0001f600"}
    for name in ERRORS:
        assert isinstance(found[name], FailedOutcome), (name, found[name])
    for name in UNCLEAR:
        outcome = found[name]
        assert isinstance(outcome, UnknownOutcome), (name, outcome)
        assert outcome.unread_answer, name
    assert read_calls(tmp_path) == names


def test_no_call_is_sent_again_to_a_changed_tool(tmp_path: Path) -> None:
    """A server of the newer protocol says that the tool has changed.

    The SDK would look at it and send the call again, but nobody approved a call of the new tool.
    """
    newer = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
    about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    listed = {"tools": [{"name": "fits", "inputSchema": {"type": "object"}}]}
    instead = {"server/discover": {**about, **newer}, "tools/list": {**listed, **newer}}
    write_script(tmp_path, tools={"fits": build_error(HEADER_MISMATCH)}, instead=instead)
    [outcome] = call_tools(over_stdio(tmp_path), "fits")
    assert outcome == FailedOutcome("it says no", HEADER_MISMATCH)
    assert read_calls(tmp_path) == ["fits"]


@pytest.mark.parametrize("status", [200, 202, 400, 404, 429, 500, 502, 503])
def test_an_http_status_alone_leaves_a_call_unknown(status: int, tmp_path: Path) -> None:
    """A gateway's page is no answer of the server; a JSON-RPC error with that status is."""
    write_script(tmp_path)
    with over_http(tmp_path, "html", status) as found:
        [outcome] = call_tools(found, "fits")
    assert isinstance(outcome, UnknownOutcome), outcome
    if status >= 400:
        with over_http(tmp_path, "json", status) as found:
            [outcome] = call_tools(found, "own_words")
        assert isinstance(outcome, FailedOutcome), outcome


def test_an_answer_that_cannot_be_unpacked_leaves_a_call_unknown(tmp_path: Path) -> None:
    """The reason is told, and the connection goes on."""
    write_script(tmp_path)
    with over_http(tmp_path, "mispacked json") as found:
        outcomes = call_tools(found, "fits", "own_words")
    for each in outcomes:
        assert isinstance(each, UnknownOutcome), each
        assert "DecodingError" in each.why


@pytest.mark.parametrize("how", ["json", "events"])
def test_an_error_without_an_id_answers_its_http_request(how: str, tmp_path: Path) -> None:
    """As of servers that could not read the id. The call is not waited for any longer."""
    nameless = [each.replace('"$ID"', "null") for each in build_error(-32600)]
    write_script(tmp_path, tools={"nameless": nameless})
    with over_http(tmp_path, how) as found:
        assert call_tools(found, "nameless") == [FailedOutcome("it says no", -32600)]


def test_a_call_of_a_server_that_ends_or_hangs_is_unknown(tmp_path: Path) -> None:
    """The next call starts the server again."""
    write_script(tmp_path)
    ended, after = call_tools(over_stdio(tmp_path), "ends", "fits")
    assert isinstance(ended, UnknownOutcome)
    assert isinstance(after, ResultOutcome)
    assert len((tmp_path / "starts").read_text().split()) == 2
    [silent] = call_tools(over_stdio(tmp_path), "says_nothing", seconds=0.5)
    assert silent == UnknownOutcome("it did not answer in time", timed_out=True)


def test_a_call_goes_on_while_its_server_lists_no_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many servers do nothing else during a call. Another call is not made meanwhile."""
    write_script(tmp_path)
    os.mkfifo(tmp_path / "go")
    monkeypatch.setattr(connection, "LIST_TIMEOUT_SECONDS", 0.3)

    async def work() -> list[CallOutcome]:
        outcomes: list[CallOutcome] = []
        server = ServerConnection(over_stdio(tmp_path), open_within=20)

        async def call(tool: str) -> None:
            within = partial(anyio.fail_after, 20)
            outcomes.append(await server.call(tool, {}, lambda _tools: None, within))

        async with anyio.create_task_group() as both:
            both.start_soon(call, "works")
            await to_thread.run_sync(wait_until, partial(read_calls, tmp_path))
            await call("fits")
            (tmp_path / "go").write_text("on")
        await call("fits")
        await server.close()
        return outcomes

    other, long, afterwards = anyio.run(work)
    assert other == NotSentOutcome("it did not list its tools within 0.3 seconds")
    assert isinstance(long, ResultOutcome), long
    assert isinstance(afterwards, ResultOutcome), afterwards
    assert read_calls(tmp_path) == ["works", "fits"]
    assert len((tmp_path / "starts").read_text().split()) == 1


def test_a_line_that_is_no_message_is_ignored(tmp_path: Path) -> None:
    """Such as a log line in another encoding among the messages."""
    write_script(tmp_path)
    line = f'printf "\\377\\n"; exec {sys.executable} {SCRIPTED} {tmp_path}'
    [outcome] = call_tools(CommandAddress("sh", ("-c", line)), "fits")
    assert isinstance(outcome, ResultOutcome), outcome


PLAIN = {"type": "object"}
LISTED: list[Any] = [
    {"name": "fits", "inputSchema": PLAIN, "execution": {"taskSupport": "optional"}},
    {"name": "no_type", "inputSchema": {}},
    {"name": 5, "inputSchema": PLAIN},
    "text",
    {"name": "twice", "inputSchema": PLAIN},
    {"name": "twice", "inputSchema": PLAIN, "description": "another"},
    {"name": "half", "inputSchema": PLAIN},
    {"name": "half"},
    {"name": "task", "inputSchema": PLAIN, "execution": {"taskSupport": "required"}},
    {"name": "fits", "inputSchema": PLAIN, "execution": {"taskSupport": "optional"}},
]


def list_tools(address: Address) -> list[Tool]:
    """The tools of a server, listed twice."""

    async def work() -> list[Tool]:
        connection = ServerConnection(address, open_within=20)
        try:
            first, again = [await connection.list_current_tools() for _ in range(2)]
        finally:
            await connection.close()
        assert first == again
        return first

    return anyio.run(work)


@pytest.mark.parametrize("how", ["stdio", "json", "events"])
def test_unusable_tools_are_left_out_of_the_list(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tools that cannot be read or called, or share a name, are left out; the log names them."""
    write_script(tmp_path, instead={"tools/list": {"tools": LISTED}})
    with nullcontext(over_stdio(tmp_path)) if how == "stdio" else over_http(tmp_path, how) as found:
        assert [each.name for each in list_tools(found)] == ["fits"]
    lines = [each.getMessage() for each in caplog.records if each.name == "countersign.servers"]
    assert len(lines) == 5
    said = "a tool of an MCP server cannot be used and is left out"
    assert lines[0] == f"{said}: 'no_type', inputSchema.type: Field required"
    assert lines[-1] == f"{said}: 'task', it runs only as a task, and tasks are not supported"


def test_a_keyword_of_a_schema_that_is_null_counts_as_left_out(tmp_path: Path) -> None:
    """As many servers write one that they do not use; a null that is a value stays."""
    text = {"type": "string", "default": None, "enum": ["a", None]}
    sent = {
        "type": "object",
        "properties": {"text": {**text, "description": None}, "more": {**PLAIN, "required": None}},
        "required": None,
        "$defs": {"none": {"type": "object", "properties": None}},
    }
    listed = {"tools": [{"name": "fits", "inputSchema": sent}]}
    write_script(tmp_path, instead={"tools/list": listed})
    [tool] = list_tools(over_stdio(tmp_path))
    assert tool.input_schema == {
        "type": "object",
        "properties": {"text": text, "more": PLAIN},
        "$defs": {"none": PLAIN},
    }
    assert build_action(tool, "", "", trusted=False).schema == tool.input_schema


@pytest.mark.parametrize("cursor", ["", "on"])
def test_a_cursor_that_is_returned_again_ends_the_list(cursor: str, tmp_path: Path) -> None:
    """As of servers that name a next page whether or not there is one."""
    listed = {"tools": [{"name": "fits", "inputSchema": PLAIN}], "nextCursor": cursor}
    write_script(tmp_path, instead={"tools/list": listed})
    [outcome] = call_tools(over_stdio(tmp_path), "fits")
    assert isinstance(outcome, ResultOutcome), outcome


def test_a_call_of_an_unreachable_server_was_not_sent(tmp_path: Path) -> None:
    """So the call may be made again. An endless list of tools counts as not reached."""
    write_script(tmp_path, endless=True)
    [outcome] = call_tools(over_stdio(tmp_path), "fits")
    assert outcome == NotSentOutcome("its list of tools has more than 50 pages")
    [outcome] = call_tools(CommandAddress("/nowhere/x"), "fits")
    assert outcome == NotSentOutcome("there is no /nowhere/x")
    assert read_calls(tmp_path) == []


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
def test_an_answer_that_cannot_be_read_is_reported_in_words(
    tmp_path: Path, method: str, answer: dict[str, Any]
) -> None:
    """Without the server's own text."""
    write_script(tmp_path, instead={method: answer})
    [outcome] = call_tools(over_stdio(tmp_path), "fits")
    assert isinstance(outcome, NotSentOutcome)
    assert outcome.why.startswith("its answer cannot be read: ")
    assert "secret" not in outcome.why


def test_a_server_that_ends_at_a_newer_request_is_started_without_it(tmp_path: Path) -> None:
    """As some servers of the older protocol do when they are asked anything before `initialize`."""
    write_script(tmp_path, ends_at=["server/discover"])
    outcomes = call_tools(over_stdio(tmp_path), "fits", "fits")
    assert [type(each) for each in outcomes] == [ResultOutcome, ResultOutcome]
    assert len((tmp_path / "starts").read_text().split()) == 2


def test_a_failed_connection_delays_the_next_try(tmp_path: Path) -> None:
    """So a server that ends whenever it is asked is not started without end."""
    write_script(tmp_path)
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
