"""Every sentence about channels that are shared with another company. Pure: mrkdwn out."""

from __future__ import annotations

from bot.messages.quoting import said
from bot.messages.text import channel_mention, mention


def asked_there(channel: str, words: str) -> str:
    """Tell a requester in private what they asked elsewhere, which goes on here too."""
    asked = f": “{said(words)}”" if words.strip() else ""
    return f"🔒 You asked in {channel_mention(channel)}{asked}"


def goes_on_here(channel: str, words: str) -> str:
    """Tell a requester in private why their request goes on here; `words` are theirs."""
    why = "People of another company read along there, so I go on here. Only you see this."
    return f"{asked_there(channel, words)}\n{why}"


def goes_on_in_private(person: str) -> str:
    """Tell a shared channel's thread that the request goes on elsewhere."""
    return (
        f"🔒 This channel is shared with another company, so I go on with {mention(person)} in a "
        "direct message."
    )


def outsiders_read_along() -> str:
    """Tell the thread of a request in a shared channel where that is allowed."""
    return "👥 This channel is shared with another company: its people read along here."
