"""Signals between threads: there may be work, all work has ended, or time has passed.

They are created first and passed to the threads that give them or wait for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_RUNNING
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.clock import SystemClock
from bot.monitoring.live_events import LiveEventBroadcaster
from bot.monitoring.spans import Tracer, WorkKind

SIGNAL_CHECK_SECONDS = 1.0  # a signal delivered to another thread does not wake the main one
ACKNOWLEDGE_FIRST_SECONDS = 2.5  # Slack delivers again after 3 seconds


def wait_for_end(ended: threading.Event, check: Callable[[], None]) -> None:
    """Block the main thread until `ended` is set, or `check` or the handler of a signal raises.

    The system may give a signal to any thread; that alone does not wake this one. `check` is called
    every second.
    """
    while not ended.wait(SIGNAL_CHECK_SECONDS):
        check()


class Signal:
    """A flag that wakes a thread to look for work; if set while none waits, it stays set."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._followers: list[Signal] = []
        self.cleared_at: float | None = None  # when a thread last began to look; time.monotonic()

    def notify(self) -> None:
        """Set the flag, and wake the thread that waits for it now or that waits next."""
        self._event.set()
        for other in self._followers:
            other.notify()

    def forward(self, other: Signal) -> None:
        """Set `other` as well whenever this signal is set."""
        self._followers.append(other)

    def clear(self) -> None:
        """Reset the flag and note the time; a thread calls this before it looks for work."""
        self.cleared_at = time.monotonic()
        self._event.clear()

    def is_set(self) -> bool:
        """Return whether the flag is set, and no thread has begun to look for work since."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> None:
        """Return once the flag is set, or after `seconds`; None waits without limit."""
        self._event.wait(seconds)


class WorkEndCondition:
    """A condition to wait on until no work is under way; work that ends calls `notify_changed`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def notify_changed(self) -> None:
        """Have every waiting thread check its condition again."""
        with self._condition:
            self._condition.notify_all()

    def wait_for(self, is_quiet: Callable[[], bool], seconds: float) -> bool:
        """Wait until `is_quiet` returns true; return whether it did within `seconds`."""
        with self._condition:
            return self._condition.wait_for(is_quiet, seconds)


class DecisionPriority:
    """A latch that puts decisions first: other work waits briefly while clicks are undecided."""

    def __init__(self) -> None:
        self._no_decisions = threading.Event()
        self._no_decisions.set()

    def hold_other_work(self) -> None:
        """Make other work wait: a click was stored or is being decided."""
        self._no_decisions.clear()

    def release_other_work(self) -> None:
        """Let other work go on: no click is undecided."""
        self._no_decisions.set()

    def wait_for_decisions(self, seconds: float = 0.5) -> None:
        """Return once no click is undecided, or after `seconds`, so that nothing waits for ever.

        A wait that times out ends the claim, so that later messages are not each delayed by it.
        """
        if not self._no_decisions.wait(seconds):
            self._no_decisions.set()


class UnacknowledgedDeliveries:
    """A count of the deliveries that have arrived and are not acknowledged yet."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or Tracer()
        self._condition = threading.Condition()
        self._open_count = 0

    @contextmanager
    def track_unacknowledged_delivery(self) -> Iterator[None]:
        """Count one delivery as arrived until the block ends, when it has been acknowledged."""
        with self._condition:
            self._open_count += 1
        try:
            with self._tracer.start_span(WorkKind.ACKNOWLEDGE):
                yield
        finally:
            with self._condition:
                self._open_count -= 1
                self._condition.notify_all()

    def wait_until_acknowledged(self, seconds: float = ACKNOWLEDGE_FIRST_SECONDS) -> None:
        """Return once all deliveries are acknowledged, or after `seconds`."""
        with self._condition:
            self._condition.wait_for(lambda: not self._open_count, seconds)


class PendingLookups:
    """The look-ups (futures) that each waiting item still needs; used by one thread only."""

    def __init__(self) -> None:
        self._lookups: dict[Hashable, tuple[Future[Any], ...]] = {}

    def start_waiting_for_lookups(self, who: Hashable, lookups: tuple[Future[Any], ...]) -> None:
        """Make `who` wait until all of these look-ups are done."""
        self._lookups[who] = lookups

    def is_waiting_for_lookups(self, who: Hashable) -> bool:
        """Return whether one of the look-ups that `who` waits for is not done yet."""
        waits = not all(each.done() for each in self._lookups.get(who, ()))
        if not waits:
            self._lookups.pop(who, None)
        return waits


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals between the threads of one process."""

    work: Signal = field(default_factory=Signal)  # something was stored: wakes the loop
    outbox: Signal = field(default_factory=Signal)  # the outbox has something to send
    policy: Signal = field(default_factory=Signal)  # another policy is in force
    rest: WorkEndCondition = field(default_factory=WorkEndCondition)  # some work has ended
    # makes other work wait for clicks
    decisions: DecisionPriority = field(default_factory=DecisionPriority)
    # what happens in each request, for surfaces
    live: LiveEventBroadcaster = field(default_factory=LiveEventBroadcaster)
    own_delivery_keys: set[str] = field(default_factory=set)  # stored by this process
    tracer: Tracer = field(default_factory=Tracer)  # spans of the bot's work, for its operator
    arrivals: UnacknowledgedDeliveries = field(init=False)
    # set once the bot stops; unfinished work is left for the next start
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Create `arrivals`, which reports to the tracer."""
        object.__setattr__(self, "arrivals", UnacknowledgedDeliveries(self.tracer))

    def wait_until_urgent_work_done(self) -> None:
        """Wait, for a limited time each, until deliveries are acknowledged and clicks decided."""
        self.arrivals.wait_until_acknowledged()
        self.decisions.wait_for_decisions()


# The alarm wakes a thread when time has passed: at an interval, and at requested moments.

MAX_WAKE_DELAY = timedelta(days=1)


class Alarm:
    """A timer that wakes one loop; it is silent before `start` and after `stop`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called on a thread of the alarm's own."""
        self._wake = wake
        self._lock = threading.Lock()
        self._is_over = False
        self._scheduler = BackgroundScheduler(
            job_defaults={"misfire_grace_time": None, "coalesce": True}, timezone="UTC"
        )

    def start(self, interval: float) -> None:
        """Call `wake` every `interval` seconds from now on, unless the alarm was stopped before."""
        with self._lock:
            if not self._is_over:
                self._scheduler.start()
                trigger = IntervalTrigger(seconds=interval, timezone=UTC)  # TZ may have no name
                self._scheduler.add_job(self._wake, trigger)

    def schedule_wake(self, wait: timedelta, name: str) -> None:
        """Call `wake` once after `wait`, a day at most; replaces an earlier call of that `name`."""
        at = SystemClock().now() + min(wait, MAX_WAKE_DELAY)
        with self._lock:
            if self._scheduler.state == STATE_RUNNING:
                trigger = DateTrigger(at, timezone=UTC)
                self._scheduler.add_job(self._wake, trigger, id=name, replace_existing=True)

    def stop(self) -> None:
        """Stop calling `wake`."""
        with self._lock:
            self._is_over = True
            if self._scheduler.running:
                # Pause first, so that a wake that is due now is over: at its shutdown the scheduler
                # looks for the job in the wrong place (APScheduler 3.11, `remove_job`).
                self._scheduler.pause()
                self._scheduler.remove_all_jobs()
                self._scheduler.shutdown(wait=False)
