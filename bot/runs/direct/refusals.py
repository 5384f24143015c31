"""Why what a program wants is not done: errors, each with its sentence."""

from __future__ import annotations

from datetime import datetime


class NotAskedError(ValueError):
    """Nobody was asked; says why in a sentence."""


class StrangerError(NotAskedError):
    """Nobody asks in the name of somebody who may not ask."""


class KeyUsedError(NotAskedError):
    """Something else was asked with this key before."""


class TooOftenError(NotAskedError):
    """A key has asked as often as it may; `since`: when it asked the first of those."""

    def __init__(self, since: datetime) -> None:
        super().__init__("this key has asked as often as it may")
        self.since = since


class NotClaimedError(ValueError):
    """The call is not this program's to run or to report; says why in a sentence."""
