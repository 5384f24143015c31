"""The app that the tests of the HTTP control interface drive, and how they ask for things."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from slack_bolt import App

from tests.sandbox.support import Json
from tests.sandbox.workshop import Workshop, workshop

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
    """An input block that tells the app about Enter."""
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


def get(shop: Workshop, path: str, **query: object) -> Any:
    """What a GET answers."""
    with urlopen(f"{shop.sandbox.url}/sandbox/{path}?{urlencode(query)}") as answer:
        return json.load(answer)


def post(shop: Workshop, path: str, body: object) -> Json:
    """What a POST answers."""
    headers = {"Content-Type": "application/json"}
    with urlopen(
        Request(f"{shop.sandbox.url}/sandbox/{path}", json.dumps(body).encode(), headers)
    ) as answer:
        parsed: Json = json.load(answer)
        return parsed


def do(shop: Workshop, path: str, who: str = "ana", **body: object) -> Json:
    """What that person's doing answers."""
    return post(shop, path, {"as": who, **body})


def state(shop: Workshop, who: str = "ana") -> Json:
    """What that person sees."""
    seen: Json = get(shop, "state", **{"as": who})
    return seen


@contextmanager
def control_shop() -> Iterator[Workshop]:
    """A workspace with that app."""
    deaf = {"command": "/deaf", "description": "Hears nothing."}
    with workshop(_listen, shortcuts=[TICKET], slash_commands=[HELLO, deaf]) as made:
        yield made
