"""Why what a program wants is not done: errors, each with its sentence."""

from __future__ import annotations


class NotAskedError(ValueError):
    """Nobody was asked; says why in a sentence."""


class StrangerError(NotAskedError):
    """Nobody asks in the name of somebody who may not ask."""


class KeyUsedError(NotAskedError):
    """Something else was asked with this key before."""


class NotClaimedError(ValueError):
    """The call is not this program's to run or to report; says why in a sentence."""
