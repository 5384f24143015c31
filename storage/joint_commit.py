"""Deliveries that arrive at once are stored together: one commit, and one wait for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from storage import inbox
from storage.models import Delivery
from storage.patience import passes
from storage.store import Store


@dataclass(slots=True)
class _Arrival:
    """A delivery that somebody waits to have stored."""

    delivery: Delivery
    fresh: bool | None = None  # None: it is not stored yet
    error: Exception | None = None


class JointCommit:
    """One per process; any thread."""

    def __init__(
        self, store: Store, now: Callable[[], datetime], taken: Callable[[Delivery], None]
    ) -> None:
        """`taken` is told of each delivery that is stored for the first time, before the commit."""
        self._store, self._now, self._taken = store, now, taken
        self._turn = threading.Lock()  # one commits at a time, and the others gather meanwhile
        self._gathering = threading.Lock()
        self._gathered: list[_Arrival] = []

    def store(self, delivery: Delivery) -> bool:
        """Return once it is committed; False where it was there already. Raises what that did."""
        own = _Arrival(delivery)
        with self._gathering:
            self._gathered.append(own)
        with self._turn:
            if own.fresh is None and own.error is None:
                with self._gathering:
                    together, self._gathered = self._gathered, []
                self._commit(together)
        if own.error is not None:
            raise own.error
        return bool(own.fresh)

    def _commit(self, together: list[_Arrival]) -> None:
        """Store all of these, and each by itself where one of them cannot be."""
        try:
            self._write(together)
        except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
            if len(together) > 1 and not passes(error):
                for each in together:
                    self._commit([each])
                return
            for each in together:
                each.fresh, each.error = None, error

    def _write(self, together: list[_Arrival]) -> None:
        with self._store.write() as tx:
            for each in together:
                # inside the transaction: times and order then agree
                each.delivery.received_at = self._now()
                each.fresh = inbox.store(tx, each.delivery)
                if each.fresh:
                    self._taken(each.delivery)
