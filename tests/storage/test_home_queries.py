"""What the Home tab asks of the database: found by index, in order, and no more than wanted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from storage import home, overview
from storage.models import Call
from storage.store import Store
from storage.transaction import Trace
from tests.runs.fakes import BEN
from tests.storage.builders import AT, TEAM, C, seed


def test_it_reads_no_more_than_it_shows(store: Store) -> None:
    """What waits comes by its deadline from an index; a person's requests are found by theirs."""
    seed(store, C.PENDING, C.PENDING, C.APPROVED, C.UNKNOWN)
    asked: dict[str, Any] = {}

    class Seen(Trace):
        def running(self, sql: str, values: Any) -> None:
            asked[sql] = values

    store.trace = Seen()
    with store.read() as tx:
        assert len(home.waiting(tx, TEAM, AT, 10)) == 2
        assert len(home.waiting(tx, TEAM, AT, 1)) == 1
        assert len(home.waiting(tx, TEAM, AT, 10, C.UNKNOWN)) == 1
        assert home.waiting(tx, "T0OTHERCO", AT, 10) == []
        assert [run.requester for run in home.of_late(tx, TEAM, BEN, 10)] == [BEN]
        assert home.of_late(tx, TEAM, "UNOBODY", 10) == []
    store.trace = None
    with store.read() as tx:
        steps = {
            sql: str([row[3] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)])
            for sql, values in asked.items()
            if sql.startswith("SELECT")
        }
    assert not [each for each in steps.values() if "SCAN" in each]
    [waiting] = [plan for sql, plan in steps.items() if "deadline >" in sql]
    assert "ix_call_due" in waiting
    assert "TEMP B-TREE" not in waiting  # the first fifty, not the first fifty of all
    [mine] = [plan for sql, plan in steps.items() if "deadline >" not in sql]
    assert "(team=? AND requester=?)" in mine


def test_what_fell_due_waits_no_more(store: Store) -> None:
    """A call whose deadline has passed is not among what can be decided."""
    made = seed(store, C.PENDING)
    with store.read() as tx:
        [call] = home.waiting(tx, TEAM, AT, 10)
        assert isinstance(call, Call)
        assert call.id == made.ids[0]
        assert call.deadline is not None
        assert home.waiting(tx, TEAM, call.deadline, 10) == []
        assert home.waiting(tx, TEAM, call.deadline - timedelta(seconds=1), 10) != []


def test_what_somebody_decided_is_found_by_their_votes(store: Store) -> None:
    """Of all that a workspace ever asked, only what this person voted on since then is met."""
    seed(store, C.PENDING, C.APPROVED)
    asked: dict[str, Any] = {}

    class Seen(Trace):
        def running(self, sql: str, values: Any) -> None:
            asked[sql] = values

    store.trace = Seen()
    with store.read() as tx:
        assert overview.decided(tx, TEAM, BEN, AT, 10, "C0NOWHERE") == []
        overview.decided(tx, TEAM, BEN, AT, 10)
    store.trace = None
    with store.read() as tx:
        voted = [
            str([row[3] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)])
            for sql, values in asked.items()
            if "FROM vote" in sql
        ]
    assert len(voted) == 2
    for plan in voted:
        assert "ix_vote_lately (person=? AND created_at>?)" in plan
        assert "(team=?" not in plan
