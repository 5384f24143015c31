"""The audit's chain, and tables that refuse rewriting, also from a plain SQLite shell."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from bot.agent import outputs
from storage import decisions, runs, trail
from storage.store import Store
from tests.record_checks import find_first_broken_row
from tests.storage.builders import AT, ONE, Seeded, seed

TABLES = ("audit", "revision", "vote", "item")


@pytest.fixture
def decided(store: Store) -> Seeded:
    """A database with a row or more in each append-only table."""
    seeded = seed(store)
    with store.write() as tx:
        runs.append_transcript_item(tx, seeded.run(), {"role": "user", "content": "please"}, at=AT)
        decisions.apply_vote(
            tx, seeded.ids[0], 1, "approve", "UANA00001", at=AT, count_votes=ONE, words=outputs
        )
        trail.record_event(
            tx, "note", at=AT + timedelta(microseconds=1), actor="system", data={"text": "„ümläut“"}
        )
    return seeded


@pytest.fixture
def raw(store: Store) -> Iterator[sqlite3.Connection]:
    """A connection of the sqlite3 module alone, as anybody could open one."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA recursive_triggers=ON")
        yield connection


def broken_at(store: Store) -> int | None:
    """Where the chain breaks."""
    with store.read() as tx:
        return find_first_broken_row(tx)


@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_rewritten(decided: Seeded, raw: sqlite3.Connection, table: str) -> None:
    """Audit, revisions, votes and transcript refuse update, delete and overwriting.

    They do row by row and all at once.
    """
    before = raw.execute(f"SELECT * FROM {table}").fetchall()
    assert before
    for statement in (
        f"UPDATE {table} SET seq = seq + 100",
        f"UPDATE {table} SET seq = seq WHERE seq = 1",
        f"DELETE FROM {table}",
        f"DELETE FROM {table} WHERE seq = 1",
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
        f"REPLACE INTO {table} SELECT * FROM {table} LIMIT 1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match=f"{table} is append-only"):
            raw.execute(statement)
    assert raw.execute(f"SELECT * FROM {table}").fetchall() == before


def test_our_own_connections_cannot_replace_either(decided: Seeded) -> None:
    """Every connection of the store has `recursive_triggers` on, so REPLACE is refused there."""
    for table in TABLES:
        with pytest.raises(Exception, match="append-only"), decided.store.write() as tx:
            tx.exec_driver_sql(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")


def test_the_chain_holds(decided: Seeded) -> None:
    """Each row carries the hash of the one before it, from 64 zeros on, and all of it verifies."""
    assert broken_at(decided.store) is None
    with closing(sqlite3.connect(decided.store.path)) as connection:
        links = connection.execute("SELECT previous, hash FROM audit ORDER BY seq").fetchall()
    assert len(links) == 3
    assert [previous for previous, _ in links] == ["0" * 64, *(own for _, own in links[:-1])]


def test_an_empty_audit_holds(store: Store) -> None:
    """A fresh database verifies."""
    assert broken_at(store) is None


CHANGES = {
    "at": "at = at + 1",
    "run_id": "run_id = 'x'",
    "call_id": "call_id = 'x'",
    "actor": "actor = 'UBEN00001'",
    "event": "event = 'call.rejected'",
    "data": "data = replace(data, '1', '2')",
    "previous": f"previous = '{'1' * 64}'",
    "hash": f"hash = '{'1' * 64}'",
}


@pytest.mark.parametrize("column", CHANGES)
def test_tampering_is_found(decided: Seeded, raw: sqlite3.Connection, column: str) -> None:
    """Whoever drops the triggers and changes any column of a row is found out, at that row."""
    raw.execute("DROP TRIGGER audit_no_update")
    raw.execute(f"UPDATE audit SET {CHANGES[column]} WHERE seq = 1")
    assert broken_at(decided.store) == 1


def test_a_missing_row_is_found(decided: Seeded, raw: sqlite3.Connection) -> None:
    """A row taken out, or two that change places, break the chain where it happened."""
    raw.execute("DROP TRIGGER audit_no_delete")
    raw.execute("DROP TRIGGER audit_no_update")
    raw.execute("UPDATE audit SET seq = seq + 10 WHERE seq = 2")
    assert broken_at(decided.store) == 3
    raw.execute("DELETE FROM audit WHERE seq = 12")
    assert broken_at(decided.store) == 3


def test_a_row_put_in_by_hand_is_found(decided: Seeded, raw: sqlite3.Connection) -> None:
    """A made-up row at the end, even one that names its predecessor, does not verify."""
    raw.execute(
        "INSERT INTO audit"
        " (at, run_id, call_id, actor, event, data, payload, key_id, previous, hash) "
        "SELECT at, run_id, call_id, 'UEVE00001', event, data, payload, key_id, hash, 'made up'"
        " FROM audit WHERE seq = 3"
    )
    assert broken_at(decided.store) == 4


def test_what_looks_like_a_secret_is_masked(store: Store) -> None:
    """A token in what is recorded is masked before it is hashed and kept, so the chain holds."""
    seeded = seed(store)
    with store.write() as tx:
        why = {"why": "the model said xoxb-123456789012-abc", "of": ["password=hunter2"]}
        trail.record_event(tx, "note", at=AT, actor="system", run_id=seeded.run_id, data=why)
    [*_, row] = seeded.audit()
    assert trail.get_audit_row_data(row) == {
        "of": ["password=••••••••"],
        "why": "the model said xoxb-••••••••",
    }
    assert "123456789012" not in row.data + row.payload
    assert broken_at(store) is None


def test_only_what_is_committed_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A row is a line of the log once it is committed; one that is rolled back is none.

    Words about a call are left out, and nobody's value begins a line of its own.
    """
    caplog.set_level(logging.INFO, "countersign.audit")
    with store.write() as tx:
        trail.record_event(
            tx, "run.failed", at=AT, actor="worker\nx", run_id="R1", data={"why": "a\nb"}
        )
        assert caplog.messages == []
    with suppress(RuntimeError), store.write() as tx:
        trail.record_event(tx, "run.born", at=AT, actor="UBEN00001", run_id="R2")
        raise RuntimeError("rolled back")
    data = {"tool": "note", "why": "of Rose Street", "arguments": {"text": "hello"}}
    with store.write() as tx:
        trail.record_event(tx, "call.unknown", at=AT, actor="worker", call_id="C1", data=data)
    assert caplog.messages == [
        '#1 run R1: run.failed by "worker\\nx" (why "a\\nb")',
        "#2 call C1: call.unknown by worker (tool note)",
    ]
