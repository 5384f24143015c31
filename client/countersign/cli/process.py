"""How a process starts, and how a serving one ends: at the first signal, within fifteen seconds.

Every later signal is ignored, since the clean-up that it interrupts might never end. Threads that
still hang are left: acknowledged work is in the database, which a sudden end does not damage.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

# How a server process starts: imports without garbage collection, since they leave no garbage,
# and few malloc arenas, so that threads share memory.

M_ARENA_MAX = -8  # option of glibc's mallopt


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Import in this block without garbage collection, and exempt all objects made so far from it.

    Saves a quarter of the processor time of a start: modules are many objects that stay.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def limit_memory_arenas() -> None:
    """Limit glibc to two memory arenas for all threads; call this before any thread starts.

    By default glibc makes eight for each processor, and each keeps memory from past bursts: a dozen
    megabytes with fifty threads. Does nothing with another C library.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def ensure_home_folder() -> None:
    """Set HOME if neither it nor the account's entry names a folder, as in some containers.

    slack_sdk asks for it when it is imported, and cannot be imported without one.
    """
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/"


log = logging.getLogger("countersign")
STOP_TIMEOUT_SECONDS = 13.0
KILL_GRACE_SECONDS = 1.5  # after which SIGALRM ends the process, even if Python hangs
HANGING_EXIT_CODE = 1

# what ends a job beside Ctrl-C; Windows has no SIGHUP
END_SIGNALS = tuple(each for each in signal.Signals if each.name in ("SIGTERM", "SIGHUP"))

_begun = threading.Event()
_timed = threading.Event()
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def interrupt_once_on(*signals: signal.Signals) -> None:
    """Have the first of these signals raise KeyboardInterrupt, and ignore all of them after it.

    A signal that is ignored already stays ignored. Does nothing except on the main thread.
    """

    def interrupt(_signal: int, _frame: object) -> NoReturn:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    handled = [each for each in signals if signal.getsignal(each) is not signal.SIG_IGN]
    if threading.current_thread() is threading.main_thread():
        for each in handled:
            signal.signal(each, interrupt)


@contextmanager
def handle_signals(handlers: Mapping[signal.Signals, Callable[..., object]]) -> Iterator[None]:
    """Use these handlers in this block. Does nothing except on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, handler) for each, handler in handlers.items()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def install_stop_handlers() -> None:
    """Install handlers that end the process on the first SIGTERM or Ctrl-C and ignore others."""
    handled = {each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN}
    for each in handled:  # not one that is ignored: a shell lets its background jobs ignore Ctrl-C
        signal.signal(each, _handle_stop_signal)
    # Python runs a handler only once the main thread leaves library code; the thread need not wait
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    name = "signals"
    threading.Thread(
        target=_start_time_limit_on_signal, args=(reader, handled), name=name, daemon=True
    ).start()


def _start_time_limit_on_signal(reader: int, handled: set[signal.Signals]) -> None:
    """Wait for the first signal that ends the process, and start the time limit then."""
    while not handled & set(os.read(reader, 1)):
        pass
    _start_time_limit()


def _start_time_limit() -> None:
    """Start the time limit in which the process has to end; a second call does nothing."""
    if _timed.is_set():
        return
    _timed.set()
    # ends the process even if the interpreter hangs
    signal.setitimer(signal.ITIMER_REAL, STOP_TIMEOUT_SECONDS + KILL_GRACE_SECONDS)
    watchdog = threading.Timer(STOP_TIMEOUT_SECONDS, _exit_hanging_process)
    watchdog.name, watchdog.daemon = "watchdog", True
    watchdog.start()


def begin_shutdown() -> bool:
    """Start to end the process: ignore signals, set a time limit; return False if begun before.

    May be called from any thread, and from a signal's handler.
    """
    if _begun.is_set():
        return False
    _begun.set()
    _start_time_limit()
    return True


def exit_if_stopping(code: int) -> int:
    """End the process with this exit code if it was stopping; else return the code.

    Threads that hang are not waited for.
    """
    if not _begun.is_set():
        return code
    _flush_output()
    os._exit(code)


def _handle_stop_signal(_signal: int, _frame: object) -> None:
    if begin_shutdown():
        raise KeyboardInterrupt


def _exit_hanging_process() -> NoReturn:
    """Log which threads hang, as far as that is possible, and end the process."""
    try:
        still = ", ".join(sorted({each.name for each in threading.enumerate()} - {"watchdog"}))
        log.error(
            "not stopped within %g seconds, so ended by force: %s hang", STOP_TIMEOUT_SECONDS, still
        )
        _flush_output()
    finally:
        os._exit(HANGING_EXIT_CODE)


def _flush_output() -> None:
    for each in filter(None, (sys.stdout, sys.stderr)):  # none where it was closed at the start
        with suppress(OSError, ValueError):
            each.flush()
