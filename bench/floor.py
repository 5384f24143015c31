"""The floor: what one durable commit of one small row costs here, through raw sqlite3 and through
SQLModel.

Both as Countersign commits: WAL and synchronous=FULL, so that a commit has reached the disk when it
returns.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import MetaData
from sqlmodel import Field, Session, SQLModel, create_engine

from bench.figures import Figure, Setup, of_rounds
from storage import sqlite_connections

TEXT = "x" * 200


class Note(SQLModel, table=True):
    """A small row."""

    __tablename__ = "bench_note"
    metadata = MetaData()  # of its own: it is no table of Countersign's
    id: int | None = Field(default=None, primary_key=True)
    text: str


class Floor:
    """Two databases in `folder`, kept open.

    Each method commits one row and returns the seconds it took.
    """

    def __init__(self, folder: Path) -> None:
        self._raw = sqlite3.connect(folder / "raw.db", isolation_level=None)
        for pragma in sqlite_connections.PRAGMAS:
            self._raw.execute(pragma)
        self._raw.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        self._engine = create_engine(f"sqlite:///{folder / 'sqlmodel.db'}")
        sqlite_connections.prepare_engine_connections(self._engine)
        Note.metadata.create_all(self._engine)

    def raw(self) -> float:
        """Through sqlite3."""
        began = time.perf_counter()
        self._raw.execute("BEGIN IMMEDIATE")
        self._raw.execute("INSERT INTO note (text) VALUES (?)", (TEXT,))
        self._raw.execute("COMMIT")
        return time.perf_counter() - began

    def sqlmodel(self) -> float:
        """Through a session of its own, as an application would."""
        began = time.perf_counter()
        with Session(self._engine) as session:
            session.add(Note(text=TEXT))
            session.commit()
        return time.perf_counter() - began

    def close(self) -> None:
        """Close both."""
        self._raw.close()
        self._engine.dispose()


def typical(commit: Callable[[], float], times: int = 30) -> float:
    """The median of several commits in a row, in seconds."""
    return statistics.median(commit() for _ in range(times))


def measure(setup: Setup) -> Iterator[Figure]:
    """One durable commit, both ways, taken in turns."""
    floor = Floor(setup.new("floor"))
    typical(floor.raw), typical(floor.sqlmodel)  # the first ones make caches
    rounds = [
        (typical(floor.raw), typical(floor.sqlmodel)) for _ in range(3 if setup.quick else 15)
    ]
    floor.close()
    yield of_rounds(
        "floor.raw", "one durable commit, raw sqlite3", [raw * 1000 for raw, _ in rounds], "ms"
    )
    yield of_rounds(
        "floor.sqlmodel",
        "one durable commit, SQLModel",
        [model * 1000 for _, model in rounds],
        "ms",
    )
