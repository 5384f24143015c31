"""Checks for whoever looks after the process: whether the database takes what is to be stored."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime

from sqlalchemy.exc import DBAPIError

from storage.sqlite_connections import LostFileError
from storage.store import Store, commit_something

# One thing that is looked at now and again, such as the database, without anybody waiting long.

log = logging.getLogger("countersign.watch")
PATIENCE = 2.0  # seconds for one look
OK = "ok"


class CachedCheck:
    """One thing that is looked at on a thread of its own, and what was found last; any thread."""

    def __init__(self, look: Callable[[], str], good_for: float, first: str | None = None) -> None:
        """`look` returns OK or what is wrong, and may raise.

        `good_for`: seconds until it is looked again; `first`: what is known already.
        """
        self._look, self._good_for = look, good_for
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._lock = threading.Lock()
        self._going: Future[str] | None = None
        self._found, self._at = first, time.monotonic()

    def now(self) -> str:
        """Look, unless that was a moment ago; OK or what is wrong, within PATIENCE."""
        try:
            return self._begun().result(PATIENCE)
        except NotInTime:
            return f"no answer within {PATIENCE:g} seconds"

    def lately(self) -> str:
        """Return what was found last, and look again without waiting."""
        begun = self._begun()
        return begun.result() if begun.done() else self._found or OK

    def _begun(self) -> Future[str]:
        with self._lock:
            if self._going is not None:
                return self._going
            if self._found is not None and time.monotonic() - self._at < self._good_for:
                known: Future[str] = Future()
                known.set_result(self._found)
                return known
            self._going = self._pool.submit(self._found_out)
            return self._going

    def _found_out(self) -> str:
        try:
            found = self._look()
        except Exception as error:  # noqa: BLE001 - whatever it was, it is not well
            log.warning("a look failed: %s", type(error).__name__)
            found = f"failed ({type(error).__name__})"
        with self._lock:
            self._found, self._at, self._going = found, time.monotonic(), None
        return found

    def close(self) -> None:
        """Look no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def check_writable(store: Store) -> str:
    """Return OK, or what became of its file; raises what the database does where it cannot.

    That the file is lost, or its disk full, is said in words: they hold a path, and no secret.
    """
    try:
        commit_something(store)
    except DBAPIError as error:
        if isinstance(error.orig, LostFileError):
            return str(error.orig)
        raise
    except OSError as error:
        return f"there is no room beside it ({error.strerror})"
    return OK
