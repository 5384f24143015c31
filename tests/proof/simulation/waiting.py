"""What the product's threads wait on, in virtual time: signals, pools, the alarm, a tool's clock.

They replace classes of the standard library and APScheduler; the product's code is unchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from bot.runs import loop, worker_pool
from bot.signals import (
    ACKNOWLEDGE_FIRST_SECONDS,
    DecisionPriority,
    Signal,
    Signals,
    UnacknowledgedDeliveries,
)
from bot.slack import answer_streams, channel_queues
from bot.tools import runner
from storage import models
from tests.proof.simulation.fibers import ProcessEnded, Scheduler


class SimSignal(Signal):
    """A signal that is waited for in virtual time."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        super().__init__()
        self._scheduler, self._name = scheduler, name

    def wait(self, seconds: float | None = None) -> None:
        """As in the product."""
        self._scheduler.wait(self.is_set, seconds, f"waits for {self._name}")


class SimDecisionPriority(DecisionPriority):
    """Decisions go first, in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def wait_for_decisions(self, seconds: float = 0.5) -> None:
        """As in the product."""
        if not self._scheduler.wait(self._no_decisions.is_set, seconds, "gives way to decisions"):
            self._no_decisions.set()


class SimArrivals(UnacknowledgedDeliveries):
    """Acknowledgements go first, in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def wait_until_acknowledged(self, seconds: float = ACKNOWLEDGE_FIRST_SECONDS) -> None:
        """As in the product."""
        self._scheduler.wait(lambda: not self._open_count, seconds, "gives way to arrivals")


class SimEvent(threading.Event):
    """An event that is waited for in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def wait(self, timeout: float | None = None) -> bool:
        """As in the library."""
        return self._scheduler.wait(self.is_set, timeout, "is patient")


def make_signals(scheduler: Scheduler) -> Signals:
    """The signals of one process."""
    signals = Signals(
        work=SimSignal(scheduler, "work"),
        outbox=SimSignal(scheduler, "posts"),
        decisions=SimDecisionPriority(scheduler),
        stopping=SimEvent(scheduler),
    )
    # a field that no constructor takes; nobody has used it yet
    object.__setattr__(signals, "arrivals", SimArrivals(scheduler))
    return signals


class SimPool(Executor):
    """A pool whose threads take turns with all others."""

    def __init__(self, scheduler: Scheduler, most: int, name: str) -> None:
        self._scheduler, self._most, self._name = scheduler, most, name
        self._owner, self._running = scheduler.building, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start it when a thread is free."""
        future: Future[Any] = Future()

        def body() -> None:
            self._scheduler.wait(lambda: self._running < self._most, None, "waits for a thread")
            if not future.set_running_or_notify_cancel():
                return
            self._running += 1
            try:
                result = fn(*args, **kwargs)
            except ProcessEnded:
                raise
            except BaseException as error:  # noqa: BLE001  # as a pool keeps it
                self._running -= 1
                future.set_exception(error)
            else:
                self._running -= 1
                future.set_result(result)

        self._scheduler.spawn(self._owner, self._name, body)
        return future


class SimAlarm:
    """Wakes a loop at an interval, and at set times."""

    def __init__(self, scheduler: Scheduler, wake: Callable[[], None]) -> None:
        self._scheduler, self._wake = scheduler, wake
        self._owner = scheduler.building
        self._moments: dict[str, datetime] = {}
        self._every = timedelta(days=1)
        self._changed = self._started = False

    def start(self, interval: float) -> None:
        """Start waking."""
        self._every, self._started = timedelta(seconds=interval), True
        self._scheduler.spawn(self._owner, "alarm", self._run)

    def schedule_wake(self, wait: timedelta, name: str) -> None:
        """Wake once, instead of an earlier time under that name."""
        if self._started:
            self._moments[name] = self._scheduler.now + wait
            self._changed = True

    def stop(self) -> None:
        """Stop waking."""
        self._started = False

    def _run(self) -> None:
        now = self._scheduler.now
        self._moments["tick"] = now + self._every
        while self._started:
            self._changed = False
            left = (min(self._moments.values()) - self._scheduler.now).total_seconds()
            self._scheduler.wait(lambda: self._changed, max(0.0, left), "waits for a moment")
            now = self._scheduler.now
            if due := [name for name, at in self._moments.items() if at <= now]:
                for name in due:
                    del self._moments[name]
                self._moments.setdefault("tick", now + self._every)
                self._wake()


@contextmanager
def in_virtual_time(scheduler: Scheduler) -> Iterator[None]:
    """Take threads, times and ids from the scheduler and its seed."""

    def pool(most: int, thread_name_prefix: str = "") -> SimPool:
        return SimPool(scheduler, most, thread_name_prefix)

    def alarm(wake: Callable[[], None]) -> SimAlarm:
        return SimAlarm(scheduler, wake)

    def waits(futures: Sequence[Future[Any]], timeout: float | None = None) -> Any:
        scheduler.wait(lambda: all(each.done() for each in futures), timeout, "waits for a tool")
        done = {each for each in futures if each.done()}
        return done, set(futures) - done

    def token(size: int) -> str:
        return f"{scheduler.random.getrandbits(8 * size):0{2 * size}x}"[:22]

    monotonic = SimpleNamespace(monotonic=lambda: scheduler.now.timestamp())
    with ExitStack() as stack:
        for where, name, what in (
            (worker_pool, "ThreadPoolExecutor", pool),
            (loop, "Alarm", alarm),
            (channel_queues, "ThreadPoolExecutor", pool),
            (runner, "wait", waits),
            (runner, "time", monotonic),
            (answer_streams, "time", monotonic),
            (models, "secrets", SimpleNamespace(token_urlsafe=token)),
        ):
            stack.enter_context(patch.object(where, name, what))
        yield
