"""Signals between threads: there is something to do, nothing is left, or time has passed.

They are made first and handed to whoever gives or awaits them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_RUNNING
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bot.clock import SystemClock
from bot.live import Live
from bot.monitoring.spans import Tracer, Work

FIRST = 2.5  # seconds that what has arrived goes first: after three, Slack delivers it again


class Signal:
    """Says that there may be something to do; whoever waits for it then looks. Never lost."""

    def __init__(self) -> None:
        """Not given yet."""
        self._event = threading.Event()
        self._others: list[Signal] = []
        self.looked_at: float | None = None  # when somebody last began to look, time.monotonic()

    def give(self) -> None:
        """Wake whoever waits, now or next."""
        self._event.set()
        for other in self._others:
            other.give()

    def forward(self, other: Signal) -> None:
        """Give `other` as well whenever this one is given."""
        self._others.append(other)

    def clear(self) -> None:
        """Take it back, before looking."""
        self.looked_at = time.monotonic()
        self._event.clear()

    def is_given(self) -> bool:
        """Return whether nobody has looked since it was given."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> None:
        """Return once it is given, or after so many seconds."""
        self._event.wait(seconds)


class IdleWait:
    """Where one waits until nothing is under way; whatever comes to its end says `changed`."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._condition = threading.Condition()

    def changed(self) -> None:
        """Have whoever waits look again."""
        with self._condition:
            self._condition.notify_all()

    def wait_for(self, is_quiet: Callable[[], bool], seconds: float) -> bool:
        """Return whether it became quiet within so many seconds."""
        with self._condition:
            return self._condition.wait_for(is_quiet, seconds)


class Precedence:
    """Lets decisions go first: what can wait does, for a moment, while clicks are undecided."""

    def __init__(self) -> None:
        """Nothing is undecided."""
        self._free = threading.Event()
        self._free.set()

    def claim(self) -> None:
        """Have others wait: a click was stored, or is being decided."""
        self._free.clear()

    def release(self) -> None:
        """Let others go on: no click is undecided."""
        self._free.set()

    def wait(self, seconds: float = 0.5) -> None:
        """Return once no click is undecided, or after so many seconds: nobody waits for ever.

        A wait that was in vain ends the claim, so that what has to be sent is not paced by it.
        """
        if not self._free.wait(seconds):
            self._free.set()


class Arrivals:
    """Deliveries that have arrived and are not acknowledged yet."""

    def __init__(self, watch: Tracer | None = None) -> None:
        """None has arrived."""
        self._watch = watch or Tracer()
        self._condition = threading.Condition()
        self._open = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """One delivery, up to its acknowledgement."""
        with self._condition:
            self._open += 1
        try:
            with self._watch.over(Work.ACKNOWLEDGE):
                yield
        finally:
            with self._condition:
                self._open -= 1
                self._condition.notify_all()

    def wait(self, seconds: float = FIRST) -> None:
        """Return once all are acknowledged, or after so many seconds."""
        with self._condition:
            self._condition.wait_for(lambda: not self._open, seconds)


class PendingAnswers:
    """What waits for answers, each by itself; used by one thread only."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._answers: dict[Hashable, tuple[Future[Any], ...]] = {}

    def put(self, who: Hashable, answers: tuple[Future[Any], ...]) -> None:
        """Have `who` wait until all of these are there."""
        self._answers[who] = answers

    def holds(self, who: Hashable) -> bool:
        """Return whether one of its answers is not there yet."""
        waits = not all(each.done() for each in self._answers.get(who, ()))
        if not waits:
            self._answers.pop(who, None)
        return waits


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of one process."""

    work: Signal = field(default_factory=Signal)  # a fact was stored: the loop looks
    post: Signal = field(default_factory=Signal)  # the outbox has something to send
    policy: Signal = field(default_factory=Signal)  # another policy is in force
    rest: IdleWait = field(default_factory=IdleWait)  # something came to its end
    decisions: Precedence = field(default_factory=Precedence)  # clicks are decided first
    live: Live = field(default_factory=Live)  # what goes on in each request, for surfaces
    own: set[str] = field(default_factory=set)  # keys of deliveries that were stored here
    watch: Tracer = field(default_factory=Tracer)  # what the bot is at work on, for its operator
    arrivals: Arrivals = field(init=False)
    # what is under way is left for the next start
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """What arrives is watched."""
        object.__setattr__(self, "arrivals", Arrivals(self.watch))

    def give_way(self) -> None:
        """Let acknowledgements and then decisions go first, for a bounded time each."""
        self.arrivals.wait()
        self.decisions.wait()


# What wakes a thread when time has passed: at an interval, and at moments that it is told.

LONGEST = timedelta(days=1)


class Alarm:
    """One per loop; silent until it is started, and after it was stopped."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called on a thread of the alarm's own."""
        self._wake = wake
        self._lock = threading.Lock()
        self._is_over = False
        self._scheduler = BackgroundScheduler(
            job_defaults={"misfire_grace_time": None, "coalesce": True}, timezone="UTC"
        )

    def start(self, interval: float) -> None:
        """Wake every so many seconds from now on, unless it was stopped by then."""
        with self._lock:
            if not self._is_over:
                self._scheduler.start()
                self._scheduler.add_job(self._wake, IntervalTrigger(seconds=interval))

    def after(self, wait: timedelta, name: str) -> None:
        """Wake once after `wait`, in place of what was told under that name before."""
        at = SystemClock().now() + min(wait, LONGEST)
        with self._lock:
            if self._scheduler.state == STATE_RUNNING:
                self._scheduler.add_job(self._wake, DateTrigger(at), id=name, replace_existing=True)

    def stop(self) -> None:
        """Wake no more."""
        with self._lock:
            self._is_over = True
            if self._scheduler.running:
                # What is due in this very moment is dealt with first: while it shuts down, the
                # scheduler looks for its job where it is not (APScheduler 3.11, `remove_job`).
                self._scheduler.pause()
                self._scheduler.remove_all_jobs()
                self._scheduler.shutdown(wait=False)
