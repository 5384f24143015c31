"""Who the bot is in its workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is in the installing workspace."""

    team: str
    user: str
    bot: str
    workspace: str = ""  # its address: "https://example.slack.com/"

    @classmethod
    def told(cls, said: Callable[[str], Any]) -> Identity:
        """Return who the bot is, by the fields of what Slack's `auth.test` said."""
        fields = ("team_id", "user_id", "bot_id", "url")
        return cls(*(str(said(name) or "") for name in fields))
