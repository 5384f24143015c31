"""A sandbox with a real Bolt app in it that records its bodies, and the events sent to apps."""

from __future__ import annotations

import queue
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.http_app import HttpApp, build_bolt_answer, serve_http_app
from sandbox.tests.socket_app import close_bolt
from slack_sandbox.client.actor import Actor
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest


@dataclass
class BoltHarness:
    """The sandbox, the app, its client and the bodies that the app got."""

    sandbox: Sandbox
    bolt: App
    client: WebClient
    bodies: queue.Queue[Json] = field(default_factory=queue.Queue)

    @property
    def ana(self) -> Actor:
        """A member of every channel but #random."""
        return self.sandbox.person("ana")

    def forget_bodies(self) -> BoltHarness:
        """Drop the bodies that came so far."""
        while not self.bodies.empty():
            self.bodies.get()
        return self

    def wait_for_body(self, kind: str) -> Json:
        """The next body of that type (of a payload or an event) or command, within five seconds.

        Others are skipped.
        """
        while True:
            body = self.bodies.get(timeout=30)
            event = body.get("event", {})
            if kind in (body.get("type"), body.get("command"), event.get("type")):
                return body

    def post(self, *blocks: Json, thread_ts: str | None = None) -> str:
        """A message of the app in #support; its ts."""
        answer = self.client.chat_postMessage(
            channel="C0SUPPORT", text="card", blocks=list(blocks), thread_ts=thread_ts
        )
        return str(answer["ts"])

    def form(self, view: Json, channel: str = "support") -> None:
        """Open that modal for ana, who is looking at the channel."""
        self.ana.shortcut("form", channel=channel)
        self.client.views_open(trigger_id=self.wait_for_body("shortcut")["trigger_id"], view=view)


FORM = {"name": "Form", "type": "global", "callback_id": "form", "description": "Opens a form."}


@contextmanager
def bolt_harness(
    listen: Callable[[App], Any], manifest: Json | None = None, **features: Any
) -> Iterator[BoltHarness]:
    """A harness whose app has those listeners and, in its manifest, those features."""
    manifest = manifest or full_manifest()
    manifest["features"] |= {"shortcuts": [FORM, *features.pop("shortcuts", [])], **features}
    with Sandbox(manifest) as sandbox:
        client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url, retry_handlers=[])
        bolt = App(client=client)
        harness = BoltHarness(sandbox, bolt, client)

        @bolt.middleware
        def keep(body: Json, next_: Callable[[], None]) -> None:
            harness.bodies.put(body)
            next_()

        listen(bolt)
        bolt.shortcut("form")(lambda ack: ack())
        bolt.event(re.compile(".*"))(lambda: None)
        handler = SocketModeHandler(bolt, sandbox.app_token)
        handler.connect()  # type: ignore[no-untyped-call]  # the library's has no annotations
        sandbox.wait_connected()
        yield harness
        close_bolt(sandbox, handler)


@contextmanager
def run_over_http(
    listen: Callable[[App], Any], manifest: Json
) -> Iterator[tuple[Sandbox, HttpApp]]:
    """A sandbox whose app, with those listeners, takes its payloads over signed HTTP."""
    with serve_http_app() as app_server, Sandbox(app_server.manifest(manifest)) as sandbox:
        client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url, retry_handlers=[])
        bolt = App(client=client, signing_secret=sandbox.world.app.signing_secret)
        listen(bolt)
        app_server.answer = build_bolt_answer(bolt)
        yield sandbox, app_server


def events(sandbox: Sandbox, *types: str) -> list[Json]:
    """The events of these types that were sent to the apps, in their order."""
    return [d.event for d in sandbox.deliveries if d.event.get("type") in types]


def second_client(sandbox: Sandbox, *channels: str) -> WebClient:
    """The client of a second app with the scopes and events of the first, in these channels."""
    app = sandbox.install(sandbox.world.app.manifest, channels)
    return WebClient(token=app.bot_token, base_url=sandbox.api_url, retry_handlers=[])
