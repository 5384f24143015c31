"""How an MCP tool is put before people: its name, title, effect and class. Pure."""

from __future__ import annotations

import re
from typing import Any

from mcp.types import Tool

from countersign.decorated import in_words
from countersign.request import Does, OwnAction, as_effect

_MOST_NAME, _MOST_TITLE, _MOST_LABEL, _MOST_SHOWN, _MOST_SERVER = 64, 80, 40, 3, 40
_PLAIN = ("string", "integer", "number", "boolean")


def server_name(prefix: str, own: str) -> str:
    """Return what people call a server that was given no name: its prefix, else its `own` name."""
    said = prefix.replace("_", " ").strip() or own
    return " ".join(said.split())[:_MOST_SERVER]


def action_of(tool: Tool, prefix: str, server: str, *, trusted: bool) -> OwnAction:
    """Return what people are asked about a call of this tool of a server.

    `trusted`: the server's own hints count; otherwise all that it does is destructive.
    """
    schema = dict(tool.input_schema)
    hinted = tool.annotations.title if tool.annotations else None
    title = (tool.title or hinted or in_words(tool.name)).strip()[:_MOST_TITLE] or tool.name
    return OwnAction(
        name=re.sub(r"\W", "_", f"{prefix}{tool.name}", flags=re.ASCII)[:_MOST_NAME],
        title=title,
        effect=_effect(f"{title} at {server}" if server else title, schema),
        does=_does(tool, trusted=trusted),
        schema=schema,
    )


def _does(tool: Tool, *, trusted: bool) -> Does | None:
    """What it says that it does; None where it does not say, or is not trusted to."""
    hints = tool.annotations
    if hints is None:
        return None
    if hints.read_only_hint:
        return Does.READ if trusted else None
    if hints.destructive_hint is False:
        return Does.WRITE if trusted else None
    return Does.DESTRUCTIVE if hints.destructive_hint else None


def _effect(what: str, schema: dict[str, Any]) -> str:
    """Return what is called where, with the first plain values that a call cannot leave out, each
    named.
    """
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
    values = ", ".join(shown[:_MOST_SHOWN])
    return f"{as_effect(what)}: {values}" if values else as_effect(what)


def _label(name: str, field: dict[str, Any]) -> str:
    """Return what a value is called in a sentence: "boxes"."""
    title = field.get("title")
    words = title if isinstance(title, str) and title.strip() else in_words(name)
    return " ".join(words.lower().replace("{", "(").replace("}", ")").split())[:_MOST_LABEL]
