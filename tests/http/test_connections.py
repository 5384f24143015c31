"""One connection to a server that says whatever a test has it say: read whole, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong

import pytest

from bot.http.connections import Connection, HttpAnswer
from tests.http.canned_server import CannedServer

JSON = b"Content-Type: application/json; charset=utf-8\r\n"


@contextmanager
def connected(*answers: bytes) -> Iterator[tuple[Connection, CannedServer]]:
    """A connection to a server that answers so."""
    server = CannedServer(*answers)
    connection = Connection("http", server.host, 10, None)
    yield connection, server
    connection.close()
    server.close()


def ask(connection: Connection, body: bytes = b"{}") -> HttpAnswer:
    connection.send("POST", "/api/auth.test", {"Content-type": "application/json"}, body)
    return connection.answer()


def test_a_request_is_written_as_http_client_writes_it() -> None:
    """The address first, then the length, then what the caller gave; the body behind it at once."""
    with connected(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (connection, server):
        ask(connection)
        assert server.heard == [
            b"POST /api/auth.test HTTP/1.1\r\n"
            b"Host: " + server.host.encode() + b"\r\n"
            b"Accept-Encoding: identity\r\n"
            b"Content-Length: 2\r\n"
            b"Content-type: application/json\r\n\r\n{}"
        ]


@pytest.mark.parametrize(
    ("answer", "body", "stays"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.1 200\r\n\r\nuntil the end", b"until the end", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b'3;x=y\r\n{"a\r\n4\r\n":1}\r\n0\r\nTrailer: 1\r\n\r\n',
            b'{"a":1}',
            True,
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7", b"7", True),
    ],
    ids=["length", "closing", "old", "until the end", "no body", "chunks", "continued"],
)
def test_an_answer_is_read_to_its_end(answer: bytes, body: bytes, stays: bool) -> None:
    """However its length is given, its body is whole, and what keeps the connection is seen."""
    with connected(answer) as (connection, _):
        assert (ask(connection).body, connection.stays) == (body, stays)


def test_answers_follow_one_another() -> None:
    """Two requests on one connection get their own answers, status and reason with them."""
    first = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 1\r\n\r\n1"
    second = b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: 1\r\n\r\n2"
    with connected(first, second) as (connection, _):
        limited, well = ask(connection), ask(connection)
    assert (limited.status, limited.reason, limited.body) == (429, "Too Many Requests", b"1")
    assert limited.message["retry-after"] == "7"
    assert (well.status, well.body) == (200, b"2")
    assert well.headers["Content-Type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionResetError),
        (b"hello\r\n\r\n", BadStatusLine),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", IncompleteRead),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}", IncompleteRead),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", IncompleteRead),
        (b"HTTP/1.1 200 OK\r\nX: " + 70_000 * b"x", LineTooLong),
        (b"HTTP/1.1 200 OK\r\n" + 101 * b"X: y\r\n" + b"\r\n", HTTPException),
    ],
    ids=["none", "no HTTP", "short", "short chunk", "no length", "long line", "many headers"],
)
def test_what_is_cut_or_no_http_is_said(answer: bytes, error: type[Exception]) -> None:
    """It raises what http.client raises, so that retry handlers and the outbox know it."""
    with connected(answer) as (connection, _), pytest.raises(error):
        ask(connection)


def test_a_header_of_two_lines_is_refused() -> None:
    """Nothing that a value holds can become a header of its own."""
    connection = Connection("http", "127.0.0.1:9", 10, None)
    with pytest.raises(ValueError, match="more than one line"):
        connection.send("POST", "/", {"Authorization": "Bearer x\r\nHost: elsewhere"}, b"")


@pytest.mark.parametrize(
    ("scheme", "host", "name"),
    [
        ("https", "slack.com", b"slack.com"),
        ("http", "slack.com:80", b"slack.com"),
        ("http", "[::1]:8080", b"[::1]:8080"),
    ],
)
def test_the_address_is_named_as_urls_name_it(scheme: str, host: str, name: bytes) -> None:
    """A port that goes without saying is left out, and an IPv6 address keeps its brackets."""
    assert Connection(scheme, host, 10, None)._host == name.decode()
