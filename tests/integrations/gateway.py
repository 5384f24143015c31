"""A gateway before the stand-in for the model, which accepts only what OpenAI accepts: it drops
what LiteLLM, which BeeAI uses, adds for gateways.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen


def drop_extra_fields(body: dict[str, Any]) -> dict[str, Any]:
    """The request without what LiteLLM adds for Chat Completions."""
    for message in body.get("messages", ()):
        if message["role"] == "tool":
            message.pop("name", None)
        parts = message["content"] if isinstance(message.get("content"), list) else []
        for each in (message, *parts):
            each.pop("cache_control", None)
    return body


@contextmanager
def gateway(model_url: str) -> Iterator[str]:
    """Run a gateway to this model until the block ends; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = json.dumps(drop_extra_fields(json.loads(self.rfile.read(length)))).encode()
            headers = {"Content-Type": "application/json"}
            headers["Authorization"] = self.headers["Authorization"]
            asked = Request(f"{model_url}{self.path.removeprefix('/v1')}", body, headers)
            with urlopen(asked, timeout=30) as answer:
                said, kind = answer.read(), answer.headers["Content-Type"]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
