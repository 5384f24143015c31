"""Which of Slack's deliveries only tell the bot what it did itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from slack_bolt.middleware import IgnoringSelfEvents
from slack_bolt.request.internals import extract_user_id

NO_ECHOES = IgnoringSelfEvents.events_that_should_be_kept  # though the bot itself may be named


def is_echo(body: dict[str, Any], own: Collection[str]) -> bool:
    """Return whether this is an event of what the bot did itself.

    Bolt passes over those, too, but only after it has made a client, a context and a request of
    each; most of what arrives are such.
    """
    event = body.get("event")
    if not own or not isinstance(event, dict) or event.get("type") in NO_ECHOES:
        return False
    return event.get("bot_id") in own or extract_user_id(body) in own
