"""The cost of a purge grows with what it purges, and disk space is given back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.clock import Clock
from bot.upkeep import purge_old_requests
from storage import moves, runs, sqlite, trail
from storage.examination import examine_audit_and_rows
from storage.models import Run
from storage.states import RunStatus
from storage.store import Store
from storage.transaction import Trace, Transaction
from tests.records import drop, store_of
from tests.runs.fakes import StillClock
from tests.storage.builders import AT, TEAM

WORDS = "What somebody asked for, in words that fill some of a page. " * 150
OLD = timedelta(days=90)
LATER = AT + timedelta(days=100)


def add_requests(store: Store, count: int) -> None:
    """Store so many requests that were cancelled."""
    for first in range(0, count, 100):
        with store.write() as tx:
            for number in range(first, min(first + 100, count)):
                run = Run(team=TEAM, channel="C1", thread_ts=f"{number}.0", requester="UBEN")
                run.created_at = run.updated_at = AT
                moves.insert_run(tx, run, at=AT)
                runs.append_transcript_item(tx, run, {"role": "user", "content": WORDS}, at=AT)
                moves.change_run_status(tx, run, RunStatus.CANCELLED, at=AT)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty record."""
    opened = store_of(tmp_path / "countersign.db").open()
    yield opened
    opened.close()
    drop(tmp_path / "countersign.db")


@pytest.fixture
def clock() -> Clock:
    """A clock a hundred days later."""
    clock = StillClock()
    clock.at = LATER
    return clock


class CountingTrace(Trace):
    """Counts transactions, and the statements in each."""

    def __init__(self) -> None:
        self.statements: list[int] = [0]

    def before_statement(self, sql: str, values: Any) -> None:
        """Count it."""
        self.statements[-1] += 1

    def after_commit(self, tx: Transaction) -> None:
        """Begin the next transaction."""
        self.statements.append(0)


def measure_purge(tmp_path: Path, name: str, count: int, clock: Clock) -> tuple[int, int]:
    """Purge so many requests; returns SQLite's steps, and the most statements in a transaction."""
    store = Store(f"sqlite:///{tmp_path / name}").open()
    steps, counted = [0], CountingTrace()

    def step() -> None:
        steps[0] += 1

    with closing(store):
        add_requests(store, count)
        with store.read() as tx:  # on the kept connection, which is used next
            tx.raw.set_progress_handler(step, 100)
        store.trace = counted
        assert purge_old_requests(store, clock, OLD) == count
    return steps[0], max(counted.statements)


@pytest.mark.file
def test_a_purges_work_grows_with_the_requests_purged(tmp_path: Path, clock: Clock) -> None:
    """Six times as many take about six times the work; transactions stay as small."""
    few, most_few = measure_purge(tmp_path, "few.db", 200, clock)
    many, most_many = measure_purge(tmp_path, "many.db", 1200, clock)
    assert many < 7.5 * few
    assert most_many <= most_few < 40


@pytest.mark.long
@pytest.mark.file
def test_a_purges_work_grows_in_proportion_up_to_ten_thousand(tmp_path: Path, clock: Clock) -> None:
    """It is compared with a thousand."""
    few, _ = measure_purge(tmp_path, "few.db", 1000, clock)
    many, _ = measure_purge(tmp_path, "many.db", 10_000, clock)
    assert many < 12 * few


def test_all_due_requests_are_purged_in_several_transactions(store: Store, clock: Clock) -> None:
    """`audit verify` finds no problem and counts them."""
    add_requests(store, 250)
    assert purge_old_requests(store, clock, OLD) == 250
    assert purge_old_requests(store, clock, OLD) == 0
    with store.read() as tx:
        found = examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))
        assert found.problems == []
        assert any("the payload of 250 requests was purged" in each for each in found.remarks)


@pytest.mark.file
def test_freed_pages_are_given_back_in_steps(store: Store, clock: Clock) -> None:
    """Others can write in between; database and log become smaller."""
    add_requests(store, 400)
    store.checkpoint_write_ahead_log()
    before = store.path.stat().st_size
    purge_old_requests(store, clock, OLD)
    store.release_all_free_pages()
    assert store.path.stat().st_size < 0.7 * before
    assert Path(f"{store.path}-wal").stat().st_size == 0
    with closing(sqlite3.connect(store.path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA freelist_count").fetchone() == (0,)


@pytest.mark.file
def test_a_step_gives_back_a_limited_number_of_pages(store: Store, clock: Clock) -> None:
    """Many more are free."""
    add_requests(store, 2000)
    purge_old_requests(store, clock, OLD)
    with store.read() as tx:
        free = tx.exec_driver_sql("PRAGMA freelist_count").scalar()
    assert store.release_free_pages()
    with store.read() as tx:
        left = tx.exec_driver_sql("PRAGMA freelist_count").scalar()
    assert 0 < free - left <= sqlite.MAX_PAGES_PER_VACUUM_STEP + 5


@pytest.mark.file
def test_vacuum_rewrites_a_file_of_an_earlier_build(tmp_path: Path, clock: Clock) -> None:
    """Such a file cannot give back single pages; the rewritten one can, and is half as large."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=WAL")  # writes the first page
    store = Store(f"sqlite:///{path}").open()
    with closing(store):
        add_requests(store, 300)
        store.checkpoint_write_ahead_log()
        before = path.stat().st_size
        purge_old_requests(store, clock, OLD)
        assert not store.release_free_pages()
        assert store.vacuum_database() == ""
        assert path.stat().st_size < 0.6 * before
        with store.read() as tx:
            assert (
                tx.exec_driver_sql("PRAGMA auto_vacuum").scalar() == sqlite.INCREMENTAL_VACUUM_MODE
            )
            assert examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx)).problems == []
        add_requests(store, 1)  # writing still works


@pytest.mark.file
def test_vacuum_works_in_steps_if_the_disk_has_no_room(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no room for a second file."""
    add_requests(store, 400)
    store.checkpoint_write_ahead_log()
    before = store.path.stat().st_size
    purge_old_requests(store, clock, OLD)
    monkeypatch.setattr(sqlite.shutil, "disk_usage", lambda _: SimpleNamespace(free=5))
    assert "5 are free" in store.vacuum_database()
    assert store.path.stat().st_size < 0.7 * before
