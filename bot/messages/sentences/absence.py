"""Every sentence about people who are away. Pure: mrkdwn out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.messages.text import mention, when


def away_note(people: Sequence[tuple[str, datetime | None]]) -> str:
    """Say in a card's small print who of those that decide is away, and until when if they say."""
    if len(people) == 1:
        [(person, until)] = people
        return f"🌴 {mention(person)} is away" + (f" until {when(until)}" if until else "")
    *names, last = [
        mention(person) + (f" (until {when(until)})" if until else "") for person, until in people
    ]
    return f"🌴 {', '.join(names)} and {last} are away"
