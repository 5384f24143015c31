"""The database as the rest sees it: one writer at a time, any number of readers, rows that are
detached.

Never hold a transaction over a model, tool or Slack call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, Insert, Select, insert, make_url, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.orm.attributes import manager_of_class
from sqlmodel import SQLModel, create_engine

from storage import sqlite

log = logging.getLogger("countersign.store")
M = TypeVar("M", bound=SQLModel)


class SchemaError(Exception):
    """The database was written by another version of Countersign."""


class Store:
    """One SQLite database. `open()` locks it for this process and brings the schema up to date."""

    def __init__(self, url: str) -> None:
        """`url` is an SQLAlchemy URL of an SQLite file, e.g.

        sqlite:///countersign.db; ValueError otherwise.
        """
        parsed = make_url(url)
        if (
            parsed.get_backend_name() != "sqlite"
            or not parsed.database
            or parsed.database == ":memory:"
        ):
            raise ValueError("DATABASE_URL must name an SQLite file, e.g. sqlite:///countersign.db")
        self.path = Path(parsed.database)
        self._file = self.path  # as SQLite knows it once it is open, links followed
        self.engine: Engine = create_engine(url, pool_size=16, max_overflow=32)
        sqlite.prepare(self.engine)
        self._writer = threading.Lock()
        self._soft = False  # something committed may not be on the disk yet
        self._lock: IO[Any] | None = None

    def open(self, *, exclusive: bool = True) -> Store:
        """Lock (AlreadyRunningError when taken), migrate (SchemaError when newer), return self."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.resolve()
        if exclusive:
            self._lock = sqlite.lock(self.path)
        try:
            migrate(self)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Give back connections and the lock."""
        self.engine.dispose()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Connection]:
        """A transaction that may write; commits at the end, rolls back on an exception.

        One that is not `durable` outlives this process, but not a power failure before the next
        durable one (which takes all earlier ones along) or `harden`: for steps of which nobody
        outside has been told anything. A process that shares its database commits durably always,
        for it cannot know what the others tell.
        """
        soft = not durable and self._lock is not None
        with self._writer, self.engine.connect() as connection:
            connection = connection.execution_options(**{sqlite.WRITE: True, sqlite.SOFT: soft})
            with connection.begin():
                yield connection
            self._soft = self._soft or soft  # a durable one that changed nothing waited for nothing

    def harden(self) -> None:
        """Return once all that was committed is on the disk: before anybody outside is told of it."""
        with self._writer:
            if self._soft:
                sqlite.sync(self._file)
                self._soft = False

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent snapshot for reading."""
        with self.engine.connect() as connection, connection.begin():
            yield connection


def rows(tx: Connection, model: type[M], statement: Select[Any], **parameters: Any) -> list[M]:
    """Run `select(model)…` and return detached instances, in the statement's order.

    They are made as the ORM makes those it loads: all columns are there, so there are no defaults
    to fill in.
    """
    new = manager_of_class(model).new_instance
    found: list[M] = []
    result = tx.execute(statement, parameters)
    names = tuple(result.keys())
    for row in result:
        instance: M = new()
        instance.__dict__.update(zip(names, row, strict=True))
        found.append(instance)
    return found


def readable(
    tx: Connection, model: type[M], key: Any, statement: Select[Any], **parameters: Any
) -> list[M]:
    """Like `rows`, but a row that holds nonsense is left out and logged, so that it holds up no
    other.
    """
    try:
        return rows(tx, model, statement, **parameters)
    except (ValueError, TypeError, LookupError):
        found: list[M] = []
        for value in tx.scalars(statement.with_only_columns(key), parameters).all():
            try:
                found += rows(tx, model, select(model).where(key == value))
            except (ValueError, TypeError, LookupError):
                log.exception("%s %s cannot be read", model.__name__, value)
        return found


def first(tx: Connection, model: type[M], statement: Select[Any], **parameters: Any) -> M | None:
    """The first of `rows`, or None; the statement has its own limit where it may find many."""
    found: Sequence[M] = rows(tx, model, statement, **parameters)
    return found[0] if found else None


@cache
def insert_into(model: type[SQLModel]) -> Insert:
    """`insert(model)`, built once."""
    return insert(model)


@cache
def insert_once(model: type[SQLModel], dialect: str) -> Any:
    """An insert that leaves a row with the same `key` as it is; built once for each model."""
    own = sqlite_dialect if dialect == "sqlite" else postgresql
    return own.insert(model).on_conflict_do_nothing(index_elements=["key"])


def migrate(store: Store, scripts: str = "storage:migrations") -> None:
    """Bring the schema to the newest revision in `scripts`, copying the file first when it holds an
    older one.
    """
    config = Config()
    config.set_main_option("script_location", scripts)
    script = ScriptDirectory.from_config(config)
    newest = script.get_current_head()
    with store.engine.connect() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    if current == newest:
        return
    if current is not None:
        if current not in {revision.revision for revision in script.walk_revisions()}:
            raise SchemaError(
                f"{store.path} was written by a newer Countersign (schema {current}); upgrade this one"
            )
        sqlite.copy_to(store.engine, store.path.with_name(f"{store.path.name}.before-{newest}"))
    config.attributes["engine"] = store.engine
    command.upgrade(config, "head")
