"""Short ways to write a block, an element or a text as an app would send it."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
CAT = "https://shop.example/cat.png"


def plain(words: str) -> Json:
    """A plain_text object with emoji."""
    return {"type": "plain_text", "text": words, "emoji": True}


def mrkdwn(words: str) -> Json:
    """A mrkdwn object."""
    return {"type": "mrkdwn", "text": words}


def option(words: str, value: str = "", about: str = "", **more: Any) -> Json:
    """An option, with a description where there is one."""
    shown = {"text": plain(words), "value": value or words.lower(), **more}
    return shown | ({"description": plain(about)} if about else {})


def button(words: str, action_id: str, **more: Any) -> Json:
    """A button."""
    return {
        "type": "button",
        "text": plain(words),
        "action_id": action_id,
        "value": "call_7",
        **more,
    }


def rich(*elements: Json) -> Json:
    """A rich_text block of one paragraph."""
    return {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": list(elements)}],
    }


def words(text: str, *styles: str) -> Json:
    """A piece of rich text."""
    return {"type": "text", "text": text} | (
        {"style": dict.fromkeys(styles, True)} if styles else {}
    )


def input_block(element: Json, **more: Any) -> Json:
    """An input block around an element."""
    dispatching = {"dispatch_action": True} if "dispatch_action_config" in element else {}
    label = plain(str(element["type"]).replace("_", " ").capitalize())
    return {"type": "input", "label": label, "element": element, **dispatching, **more}
