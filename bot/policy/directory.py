"""People, user groups and channels, as whoever asks about them sees them: facts, and a protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

# statuses by which somebody says that they are away, not just busy: their emoji, without colons
AWAY = frozenset(
    {
        "palm_tree",  # Slack's own for vacationing
        "face_with_thermometer",  # and for out sick
        "beach_with_umbrella",
        "umbrella_on_ground",
        "desert_island",
        "face_with_head_bandage",
        "mask",
        "hospital",
    }
)


class LookupFailedError(Exception):
    """Slack could not be asked; the answer is not known, so nobody is let through."""


class NotLetInError(LookupFailedError):
    """Slack refuses the bot's token; it may take it again before long."""


class NotYetKnownError(Exception):
    """Slack is being asked; who may not wait for that comes again once all of `answers` are done.

    No kind of LookupFailedError: it refuses nobody.
    """

    def __init__(self, *answers: Future[Any]) -> None:
        """`answers` are to wait for only: the directory remembers what they say."""
        super().__init__("Slack is being asked")
        self.answers = answers


@dataclass(frozen=True, slots=True)
class Person:
    """What matters of a Slack user."""

    id: str
    team: str
    name: str
    is_bot: bool = False
    is_guest: bool = False
    deleted: bool = False
    # on Enterprise Grid, the workspaces they are members of: `team` may be none, or another one
    teams: frozenset[str] = frozenset()
    status: str = ""  # the emoji of their status, without colons
    status_until: datetime | None = None  # when it ends; None: nobody knows


@dataclass(frozen=True, slots=True)
class Group:
    """A user group and who is in it."""

    id: str
    members: frozenset[str]


class Directory(Protocol):
    """Live look-ups, cached for at most a minute.

    Every method raises LookupFailedError when Slack cannot be asked; and NotYetKnownError, once it
    is being asked, where the caller is a thread that may not wait.
    """

    def person(self, user: str) -> Person | None:
        """The person, or None when there is none of that id."""
        ...

    def people(self, users: Collection[str]) -> Mapping[str, Person]:
        """Those of many people that there are, by id, as they were at most ten minutes ago.

        For telling who could decide. Whether somebody may is asked of `person`.
        """
        ...

    def named(self, name: str) -> Mapping[str, str]:
        """Return the ids of active people who go by this handle or name, and the handle of each."""
        ...

    def group(self, handle: str) -> Group | None:
        """The user group of that handle, or None."""
        ...

    def members(self, channel: str) -> frozenset[str]:
        """Who is in the channel; empty when it does not exist."""
        ...

    def channel(self, name: str) -> str | None:
        """Return the id of a channel given as #name or id; None when the bot sees none."""
        ...

    def sees(self, user: str, channel: str) -> bool:
        """Return whether a channel, given as #name or id, is public or the person is in it."""
        ...

    def outsiders_read(self, channel: str) -> bool:
        """Return whether a channel, given as #name or id, is shared with another company."""
        ...
