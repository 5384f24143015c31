"""Runs actions at times of the sandbox's clock, which may be moved forward.

Everything runs on the server's loop; `at` and `wake` may be called from any thread.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from slack_sandbox.workspace.clock import Clock


class Timers:
    """Actions by the time they are due."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock, self._loop = clock, loop
        self._waiting: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._alarm: asyncio.TimerHandle | None = None

    def after(self, seconds: float, action: Callable[[], object]) -> float:
        """Run `action` once that many seconds of the sandbox's clock have gone by.

        Returns when that is.
        """
        due = self._clock.now().timestamp() + seconds
        entry = (due, next(self._numbers), action)

        def add() -> None:
            heapq.heappush(self._waiting, entry)
            self._run()

        self._loop.call_soon_threadsafe(add)
        return due

    def wake(self) -> None:
        """Run what is due after the clock was moved."""
        self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        now = self._clock.now().timestamp()
        while self._waiting and self._waiting[0][0] <= now:
            heapq.heappop(self._waiting)[2]()
        if self._waiting:
            self._alarm = self._loop.call_later(self._waiting[0][0] - now, self._run)
