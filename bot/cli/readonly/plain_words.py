"""People, groups and channels as the command line writes them."""

from __future__ import annotations

from bot.messages.text import visible
from bot.policy.directory import Directory, LookupFailedError


class PlainWords:
    """People by name and id, groups and channels as a policy writes them.

    See `bot.explain.words.Words`.
    """

    def __init__(self, directory: Directory) -> None:
        """Names are looked up in `directory`."""
        self._directory = directory

    def person(self, user: str) -> str:
        """Name and id, or the id alone where Slack does not tell."""
        try:
            found = self._directory.person(user)
        except LookupFailedError:
            return user
        return f"{visible(found.name)} ({user})" if found else f"{user} (nobody of that id)"

    def group(self, handle: str) -> str:
        """The handle."""
        return f"@{handle}"

    def channel(self, channel: str) -> str:
        """The channel as it was given."""
        return channel

    def quoted(self, text: str) -> str:
        """The text on one line, hidden characters shown."""
        return visible(" ".join(text.split()))
