"""Whatever comes to the address of a coding agent's hook, or fails there, is denied."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from anyio import Semaphore, WouldBlock
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.http import api, api_gate, server
from bot.http.api import HookDenialMiddleware
from bot.http.api_gate import ApiKeyChecker
from bot.http.claude_code import is_hook_request
from tests.stories.harness import Harness
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program
from tests.web.api.test_hooks import LATER, PATH, build_use, read_decision
from tests.web.requests import build_head

MISTYPED = (
    "/v1/hooks",
    "/v1/hooks/",
    "/v1/hooks/claude-code/",
    "/v1/hooks/claude_code",
    "/v1/hooks/claudecode?wait=9m",
    "/v1/hooks/claude-code/more/of/it",
    "/v1/hooks/a%0Ab",
    "/v1/hooks/%2e%2e/requests",
    "/v1//hooks/claude-code",
    "//v1/hooks/claude-code",
    "/V1/Hooks/Claude-Code",
    "/v1/hook/claude-code",
    "/v1/hoks/claude-code",
    "/v2/hooks/claude-code",
    "/hooks/claude-code",
    "/claude-code",
    "/v1/claude-code",
)


def is_denial(body: bytes | str) -> bool:
    """Whether Claude Code reads this as a denial."""
    found = json.loads(body)["hookSpecificOutput"]
    assert found["hookEventName"] == "PreToolUse"
    assert found["permissionDecisionReason"]
    return bool(found["permissionDecision"] == "deny")


@pytest.mark.parametrize("path", MISTYPED)
@pytest.mark.parametrize("key", [True, False])
def test_a_mistyped_address_of_a_hook_is_denied(
    path: str, key: bool, bot: Harness, new_program: NewProgram
) -> None:
    """With a key or without."""
    program = new_program() if key else Program(bot, "")
    assert read_decision(program.ask("POST", path, build_use("ls")))["permissionDecision"] == "deny"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/v1/hooks/claude-code", "/v1/hooks/other"])
def test_another_method_at_a_hook_is_denied(
    method: str, path: str, new_program: NewProgram
) -> None:
    """This holds for any path below that of hooks."""
    assert (
        read_decision(new_program().ask(method, path, build_use("ls")))["permissionDecision"]
        == "deny"
    )


def test_paths_that_are_no_hooks_are_answered_as_usual(new_program: NewProgram) -> None:
    """Some have random ids that contain a word like `hook`."""
    program = new_program()
    for method, path in (
        ("GET", "/v1/requests/aHooKb"),
        ("POST", "/v1/requests/aHooKb/cancel"),
        ("POST", "/v1/questions/xclaudex"),
        ("POST", "/v1/elsewhere"),
    ):
        assert program.ask(method, path)[0] in (404, 405), path
    assert not is_hook_request("GET", "/claude")
    assert is_hook_request("POST", "/w/T0123/v1/hooks/claude-code")
    assert not is_hook_request("POST", "/slack/events")


BODIES: dict[str, tuple[list[tuple[str, str]], list[bytes]]] = {
    "no length and no body": ([], []),
    "a length that is none": ([("Content-Length", "some")], [b"{}"]),
    "a negative length": ([("Content-Length", "-1")], [b"{}"]),
    "two lengths": ([("Content-Length", "2"), ("Content-Length", "3")], [b"{}"]),
    "a length and chunks": (
        [("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
        [b"2\r\n{}\r\n0\r\n\r\n"],
    ),
    "a coding that nobody knows": ([("Transfer-Encoding", "gzip")], [b"{}"]),
    "chunks that are none": ([("Transfer-Encoding", "chunked")], [b"zz\r\n{}\r\n"]),
    "too long, as it says": ([("Content-Length", str(10**9))], []),
    "headers without an end": ([(f"X-{n}", "x" * 1_000) for n in range(80)], []),
    "a header that is none": ([("X Y", "1")], []),
    "compressed": ([("Content-Length", "2"), ("Content-Encoding", "gzip")], [b"{}"]),
    "another kind": ([("Content-Length", "2"), ("Content-Type", "text/plain")], [b"{}"]),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/v1/hooks/claude-code", "/v1/hooks/no", "/v1/%68ooks/claude"])
def test_a_hook_request_that_cannot_be_read_is_denied(
    path: str, name: str, new_program: NewProgram
) -> None:
    """Length, framing or headers are wrong; some the HTTP server itself would refuse."""
    program = new_program()
    headers, parts = BODIES[name]
    headers = [("Authorization", f"Bearer {program.key}"), *headers]
    status, body = send_bytes(program, build_head(headers, path=path), *parts)
    assert (status, is_denial(body)) == (200, True)


FIRST_LINES: dict[str, bytes] = {
    "an older version": b"POST /v1/hooks/claude-code HTTP/1.0",
    "no version": b"POST /v1/hooks/claude-code",
    "a version that is none": b"POST /v1/hooks/claude-code HTTP/9.9",
    "another protocol": b"POST /v1/hooks/claude-code SPDY/1.0",
    "a method in small letters": b"post /v1/hooks/claude-code HTTP/1.1",
    "a method that is none": b"P(ST /v1/hooks/claude-code HTTP/1.1",
    "two blanks": b"POST  /v1/hooks/claude-code HTTP/1.1",
    "a tab": b"POST\t/v1/hooks/claude-code HTTP/1.1",
    "a blank in its path": b"POST /v1/hooks/claude code HTTP/1.1",
    "a whole address": b"POST http://bot.example/v1/hooks/claude-code HTTP/1.1",
    "letters of elsewhere": "POST /v1/hooks/claude-code?wait=\u00fc HTTP/1.1".encode(),
    "a fragment": b"POST /v1/hooks/claude-code#here HTTP/1.1",
    "a control": b"POST /v1/hooks/claude-code\x01 HTTP/1.1",
    "no bytes": b"POST /v1/hooks/claude-code\x00 HTTP/1.1",
    "empty lines before it": b"\r\n\r\nPOST /v1/hooks/claude-code HTTP/1.1",
    "an endless query": b"POST /v1/hooks/claude-code?" + b"x" * 70_000 + b" HTTP/1.1",
    "a long query": b"POST /v1/hooks/claude-code?" + b"x" * 20_000 + b" HTTP/1.1",
}


@pytest.mark.parametrize("name", FIRST_LINES)
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_hook_request_with_a_malformed_first_line_is_denied(
    name: str, end: bytes, bot: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can still be recognised as meant for a hook, with either kind of line end."""
    monkeypatch.setattr(server, "HEADERS_TIMEOUT_SECONDS", 1.0)
    whole = FIRST_LINES[name] + end + b"Host: bot" + end + b"Content-Length: 2" + end + end + b"{}"
    status, body = send_bytes(Program(bot, ""), whole)
    assert (status, is_denial(body)) == (200, True)


@pytest.mark.parametrize("part", ["the headers", "the body"])
def test_a_hook_request_that_does_not_end_is_denied(
    part: str, new_program: NewProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the headers or of the body is missing."""
    monkeypatch.setattr(server, "HEADERS_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("bot.http.api_gate.BODY_TIMEOUT_SECONDS", 0.2)
    program = new_program()
    whole = build_head(
        [
            ("Authorization", f"Bearer {program.key}"),
            ("Content-Type", "application/json"),
            ("Content-Length", "100"),
        ],
        path="/v1/hooks/claude-code",
    )
    status, body = send_bytes(program, whole[:-20] if part == "the headers" else whole)
    assert (status, is_denial(body)) == (200, True)


def send_bytes(program: Program, *parts: bytes) -> tuple[int, bytes]:
    """Send bytes as they are; returns status and body."""
    with connect_to(program.harness) as line:
        for each in parts:
            line.sendall(each)
        answer = line.makefile("rb")
        status = answer.readline().split()
        length = 0
        while (header := answer.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return int(status[1]), answer.read(length)


def connect_to(harness: Harness) -> socket.socket:
    """Open a connection on which nothing has been sent."""
    web = harness.app.endpoints.web
    assert web is not None
    where = urlsplit(web.url)
    return socket.create_connection((str(where.hostname), where.port or 0), 30)


@pytest.fixture
def quiet_connections(bot: Harness) -> Iterator[list[socket.socket]]:
    """Six hundred connections without a key; a third of them has begun a request."""
    with ExitStack() as stack:
        lines = [stack.enter_context(connect_to(bot)) for _ in range(600)]
        for each in lines[::3]:
            each.sendall(b"POST /v1/requests HTTP/1.1\r\nHost: bot\r\n")
        yield lines


def test_quiet_connections_do_not_keep_others_out(
    quiet_connections: list[socket.socket], bot: Harness, new_program: NewProgram
) -> None:
    """Programs and hooks are answered beside them; the oldest quiet connections are closed."""
    program = new_program()
    assert program.ask("POST", PATH, build_use("beside a crowd"), **LATER)[0] == 202
    assert program.ask("GET", "/v1/openapi.json")[0] == 200
    assert (
        read_decision(Program(bot, "").ask("POST", PATH, build_use("ls")))["permissionDecision"]
        == "deny"
    )
    quiet_connections[0].settimeout(5)
    with suppress(ConnectionResetError):
        assert quiet_connections[0].recv(1) == b""
    assert len(quiet_connections) > api_gate.MAX_QUIET_CONNECTIONS


def test_a_hook_is_denied_when_too_many_programs_are_served(
    new_program: NewProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs are told when to come back."""
    program = new_program()
    monkeypatch.setattr(api_gate, "reserve_place", fail_to_reserve)
    assert read_decision(program.ask("POST", PATH, build_use("ls")))["permissionDecision"] == "deny"
    status, headers, _ = program.raw("GET", "/v1/requests/x", None, {})
    assert (status, headers["Retry-After"]) == (503, "1")


def fail_to_reserve(_: Semaphore) -> Any:
    """Fail as if no place were free."""
    raise WouldBlock


@pytest.mark.parametrize("error", [RuntimeError, OSError, RecursionError, MemoryError])
def test_a_hook_is_denied_when_the_bot_fails(
    error: type[Exception], new_program: NewProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails while the key is checked."""
    program = new_program()

    def fail(*_: Any) -> None:
        raise error("it broke")

    monkeypatch.setattr(ApiKeyChecker, "get_authenticated_key", fail)
    assert read_decision(program.ask("POST", PATH, build_use("ls")))["permissionDecision"] == "deny"


# apps that give no proper answer at a hook


async def answer_nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Send nothing at all."""


async def fail_at_once(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Fail before anything is sent."""
    raise RuntimeError


async def cancel_itself(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Raise CancelledError from inside."""
    raise asyncio.CancelledError


async def hang(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Hang until cancelled."""
    await asyncio.Event().wait()


async def hang_and_resist_cancelling(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Hang, and ignore being cancelled twice."""
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def fail_after_blanks(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Send blanks, then fail."""
    await start_answer(send, 200)
    await send({"type": "http.response.body", "body": b" ", "more_body": True})
    raise RuntimeError


async def answer_blanks(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Send nothing but blanks."""
    await start_answer(send, 200)
    await send({"type": "http.response.body", "body": b" ", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def fail_before_the_body(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Fail between the head of an answer and its body."""
    await start_answer(send, 200, [(b"content-length", b"2")])
    raise RuntimeError


def make_app(status: int) -> ASGIApp:
    """Make an app that answers with that status."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start_answer(send, status)
        await send({"type": "http.response.body", "body": b"no JSON"})

    return app


async def start_answer(send: Send, status: int, headers: Any = ()) -> None:
    """Start an answer."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


APPS = (
    answer_nothing,
    fail_at_once,
    cancel_itself,
    hang,
    hang_and_resist_cancelling,
    fail_after_blanks,
    answer_blanks,
    fail_before_the_body,
)
STATUSES = (100, 201, 202, 204, 301, 302, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 500)


@pytest.mark.parametrize("app", [*APPS, *map(make_app, (*STATUSES, 502, 503, 504))])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_hook_is_denied_whatever_the_app_does(
    app: ASGIApp, is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly one complete answer is sent, also if the server stops and cancels it."""
    monkeypatch.setattr(api, "DEADLINE_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(api, "PROCESSING_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(api, "DISCARD_TIMEOUT_SECONDS", 0.01)
    heard: list[Message] = []

    async def send(message: Message) -> None:
        heard.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/hooks/claude-code",
        "query_string": b"wait=1s",
        "headers": [],
    }

    async def asked() -> None:
        task = asyncio.ensure_future(HookDenialMiddleware(app)(scope, receive, send))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if is_stopped:
            task.cancel()
        await asyncio.wait({task})

    asyncio.run(asked())
    first, *parts = heard
    assert (first["type"], first["status"]) == ("http.response.start", 200)
    assert [each.get("more_body", False) for each in parts] == [True] * (len(parts) - 1) + [False]
    body = b"".join(each["body"] for each in parts)
    lengths = [int(value) for name, value in first["headers"] if name == b"content-length"]
    assert lengths in ([], [len(body)])
    assert is_denial(body)
