"""Retries while the database is temporarily unavailable: locked, disk full, server down.

Code that holds a result stored nowhere else retries until it is stored.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

log = logging.getLogger("countersign.store")
T = TypeVar("T")
# what SQLite says where it is not the statement that is wrong, and it may go well another time
PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
# the classes of what PostgreSQL says then: the connection, a rollback, resources, an operator, the
# system; and that it waits for a lock, was idle too long, or may only be read (a stand-by server)
PASSING_STATES = ("08", "40", "53", "57", "58", "55P03", "25P03", "25006")
FIRST, LONGEST = 0.1, 10.0  # seconds between two tries; doubled each time


def is_temporary_error(error: BaseException) -> bool:
    """Return whether the error is a temporary fault of the database and not a bug."""
    if not isinstance(error, DBAPIError):
        return False
    orig: Any = error.orig
    if not isinstance(orig, sqlite3.Error):
        return _is_temporary_postgres_error(orig)
    code: int = getattr(orig, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in PASSING  # the rest of the code says where


def _is_temporary_postgres_error(error: Any) -> bool:
    """Return whether a PostgreSQL error is temporary, including a broken connection."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return type(error).__name__ in ("OperationalError", "ConnectionTimeout")
    return str(state).startswith(PASSING_STATES)


def error_text(error: BaseException) -> str:
    """Return an error's text; for a database error without the statement and its values."""
    return str(getattr(error, "orig", None) or error)


def compute_retry_delay(failures: int) -> float:
    """Return the seconds to wait after this number (1, 2, …) of failed tries in a row."""
    return min(LONGEST, FIRST * float(2 ** min(failures - 1, 20)))


def retry_until_stored(write: Callable[[], T], ended: threading.Event, what: str) -> T:
    """Call `write` until the database accepts it, and return its result.

    `write` starts from the beginning each time. Raises other errors at once, and the database's
    last error soon after `ended` is set. `what` is for the log.
    """
    failures = 0
    while True:
        last = ended.is_set()
        try:
            return write()
        except Exception as error:
            if not is_temporary_error(error) or last:
                raise
            failures += 1
            log.error("%s cannot be stored, and is kept until it can: %s", what, error_text(error))
        ended.wait(compute_retry_delay(failures))
