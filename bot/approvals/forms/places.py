"""Where a request begins, and in which channels none is worked on. Looks people and channels up."""

from __future__ import annotations

from dataclasses import dataclass

from bot.policy.current import CurrentPolicy
from bot.policy.directory import Directory


@dataclass(frozen=True, slots=True)
class StartingPlaces:
    """One door for messages, forms and programs; any thread."""

    directory: Directory
    policy: CurrentPolicy
    bot_user: str

    def of(self, channel: str, person: str) -> str:
        """Return the channel if the person and the bot are both in it, else "".

        Direct messages are "" as well, since the bot has its own with each person, and channels
        where another company reads along, but for those that the policy names. Raises
        LookupFailedError.
        """
        if not channel or channel.startswith("D"):
            return ""
        if not {person, self.bot_user} <= self.directory.members(channel):
            return ""
        is_shared = self.directory.outsiders_read(channel)
        return "" if self.is_closed(channel, is_shared=is_shared) else channel

    def is_closed(self, channel: str, *, is_shared: bool) -> bool:
        """Return whether requests are not worked on in this channel, but in private.

        `is_shared`: another company reads along there. Raises LookupFailedError.
        """
        named = self.policy.policy.shared_channels
        return is_shared and channel not in {self.directory.channel(each) for each in named}
