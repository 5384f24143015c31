"""A damaged page of the database: nothing runs because of it, and nothing happens twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from bot.cards.action_names import Action
from bot.cards.button_codec import RunTarget, encode_button_value
from storage.models import Call
from storage.states import CallStatus, RunStatus
from storage.store import Store
from tests.records import ON_A_SERVER
from tests.runs.bolt_app import deliver_click, make_bolt_app
from tests.runs.fakes import ANA, BEN
from tests.runs.harness import LoopHarness, approved
from tests.runs.promises import check_promises
from tests.storage.builders import click

pytestmark = pytest.mark.skipif(ON_A_SERVER, reason="the pages are the server's affair")
TABLES = ("delivery", "vote", "call", "run", "plan", "revision", "item", "message", "audit")


@contextmanager
def damage_page(store: Store, table: str) -> Iterator[None]:
    """The first page of that table is nonsense meanwhile; afterwards it is intact again."""
    store.engine.dispose()
    with closing(sqlite3.connect(store.path)) as file:
        busy, *_ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        [size] = file.execute("PRAGMA page_size").fetchone()
        [page] = file.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
    assert not busy
    start = (page - 1) * size
    whole = store.path.read_bytes()[start : start + size]
    _write(store.path, start, b"\xa5" * size)
    try:
        yield
    finally:
        store.engine.dispose()
        _write(store.path, start, whole)


def _write(path: Path, start: int, page: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(page)


def restart_and_get_call(harness: LoopHarness) -> Call:
    """A new process finds the pages intact, and the requester retries what has failed.

    Returns the newest call, which ran at most once.
    """
    harness.stop()
    harness.start()
    for run in harness.all()[0]:
        if run.status is RunStatus.FAILED:
            value = encode_button_value(RunTarget(run.id))
            harness.arrive(lambda key, value=value: click(key, Action.RETRY, value, BEN))
    harness.loop.tick()
    harness.work()
    check_promises(harness)
    assert max(harness.effects.values(), default=0) <= 1
    return harness.all()[1][-1]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """A note that was approved and has not started yet."""
    made = approved(tmp_path / "db")
    yield made
    made.stop()


@pytest.mark.parametrize("table", TABLES)
def test_a_call_over_a_damaged_page_runs_once_or_is_unknown(
    harness: LoopHarness, table: str
) -> None:
    """It never runs without its record."""
    [run] = harness.all()[0]
    with damage_page(harness.store, table):
        with suppress(DatabaseError):
            harness.worker.advance_run(run.id)
        if table in ("call", "run", "audit", "revision", "plan"):
            assert not harness.effects
    call = restart_and_get_call(harness)
    assert call.status in (CallStatus.SUCCEEDED, CallStatus.UNKNOWN)
    assert list(harness.effects.values()) == [1]


@pytest.mark.parametrize("table", TABLES)
def test_a_click_over_a_damaged_page_counts_once_it_is_intact(
    harness: LoopHarness, table: str
) -> None:
    """A click that could not be stored is not acknowledged."""
    harness.work()
    harness.model.script = [[("note", "b")]]
    harness.say("again", "2.0")
    harness.loop.tick()
    harness.work()
    call = harness.all()[1][-1]
    assert call.status is CallStatus.PENDING
    with damage_page(harness.store, table):
        kept = deliver_click(make_bolt_app(harness.core), "1") == 200
        with suppress(DatabaseError):
            harness.loop.tick()
    assert kept == (table != "delivery")
    harness.arrive(lambda key: click(key, Action.APPROVE, f"{call.id}:1", ANA))
    with damage_page(harness.store, table), suppress(DatabaseError):
        harness.loop.tick()
    assert call.id not in harness.effects
    harness.clock.at += timedelta(seconds=40)  # the delivery is tried again
    assert restart_and_get_call(harness).status is CallStatus.SUCCEEDED
