"""The audit's chain, and tables that refuse changes, also from a plain SQLite shell."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from storage import decisions, runs, trail
from storage.store import Store
from tests.record_checks import find_first_broken_row
from tests.storage.builders import AT, ONE, Seeded, build_vote, seed

TABLES = ("audit", "revision", "vote", "item")


@pytest.fixture
def decided_call(store: Store) -> Seeded:
    """A database with at least one row in each append-only table."""
    seeded = seed(store)
    with store.write() as tx:
        runs.append_transcript_item(tx, seeded.run(), {"role": "user", "content": "please"}, at=AT)
        decisions.apply_vote(tx, build_vote(seeded.ids[0], 1, "approve", "UANA00001"), ONE)
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


def find_break(store: Store) -> int | None:
    """The first row at which the chain breaks."""
    with store.read() as tx:
        return find_first_broken_row(tx)


@pytest.mark.parametrize("table", TABLES)
def test_append_only_tables_refuse_update_delete_and_replace(
    decided_call: Seeded, raw: sqlite3.Connection, table: str
) -> None:
    """They do so for one row and for all at once."""
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


def test_our_own_connections_cannot_replace_rows_either(decided_call: Seeded) -> None:
    """All of them have `recursive_triggers` on."""
    for table in TABLES:
        with pytest.raises(Exception, match="append-only"), decided_call.store.write() as tx:
            tx.exec_driver_sql(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")


def test_each_audit_row_has_the_hash_of_the_one_before(decided_call: Seeded) -> None:
    """The first has 64 zeros, and the whole chain verifies."""
    assert find_break(decided_call.store) is None
    with closing(sqlite3.connect(decided_call.store.path)) as connection:
        links = connection.execute("SELECT previous, hash FROM audit ORDER BY seq").fetchall()
    assert len(links) == 3
    assert [previous for previous, _ in links] == ["0" * 64, *(own for _, own in links[:-1])]


def test_an_empty_audit_verifies(store: Store) -> None:
    """The database is new."""
    assert find_break(store) is None


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
def test_a_change_of_any_column_is_found_at_its_row(
    decided_call: Seeded, raw: sqlite3.Connection, column: str
) -> None:
    """The triggers were dropped first."""
    raw.execute("DROP TRIGGER audit_no_update")
    raw.execute(f"UPDATE audit SET {CHANGES[column]} WHERE seq = 1")
    assert find_break(decided_call.store) == 1


def test_a_removed_or_moved_row_breaks_the_chain(
    decided_call: Seeded, raw: sqlite3.Connection
) -> None:
    """The break is found where it happened."""
    raw.execute("DROP TRIGGER audit_no_delete")
    raw.execute("DROP TRIGGER audit_no_update")
    raw.execute("UPDATE audit SET seq = seq + 10 WHERE seq = 2")
    assert find_break(decided_call.store) == 3
    raw.execute("DELETE FROM audit WHERE seq = 12")
    assert find_break(decided_call.store) == 3


def test_a_row_added_by_hand_does_not_verify(decided_call: Seeded, raw: sqlite3.Connection) -> None:
    """It is at the end and names the row before it."""
    raw.execute(
        "INSERT INTO audit"
        " (at, run_id, call_id, actor, event, data, payload, key_id, previous, hash) "
        "SELECT at, run_id, call_id, 'UEVE00001', event, data, payload, key_id, hash, 'made up'"
        " FROM audit WHERE seq = 3"
    )
    assert find_break(decided_call.store) == 4


def test_secrets_are_masked_before_the_audit_is_hashed(store: Store) -> None:
    """The chain still verifies."""
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
    assert find_break(store) is None


def test_audit_rows_are_logged_only_once_committed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Words about a call are left out, and no value can begin a line of its own."""
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
