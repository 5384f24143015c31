"""Programs that wait for a request to change, looked after together on the server's loop.

However many wait, the record is looked at four times a second, by one thread; none is held while
nothing happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread

from bot.web.api.problems import later
from storage import program_requests
from storage.program_requests import Mark

if TYPE_CHECKING:
    from storage.store import Store

log = logging.getLogger("countersign.api")
GLANCE = 0.25  # seconds between two looks
MOST = 200  # that wait at once
MOST_OF_ONE = 50  # with the same key


class WaitingPrograms:
    """One per process; used on the server's loop alone."""

    def __init__(
        self, store: Store, turns: CapacityLimiter, is_stopping: Callable[[], bool]
    ) -> None:
        """`turns`: how many look at the record at once; `is_stopping`: nobody waits any more."""
        self._store = store
        self._turns = turns
        self._is_stopping = is_stopping
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._by_key: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def one(self, key_id: str, run_id: str) -> Iterator[asyncio.Event]:
        """Wait for changes of a request with this key: the event is set at each.

        Whoever looks inside misses nothing. Raises ProblemError where too many wait already.
        """
        if self._by_key[key_id] >= MOST_OF_ONE or self._by_key.total() >= MOST:
            many = HTTPStatus.TOO_MANY_REQUESTS
            raise later(many, "Too many wait at once: ask without `wait`.", 5, "limits")
        event = asyncio.Event()
        self._by_key[key_id] += 1
        self._waiters.setdefault(run_id, set()).add(event)
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        try:
            yield event
        finally:
            self._by_key[key_id] -= 1
            waiters = self._waiters[run_id]
            waiters.discard(event)
            if not waiters:
                del self._waiters[run_id]

    async def _look(self) -> None:
        """Look until nobody waits any more."""
        seen: dict[str, Mark] = {}
        try:
            while self._waiters:
                await asyncio.sleep(GLANCE)
                seen = {} if self._is_stopping() else seen  # then all of them look again
                seen = await self._glance(seen)
        finally:
            self._task = None

    async def _glance(self, seen: dict[str, Mark]) -> dict[str, Mark]:
        """Tell who waits for what stands otherwise than it was `seen`; return how it stands."""
        try:
            found = await to_thread.run_sync(self._marks, list(self._waiters), limiter=self._turns)
        except Exception:
            log.exception("the record could not be looked at")  # who waits goes on waiting
            return seen
        for run_id, mark in found.items():
            if mark != seen.get(run_id):
                for event in self._waiters.get(run_id, ()):
                    event.set()
        return found

    def _marks(self, run_ids: list[str]) -> dict[str, Mark]:
        with self._store.read() as tx:
            return dict(program_requests.marks(tx, run_ids))
