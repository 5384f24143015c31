"""A database that is only looked at: it is not locked, not migrated, never made, and may belong to
a working bot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import URL, Engine, create_engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlmodel import col

from storage.chain import Chain
from storage.migrations import newest
from storage.models import Run
from storage.sqlite import SqliteFile
from storage.store import Store, version
from storage.transaction import Transaction


class ReadOnly(Store):
    """A Store without the means to write."""

    def __init__(self, place: str | Path) -> None:
        """The record at an address or in an SQLite file; `trouble` says whether it can be read."""
        url = URL.create("sqlite", database=str(place))
        super().__init__(place if isinstance(place, str) else SqliteFile(url))
        self.chain = Chain(b"")  # nothing is sealed here
        if isinstance(self.database, SqliteFile):
            self.database.engine = _looking(self.database)

    @contextmanager
    def write(self, *, durable: bool = True, told: bool = True) -> Iterator[NoReturn]:
        """Raises TypeError: nothing is written here."""
        raise TypeError("this database is only read")
        yield  # makes it the generator that its kind is

    def is_there(self) -> bool:
        """Whether there is something to read; a server always is, until it is asked."""
        return self.shared or self.path.exists()

    def trouble(self) -> str:
        """Why the rows cannot be read, "" where they can."""
        name = self.database.name
        if not (self.shared or self.path.is_file()):
            return f"there is no database at {name}"
        try:
            current = version(self)
        except (SQLAlchemyError, sqlite3.Error) as error:
            return f"{name} cannot be read ({type(error).__name__})"
        if current is None and self.shared:
            return f"there is nothing of Countersign's in {name}"
        return (
            "" if current == newest() else f"{name} was written by another version of Countersign"
        )


def _looking(file: SqliteFile) -> Engine:
    """An engine whose connections only read."""

    def connect() -> Any:
        uri = f"{file.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(
            uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False
        )

    return create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)


def teams(tx: Transaction) -> list[str]:
    """The workspaces whose requests are on record."""
    return list(tx.scalars(select(col(Run.team)).distinct()))
