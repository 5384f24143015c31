"""Health checks for the process's operator: whether the database accepts writes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from sqlalchemy.exc import DBAPIError

from storage.database_errors import OlderRecordError
from storage.record import Store
from storage.sqlite_connections import LostFileError
from storage.store import check_database_writable

log = logging.getLogger("countersign.watch")
CHECK_TIMEOUT_SECONDS = 2.0
OK = "ok"


class CachedCheck:
    """A check that runs on its own thread, with its last result cached; any thread may ask."""

    def __init__(self, look: Callable[[], str], good_for: float, first: str | None = None) -> None:
        """`look` runs the check: it returns OK or what is wrong, and may raise.

        `good_for`: seconds for which a result stays valid; `first`: a result that is known already.
        """
        self._check, self._good_for = look, good_for
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._lock = threading.Lock()
        self._running: Future[str] | None = None
        self._result, self._checked_at = first, time.monotonic()

    def get_valid_or_new_result(self) -> str:
        """Return a valid cached result, or run the check, waiting CHECK_TIMEOUT_SECONDS at most.

        The result is OK or a text that says what is wrong.
        """
        try:
            return self._start_or_reuse_check().result(CHECK_TIMEOUT_SECONDS)
        except TimeoutError:
            return f"no answer within {CHECK_TIMEOUT_SECONDS:g} seconds"

    def get_last_result_and_refresh(self) -> str:
        """Return the last result without waiting, and start a new check if it is too old.

        Before the first result it returns OK.
        """
        begun = self._start_or_reuse_check()
        return begun.result() if begun.done() else self._result or OK

    def _start_or_reuse_check(self) -> Future[str]:
        with self._lock:
            if self._running is not None:
                return self._running
            if self._result is not None and time.monotonic() - self._checked_at < self._good_for:
                known: Future[str] = Future()
                known.set_result(self._result)
                return known
            self._running = self._pool.submit(self._run_check)
            return self._running

    def _run_check(self) -> str:
        try:
            found = self._check()
        except Exception as error:  # noqa: BLE001 - whatever it was, it is not well
            log.warning("a check failed: %s", type(error).__name__)
            found = f"failed ({type(error).__name__})"
        with self._lock:
            self._result, self._checked_at, self._running = found, time.monotonic(), None
        return found

    def close(self) -> None:
        """Cancel checks that have not started, and run no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def check_writable(store: Store) -> str:
    """Return OK if the database accepts a commit, else a text that says what is wrong.

    A lost database file and a full disk are described by a text, which may hold a path and no
    secret; every other database error is raised.
    """
    try:
        check_database_writable(store)
    except DBAPIError as error:
        if isinstance(error.orig, (LostFileError, OlderRecordError)):
            return str(error.orig)
        raise
    except OSError as error:
        return f"there is no free disk space beside it ({error.strerror})"
    return OK
