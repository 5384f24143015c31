"""One visit to a database: a transaction with limits of its own, and what both kinds of database
have in common.

A session reads the catalog, runs statements that were checked, and rolls back unless `commit` is
called. What goes wrong before that is a ToolError: certainly nothing was changed. Only a COMMIT
whose answer is missing raises ConnectionError.
"""

from __future__ import annotations

import logging
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection

from bot.tools import ToolError
from bot.tools.database.catalog import OWN_TABLES, Catalog
from bot.tools.database.config import Database
from bot.tools.database.row_changes import Change
from bot.tools.database.statement import Statement

CONNECT_TIMEOUT = 5  # seconds
PREVIEW_TIMEOUT = 2.0  # seconds a preview may take, and wait for locks
# characters of all values of a result: after the row that goes beyond, no more are read
MAX_SIZE = 5_000_000

log = logging.getLogger("countersign.databases")


class OwnDatabaseError(ToolError):
    """It is Countersign's own database."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class Session(ABC):
    """One transaction."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection
        self._before_commit: Callable[[], None] = lambda: None

    def tell_before_commit(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when a COMMIT is about to be sent: then its end may be unknown."""
        self._before_commit = tell

    @cached_property
    def catalog(self) -> Catalog:
        """What is there, as far as the role sees it, with the secret columns marked; read once."""
        found = self._reflected()
        if self._is_own(found):
            raise OwnDatabaseError("it holds the tables of a Countersign, which no tool may touch")
        return found

    def _is_own(self, found: Catalog) -> bool:
        """Whether these are Countersign's own tables."""
        return set(found.tables) >= OWN_TABLES

    @abstractmethod
    def remarked(self, catalog: Catalog) -> Catalog:
        """The catalog with what the owner says of each table: a comment, checks."""

    @abstractmethod
    def _reflected(self) -> Catalog:
        """What is there; read anew."""

    @abstractmethod
    def query(self, statement: Statement, limit: int) -> Rows:
        """Run a query; at most `limit` rows."""

    @abstractmethod
    def look(self, statement: Statement) -> None:
        """Have the database say whether it would run; nothing runs."""

    @abstractmethod
    def observe(self, statements: Sequence[Statement]) -> tuple[Change, ...]:
        """Run changes one after the other, all of it twice, the first time rolled back; the rows
        that each has touched.

        Raises ToolError where they are too many, or cannot be told.
        """

    @abstractmethod
    def version(self) -> str:
        """What answers, for the operator: "PostgreSQL 15.4 as agent"."""

    @abstractmethod
    def changeable(self) -> bool:
        """Whether there is any table that may be changed, for the operator."""

    @abstractmethod
    def commit(self) -> None:
        """Make it last.

        Raises ToolError when it certainly did not, ConnectionError when that is not known.
        """


class Source(Protocol):
    """One database, ready to be opened."""

    database: Database

    def open(
        self, *, writes: bool, timeout: float | None = None, lock_timeout: float | None = None
    ) -> AbstractContextManager[Session]:
        """A transaction that is rolled back at the end unless it was committed.

        Seconds, else as configured.
        """


def bound_rows(
    rows: Iterable[tuple[Any, ...]], limit: int
) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """The first `limit` rows, fewer where they are very long, and whether there are more."""
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        if len(found) == limit or size > MAX_SIZE:
            return tuple(found), True
        found.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
    return tuple(found), False


def hide_values(message: str) -> str:
    """A database's message without the values that it quotes: they may be secret."""
    return re.sub(r"""(["']).*\1""", "“…”", message, flags=re.DOTALL)


def end_session(connection: Connection) -> None:
    """End a session.

    Whatever went wrong or right before is not covered up by an error in closing.
    """
    try:
        connection.close()
    except Exception:
        log.warning("closing a database connection failed", exc_info=True)


def refuse_own_database(path: Path, own: Path | None) -> None:
    """Raise OwnDatabaseError when `path` is the file of Countersign's own database, or one beside
    it, by any name.
    """
    if own is None:
        return
    beside = [
        own,
        *(own.with_name(own.name + end) for end in ("-wal", "-shm", "-journal", ".key", ".lock")),
    ]
    for each in beside:
        same = os.path.realpath(each) == os.path.realpath(path)
        if same or (each.exists() and path.exists() and os.path.samefile(each, path)):
            raise OwnDatabaseError("it is Countersign's own database, which no tool may touch")
