"""Helpers for the sandbox's tests: an app that speaks Socket Mode by hand, short blocks, and shape
comparison.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import websocket
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.sandbox.server import Sandbox
from bot.sandbox.workspace.apps import App

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
Json = dict[str, Any]


def fixture(name: str) -> Any:
    """A recorded file; the test is skipped where the recordings are not."""
    path = FIXTURES / name
    if not path.is_file():
        pytest.skip(f"{path} is not on this machine")
    return json.loads(path.read_text())


class HandApp:
    """One socket of an app (None: the first one), read and answered frame by frame."""

    def __init__(self, sandbox: Sandbox, app: App | None = None) -> None:
        client = WebClient(base_url=sandbox.api_url)
        self.url = client.apps_connections_open(app_token=(app or sandbox.world.app).app_token)[
            "url"
        ]
        self.ws = websocket.create_connection(self.url, timeout=5)
        self.hello = self.frame()

    def frame(self) -> Json:
        """The next frame, within five seconds."""
        frame: Json = json.loads(self.ws.recv())
        return frame

    def ack(self, frame: Json, payload: Json | None = None) -> None:
        """Acknowledge an envelope."""
        answer = {"envelope_id": frame["envelope_id"]} | (
            {} if payload is None else {"payload": payload}
        )
        self.ws.send(json.dumps(answer))

    def take(self, payload: Json | None = None) -> Json:
        """The next frame, acknowledged."""
        frame = self.frame()
        self.ack(frame, payload)
        return frame

    def close(self) -> None:
        """Drop the connection."""
        self.ws.close()


def close_bolt(sandbox: Sandbox, handler: SocketModeHandler) -> None:
    """Close Bolt's handler, which takes three seconds while its socket is open."""
    handler.client.auto_reconnect_enabled = False
    sandbox.faults.cut()
    sandbox.wait(lambda: sandbox.connections == 0)
    handler.close()  # type: ignore[no-untyped-call]  # the library's has no annotations


def section(text: str) -> Json:
    """A section block."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def buttons(*ids: str, value: str = "v", block_id: str = "buttons") -> Json:
    """An actions block with a button for each action id."""
    elements = [
        {
            "type": "button",
            "action_id": name,
            "value": value,
            "text": {"type": "plain_text", "text": name},
        }
        for name in ids
    ]
    return {"type": "actions", "block_id": block_id, "elements": elements}


def modal(callback_id: str = "form", **extra: Any) -> Json:
    """A modal with one required text input."""
    element = {"type": "plain_text_input", "action_id": "text"}
    field = {
        "type": "input",
        "block_id": "field",
        "label": {"type": "plain_text", "text": "Field"},
        "element": element,
    }
    return {
        "type": "modal",
        "callback_id": callback_id,
        "title": {"type": "plain_text", "text": "Form"},
        "submit": {"type": "plain_text", "text": "Save"},
        "blocks": [field],
        **extra,
    }


def code(error: pytest.ExceptionInfo[SlackApiError]) -> str:
    """Slack's error code of a refused call."""
    return str(error.value.response["error"])


def kind(value: Any) -> str:
    """A JSON value's type, numbers as one."""
    if isinstance(value, bool):
        return "boolean"
    return {dict: "object", list: "list", str: "string", int: "number", float: "number"}.get(
        type(value), "null"
    )


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Keys of ours that theirs does not have, and values of other types (null fits all), at any
    depth.
    """
    if kind(ours) == "null" or kind(theirs) == "null":
        return []
    if kind(ours) != kind(theirs):
        return [f"{at}: {kind(ours)} instead of {kind(theirs)}"]
    if isinstance(ours, dict):
        found = [f"{at}/{key}: unknown" for key in ours if key not in theirs]
        return found + [
            d
            for key in ours
            if key in theirs
            for d in differences(ours[key], theirs[key], f"{at}/{key}")
        ]
    if isinstance(ours, list) and theirs:
        return [d for item in ours for d in differences(item, theirs[0], f"{at}/0")]
    return []
