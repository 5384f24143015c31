"""Measures what a pause adds to the database: row bytes and file growth with indexes.

`added by a pause` compares a run suspended on a call that asks with a run about to start the same
call where policy allows it: the card, its gate and deadline, the suspension in the audit. `stored
in all` is everything written from the claim to the suspension, including the model's own item and
the call.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.fakes import StubModel
from bench.figures import Figure, Setup
from bench.history import write_history
from bench.offline import Bench
from bench.resume import HISTORY
from storage import moves
from storage.models import Run

AIM = 1000  # bytes


class Halt:
    """An executor that takes the run away when a call would start."""

    def execute_call(self, run: Run, call_id: str) -> None:
        """Start nothing."""
        raise moves.StaleFenceError(run.id)


def count_row_bytes(row: tuple[Any, ...]) -> int:
    """Return a row's bytes in SQLite's record format, without its rowid.

    See sqlite.org/fileformat2.html, section 2.1.
    """
    return sum(map(_count_value_bytes, row)) + 1


def _count_value_bytes(value: Any) -> int:
    """Return the bytes of a value and its serial type."""
    if isinstance(value, str):
        size = len(value.encode())
        return size + (1 if 2 * size + 13 < 128 else 2 if 2 * size + 13 < 16_384 else 3)
    if value is None or value in (0, 1):
        return 1
    limits = ((1, 7), (2, 15), (3, 23), (4, 31), (6, 47), (8, 63))
    return 1 + next(size for size, bits in limits if -(1 << bits) <= value < 1 << bits)


def count_stored_bytes(bench: Bench) -> int:
    """Return the bytes of all rows of all tables."""
    with bench.store.read() as tx:
        names = tx.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars()
        return sum(
            count_row_bytes(tuple(row))
            for name in names
            for row in tx.exec_driver_sql(f'SELECT * FROM "{name}"')
        )


def count_file_bytes(bench: Bench) -> int:
    """Return the bytes of the file's pages after a checkpoint."""
    with bench.store.engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(
            raw.execute("PRAGMA page_count").fetchone()[0]
            * raw.execute("PRAGMA page_size").fetchone()[0]
        )


def measure_added(bench: Bench, thread: str, *, asks: bool) -> int:
    """Return the bytes that a request's first turn adds.

    It ends at the suspension, or at the start of the call if policy allows it.
    """
    run = bench.ask(thread)
    before = count_stored_bytes(bench)
    if asks:
        bench.make_worker(StubModel("note_asked")).advance_run(run.id)
    else:
        bench.make_worker(StubModel("note_freely"), Halt()).advance_run(run.id)
    return count_stored_bytes(bench) - before


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure three lengths of history, then the file's growth over many pauses."""
    bench = Bench(setup.make_folder("pause"))
    for items in HISTORY:
        for kind in ("asked", "freely"):
            write_history(bench.store, f"{kind}.{items}", items, bench.clock.now())
        whole = measure_added(bench, f"asked.{items}", asks=True)
        pause = whole - measure_added(bench, f"freely.{items}", asks=False)
        yield Figure(
            f"pause.{items}", f"added by a pause, {items:,} items of history", pause, "bytes", AIM
        )
        yield Figure(
            f"pause.{items}.whole", "… stored in all, with the call itself", whole, "bytes"
        )
    growth = []
    for number in range(2 if setup.quick else 5):
        before, times = count_file_bytes(bench), 50 if setup.quick else 200
        for nth in range(times):
            bench.make_worker(StubModel("note_asked")).advance_run(
                bench.ask(f"grow.{number}.{nth}").id
            )
        growth.append((count_file_bytes(bench) - before) / times)
    bench.close()
    yield Figure(
        "pause.file",
        "growth of the file by a request and its pause",
        statistics.median(growth),
        "bytes",
    )
