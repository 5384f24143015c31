"""Which database errors are temporary, and their texts without the values of the statement."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy.exc import DBAPIError

# errors that are not the statement's fault: it may succeed when it is tried again
TRANSIENT_SQLITE_CODES = frozenset(
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
# the same for PostgreSQL: connection, rollback, resources, operator and system errors (classes); a
# lock wait that timed out, a session idle too long or a transaction that lasted too long, a
# read-only standby server (single codes)
TRANSIENT_SQLSTATE_PREFIXES = ("08", "40", "53", "57", "58", "55P03", "25P03", "25P04", "25006")


class OlderRecordError(Exception):
    """Raised when the server may lack what this process wrote; only a restart helps.

    It is treated as a temporary fault, so that nothing is taken for refused or failed by it.
    """

    def __init__(self) -> None:
        super().__init__(
            "the database's server took over from another one, or went back to an earlier moment, "
            "and may lack what was written last. Countersign has to be started again; what is open "
            "is then asked again"
        )


def is_temporary_database_error(error: BaseException) -> bool:
    """Return whether the error is a temporary fault of the database and not a bug."""
    if not isinstance(error, DBAPIError):
        return False
    orig: Any = error.orig
    if not isinstance(orig, sqlite3.Error):
        return _is_temporary_postgres_error(orig)
    code: int = getattr(orig, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in TRANSIENT_SQLITE_CODES  # the low byte is the primary error code


def _is_temporary_postgres_error(error: Any) -> bool:
    state = getattr(error, "sqlstate", None)
    if state is None:
        names = ("OperationalError", "ConnectionTimeout", OlderRecordError.__name__)
        return type(error).__name__ in names
    return str(state).startswith(TRANSIENT_SQLSTATE_PREFIXES)


def error_text(error: BaseException) -> str:
    """Return an error's text; for a database error without the statement and its values."""
    return str(getattr(error, "orig", None) or error)


def one_line_driver_error_text(error: Exception) -> str:
    """Return a driver's error text on one line, without the statement; the type's name if empty."""
    said = str(error.orig if isinstance(error, DBAPIError) else error).split()
    return " ".join(said) or type(error).__name__
