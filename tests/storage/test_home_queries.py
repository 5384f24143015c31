"""Home's queries: found by index, in order, and no more rows than it shows."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from storage import request_lists
from storage.columns import get_column_values
from storage.models import Call, Plan, Run, Vote
from storage.states import CallVerb, RunStatus
from storage.store import Store
from storage.transaction import Trace
from tests.runs.fakes import ANA, BEN
from tests.storage.builders import AT, TEAM, C, seed


def test_home_reads_no_more_rows_than_it_shows(store: Store) -> None:
    """Waiting calls come from an index by deadline, a person's requests from one by requester."""
    seed(store, C.PENDING, C.PENDING, C.APPROVED, C.UNKNOWN)
    asked: dict[str, Any] = {}

    class Seen(Trace):
        def before_statement(self, sql: str, values: Any) -> None:
            asked[sql] = values

    store.trace = Seen()
    with store.read() as tx:
        assert len(request_lists.list_waiting_calls(tx, TEAM, AT, 10)) == 2
        assert len(request_lists.list_waiting_calls(tx, TEAM, AT, 1)) == 1
        assert len(request_lists.list_waiting_calls(tx, TEAM, AT, 10, C.UNKNOWN)) == 1
        assert request_lists.list_waiting_calls(tx, "T0OTHERCO", AT, 10) == []
        assert [run.requester for run in request_lists.list_recent_requests(tx, TEAM, BEN, 10)] == [
            BEN
        ]
        assert request_lists.list_recent_requests(tx, TEAM, "UNOBODY", 10) == []
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
    assert "TEMP B-TREE" not in waiting  # no sorting of all rows for the first fifty
    [mine] = [plan for sql, plan in steps.items() if "deadline >" not in sql]
    assert "(team=? AND requester=?)" in mine


def test_calls_past_their_deadline_are_not_listed_as_waiting(store: Store) -> None:
    """Nobody can decide them any more."""
    made = seed(store, C.PENDING)
    with store.read() as tx:
        [call] = request_lists.list_waiting_calls(tx, TEAM, AT, 10)
        assert isinstance(call, Call)
        assert call.id == made.ids[0]
        assert call.deadline is not None
        assert request_lists.list_waiting_calls(tx, TEAM, call.deadline, 10) == []
        assert (
            request_lists.list_waiting_calls(tx, TEAM, call.deadline - timedelta(seconds=1), 10)
            != []
        )


def test_a_persons_decided_calls_are_found_by_their_votes(store: Store) -> None:
    """Of all requests of a workspace only those with a vote of theirs since then are visited."""
    seed(store, C.PENDING, C.APPROVED)
    asked: dict[str, Any] = {}

    class Seen(Trace):
        def before_statement(self, sql: str, values: Any) -> None:
            asked[sql] = values

    store.trace = Seen()
    with store.read() as tx:
        assert (
            request_lists.list_decided_calls_involving_person(tx, TEAM, BEN, AT, 10, "C0NOWHERE")
            == []
        )
        request_lists.list_decided_calls_involving_person(tx, TEAM, BEN, AT, 10)
    store.trace = None
    with store.read() as tx:
        voted = [
            str([row[3] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)])
            for sql, values in asked.items()
            if "FROM vote" in sql
        ]
    assert len(voted) == 3  # one of them asks whether there are more
    for plan in voted:
        assert "ix_vote_lately (person=? AND created_at>?)" in plan
        assert "(team=?" not in plan


LONG_AGO = AT - timedelta(days=30)


def add_requests(store: Store, count: int) -> tuple[list[Run], list[Call], list[Vote]]:
    """Requests of many people with a call each, created, decided and changed in random order."""
    chance = random.Random(7)

    def later(moment: datetime, hours: int) -> datetime:
        return moment + timedelta(seconds=chance.randrange(hours * 3600))

    runs, plans, made, votes = [], [], [], []
    for number in range(count):
        born = later(LONG_AGO - timedelta(days=5), 700) + timedelta(microseconds=number)
        decided = later(born, 72)
        over = number > 100 or chance.random() < 0.5
        run = Run(
            id=f"{chance.getrandbits(64):016x}{count}",
            team=TEAM,
            channel=f"C{number % 3}",
            thread_ts=f"{number}.0",
            requester=BEN if number % 3 else "UOTHER",
            status=RunStatus.COMPLETED if over else RunStatus.WAITING,
            created_at=born,
            updated_at=later(decided, 20) if over else born,
        )
        run.root_id = run.id
        plan = Plan(run_id=run.id, turn=1, created_at=born)
        call = Call(
            id=f"{chance.getrandbits(64):016x}{count}",
            run_id=run.id,
            plan_id=plan.id,
            position=0,
            provider_id=f"call_{number}",
            tool="note",
            status=C.APPROVED if chance.random() < 0.8 else C.PENDING,
            created_at=born,
            asked_at=born,
        )
        if call.status is C.APPROVED:
            call.decided_at = decided
        if number % 2:  # some hours before the last vote that was needed
            given = {"call_id": call.id, "revision": 1, "digest": "d", "person": ANA}
            at = decided - timedelta(seconds=chance.randrange(40_000))
            votes.append(Vote(**given, verb=CallVerb.APPROVE, created_at=max(at, born)))
        runs.append(run)
        plans.append(plan)
        made.append(call)
    with store.write() as tx:
        for model, rows in ((Run, runs), (Plan, plans), (Call, made), (Vote, votes)):
            for row in rows:
                tx.execute(insert(model), get_column_values(row))
    return runs, made, votes


def test_the_newest_of_many_decisions_are_found(store: Store) -> None:
    """They are those that reading every row would find, also in one channel and with votes long
    before.
    """
    runs, made, votes = add_requests(store, 4 * request_lists.MAX_ROWS_EXAMINED)
    run_of = {run.id: run for run in runs}
    voted = {vote.call_id for vote in votes if vote.created_at >= LONG_AGO}
    assert len(voted) > request_lists.MAX_ROWS_EXAMINED

    def expected(person: str, channel: str, most: int) -> list[str]:
        found = [
            (call.decided_at, call.id)
            for call in made
            if call.decided_at is not None
            and call.decided_at >= LONG_AGO
            and (run_of[call.run_id].requester == person or (person == ANA and call.id in voted))
            and channel in ("", run_of[call.run_id].channel)
        ]
        return [call_id for _, call_id in sorted(found, reverse=True)[:most]]

    with store.read() as tx:
        for person in (ANA, BEN, "UOTHER", "UNOBODY"):
            for channel in ("", "C1"):
                for most in (1, 9, 400):
                    given = request_lists.list_decided_calls_involving_person(
                        tx, TEAM, person, LONG_AGO, most, channel
                    )
                    assert [call.id for call in given] == expected(person, channel, most)


def test_the_newest_of_many_requests_are_found(store: Store) -> None:
    """They are ordered by creation, not by their last change."""
    runs, *_ = add_requests(store, 400)
    with store.read() as tx:
        for channel in ("", "C2"):
            for most in (1, 9, 60, 500):
                mine = [r for r in runs if r.requester == BEN and channel in ("", r.channel)]
                mine.sort(key=lambda run: run.created_at, reverse=True)
                given = request_lists.list_recent_requests(tx, TEAM, BEN, most, channel)
                assert [run.id for run in given] == [run.id for run in mine[:most]]


@pytest.mark.long
def test_homes_work_hardly_grows_with_the_number_of_requests(store: Store) -> None:
    """The second time there are nine times as many."""
    met = []
    for count in (800, 6400):
        add_requests(store, count)
        with store.read() as tx:
            steps: list[int] = []
            tx.raw.set_progress_handler(lambda steps=steps: steps.append(1), 100)
            request_lists.list_decided_calls_involving_person(tx, TEAM, ANA, LONG_AGO, 9)
            request_lists.list_decided_calls_involving_person(tx, TEAM, BEN, LONG_AGO, 9)
            request_lists.list_recent_requests(tx, TEAM, BEN, 9)
            tx.raw.set_progress_handler(None, 0)
        met.append(len(steps))
    assert met[1] < 1.5 * met[0], met
