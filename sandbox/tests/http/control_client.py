"""The app that the tests of the HTTP control interface drive, and its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from slack_bolt import App

from sandbox.tests.builders import Json
from sandbox.tests.harness import BoltHarness, bolt_harness

Ack = Callable[..., None]
TICKET = {
    "name": "Ticket",
    "type": "message",
    "callback_id": "ticket",
    "description": "From a message.",
}
HELLO = {"command": "/hello", "description": "Says hello.", "usage_hint": "[name]"}


def external() -> Json:
    """An actions block with an external select."""
    menu = {"type": "external_select", "action_id": "fruit", "min_query_length": 1}
    return {"type": "actions", "block_id": "menu", "elements": [menu]}


def field() -> Json:
    """An input block that sends an action on Enter."""
    element = {"type": "plain_text_input", "action_id": "text"}
    label = {"type": "plain_text", "text": "Field"}
    return {
        "type": "input",
        "block_id": "field",
        "label": label,
        "element": element,
        "dispatch_action": True,
    }


def _listen(bolt: App) -> None:
    """Answers to everything but the command that is deaf."""
    for action_id in ("go", "text", "fruit"):
        bolt.action(action_id)(lambda ack: ack())
    bolt.message_shortcut("ticket")(lambda ack: ack())
    bolt.command("/hello")(lambda ack, command: ack(f"hello {command['text']}"))

    @bolt.options("fruit")
    def fruit(ack: Ack, payload: Json) -> None:
        offer = {
            "text": {"type": "plain_text", "text": payload["value"]},
            "value": payload["value"],
        }
        ack(options=[offer]) if payload["value"] != "none" else ack(options=[offer] * 101)


def get(harness: BoltHarness, path: str, **query: object) -> Any:
    """The answer to a GET."""
    with urlopen(f"{harness.sandbox.url}/sandbox/{path}?{urlencode(query)}") as answer:
        return json.load(answer)


def post(harness: BoltHarness, path: str, body: object) -> Json:
    """The answer to a POST."""
    headers = {"Content-Type": "application/json"}
    with urlopen(
        Request(f"{harness.sandbox.url}/sandbox/{path}", json.dumps(body).encode(), headers)
    ) as answer:
        parsed: Json = json.load(answer)
        return parsed


def do(harness: BoltHarness, path: str, who: str = "ana", **body: object) -> Json:
    """The answer to an act of that person."""
    return post(harness, path, {"as": who, **body})


def state(harness: BoltHarness, who: str = "ana") -> Json:
    """The state that this person sees."""
    seen: Json = get(harness, "state", **{"as": who})
    return seen


@contextmanager
def control_harness() -> Iterator[BoltHarness]:
    """A harness with that app."""
    deaf = {"command": "/deaf", "description": "Hears nothing."}
    with bolt_harness(_listen, shortcuts=[TICKET], slash_commands=[HELLO, deaf]) as made:
        yield made
