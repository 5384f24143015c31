"""What a pause leaves in the database: the bytes of its rows, and what they make the file grow by,
indexes included.

`added by a pause` compares a run suspended on a call that asks with a run at the point of starting
the same call that policy allows: the card, its gate and deadline, the suspension in the audit.
`stored in all` is everything that is written from the claim to the suspension, the model's own item
and the call itself included.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.fakes import Stub
from bench.figures import Figure, Setup
from bench.history import write_history
from bench.offline import Bench
from bench.resume import HISTORY
from storage import moves
from storage.models import Run

AIM = 1000  # bytes


class Halt:
    """An executor that takes the run away at the moment a call would start."""

    def execute_call(self, run: Run, call_id: str) -> None:
        """Starts nothing."""
        raise moves.StaleFenceError(run.id)


def record(row: tuple[Any, ...]) -> int:
    """The bytes of a row in SQLite's record format (sqlite.org/fileformat2.html, section 2.1),
    without its rowid.
    """
    return sum(map(_value, row)) + 1


def _value(value: Any) -> int:
    """A value and its serial type."""
    if isinstance(value, str):
        size = len(value.encode())
        return size + (1 if 2 * size + 13 < 128 else 2 if 2 * size + 13 < 16_384 else 3)
    if value is None or value in (0, 1):
        return 1
    limits = ((1, 7), (2, 15), (3, 23), (4, 31), (6, 47), (8, 63))
    return 1 + next(size for size, bits in limits if -(1 << bits) <= value < 1 << bits)


def stored(bench: Bench) -> int:
    """The bytes of all rows of all tables."""
    with bench.store.read() as tx:
        names = tx.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars()
        return sum(
            record(tuple(row))
            for name in names
            for row in tx.exec_driver_sql(f'SELECT * FROM "{name}"')
        )


def pages(bench: Bench) -> int:
    """The bytes of the file's pages, once the log is written back."""
    with bench.store.engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(
            raw.execute("PRAGMA page_count").fetchone()[0]
            * raw.execute("PRAGMA page_size").fetchone()[0]
        )


def added(bench: Bench, thread: str, *, asks: bool) -> int:
    """What a request's first turn adds: up to the suspension, or up to the start of the call where
    policy allows it.
    """
    run = bench.ask(thread)
    before = stored(bench)
    if asks:
        bench.make_worker(Stub("note_asked")).advance_run(run.id)
    else:
        bench.make_worker(Stub("note_freely"), Halt()).advance_run(run.id)
    return stored(bench) - before


def measure(setup: Setup) -> Iterator[Figure]:
    """At three lengths of history, then the file's growth over many pauses."""
    bench = Bench(setup.new("pause"))
    for items in HISTORY:
        for kind in ("asked", "freely"):
            write_history(bench.store, f"{kind}.{items}", items, bench.clock.now())
        whole = added(bench, f"asked.{items}", asks=True)
        pause = whole - added(bench, f"freely.{items}", asks=False)
        yield Figure(
            f"pause.{items}", f"added by a pause, {items:,} items of history", pause, "bytes", AIM
        )
        yield Figure(
            f"pause.{items}.whole", "… stored in all, with the call itself", whole, "bytes"
        )
    growth = []
    for number in range(2 if setup.quick else 5):
        before, times = pages(bench), 50 if setup.quick else 200
        for nth in range(times):
            bench.make_worker(Stub("note_asked")).advance_run(bench.ask(f"grow.{number}.{nth}").id)
        growth.append((pages(bench) - before) / times)
    bench.close()
    yield Figure(
        "pause.file",
        "growth of the file by a request and its pause",
        statistics.median(growth),
        "bytes",
    )
