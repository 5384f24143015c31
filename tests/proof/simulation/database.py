"""The record as the simulation reads it, with a driver alone: from a file, or from a server."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import psycopg
from sqlalchemy import make_url

from storage.postgres_session import DEFAULT_SCHEMA
from tests.records import ON_A_SERVER, new_record

Row = Any  # columns by number and by name


class Database(Protocol):
    """A connection that only reads, each query by itself."""

    def all(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """The rows of a query, whose parameters are marked ?."""
        ...

    def list_tables(self) -> list[str]:
        """The names of all tables."""
        ...

    def is_sound(self) -> bool:
        """Whether the database finds itself intact."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def open_database(path: Path) -> Database:
    """The record for `path`, which exists."""
    return _ServerDatabase(new_record(path)) if ON_A_SERVER else _FileDatabase(path)


class _FileDatabase:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row

    def all(self, sql: str, values: Sequence[Any]) -> list[Row]:
        return self._connection.execute(sql, tuple(values)).fetchall()

    def list_tables(self) -> list[str]:
        found = self.all("SELECT name FROM sqlite_master WHERE type = 'table'", ())
        return [name for (name,) in found if not name.startswith("sqlite_")]

    def is_sound(self) -> bool:
        return bool(self._connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")

    def close(self) -> None:
        self._connection.close()


class _NamedRow(tuple[Any, ...]):
    """A row whose columns have names as well."""

    names: dict[str, int]

    def __getitem__(self, which: Any) -> Any:
        return super().__getitem__(self.names[which] if isinstance(which, str) else which)


class _ServerDatabase:
    def __init__(self, url: str) -> None:
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection = psycopg.connect(plain, autocommit=True, row_factory=_make_row_factory)
        self._connection.execute(f"SET search_path TO {DEFAULT_SCHEMA}")

    def all(self, sql: str, values: Sequence[Any]) -> list[Row]:
        words: Any = sql.replace("?", "%s")
        return self._connection.execute(words, values).fetchall()

    def list_tables(self) -> list[str]:
        found = self.all("SELECT tablename FROM pg_tables WHERE schemaname = ?", (DEFAULT_SCHEMA,))
        return [name for (name,) in found]

    def is_sound(self) -> bool:
        return True  # it checks pages as it reads them

    def close(self) -> None:
        self._connection.close()


def _make_row_factory(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], _NamedRow]:
    names = {each.name: number for number, each in enumerate(cursor.description or ())}
    made = type("Named", (_NamedRow,), {"names": names})
    found: Callable[[Sequence[Any]], _NamedRow] = made
    return found
