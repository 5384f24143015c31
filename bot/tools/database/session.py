"""The interface of a database connection: one transaction with limits, for both kinds of database.

A session reads the catalog, runs statements that were checked, and rolls back unless `commit` is
called. An error before that is a ToolError: certainly nothing was changed. Only a COMMIT whose
answer is missing raises ConnectionError.
"""

from __future__ import annotations

import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from bot.tools import Table, ToolError
from bot.tools.database import row_changes
from bot.tools.database.catalog import COUNTERSIGN_TABLES, Catalog, Relation, get_target_table
from bot.tools.database.config import Database
from bot.tools.database.statement import Statement

CONNECT_TIMEOUT_SECONDS = 5
PREVIEW_TIMEOUT_SECONDS = 2.0  # also the longest wait for locks
# characters of all values in a result; reading stops after the row that exceeds this
MAX_RESULT_CHARS = 5_000_000

log = logging.getLogger("countersign.databases")


class CountersignDatabaseError(ToolError):
    """Raised for Countersign's own database, which no tool may open."""


class Session(ABC):
    """One transaction on a database."""

    _raw: Any  # the driver's own connection

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database, self.connection = database, connection
        self._raw = connection.connection.driver_connection

    @cached_property
    def catalog(self) -> Catalog:
        """All tables that the role can see, with secret columns marked; read once.

        Raises CountersignDatabaseError if they are Countersign's own.
        """
        found = self._read_catalog()
        if self._is_countersign_database(found):
            raise CountersignDatabaseError(
                "it contains the tables of a Countersign, which no tool may touch"
            )
        return found

    def _is_countersign_database(self, found: Catalog) -> bool:
        return set(found.tables) >= COUNTERSIGN_TABLES

    @abstractmethod
    def _read_catalog(self) -> Catalog:
        """Return the catalog as the database has it now."""

    @abstractmethod
    def run_query(self, statement: Statement, limit: int) -> Table:
        """Run a query and return at most `limit` rows."""

    @abstractmethod
    def check_statement(self, statement: Statement) -> None:
        """Have the database check a statement without running it; raises the database's error."""

    def run_changes(self, statements: Sequence[Statement]) -> tuple[row_changes.Change, ...]:
        """Run changes in order, and return the rows that each of them touches.

        All of them run twice, the first time rolled back. Raises ToolError if one is refused or
        fails, if too many rows are touched, or if they cannot be determined.
        """
        named = []
        for number, each in enumerate(statements, 1):
            with row_changes.add_statement_number_to_errors(number, statements):
                named.append((each, get_target_table(each, self.catalog)))
        return self._run_changes(named)

    @abstractmethod
    def _run_changes(
        self, named: Sequence[tuple[Statement, Relation]]
    ) -> tuple[row_changes.Change, ...]:
        """Run changes, each given with its table; see `run_changes`."""

    @abstractmethod
    def describe_server_and_role(self) -> str:
        """Return server and role for the operator: "PostgreSQL 15.4 as agent"."""

    @abstractmethod
    def can_change_tables(self) -> bool:
        """Return whether the role may change any table at all; for the operator."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction.

        Raises ToolError when that certainly failed, ConnectionError when its outcome is not known.
        """


class Source(Protocol):
    """One database that can be opened."""

    database: Database

    def open(
        self, *, writes: bool, timeout: float | None = None
    ) -> AbstractContextManager[Session]:
        """Return a context with a session, rolled back at its end unless it was committed.

        `timeout`: in seconds, also for locks; None takes the configured ones.
        """


def limit_rows(
    rows: Iterable[tuple[Any, ...]], limit: int
) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """Return at most `limit` rows, fewer if they are very long, and whether there are more."""
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        if len(found) == limit or size > MAX_RESULT_CHARS:
            return tuple(found), True
        found.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
    return tuple(found), False


def mask_quoted_values(message: str) -> str:
    """Return a database's message without the values that it quotes, which may be secret."""
    return re.sub(r"""(["']).*\1""", "“…”", message, flags=re.DOTALL)


@contextmanager
def open_connection(
    engine: Engine, driver_error: type[Exception], error_sentence: Callable[[Any], str]
) -> Iterator[tuple[Connection, Any]]:
    """Open a connection for the block, as SQLAlchemy's and as the driver's own.

    Raises each `driver_error` as a ToolError in the words of `error_sentence`. An error in closing
    is only logged, so that it hides no earlier one.
    """
    try:
        connection = engine.connect()
        try:
            yield connection, connection.connection.driver_connection
        finally:
            try:
                connection.close()
            except Exception:
                log.warning("closing a database connection failed", exc_info=True)
    except (driver_error, DBAPIError) as error:  # DBAPIError wraps the driver's error
        raise ToolError(error_sentence(getattr(error, "orig", error))) from None


def check_not_countersign_database(path: Path, bot_database: Path | None) -> None:
    """Raise CountersignDatabaseError if `path` is Countersign's own database, by any name.

    The files beside it, such as its write-ahead log and key, count as well.
    """
    if bot_database is None:
        return
    beside = [
        bot_database,
        *(
            bot_database.with_name(bot_database.name + end)
            for end in ("-wal", "-shm", "-journal", ".key", ".lock")
        ),
    ]
    for each in beside:
        same = os.path.realpath(each) == os.path.realpath(path)
        if same or (each.exists() and path.exists() and os.path.samefile(each, path)):
            raise CountersignDatabaseError(
                "it is Countersign's own database, which no tool may touch"
            )
