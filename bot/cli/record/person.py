"""Which person a command is about, for what is forgotten or exported."""

from __future__ import annotations

import re

from bot.checks.slack_client import make_client
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.policy.directory import LookupFailedError
from bot.slack.lookups.directory import SlackDirectory
from bot.tools.names import Named, Naming

_ID = re.compile(r"[UW][A-Z0-9]{2,30}")


def person_of(settings: Settings, named: str) -> str:
    """The Slack user id of a @handle, a full name or an id; an id is taken as it is, also of
    somebody whom Slack knows no more.

    Raises ValueError with a sentence for anybody else.
    """
    if _ID.fullmatch(named):
        return named
    if not settings.slack_bot_token.get_secret_value():
        raise ValueError(
            f"Slack is not configured, so nobody knows who {named} is: give the id, U…"
        )
    directory = SlackDirectory(make_client(settings), SystemClock())
    try:
        return Naming(directory, None).id_of(Named.PERSON, named)
    except LookupFailedError as error:
        raise ValueError(f"{error}: give the id, U…") from None
