"""Whether a process is alone with its database, or others work on it as well."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from storage.models import Delivery


class Others(Protocol):
    """What the loop has to know of other processes."""

    @property
    def patience(self) -> timedelta | None:
        """How long a READY run is left to those who hear of it; None: it is handed out at once."""
        ...

    def have(self, delivery: Delivery, now: datetime) -> bool:
        """Return whether another process, which stored it, is dealing with it."""
        ...

    def may_be_dead(self) -> bool:
        """Return whether a lapsed lease means that its holder is no more.

        It does not where nobody could renew one.
        """
        ...


class NoOthers:
    """This process alone works on the database."""

    patience = None

    def have(self, delivery: Delivery, now: datetime) -> bool:
        """No."""
        return False

    def may_be_dead(self) -> bool:
        """Yes: what is not worked on here is worked on nowhere."""
        return True
