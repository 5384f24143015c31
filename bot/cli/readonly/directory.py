"""A directory in the place of Slack's, where Slack is not asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from bot.policy.directory import Group, LookupFailedError, Person


class NotLookedUp:
    """A `bot.policy.directory.Directory` that can tell nothing."""

    def __init__(self, why: str) -> None:
        """`why` goes into every refusal."""
        self.why = why

    def person(self, user: str) -> Person | None:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def people(self, users: Collection[str]) -> Mapping[str, Person]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def named(self, name: str) -> Mapping[str, str]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def group(self, handle: str) -> Group | None:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def members(self, channel: str) -> frozenset[str]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def channel(self, name: str) -> str | None:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def sees(self, user: str, channel: str) -> bool:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def outsiders_read(self, channel: str) -> bool:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def channels(self) -> Mapping[str, dict[str, Any]]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def everybody(self, *, anew: bool = False) -> Mapping[str, dict[str, Any]]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)

    def private_channels(self, user: str) -> frozenset[str]:
        """Raises LookupFailedError."""
        raise LookupFailedError(self.why)
