"""Where a request that is made with a form begins. Looks people up."""

from __future__ import annotations

from bot.policy.directory import Directory


def place_of(directory: Directory, channel: str, person: str, bot_user: str) -> str:
    """Return the channel if the person and the bot are both in it, else "".

    Direct messages are "" as well: the bot has its own with each person. Raises LookupFailedError.
    """
    if not channel or channel.startswith("D"):
        return ""
    return channel if {person, bot_user} <= directory.members(channel) else ""
