"""What a purge costs grows with what it purges, and the disk is given back."""

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


def fill(store: Store, count: int) -> None:
    """So many requests that were asked and cancelled."""
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
    """A hundred days later."""
    clock = StillClock()
    clock.at = LATER
    return clock


class Counted(Trace):
    """Counts transactions, and the statements in each."""

    def __init__(self) -> None:
        self.statements: list[int] = [0]

    def before_statement(self, sql: str, values: Any) -> None:
        """One more."""
        self.statements[-1] += 1

    def after_commit(self, tx: Transaction) -> None:
        """The next one begins."""
        self.statements.append(0)


def work(tmp_path: Path, name: str, count: int, clock: Clock) -> tuple[int, int]:
    """What purging so many takes: steps of SQLite's, and the most statements in a transaction."""
    store = Store(f"sqlite:///{tmp_path / name}").open()
    steps, counted = [0], Counted()

    def step() -> None:
        steps[0] += 1

    with closing(store):
        fill(store, count)
        with store.read() as tx:  # of its kept connections the one that is taken next, too
            tx.raw.set_progress_handler(step, 100)
        store.trace = counted
        assert purge_old_requests(store, clock, OLD) == count
    return steps[0], max(counted.statements)


@pytest.mark.file
def test_the_work_grows_with_what_is_purged(tmp_path: Path, clock: Clock) -> None:
    """Six times as many requests take six times the work, in transactions that stay as small."""
    few, most_few = work(tmp_path, "few.db", 200, clock)
    many, most_many = work(tmp_path, "many.db", 1200, clock)
    assert many < 7.5 * few
    assert most_many <= most_few < 40


@pytest.mark.long
@pytest.mark.file
def test_the_work_grows_so_with_many(tmp_path: Path, clock: Clock) -> None:
    """The same with ten thousand."""
    few, _ = work(tmp_path, "few.db", 1000, clock)
    many, _ = work(tmp_path, "many.db", 10_000, clock)
    assert many < 12 * few


def test_all_that_is_due_is_purged_and_the_record_holds(store: Store, clock: Clock) -> None:
    """Also where it takes several transactions; `audit verify` counts them."""
    fill(store, 250)
    assert purge_old_requests(store, clock, OLD) == 250
    assert purge_old_requests(store, clock, OLD) == 0
    with store.read() as tx:
        found = examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))
        assert found.problems == []
        assert any("the payload of 250 requests was purged" in each for each in found.remarks)


@pytest.mark.file
def test_the_bot_gives_disk_back_bit_by_bit(store: Store, clock: Clock) -> None:
    """What whole pages held is off the file and its log, in steps in which others can write."""
    fill(store, 400)
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
def test_a_step_is_small(store: Store, clock: Clock) -> None:
    """However much lies free, one transaction gives back so many pages at most."""
    fill(store, 2000)
    purge_old_requests(store, clock, OLD)
    with store.read() as tx:
        free = tx.exec_driver_sql("PRAGMA freelist_count").scalar()
    assert store.release_free_pages()
    with store.read() as tx:
        left = tx.exec_driver_sql("PRAGMA freelist_count").scalar()
    assert 0 < free - left <= sqlite.MAX_PAGES_PER_VACUUM_STEP + 5


@pytest.mark.file
def test_a_file_of_an_earlier_build_is_written_anew(tmp_path: Path, clock: Clock) -> None:
    """It kept no track of what lies free: the command makes it do so, and half of it is gone."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=WAL")  # the first page is written
    store = Store(f"sqlite:///{path}").open()
    with closing(store):
        fill(store, 300)
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
        fill(store, 1)  # it goes on as before


@pytest.mark.file
def test_without_room_for_a_second_file_it_is_done_bit_by_bit(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is nearly full: nothing fails, and what can be given back is."""
    fill(store, 400)
    store.checkpoint_write_ahead_log()
    before = store.path.stat().st_size
    purge_old_requests(store, clock, OLD)
    monkeypatch.setattr(sqlite.shutil, "disk_usage", lambda _: SimpleNamespace(free=5))
    assert "5 are free" in store.vacuum_database()
    assert store.path.stat().st_size < 0.7 * before
