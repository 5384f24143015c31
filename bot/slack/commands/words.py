"""What an explanation names, as Slack shows it."""

from __future__ import annotations

from bot.messages import quoting
from bot.messages.text import CHANNEL, channel_mention, escape, group_mention, mention
from bot.policy.directory import Directory, LookupFailedError


class SlackWords:
    """People, groups and places as mentions, all else literal; see `bot.explain.words.Words`."""

    def __init__(self, directory: Directory) -> None:
        """Groups and channels are looked up by name."""
        self._directory = directory

    def person(self, user: str) -> str:
        """A mention."""
        return mention(user)

    def group(self, handle: str) -> str:
        """A mention, or the handle where it cannot be looked up."""
        try:
            found = self._directory.group(handle)
        except LookupFailedError:
            found = None
        return group_mention(found.id) if found else escape(f"@{handle}")

    def channel(self, channel: str) -> str:
        """A mention, or the name where it cannot be looked up."""
        try:
            found = channel if CHANNEL.fullmatch(channel) else self._directory.channel(channel)
        except LookupFailedError:
            found = None
        return channel_mention(found) if found else escape(channel)

    def quoted(self, text: str) -> str:
        """Made visible, on one line, escaped."""
        return quoting.said(text, 1200)
