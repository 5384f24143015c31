"""Two replicas behind a simple load balancer: each request is handled once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cluster.cluster import Cluster
from tests.stories.over_http import asked_at, free_port

pytestmark = pytest.mark.long
HOP = {"connection", "content-length", "transfer-encoding"}  # headers that belong to one connection


def pass_on(address: str, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
    """The answer of the replica at that address: status, content type, body."""
    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request("POST", "/slack/events", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read()
    finally:
        connection.close()


@contextmanager
def run_balancer(replicas: Sequence[str]) -> Iterator[str]:
    """Passes each request to the next replica in turn, or to another if that one accepts none."""
    turns = itertools.cycle(range(len(replicas)))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name: each for name, each in self.headers.items() if name.lower() not in HOP}
            first = next(turns)
            status, kind, said = int(HTTPStatus.BAD_GATEWAY), "text/plain", b""
            for address in (*replicas[first:], *replicas[:first]):
                with suppress(OSError, HTTPException):
                    status, kind, said = pass_on(address, body, headers)
                    if status != HTTPStatus.SERVICE_UNAVAILABLE:
                        break
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(said)))
            with suppress(ConnectionError):  # the client may have stopped waiting
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(5)


def test_nothing_is_missed_behind_a_load_balancer(cluster: Cluster) -> None:
    """Requests and clicks go to each in turn; one replica is ended in order midway."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with run_balancer(addresses) as url:
        asked_at(cluster.slack.world.app.manifest, url)
        secret = {"SLACK_SIGNING_SECRET": cluster.slack.world.app.signing_secret}
        for address in addresses:
            cluster.start_replica(COUNTERSIGN_HTTP=address, SLACK_APP_TOKEN="", **secret)
        words = [f"w{number}" for number in range(12)]
        cluster.ask(*words)
        cluster.approve(*words[:6])
        cluster.replicas[0].end()
        cluster.approve(*words[6:])
        cluster.check_all()
