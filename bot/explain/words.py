"""How people, groups, channels and quoted texts are written, which differs from place to place."""

from __future__ import annotations

from typing import Protocol


class Words(Protocol):
    """How a place writes what is not our own prose."""

    def person(self, user: str) -> str:
        """A person by id."""
        ...

    def group(self, handle: str) -> str:
        """A user group by handle."""
        ...

    def channel(self, channel: str) -> str:
        """A channel by id, or as a policy names it."""
        ...

    def quoted(self, text: str) -> str:
        """Somebody else's words."""
        ...
