"""How a process that serves ends: at the first signal, once, and within fifteen seconds.

Every later signal is ignored, for what it cut short might never end. Whatever still hangs is left:
what was acknowledged is in the database, which a sudden death does not hurt.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn

log = logging.getLogger("countersign")
LONGEST = 13.0  # seconds that stopping may take
LAST = 1.5  # and more, after which the system ends the process whatever Python is at
GIVEN_UP = 1  # exit code of one that was ended so

_begun = threading.Event()


def obey_signals() -> None:
    """End on SIGTERM as on Ctrl-C, and on the first of them only."""
    for each in (signal.SIGTERM, signal.SIGINT):
        # a shell has what it starts in the background ignore Ctrl-C
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, _end)


def begin() -> bool:
    """From now on signals are ignored, and the process ends in time; whether it is the first say.

    May be called from any thread, and from a signal's handler.
    """
    if _begun.is_set():
        return False
    _begun.set()
    # not even the interpreter is needed for it
    signal.setitimer(signal.ITIMER_REAL, LONGEST + LAST)
    watchdog = threading.Timer(LONGEST, _give_up)
    watchdog.name, watchdog.daemon = "watchdog", True
    watchdog.start()
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
