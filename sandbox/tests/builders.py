"""Short ways to write the blocks and views of an app."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


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
