"""How an MCP tool is put before people: its name, title, effect and class. Pure."""

from __future__ import annotations

import re
from typing import Any

from mcp.types import Tool

from bot.client.decorated import in_words
from bot.client.request import Does, OwnAction

_MOST_NAME, _MOST_TITLE, _MOST_LABEL, _MOST_SHOWN = 64, 80, 40, 3
_PLAIN = ("string", "integer", "number", "boolean")


def action_of(tool: Tool, prefix: str, *, trusted: bool) -> OwnAction:
    """Return what people are asked about a call of this tool.

    `trusted`: the server's own hints count; otherwise all that it does is destructive.
    """
    schema = dict(tool.input_schema)
    hinted = tool.annotations.title if tool.annotations else None
    title = (tool.title or hinted or in_words(tool.name)).strip()[:_MOST_TITLE] or tool.name
    return OwnAction(
        name=re.sub(r"\W", "_", f"{prefix}{tool.name}", flags=re.ASCII)[:_MOST_NAME],
        title=title,
        effect=_effect(title, schema),
        does=_does(tool) if trusted else Does.DESTRUCTIVE,
        schema=schema,
    )


def _does(tool: Tool) -> Does:
    hints = tool.annotations
    if hints is None:
        return Does.DESTRUCTIVE
    if hints.read_only_hint:
        return Does.READ
    return Does.WRITE if hints.destructive_hint is False else Does.DESTRUCTIVE


def _effect(title: str, schema: dict[str, Any]) -> str:
    """Return the title, with the first plain values that a call cannot leave out, each named."""
    fields, required = schema.get("properties", {}), schema.get("required", [])
    shown = [
        f"{_label(name, fields[name])} {{{name}}}"
        for name in required
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
        and isinstance(fields.get(name), dict)
        and fields[name].get("type") in _PLAIN
        and fields[name].get("format") != "password"
        and not fields[name].get("writeOnly")
    ]
    said = title.replace("{", "{{").replace("}", "}}")
    values = ", ".join(shown[:_MOST_SHOWN])
    return f"{said}: {values}" if values else said


def _label(name: str, field: dict[str, Any]) -> str:
    """Return what a value is called in a sentence: "boxes"."""
    title = field.get("title")
    words = title if isinstance(title, str) and title.strip() else in_words(name)
    return " ".join(words.lower().replace("{", "(").replace("}", ")").split())[:_MOST_LABEL]
