"""Signals that end what is tried, and not how it is cleared away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interrupts:
    """Whether a signal is obeyed: the first is, unless it is too late."""

    is_open: bool = True


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Inside, the first of these signals raises KeyboardInterrupt, as long as it is open.

    Afterwards they are as they were.
    """
    found = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return

    def interrupt(_signal: int, _frame: object) -> None:
        if found.is_open:
            found.is_open = False
            raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in SIGNALS}
    try:
        yield found
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
