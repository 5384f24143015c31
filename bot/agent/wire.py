"""The way to the model's service without the layers of its client, where nothing asks for them.

The client is asked once what it would send, and posts everything where a proxy stands between, or
where the service sends us elsewhere; it also says what every refusal means. In between, requests
and events go over connections that stay open.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.request import getproxies

import httpx2
import openai

from bot.http.connections import Connection, Connections, HttpHead

WRITTEN_HERE = ("host", "accept-encoding", "connection", "content-length")  # by the connection


def post(client: openai.OpenAI, request: Mapping[str, Any]) -> openai.Stream[object]:
    """Open the stream of a response, whose events come as the plain JSON they are.

    `responses.create` posts the same with the same options, but transforms each item on its
    way out and builds a typed object of each event, of which a turn needs next to nothing.
    """
    return client.post(
        "/responses",
        body={**request, "stream": True},
        options={"security": {"bearer_auth": True}},
        cast_to=object,
        stream=True,
        stream_cls=openai.Stream[object],
    )


def wire_of(client: openai.OpenAI, timeout: float) -> Wire | None:
    """The way for what this client posts; None where it has to go by a proxy."""
    is_proxied = {client.base_url.scheme, "all"} & getproxies().keys()
    return None if is_proxied else Wire(client, timeout)


class Wire:
    """Posts turns over its own connections; any thread."""

    def __init__(self, client: openai.OpenAI, timeout: float) -> None:
        """`timeout`: seconds to connect, and between two signs of life."""
        self._client = client
        self._timeout = timeout
        said = _Said(httpx2.Response(200))
        with post(_over(client, said), {}):
            pass
        assert said.request is not None
        self._sample = said.request
        self._path = self._sample.url.raw_path.decode()
        named = self._sample.headers.items()
        self._headers = {name: value for name, value in named if name not in WRITTEN_HERE}
        is_tls = self._sample.url.scheme == "https"
        self._tls = httpx2.create_ssl_context() if is_tls else None
        self._connections = Connections(self._connection)
        self._lock = threading.Lock()
        self._busy: set[Connection] = set()
        self._closed = False

    def close(self) -> None:
        """Close the connections; whoever reads from one finds it broken off."""
        with self._lock:
            self._closed = True
            busy = list(self._busy)
        for each in busy:
            each.cut()
        self._connections.close()

    @contextmanager
    def post(self, request: Mapping[str, Any]) -> Iterator[Iterator[object]]:
        """Open the stream of a response as `post` does, and close it afterwards.

        Raises what the client raises.
        """
        body = json.dumps(
            {**request, "stream": True}, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode()
        with self._taken() as connection:
            with self._told():
                connection.send("POST", self._path, self._headers, body)
                head, pieces = connection.begin()
                refused = b"" if head.status == httpx2.codes.OK else b"".join(pieces)
            if 300 <= head.status < 400:
                with post(self._client, request) as stream:
                    yield stream
            elif head.status != httpx2.codes.OK:
                self._refuse(head, refused)
            else:
                yield self._events(pieces)

    @contextmanager
    def _taken(self) -> Iterator[Connection]:
        """A connection, kept afterwards where it was read to its end."""
        connection = self._connections.take()
        with self._lock:
            if self._closed:
                connection.close()
                raise openai.APIConnectionError(request=self._sample)
            self._busy.add(connection)
        try:
            yield connection
        finally:
            with self._lock:
                self._busy.discard(connection)
            self._connections.give_back(connection)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong on the way, as the client says it."""
        try:
            yield
        except TimeoutError as error:
            raise openai.APITimeoutError(request=self._sample) from error
        except (OSError, HTTPException) as error:
            raise openai.APIConnectionError(request=self._sample) from error

    def _refuse(self, head: HttpHead, body: bytes) -> None:
        """Raise what the client makes of an answer that is no stream."""
        said = httpx2.Response(head.status, headers=list(head.headers.items()), content=body)
        with post(_over(self._client, _Said(said)), {}):
            raise openai.APIConnectionError(request=self._sample)

    def _events(self, pieces: Iterator[bytes]) -> Iterator[object]:
        with self._told():
            for data in _data(pieces):
                if data.startswith(b"[DONE]"):
                    return
                found = json.loads(data.decode())
                error = found.get("error") if isinstance(found, dict) else None
                if error:
                    message = error.get("message") if isinstance(error, dict) else None
                    why = message if isinstance(message, str) and message else "an error came"
                    raise openai.APIError(why, self._sample, body=error)
                yield found

    def _connection(self) -> Connection:
        url = self._sample.url
        return Connection(url.scheme, url.netloc.decode(), self._timeout, self._tls)


class _Said(httpx2.BaseTransport):
    """Answers the client with what is there already, and keeps what it asked."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.request: httpx2.Request | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer."""
        self.request = request
        return self._response


def _over(client: openai.OpenAI, said: _Said) -> openai.OpenAI:
    """The same client, which hears what was said."""
    return client.with_options(http_client=httpx2.Client(transport=said), max_retries=0)


def _data(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event, however the lines of the stream are cut."""
    rest, data = b"", list[bytes]()
    for piece in pieces:
        *lines, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data = []
