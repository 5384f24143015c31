"""Look-ups that take time, come in any order, and fail.

Threads that may wait do so; the loop is told that the answer is not known yet, and is woken when it
is. An answer is remembered for a minute, as in the product's directory.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.policy.authority import LookupFailedError, LookupPendingError
from tests.proof.simulation.fibers import Scheduler
from tests.proof.simulation.wire import Weather
from tests.runs.fakes import FakeDirectory
from tests.storage.builders import TEAM

ANSWER_LIFETIME = timedelta(minutes=1)


class SimDirectory(FakeDirectory):
    """One workspace's people, as they change."""

    def __init__(self, scheduler: Scheduler, weather: Weather, team: str = TEAM) -> None:
        super().__init__()
        for person in self.known.values():
            if person.team == TEAM:
                self.known[person.id] = replace(person, team=team)
        self._scheduler, self._weather = scheduler, weather
        self._hurried = False
        self._told: dict[str, datetime] = {}  # when an answer arrived
        self._failed: dict[str, datetime] = {}
        self._asking: dict[str, Future[None]] = {}
        self._wake: Callable[[], None] = lambda: None
        self.owner: object = None
        self.leads: list[tuple[datetime, frozenset[str]]] = [
            (scheduler.now, self.groups["shop-leads"])
        ]

    def copy_for(self, owner: object, wake: Callable[[], None]) -> SimDirectory:
        """The directory as one process uses it, which knows nothing yet."""
        other = copy(self)
        other.owner, other._wake = owner, wake
        other._told, other._failed, other._asking = {}, {}, {}
        return other

    def copy_without_waiting(self) -> SimDirectory:
        """The same for a thread that does not wait."""
        other = copy(self)
        other._hurried = True
        return other

    def change(self, leads: frozenset[str]) -> None:
        """From now on these people are the approvers' group."""
        self.groups["shop-leads"] = leads
        self.leads.append((self._scheduler.now, leads))

    def was_lead(self, person: str, since: datetime) -> bool:
        """Whether the person was in that group at any moment since then, give or take a minute."""
        since -= ANSWER_LIFETIME
        last = max((at for at, _ in self.leads if at <= since), default=since)
        return any(person in who for at, who in self.leads if at >= last)

    def _require_up(self, what: str) -> None:
        now = self._scheduler.now
        if what in self._told and now - self._told[what] < ANSWER_LIFETIME:
            return
        if not self._hurried:
            self._scheduler.pause(f"looks up {what}")
            if self._scheduler.random.random() < self._weather.down:
                raise LookupFailedError("simulated")
            return
        if now - self._failed.get(what, now - ANSWER_LIFETIME) < timedelta(seconds=2):
            raise LookupFailedError("simulated")
        if what not in self._asking:
            self._asking[what] = Future()
            self._scheduler.spawn(self.owner, "look-up", lambda: self._ask(what))
        raise LookupPendingError(self._asking[what])

    def _ask(self, what: str) -> None:
        self._scheduler.rest(self._scheduler.random.random() * 3, f"looks up {what}")
        known: Any = self._told
        if self._scheduler.random.random() < self._weather.down:
            known = self._failed
        known[what] = self._scheduler.now
        self._asking.pop(what).set_result(None)
        self._wake()
