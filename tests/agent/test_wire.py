"""The short way to the model's service: it posts, hears and fails as the client does."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest

from bot.agent.wire import Wire, post, wire_of
from tests.agent.test_planner import COMPLETED, REQUEST, TURNS, as_sse, recorded
from tests.http.canned_server import CLOSING, CannedServer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
NOT_COMPARED = (b"accept-encoding", b"connection", b"content-length", b"host")


def whole(body: bytes, head: bytes = HEAD) -> bytes:
    """An answer with its length."""
    return head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def in_chunks(body: bytes, size: int) -> bytes:
    """An answer in chunks that end anywhere."""
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"


def client_of(server: CannedServer, timeout: float = 10) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="sk-offline",
        base_url=f"http://{server.host}/v1",
        max_retries=0,
        timeout=timeout,
        organization="org-1",
    )


def over_the_wire(client: openai.OpenAI) -> list[object]:
    """The events of one post, the short way."""
    wire = Wire(client, 10)
    with wire.post(REQUEST) as stream:
        found = list(stream)
    wire.close()
    return found


def by_the_client(client: openai.OpenAI) -> list[object]:
    """The events of one post, by the client's own way."""
    with post(client, REQUEST) as stream:
        return list(stream)


def both(*answers: bytes) -> tuple[Any, Any, list[bytes]]:
    """What comes of the same answers on both ways, an error or events, and what was posted."""
    found: list[Any] = []
    heard: list[bytes] = []
    for way in (over_the_wire, by_the_client):
        server = CannedServer(*answers)
        with client_of(server) as client:
            try:
                found.append(way(client))
            except openai.OpenAIError as error:
                found.append(error)
        server.close()
        heard += server.heard[-1:]
    return found[0], found[1], heard


def test_the_same_request_is_posted() -> None:
    """Address, headers and body are the client's, but for those that say how they travel."""
    _, _, heard = both(whole(as_sse(COMPLETED)))
    requests = []
    for each in heard:
        head, _, body = each.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = {line.partition(b":")[0].lower(): line.partition(b":")[2] for line in lines}
        left = {name: value for name, value in headers.items() if name not in NOT_COMPARED}
        requests.append((first, left, body))
    assert requests[0] == requests[1]
    assert {b"authorization", b"openai-organization"} <= requests[0][1].keys()


@pytest.mark.parametrize("size", [7, 1_000])
@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.failed or turn.text or "raw")
def test_recorded_streams_are_heard_alike(turn: Any, size: int) -> None:
    """However a stream is cut into chunks, the events are those that the client reads."""
    sent = recorded(turn)
    mine, theirs, _ = both(in_chunks(b"".join(map(as_sse, sent)), size))
    assert mine == theirs == sent


@pytest.mark.parametrize(
    "sent",
    [
        b'data: {"a":\r\ndata: 1}\r\n\r\n',
        b': a comment\nid: 7\nretry: 10\ndata:{"b": "\xc3\xa4"}\n\n',
        b'data: {"c": 1}\n\ndata: [DONE]\n\ndata: {"d": 1}\n\n',
        b'data: {"not": "ended"}\n',
        b"",
    ],
    ids=["two lines", "other fields", "done", "no end", "nothing"],
)
def test_odd_streams_are_heard_alike(sent: bytes) -> None:
    """What the format of events allows beside one line of data means what it means there."""
    mine, theirs, _ = both(in_chunks(sent, 3) if sent else whole(sent))
    assert mine == theirs


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 422, 429, 500, 503])
@pytest.mark.parametrize("body", [b'{"error": {"message": "No.", "code": "why"}}', b"<p>no</p>"])
def test_refusals_are_the_clients_own(status: int, body: bytes) -> None:
    """A status that is no success raises the client's error with all that is in it."""
    head = b"HTTP/1.1 %d Some Reason\r\nRetry-After: 7\r\n" % status
    mine, theirs, _ = both(whole(body, head))
    assert (type(mine), str(mine), mine.code, mine.body) == (
        type(theirs),
        str(theirs),
        theirs.code,
        theirs.body,
    )
    assert mine.response.headers["retry-after"] == "7"


def test_an_error_in_the_stream_is_the_clients_own() -> None:
    """An event with an error in it raises it, with its code."""
    mine, theirs, _ = both(whole(b'data: {"error": {"message": "Too much.", "code": "x"}}\n\n'))
    assert (type(mine), str(mine), mine.code) == (type(theirs), str(theirs), theirs.code)


@pytest.mark.parametrize(
    "sent",
    [b"", b"no HTTP\r\n\r\n", HEAD + b"Content-Length: 99\r\n\r\ndata: {}\n\n"],
    ids=["none", "no HTTP", "cut"],
)
def test_a_broken_connection_is_the_clients_error(sent: bytes) -> None:
    """What breaks before or in the stream is an APIConnectionError, as from the client."""
    mine, theirs, _ = both(sent)
    assert (type(mine), str(mine)) == (type(theirs), str(theirs))
    assert isinstance(mine, openai.APIConnectionError)


def test_a_redirect_is_left_to_the_client() -> None:
    """A service that sends us elsewhere is followed there."""
    there = CannedServer(whole(as_sse(COMPLETED)), whole(as_sse(COMPLETED)))
    moved = f"HTTP/1.1 307 Moved\r\nLocation: http://{there.host}/v2/responses\r\n".encode()
    moved += CLOSING
    server = CannedServer(whole(b"", moved), whole(b"", moved))
    with client_of(server) as client:
        assert over_the_wire(client) == [COMPLETED]
    assert there.heard[0].startswith(b"POST /v2/responses ")
    server.close()
    there.close()


def test_one_connection_serves_turn_after_turn() -> None:
    """A stream that was read to its end leaves its connection to the next; one broken off not."""
    server = CannedServer(*[in_chunks(as_sse(COMPLETED), 50)] * 3)
    wire = Wire(client_of(server), 10)
    for _ in range(2):
        with wire.post(REQUEST) as stream:
            assert list(stream) == [COMPLETED]
    assert server.connections == 1
    with wire.post(REQUEST):
        pass
    assert not wire._connections._idle
    wire.close()
    server.close()


def test_silence_is_a_time_out() -> None:
    """A service that does not answer in time raises APITimeoutError."""
    done = threading.Event()

    def wait(_: socket.socket) -> None:
        done.wait(10)

    server = CannedServer(wait)
    wire = Wire(client_of(server), 0.2)
    with pytest.raises(openai.APITimeoutError), wire.post(REQUEST):
        pass
    done.set()
    wire.close()
    server.close()


def hold(head: bytes, began: threading.Event) -> Callable[[socket.socket], None]:
    """An answer that begins, and then says nothing more until the other side has had enough."""

    def answer(near: socket.socket) -> None:
        near.sendall(head)
        began.set()
        near.recv(1)

    return answer


def test_closing_breaks_a_turn_off() -> None:
    """Whoever reads when the wire is closed is told at once, and nobody posts any more."""
    began = threading.Event()
    sent = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    server = CannedServer(hold(sent, began))
    wire = Wire(client_of(server), 30)

    def close() -> None:
        began.wait(10)
        wire.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(openai.APIConnectionError), wire.post(REQUEST) as stream:
        list(stream)
    closing.join(10)
    with pytest.raises(openai.APIConnectionError), wire.post(REQUEST):
        pass
    server.close()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_is_left_to_the_client(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where the environment names a proxy for the address, there is no short way."""
    client = openai.OpenAI(api_key="sk-offline", base_url="http://127.0.0.1:9/v1")
    assert wire_of(client, 10) is not None
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert wire_of(client, 10) is None


def test_the_body_is_written_as_the_client_writes_it() -> None:
    """Letters beyond ASCII travel as they are."""
    server = CannedServer(whole(as_sse(COMPLETED)))
    wire = Wire(client_of(server), 10)
    with wire.post({"input": "Grüße"}) as stream:
        list(stream)
    assert "Grüße".encode() in server.heard[0]
    assert json.loads(server.heard[0].partition(b"\r\n\r\n")[2]) == {
        "input": "Grüße",
        "stream": True,
    }
    wire.close()
    server.close()
