"""Requests as Slack signs them, and as others might."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from slack_sandbox.delivery.signing import signed
from slack_sandbox.workspace.people import TEAM

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
NUMBERS = itertools.count(1)
Headers = Iterable[tuple[str, str]]


def build_event(text: str, **more: Any) -> bytes:
    """Build a new event that a channel has been renamed to this text."""
    key = f"Ev{next(NUMBERS):08}"
    body = {
        "type": "event_callback",
        "team_id": TEAM,
        "api_app_id": "A0COUNTER",
        "event_id": key,
        "event": {"type": "channel_rename", "channel": {"id": "C0SUPPORT", "name": text}},
        "authorizations": [{"team_id": TEAM, "user_id": "UBOT00001", "is_bot": True}],
        **more,
    }
    return json.dumps(body).encode()


def encode_form(payload: dict[str, Any]) -> bytes:
    """Encode an interaction as Slack sends it."""
    return urlencode({"payload": json.dumps(payload)}).encode()


@dataclass(frozen=True)
class Sender:
    """Somebody who sends requests to a bot at that address and knows this secret."""

    url: str
    secret: str
    now: int  # Unix seconds, by the clock of the bot

    def headers(self, body: bytes, kind: str = JSON, age: int = 0) -> dict[str, str]:
        """Build Slack's headers for this body, signed `age` seconds ago."""
        return {"Content-Type": kind, **signed(self.secret, self.now - age, body)}

    def post(self, body: bytes, headers: dict[str, str] | None = None, **more: str) -> int:
        """Post a body, signed unless there are headers; returns the status."""
        return self.ask("POST", "/slack/events", body, (headers or self.headers(body)) | more)[0]

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Send a request; returns status and text of the answer."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def raw(self, *parts: bytes, path: str = "/slack/events") -> int:
        """Send bytes as they are, and nothing after them; returns the status, or 0 for none."""
        host = urlsplit(self.url)
        with socket.create_connection((host.hostname, host.port or 0), timeout=10) as line:
            for each in parts:
                line.sendall(each)
            answer = line.makefile("rb").readline().split()
        return int(answer[1]) if answer else 0


def build_head(headers: Headers, method: str = "POST", path: str = "/slack/events") -> bytes:
    """Build the head of a request, with these headers in this order."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: bot",
        *(f"{name}: {each}" for name, each in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
