"""An app behind an HTTP server: a real Bolt app, or answers one after the other.

Every request is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from slack_bolt import App as Bolt
from slack_bolt import BoltRequest

Json = dict[str, Any]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as received."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: str

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form."""
        return dict(parse_qsl(self.body, keep_blank_values=True))

    @property
    def payload(self) -> Json:
        """The JSON of the body or of the form field `payload`."""
        found: Json = json.loads(
            self.form["payload"] if self.body.startswith("payload=") else self.body
        )
        return found


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer."""

    status: int = 200
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


Answer = Callable[[ReceivedRequest], HttpAnswer]


class HttpApp:
    """A server whose `answer` may be changed at any time.

    `requests` has all requests except the challenges.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.answer: Answer = lambda _: HttpAnswer()
        self.requests: list[ReceivedRequest] = []
        self.challenges: list[ReceivedRequest] = []
        self.gate = threading.Event()  # set at the end, so that waiting answers go on

    def manifest(self, manifest: Json, commands: tuple[str, ...] = ("/weather",)) -> Json:
        """The manifest with this server's addresses in it."""
        manifest["settings"]["event_subscriptions"]["request_url"] = f"{self.url}/slack/events"
        urls = {
            "request_url": f"{self.url}/slack/actions",
            "message_menu_options_url": f"{self.url}/slack/options",
        }
        manifest["settings"]["interactivity"] = {"is_enabled": True, **urls}
        manifest["features"]["slash_commands"] = [
            {"command": command, "description": "It.", "url": f"{self.url}/slack/commands"}
            for command in commands
        ]
        return manifest

    def take(self, got: ReceivedRequest) -> HttpAnswer:
        """Answer a request."""
        if got.body.startswith("{") and got.payload["type"] == "url_verification":
            self.challenges.append(got)
            return HttpAnswer(200, got.payload["challenge"])
        self.requests.append(got)
        return self.answer(got)


def build_bolt_answer(bolt: Bolt) -> Answer:
    """Return a function that answers requests as this Bolt app does."""

    def answer(got: ReceivedRequest) -> HttpAnswer:
        query = got.path.partition("?")[2]
        response = bolt.dispatch(BoltRequest(body=got.body, query=query, headers=dict(got.headers)))
        headers = tuple(
            (name, value) for name, values in response.headers.items() for value in values
        )
        return HttpAnswer(response.status, response.body or "", headers)

    return answer


@contextmanager
def serve_http_app() -> Iterator[HttpApp]:
    """A server on a free port."""
    apps: list[HttpApp] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = ReceivedRequest(
                self.command, self.path, headers, self.rfile.read(length).decode()
            )
            said = apps[0].take(got)
            body = said.body.encode()
            self.send_response(said.status)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            with suppress(ConnectionError):  # the client may have stopped waiting
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST = handle_one  # the names that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        apps.append(HttpApp(f"http://127.0.0.1:{server.server_port}"))
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield apps[0]
        finally:
            apps[0].gate.set()
            server.shutdown()
            thread.join(30)
