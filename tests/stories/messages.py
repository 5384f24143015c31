"""Reading Slack messages: their elements, action ids and words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def elements(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        e
        for b in message.get("blocks") or []
        for e in [*b.get("elements", []), b.get("accessory") or {}]
    ]


def action_ids(message: dict[str, Any]) -> list[str]:
    return [e["action_id"] for e in elements(message) if "action_id" in e]


def having(part: str) -> Callable[[dict[str, Any]], bool]:
    """Return a test for requests and payloads that have this text anywhere."""
    return lambda found: part in str(found)


def words(message: dict[str, Any]) -> str:
    return json.dumps([message.get("text"), message.get("blocks")], ensure_ascii=False)


def is_card(message: dict[str, Any]) -> bool:
    """Whether it is the card of a call, in whatever state."""
    blocks = message.get("blocks") or []
    return any(str(block["block_id"]).startswith(("h:", "o:", "v:")) for block in blocks)


def value_of(message: dict[str, Any], action_id: str, nth: int = 0) -> str:
    """Return the value of the message's nth button of this action id."""
    return str([e["value"] for e in elements(message) if e.get("action_id") == action_id][nth])


def leaves(value: Any) -> list[dict[str, Any]]:
    """Return every object with a type in these blocks, at any depth."""
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    if isinstance(value, dict):
        return (
            [value, *leaves(list(value.values()))]
            if "type" in value
            else leaves(list(value.values()))
        )
    return []


def button(message: dict[str, Any], action_id: str, click: dict[str, Any]) -> dict[str, Any]:
    """Build the action that payload `click` would have for the first button of this action id."""
    block, element = next(
        (block, element)
        for block in message["blocks"]
        for element in block.get("elements", [])
        if element.get("action_id") == action_id
    )
    pressed = {key: element[key] for key in ("type", "action_id", "text", "value")}
    return {**pressed, "block_id": block["block_id"], "action_ts": click["actions"][0]["action_ts"]}
