"""What a person wrote to the bot, as text for the model, and whence a click comes. Pure."""

from __future__ import annotations

import html
import re
from typing import Any


def message_text(event: dict[str, Any], bot_user: str) -> str:
    """Return a message event's words: without the bot's mention, links as typed, files named."""
    text = re.sub(rf"<@{re.escape(bot_user)}(\|[^>]*)?>", "", event.get("text") or "")
    text = re.sub(r"<#[CG][A-Z0-9]+\|([^>]+)>", r"#\1", text)
    text = re.sub(
        r"<(?:(?:https?|mailto):[^|>]+)\|([^>]+)>|<(https?://[^|>]+)>", lambda m: m[1] or m[2], text
    )
    # half a surrogate pair cannot be sent on
    text = html.unescape(text).encode("utf-8", "replace").decode().strip()
    files = [f"[attached file: {file.get('name', 'unnamed')}]" for file in event.get("files") or []]
    return "\n".join([text, *files]).strip()


def team_of(body: dict[str, Any]) -> str:
    """Return the workspace that a click or a submitted dialog comes from; "" for none named."""
    return (body.get("team") or {}).get("id") or (body.get("user") or {}).get("team_id") or ""
