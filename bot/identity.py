"""Who the bot is in its workspace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is in the installing workspace."""

    team: str
    user: str
    bot: str
