"""A program that asks over HTTP, written without a client library."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.stories.harness import Harness
from tests.stories.messages import action_ids, words

SUPPORT = "C0SUPPORT"
ACTION = {
    "name": "deploy",
    "title": "Deploy",
    "effect": "Deploy {version} to {env}",
    "does": "write",
    "schema": {
        "type": "object",
        "properties": {"version": {"type": "string"}, "env": {"type": "string"}},
        "required": ["version", "env"],
        "additionalProperties": False,
    },
}
ME = "claimant-0123456789"


@dataclass(frozen=True)
class Program:
    """A program with its key."""

    harness: Harness
    key: str
    name: str = ""

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Send a request; returns status and JSON of the answer."""
        status, _, said = self.raw(method, path, body, headers)
        return status, said

    def raw(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, dict[str, Any]]:
        """Send a request; returns the headers of the answer as well. `body` may be bytes."""
        web = self.harness.app.endpoints.web
        assert web is not None
        line = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=75)
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent |= {"Content-Type": "application/json"} if data is not None else {}
        try:
            line.request(method, path, data, sent | headers)
            answer = line.getresponse()
            return answer.status, answer.headers, json.loads(answer.read() or b"{}")
        finally:
            line.close()

    def note(self, text: str, **more: Any) -> dict[str, Any]:
        """Ask for a note in #support; returns the request."""
        body = {"tool": "note", "arguments": {"text": text}, "channel": "#support", **more}
        status, said = self.ask("POST", "/v1/requests", body)
        assert status == 201, said
        return said

    def deploy(self, version: str, **more: Any) -> dict[str, Any]:
        """Ask in #support for a deployment that the program does itself; returns the request."""
        given = {"version": version, "env": "prod"}
        body = {"action": ACTION, "arguments": given, "channel": "#support", **more}
        status, said = self.ask("POST", "/v1/requests", body)
        assert status == 201, said
        return said

    def look(self, request: dict[str, Any], wait: int = 0) -> dict[str, Any]:
        """Get the request as it is now."""
        status, said = self.ask("GET", f"/v1/requests/{request['id']}?wait={wait}")
        assert status == 200, said
        return said

    def claim(
        self, request: dict[str, Any], claimant: str = ME, **more: Any
    ) -> tuple[int, dict[str, Any]]:
        """Claim the request's call."""
        path = f"/v1/requests/{request['id']}/claim"
        return self.ask("POST", path, {"claimant": claimant, **more})

    def report(
        self,
        request: dict[str, Any],
        result: Any,
        claimant: str = ME,
        succeeded: bool | None = True,
    ) -> tuple[int, dict[str, Any]]:
        """Report the outcome."""
        body = {"claimant": claimant, "succeeded": succeeded, "result": result}
        return self.ask("POST", f"/v1/requests/{request['id']}/outcome", body)

    def card(self, text: str, who: str = "ana") -> dict[str, Any]:
        """Wait for the card at which people decide about this.

        What the bot had to change in Slack before is changed: a card that was just decided has its
        buttons until then.
        """
        self.harness.settle()
        found: dict[str, Any] = self.harness.slack.wait(
            lambda: next(
                (
                    m
                    for m in self.harness.person(who).everything(SUPPORT)
                    if "approve" in action_ids(m) and text in words(m)
                ),
                None,
            )
        )
        return found
