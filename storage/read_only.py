"""A database that is only looked at: it is not locked, not migrated, never made, and may belong to
a working bot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from sqlalchemy import URL, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlmodel import col

from storage.backend import backend_of
from storage.chain import Chain
from storage.migrations import newest
from storage.models import Run
from storage.sqlite import SqliteFile
from storage.sqlite_connections import looking
from storage.store import Store, unfit, version
from storage.transaction import Transaction


class ReadOnly(Store):
    """A Store without the means to write."""

    def __init__(self, place: str | Path) -> None:
        """The record at an address or in an SQLite file; `trouble` says whether it can be read."""
        named = backend_of(place) if isinstance(place, str) else None
        path = place if named is None else named.path
        file = SqliteFile(URL.create("sqlite", database=str(path)), looking)
        super().__init__(named if named is not None and named.shared else file)
        self.chain = Chain(b"")  # nothing is sealed here

    @contextmanager
    def write(
        self, *, durable: bool = True, told: bool = True, counted: bool = True
    ) -> Iterator[NoReturn]:
        """Raises TypeError: nothing is written here."""
        raise TypeError("this database is only read")
        yield  # makes it the generator that its kind is

    def is_there(self) -> bool:
        """Whether there is something to read; a server always is, until it is asked."""
        return self.shared or self.path.exists()

    def trouble(self) -> str:
        """Why the rows cannot be read, "" where they can."""
        name = self.database.name
        if not self.shared and self.path.is_dir():
            return f"{name} is a folder, no database"
        if not (self.shared or self.path.is_file()):
            return f"there is no database at {name}"
        try:
            current = version(self)
            if wrong := unfit(self, current, reading=True):
                return wrong
        except (SQLAlchemyError, sqlite3.Error) as error:
            return f"{name} cannot be read ({told_by(error)})"
        if current is None:
            return f"there is nothing of Countersign's in {name}"
        if current != newest():
            return (
                f"{name} has the older schema {current}; start the bot, which brings it up to date"
            )
        return ""


def told_by(error: Exception) -> str:
    """Return what a driver says went wrong, on one line and without the statement; its kind where
    it says nothing.
    """
    said = str(error.orig if isinstance(error, DBAPIError) else error).split()
    return " ".join(said) or type(error).__name__


def teams(tx: Transaction) -> list[str]:
    """The workspaces whose requests are on record."""
    return list(tx.scalars(select(col(Run.team)).distinct()))
