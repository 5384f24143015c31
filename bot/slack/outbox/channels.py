"""Which channels a process sends to: all, unless others work on the same database."""

from __future__ import annotations

from typing import Protocol


class ElsewhereError(Exception):
    """Another process sends to the channel by now."""


class Channels(Protocol):
    """One sender for each channel, over all processes. Any thread."""

    def mine(self, channels: set[str]) -> set[str]:
        """Return those of the channels that this process sends to, having taken what is free.

        Whoever sends to the others is told that there is something to send.
        """
        ...

    def holds(self, channel: str) -> bool:
        """Return whether this process still sends to it: to be asked last of all."""
        ...


class EveryChannel:
    """No other process sends."""

    def mine(self, channels: set[str]) -> set[str]:
        """All of them."""
        return channels

    def holds(self, channel: str) -> bool:
        """Always."""
        return True
