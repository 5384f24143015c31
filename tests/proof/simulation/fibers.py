"""Threads that take turns: one runs at a time, and a seed chooses the next.

Each is a real thread, so the product needs to know nothing of it. It gives its turn back wherever
it begins or ends a transaction, asks Slack or the model, or waits; nothing waits in real time.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.storage.builders import AT

NEVER = datetime.max.replace(tzinfo=AT.tzinfo)


class ProcessEnded(BaseException):
    """The process of this thread has ended; nothing catches it."""


def _is_always_ready() -> bool:
    return True


class Fiber:
    """One thread that takes turns with the others."""

    def __init__(self, owner: object, name: str, body: Callable[[], Any]) -> None:
        """It belongs to `owner` and ends with it."""
        self.owner, self.name, self.body = owner, name, body
        self.until: Callable[[], bool] = _is_always_ready
        self.latest = NEVER
        self.at = "begins"
        self.begun = self.over = self.doomed = False
        self.go = _thread.allocate_lock()
        self.go.acquire()


class Scheduler:
    """Virtual time, and whose turn it is."""

    def __init__(self, random: Random) -> None:
        """`random` makes all choices."""
        self.random, self.now = random, AT
        self.fibers: list[Fiber] = []
        self.current: Fiber | None = None
        self.building: object = None  # the owner of threads that are created now
        self.steps = 0
        self.recent_events: deque[str] = deque(maxlen=400)  # the last events
        self.failure: BaseException | None = None
        self._back = _thread.allocate_lock()
        self._back.acquire()
        self._carriers: list[_Carrier] = []

    # for threads that take turns

    def pause(self, what: str) -> None:
        """Give the turn back, and go on some time."""
        self.wait(_is_always_ready, None, what)

    def rest(self, seconds: float, what: str) -> None:
        """Go on after so many seconds of virtual time."""
        self.wait(lambda: False, seconds, what)

    def wait(self, until: Callable[[], bool], seconds: float | None, what: str) -> bool:
        """Go on once `until` holds, or after so many seconds; return whether it holds."""
        fiber = self.current
        if fiber is None:  # the scheduler's own thread: a process is being started
            return until()
        if fiber.doomed:
            raise ProcessEnded
        fiber.until, fiber.at = until, what
        fiber.latest = NEVER if seconds is None else self.now + timedelta(seconds=seconds)
        self._back.release()
        fiber.go.acquire()
        if fiber.doomed:
            raise ProcessEnded
        return until()

    # for the simulation that gives turns

    def spawn(self, owner: object, name: str, body: Callable[[], Any]) -> Fiber:
        """Start a thread of `owner` with this body."""
        fiber = Fiber(owner, name, body)
        self.fibers.append(fiber)
        return fiber

    def list_ready_fibers(self) -> list[Fiber]:
        """The fibers that could go on now."""
        now = self.now
        return [each for each in self.fibers if each.latest <= now or each.until()]

    def next_moment(self) -> datetime:
        """When the first fiber that waits for a time goes on."""
        return min((each.latest for each in self.fibers), default=NEVER)

    def run_turn(self, fiber: Fiber) -> None:
        """Let a fiber run until it gives its turn back."""
        self.steps += 1
        self.recent_events.append(f"{self.now:%d %H:%M:%S.%f} {fiber.name}: {fiber.at}")
        self._resume(fiber)
        if self.failure is not None:
            raise self.failure

    def kill(self, owner: object) -> None:
        """End all threads of `owner` where they are; their state is lost."""
        while mine := [each for each in self.fibers if each.owner is owner]:
            fiber = mine[0]
            fiber.doomed = True
            if not fiber.begun:
                fiber.over = True
                self.fibers.remove(fiber)
                continue
            self._resume(fiber)
            if not fiber.over:
                raise AssertionError(f"{fiber.name} goes on after its process")
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """End all threads."""
        for owner in {id(each.owner): each.owner for each in self.fibers}.values():
            self.kill(owner)
        for carrier in self._carriers:
            carrier.load.fiber = None
            carrier.go.release()

    def _resume(self, fiber: Fiber) -> None:
        before, self.current = self.current, fiber
        if not fiber.begun:
            fiber.begun = True
            carrier = self._carriers.pop() if self._carriers else _Carrier(self)
            carrier.load.fiber = fiber
            carrier.go.release()
        else:
            fiber.go.release()
        self._back.acquire()
        self.current = before

    def _ended(self, carrier: _Carrier, fiber: Fiber) -> None:
        fiber.over = True
        self.fibers.remove(fiber)
        self._carriers.append(carrier)
        self._back.release()


class _Slot:
    fiber: Fiber | None = None


class _Carrier:
    """A real thread that carries one fiber after another."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.load = _Slot()
        self.go = _thread.allocate_lock()
        self.go.acquire()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            fiber = self.load.fiber
            if fiber is None:
                return
            try:
                fiber.body()
            except ProcessEnded:
                pass
            except BaseException as error:  # noqa: BLE001  # told by whoever gave the turn
                self._scheduler.failure = error
            self._scheduler._ended(self, fiber)
