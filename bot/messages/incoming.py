"""What a person wrote to the bot, as text for the model, and whence deliveries come. Pure."""

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


def installation_of(body: dict[str, Any]) -> str:
    """Return the workspace that an event is delivered to; "" for none named.

    In a channel shared between companies `team_id` may be the other one's.
    """
    granted = [each.get("team_id") for each in body.get("authorizations") or ()]
    teams = (*granted[:1], body.get("context_team_id"), body.get("team_id"))
    return next((team for team in teams if team), "")


def team_of(body: dict[str, Any]) -> str:
    """Return the workspace that a click or a submitted dialog comes from; "" for none named."""
    return (body.get("team") or {}).get("id") or (body.get("user") or {}).get("team_id") or ""
