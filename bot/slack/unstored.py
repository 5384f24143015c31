"""Says to who wrote to the bot that their words could not be stored, once for each message.

Slack shows an error where a click is not acknowledged, and nothing where a message is not: it only
delivers it again, for some minutes. Nothing is stored here, for that is what fails.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Any

from slack_sdk import WebClient
from sqlalchemy.exc import DBAPIError

from bot.messages.answers import notice_blocks
from bot.messages.incoming import WRITTEN
from bot.messages.sentences import refusals
from storage.availability import reason

log = logging.getLogger("countersign.listeners")
REMEMBERED = 1_000  # messages


class UnstoredWords:
    """Tells people; any thread, and it waits for Slack."""

    def __init__(self, client: WebClient) -> None:
        """`client` posts."""
        self._client = client
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def tell(self, error: Exception, body: dict[str, Any]) -> None:
        """Say so to who wrote this payload, where it was the database that could not store it."""
        event = body.get("event") or {}
        if not isinstance(error, DBAPIError) or not _is_for_us(event) or not self._first(event):
            return
        said = refusals.not_stored()
        channel, thread_ts = event["channel"], event.get("thread_ts")
        told: dict[str, Any] = {"channel": channel, "text": said, "blocks": notice_blocks(said)}
        try:
            if channel.startswith("D"):
                self._client.chat_postMessage(**told, thread_ts=thread_ts)
            else:
                self._client.chat_postEphemeral(**told, user=event["user"], thread_ts=thread_ts)
        except Exception as failed:  # noqa: BLE001  # the log has what matters already
            log.warning("nobody could be told that words were not stored: %s", reason(failed))

    def _first(self, event: dict[str, Any]) -> bool:
        """Whether nobody was told of that message; a mention comes twice, and again and again."""
        key = str(event["channel"]), str(event["ts"])
        with self._lock:
            if key in self._told:
                return False
            self._told[key] = None
            if len(self._told) > REMEMBERED:
                self._told.popitem(last=False)
        return True


def _is_for_us(event: dict[str, Any]) -> bool:
    """Whether somebody has written to the bot itself, as far as the event alone tells."""
    if event.get("subtype") not in WRITTEN or event.get("bot_id") or not event.get("user"):
        return False
    return event.get("type") == "app_mention" or event.get("channel_type") == "im"
