"""Where a request that is made with a form begins. Looks people and channels up."""

from __future__ import annotations

from dataclasses import dataclass

from bot.policy.current import CurrentPolicy
from bot.policy.directory import Directory


@dataclass(frozen=True, slots=True)
class StartingPlaces:
    """One for all forms; any thread."""

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
        return (
            "" if self.directory.outsiders_read(channel) and not self._is_open(channel) else channel
        )

    def _is_open(self, channel: str) -> bool:
        named = self.policy.policy.shared_channels
        return channel in {self.directory.channel(each) for each in named}
