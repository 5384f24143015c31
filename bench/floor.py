"""The floor: the cost of one durable commit of one small row here.

It is measured through raw sqlite3 and through SQLModel, both committing as Countersign does: WAL
and synchronous=FULL, so a commit has reached the disk when it returns.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import MetaData
from sqlmodel import Field, Session, SQLModel, create_engine

from bench.figures import Figure, Setup, build_figure
from storage import sqlite_connections

TEXT = "x" * 200


class Note(SQLModel, table=True):
    """A small row."""

    __tablename__ = "bench_note"
    metadata = MetaData()  # not Countersign's metadata
    id: int | None = Field(default=None, primary_key=True)
    text: str


class Floor:
    """Two open databases in `folder`. Each method commits one row and returns the seconds."""

    def __init__(self, folder: Path) -> None:
        self._raw = sqlite3.connect(folder / "raw.db", isolation_level=None)
        for pragma in sqlite_connections.PRAGMAS:
            self._raw.execute(pragma)
        self._raw.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        self._engine = create_engine(f"sqlite:///{folder / 'sqlmodel.db'}")
        sqlite_connections.prepare_engine_connections(self._engine)
        Note.metadata.create_all(self._engine)

    def raw(self) -> float:
        """Commit through sqlite3."""
        began = time.perf_counter()
        self._raw.execute("BEGIN IMMEDIATE")
        self._raw.execute("INSERT INTO note (text) VALUES (?)", (TEXT,))
        self._raw.execute("COMMIT")
        return time.perf_counter() - began

    def sqlmodel(self) -> float:
        """Commit through a new session, as an application would."""
        began = time.perf_counter()
        with Session(self._engine) as session:
            session.add(Note(text=TEXT))
            session.commit()
        return time.perf_counter() - began

    def close(self) -> None:
        """Close both databases."""
        self._raw.close()
        self._engine.dispose()


def measure_typical(commit: Callable[[], float], times: int = 30) -> float:
    """Return the median seconds of several commits in a row."""
    return statistics.median(commit() for _ in range(times))


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure one durable commit both ways, in turns."""
    floor = Floor(setup.make_folder("floor"))
    measure_typical(floor.raw), measure_typical(floor.sqlmodel)  # warms the caches
    rounds = [
        (measure_typical(floor.raw), measure_typical(floor.sqlmodel))
        for _ in range(3 if setup.quick else 15)
    ]
    floor.close()
    yield build_figure(
        "floor.raw", "one durable commit, raw sqlite3", [raw * 1000 for raw, _ in rounds], "ms"
    )
    yield build_figure(
        "floor.sqlmodel",
        "one durable commit, SQLModel",
        [model * 1000 for _, model in rounds],
        "ms",
    )
