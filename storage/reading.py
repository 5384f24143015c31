"""A database that is only looked at: it is not locked, not migrated, never made, and may belong to
a working bot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from sqlalchemy import create_engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlmodel import col

from storage.chain import Chain
from storage.migrations import newest
from storage.models import Run
from storage.store import Store, version
from storage.transaction import Transaction


class ReadOnly(Store):
    """A Store without the means to write."""

    def __init__(self, path: Path) -> None:
        """The SQLite file at `path`; see `trouble` for whether it can be read."""
        self.path = path
        self._lock = None
        self.engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=NullPool, hide_parameters=True
        )
        self._keep_connections()
        self.trace = None
        self.chain = Chain(b"")  # nothing is sealed here
        self._note = None

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(
            uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False
        )

    @contextmanager
    def write(self, *, durable: bool = True, told: bool = True) -> Iterator[NoReturn]:
        """Raises TypeError: nothing is written here."""
        raise TypeError("this database is only read")
        yield  # makes it the generator that its kind is

    def trouble(self) -> str:
        """Why the rows cannot be read, "" where they can."""
        if not self.path.is_file():
            return f"there is no database at {self.path}"
        try:
            current = version(self)
        except (SQLAlchemyError, sqlite3.Error) as error:
            return f"{self.path} cannot be read ({type(error).__name__})"
        return (
            ""
            if current == newest()
            else f"{self.path} was written by another version of Countersign"
        )


def teams(tx: Transaction) -> list[str]:
    """The workspaces whose requests are on record."""
    return list(tx.scalars(select(col(Run.team)).distinct()))
