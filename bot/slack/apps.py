"""Which app a token is of, as Slack says."""

from __future__ import annotations

import logging
from http.client import HTTPException

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

log = logging.getLogger("countersign.apps")


def app_of(client: WebClient, bot: str) -> str:
    """Return the id of the app whose bot that is; "" where Slack does not say.

    `bot` is its id as a bot (B…), "" where that is not known.
    """
    if not bot:
        return ""
    try:
        found = client.bots_info(bot=bot)
    except (SlackApiError, SlackClientError, HTTPException, OSError) as error:
        log.info("of which app the bot is cannot be asked: %s", type(error).__name__)
        return ""
    return str((found.get("bot") or {}).get("app_id") or "")
