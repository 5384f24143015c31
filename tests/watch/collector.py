"""A collector of traces: accepts OTLP over HTTP and reads its protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collected:
    """The spans that have arrived; for use from any thread."""

    def __init__(self) -> None:
        self.url = ""
        self.services: set[str] = set()
        self.raw = b""
        self._spans: list[Span] = []
        self._arrived = threading.Condition()

    def take(self, body: bytes) -> None:
        """Keep one request's spans."""
        request = ExportTraceServiceRequest.FromString(body)
        with self._arrived:
            self.raw += body
            for resource in request.resource_spans:
                told = {each.key: each.value.string_value for each in resource.resource.attributes}
                self.services.add(told["service.name"])
                for scope in resource.scope_spans:
                    self._spans += scope.spans
            self._arrived.notify_all()

    def spans(self, trace: int, until: str) -> list[Span]:
        """The spans of a trace, once one of that name is among them."""

        def found() -> list[Span]:
            wanted = trace.to_bytes(16)
            return [each for each in self._spans if each.trace_id == wanted]

        with self._arrived:
            self._arrived.wait_for(lambda: until in {each.name for each in found()}, 15)
            return found()


@contextmanager
def collector() -> Iterator[Collected]:
    """Run a collector until the block ends."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        """Accepts posts to /v1/traces."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collected.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
