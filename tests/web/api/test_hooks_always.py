"""Whatever comes to the address of a coding agent's hook, and whatever fails there: it is a no."""

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
from tests.web.api.conftest import Asks
from tests.web.api.program import Program
from tests.web.api.test_hooks import LATER, PATH, decision, use
from tests.web.requests import head

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


def denies(body: bytes | str) -> bool:
    """Whether Claude Code takes this for a no."""
    found = json.loads(body)["hookSpecificOutput"]
    assert found["hookEventName"] == "PreToolUse"
    assert found["permissionDecisionReason"]
    return bool(found["permissionDecision"] == "deny")


@pytest.mark.parametrize("path", MISTYPED)
@pytest.mark.parametrize("key", [True, False])
def test_a_mistyped_address_is_a_no(path: str, key: bool, bot: Harness, asks: Asks) -> None:
    """With a key or without."""
    program = asks() if key else Program(bot, "")
    assert decision(program.ask("POST", path, use("ls")))["permissionDecision"] == "deny"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/v1/hooks/claude-code", "/v1/hooks/other"])
def test_another_method_is_a_no(method: str, path: str, asks: Asks) -> None:
    """By any method below the address of hooks."""
    assert decision(asks().ask(method, path, use("ls")))["permissionDecision"] == "deny"


def test_what_is_no_hook_is_answered_as_ever(asks: Asks) -> None:
    """Other paths, and requests whose random ids hold such a word."""
    program = asks()
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
def test_what_cannot_be_read_is_a_no(path: str, name: str, asks: Asks) -> None:
    """The length, the framing, the headers: also what the server below refuses by itself."""
    program = asks()
    headers, parts = BODIES[name]
    headers = [("Authorization", f"Bearer {program.key}"), *headers]
    status, body = sent(program, head(headers, path=path), *parts)
    assert (status, denies(body)) == (200, True)


LINES: dict[str, bytes] = {
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


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_first_line_that_cannot_be_read_is_a_no(
    name: str, end: bytes, bot: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as it says that a hook is meant; whatever ends its lines."""
    monkeypatch.setattr(server, "HEADERS_TIMEOUT_SECONDS", 1.0)
    whole = LINES[name] + end + b"Host: bot" + end + b"Content-Length: 2" + end + end + b"{}"
    status, body = sent(Program(bot, ""), whole)
    assert (status, denies(body)) == (200, True)


@pytest.mark.parametrize("part", ["the headers", "the body"])
def test_what_does_not_come_to_its_end(
    part: str, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the headers, half of the body: after a while, no."""
    monkeypatch.setattr(server, "HEADERS_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("bot.http.api_gate.BODY_TIMEOUT_SECONDS", 0.2)
    program = asks()
    whole = head(
        [
            ("Authorization", f"Bearer {program.key}"),
            ("Content-Type", "application/json"),
            ("Content-Length", "100"),
        ],
        path="/v1/hooks/claude-code",
    )
    status, body = sent(program, whole[:-20] if part == "the headers" else whole)
    assert (status, denies(body)) == (200, True)


def sent(program: Program, *parts: bytes) -> tuple[int, bytes]:
    """Send bytes as they are; the status and the body."""
    with line_to(program.harness) as line:
        for each in parts:
            line.sendall(each)
        answer = line.makefile("rb")
        status = answer.readline().split()
        length = 0
        while (header := answer.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return int(status[1]), answer.read(length)


def line_to(harness: Harness) -> socket.socket:
    """A connection on which nothing is said yet."""
    web = harness.app.endpoints.web
    assert web is not None
    where = urlsplit(web.url)
    return socket.create_connection((str(where.hostname), where.port or 0), 30)


@pytest.fixture
def crowd(bot: Harness) -> Iterator[list[socket.socket]]:
    """Six hundred connections without a key, of which a third has begun to say something."""
    with ExitStack() as stack:
        lines = [stack.enter_context(line_to(bot)) for _ in range(600)]
        for each in lines[::3]:
            each.sendall(b"POST /v1/requests HTTP/1.1\r\nHost: bot\r\n")
        yield lines


def test_who_says_nothing_keeps_nobody_out(
    crowd: list[socket.socket], bot: Harness, asks: Asks
) -> None:
    """Programs, hooks and machines without a key are answered beside them; of those that are quiet
    the oldest are closed.
    """
    program = asks()
    assert program.ask("POST", PATH, use("beside a crowd"), **LATER)[0] == 202
    assert program.ask("GET", "/v1/openapi.json")[0] == 200
    assert decision(Program(bot, "").ask("POST", PATH, use("ls")))["permissionDecision"] == "deny"
    crowd[0].settimeout(5)
    with suppress(ConnectionResetError):
        assert crowd[0].recv(1) == b""
    assert len(crowd) > api_gate.MAX_QUIET_CONNECTIONS


def test_where_there_is_no_room_it_is_a_no(asks: Asks, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many programs as there may be are answered already; others are told when to come back."""
    program = asks()
    monkeypatch.setattr(api_gate, "reserve_place", full)
    assert decision(program.ask("POST", PATH, use("ls")))["permissionDecision"] == "deny"
    status, headers, _ = program.raw("GET", "/v1/requests/x", None, {})
    assert (status, headers["Retry-After"]) == (503, "1")


def full(_: Semaphore) -> Any:
    """There is no room."""
    raise WouldBlock


@pytest.mark.parametrize("error", [RuntimeError, OSError, RecursionError, MemoryError])
def test_a_fault_of_ours_is_a_no(
    error: type[Exception], asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even before the key is known."""
    program = asks()

    def fail(*_: Any) -> None:
        raise error("it broke")

    monkeypatch.setattr(ApiKeyChecker, "get_authenticated_key", fail)
    assert decision(program.ask("POST", PATH, use("ls")))["permissionDecision"] == "deny"


# what an app may do at a hook that is no answer


async def nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """It says nothing at all."""


async def raises(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """It fails before it says anything."""
    raise RuntimeError


async def ends(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """It is cancelled from inside."""
    raise asyncio.CancelledError


async def hangs(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """It comes to no end."""
    await asyncio.Event().wait()


async def hangs_for_good(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """It comes to no end, and is not to be cancelled at once."""
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def breaks_off(_scope: Scope, _receive: Receive, send: Send) -> None:
    """It fails after blanks."""
    await start(send, 200)
    await send({"type": "http.response.body", "body": b" ", "more_body": True})
    raise RuntimeError


async def says_blanks(_scope: Scope, _receive: Receive, send: Send) -> None:
    """It says nothing but blanks."""
    await start(send, 200)
    await send({"type": "http.response.body", "body": b" ", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def fails_amid(_scope: Scope, _receive: Receive, send: Send) -> None:
    """It fails between the head of an answer and its body."""
    await start(send, 200, [(b"content-length", b"2")])
    raise RuntimeError


def says(status: int) -> ASGIApp:
    """An app that answers with that status."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await start(send, status)
        await send({"type": "http.response.body", "body": b"no JSON"})

    return app


async def start(send: Send, status: int, headers: Any = ()) -> None:
    """Begin an answer."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


APPS = (nothing, raises, ends, hangs, hangs_for_good, breaks_off, says_blanks, fails_amid)
STATUSES = (100, 201, 202, 204, 301, 302, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 500)


@pytest.mark.parametrize("app", [*APPS, *map(says, (*STATUSES, 502, 503, 504))])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_whatever_the_app_does(
    app: ASGIApp, is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whole answer with a no is sent; also where the server ends meanwhile, and cancels it."""
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
    assert denies(body)
