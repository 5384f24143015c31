"""How a process begins, and how one that serves ends: at the first signal, once, within fifteen
seconds.

Every later signal is ignored, for what it cut short might never end. Whatever still hangs is left:
what was acknowledged is in the database, which a sudden death does not hurt.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

# How a command that stays begins: imports without looking for garbage, of which they make none,
# and one store of memory for all threads.

ARENAS = -8  # what glibc's mallopt calls M_ARENA_MAX


@contextmanager
def uncollected() -> Iterator[None]:
    """Import inside without garbage collection; what is there afterwards is never looked at again.

    Saves a quarter of the processor time of a start: modules are many objects that stay.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def share_memory() -> None:
    """Have threads take memory from the same two places, before there are any threads.

    By itself glibc makes eight for each processor, which keep what bursts have left in them: a
    dozen megabytes with fifty threads. Where there is another C library, nothing is said to it.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(ARENAS, 2)


log = logging.getLogger("countersign")
LONGEST = 13.0  # seconds that stopping may take
LAST = 1.5  # and more, after which the system ends the process whatever Python is at
GIVEN_UP = 1  # exit code of one that was ended so

_begun = threading.Event()
_timed = threading.Event()
ENDS = (signal.SIGTERM, signal.SIGINT)


def obey_signals() -> None:
    """End on SIGTERM as on Ctrl-C, and on the first of them only."""
    heard = {each for each in ENDS if signal.getsignal(each) is not signal.SIG_IGN}
    for each in heard:  # a shell has what it starts in the background ignore Ctrl-C
        signal.signal(each, _end)
    # a handler has to wait where the main thread is inside of a library, a thread has not
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    name = "signals"
    threading.Thread(target=_time_from_signal, args=(told, heard), name=name, daemon=True).start()


def _time_from_signal(told: int, heard: set[signal.Signals]) -> None:
    """Count the time from the moment of the first signal that ends it."""
    while not heard & set(os.read(told, 1)):
        pass
    _time()


def _time() -> None:
    """From now on the process has so many seconds, and no more."""
    if _timed.is_set():
        return
    _timed.set()
    # not even the interpreter is needed for it
    signal.setitimer(signal.ITIMER_REAL, LONGEST + LAST)
    watchdog = threading.Timer(LONGEST, _give_up)
    watchdog.name, watchdog.daemon = "watchdog", True
    watchdog.start()


def begin() -> bool:
    """From now on signals are ignored, and the process ends in time; whether it is the first say.

    May be called from any thread, and from a signal's handler.
    """
    if _begun.is_set():
        return False
    _begun.set()
    _time()
    return True


def leave(code: int) -> int:
    """End the process with that exit code where it was stopping, without a wait for threads that
    hang; else return the code.
    """
    if not _begun.is_set():
        return code
    _flush()
    os._exit(code)


def _end(_signal: int, _frame: object) -> None:
    if begin():
        raise KeyboardInterrupt


def _give_up() -> NoReturn:
    """Say what hangs, as far as that can be said, and end."""
    try:
        still = ", ".join(sorted({each.name for each in threading.enumerate()} - {"watchdog"}))
        log.error("not stopped within %g seconds, and ended: %s hang", LONGEST, still)
        _flush()
    finally:
        os._exit(GIVEN_UP)


def _flush() -> None:
    for each in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            each.flush()
