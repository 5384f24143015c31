"""Status changes of calls and runs: all pairs of both tables, who loses, what is written too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

import pytest

from storage import decisions, moves, runs
from storage.decisions import AppliedDecision
from storage.models import Call, Run
from storage.states import (
    CALL_TRANSITIONS,
    RUN_TRANSITIONS,
    CallStatus,
    IllegalStatusChangeError,
    RunStatus,
)
from storage.store import Store
from tests.record_checks import find_first_broken_row
from tests.storage.builders import AT, HOUR, ONE, TEAM, C, R, build_vote, seed


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database for all pairs; each test brings its own rows."""
    opened = Store(f"sqlite:///{tmp_path_factory.mktemp('moves')}/cells.db").open()
    yield opened
    opened.close()


@pytest.mark.parametrize(("source", "target"), list(product(CallStatus, repeat=2)))
def test_a_call_changes_status_only_as_the_table_says(
    shared: Store, source: CallStatus, target: CallStatus
) -> None:
    """A change is made once with one audit row; any other raises and writes nothing."""
    seeded = seed(shared, source)
    row = seeded.call()
    with shared.write() as tx:
        if target not in CALL_TRANSITIONS[source]:
            with pytest.raises(IllegalStatusChangeError):
                moves.change_call_status(tx, row, target, at=AT, actor="UANA00001")
        else:
            assert (
                moves.change_call_status(tx, row, target, at=AT, actor="UANA00001", note="moved")
                is True
            )
    if target not in CALL_TRANSITIONS[source]:
        assert (seeded.call().status, seeded.events()) == (source, [])
        return
    moved, told = seeded.call(), seeded.audit()
    assert (moved.status, moved.note) == (target, "moved")
    assert [(a.event, a.actor, a.call_id, a.at) for a in told] == [
        (f"call.{target}", "UANA00001", row.id, AT)
    ]
    assert json.loads(told[0].data) == {"from": source, "to": target, "tool": "note", "revision": 1}
    assert (seeded.plan().revision, seeded.card().wanted) == (2, 2)


@pytest.mark.parametrize(("source", "target"), list(product(RunStatus, repeat=2)))
def test_a_run_changes_status_only_as_the_table_says(
    shared: Store, source: RunStatus, target: RunStatus
) -> None:
    """Only a cancelled run keeps its lease, since a call of it may still be running."""
    seeded = seed(shared, run=source)
    before = seeded.run()
    with shared.write() as tx:
        if target not in RUN_TRANSITIONS[source]:
            with pytest.raises(IllegalStatusChangeError):
                moves.change_run_status(tx, seeded.run(), target, at=AT + HOUR)
        else:
            assert moves.change_run_status(tx, seeded.run(), target, at=AT + HOUR) is True
    if target not in RUN_TRANSITIONS[source]:
        assert (seeded.run().status, seeded.events()) == (source, [])
        return
    moved = seeded.run()
    lease = before.lease_until if target is R.CANCELLED else None
    assert (moved.status, moved.updated_at, moved.lease_until) == (target, AT + HOUR, lease)
    assert [(a.event, a.actor) for a in seeded.audit()] == [(f"run.{target}", "worker")]
    assert json.loads(seeded.audit()[0].data) == {"from": source, "to": target}


LEGAL = [
    (source, target) for source, targets in CALL_TRANSITIONS.items() for target in sorted(targets)
]


@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_the_second_change_of_the_same_call_loses(
    shared: Store, source: CallStatus, target: CallStatus
) -> None:
    """It was read before the first one; it writes nothing and is told so."""
    seeded = seed(shared, source)
    first, second = seeded.call(), seeded.call()
    with shared.write() as tx:
        assert moves.change_call_status(tx, first, target, at=AT, actor="clock")
        assert not moves.change_call_status(
            tx, second, target, at=AT, actor="worker", output="late"
        )
    assert (len(seeded.events()), seeded.call().output, seeded.plan().revision) == (
        1,
        "output 0",
        2,
    )


@pytest.mark.parametrize("source", [R.READY, R.RUNNING, R.WAITING, R.FAILED])
def test_the_second_change_of_the_same_run_loses(shared: Store, source: RunStatus) -> None:
    """Both read it in the same status."""
    seeded = seed(shared, run=source)
    first, second = seeded.run(), seeded.run()
    target = min(RUN_TRANSITIONS[source])
    with shared.write() as tx:
        assert moves.change_run_status(tx, first, target, at=AT)
        assert not moves.change_run_status(tx, second, target, at=AT)
    assert len(seeded.events()) == 1


def test_a_change_prepared_before_an_edit_loses(store: Store) -> None:
    """The status is the same, the revision is not."""
    seeded = seed(store)
    before = seeded.call()
    with store.write() as tx:
        decisions.apply_edit(
            tx,
            before.id,
            1,
            "UANA00001",
            at=AT,
            arguments="{}",
            digest="d2",
            gate=before.gate,
            deadline=before.deadline,
            preview="",
        )
        assert not moves.change_call_status(tx, before, C.APPROVED, at=AT, actor="UANA00001")
    assert seeded.call().status is C.PENDING


def test_new_calls_and_runs_have_one_of_the_initial_statuses(store: Store) -> None:
    """Their creation is audited."""
    seeded = seed(store)
    for status in CallStatus:
        row = Call(
            run_id=seeded.run_id,
            plan_id=seeded.plan_id,
            position=9,
            provider_id="p",
            tool="t",
            status=status,
            digest="d",
            created_at=AT,
        )
        with store.write() as tx:
            if status in (C.PENDING, C.APPROVED, C.REFUSED):
                moves.insert_call(tx, row, at=AT, actor="agent", data={"approved_by": "policy"})
            else:
                with pytest.raises(IllegalStatusChangeError, match="born"):
                    moves.insert_call(tx, row, at=AT, actor="agent")
    assert seeded.events() == ["call.born.pending", "call.born.approved", "call.born.refused"]
    for state in RunStatus:
        run = Run(
            team=TEAM,
            channel="C",
            thread_ts="2",
            requester="U",
            status=state,
            created_at=AT,
            updated_at=AT,
        )
        with store.write() as tx:
            if state is R.READY:
                moves.insert_run(tx, run, at=AT)
            else:
                with pytest.raises(IllegalStatusChangeError, match="born"):
                    moves.insert_run(tx, run, at=AT)


def test_a_fence_keeps_out_a_worker_that_was_overtaken(store: Store) -> None:
    """It cannot change the run, renew its lease or read it as its own."""
    seeded = seed(store, run=R.READY, fence=4)
    with store.write() as tx:
        claimed = moves.claim_run(tx, seeded.run_id, at=AT, lease_until=AT + HOUR)
        assert claimed is not None
        assert (claimed.fence, claimed.status, claimed.lease_until) == (5, R.RUNNING, AT + HOUR)
        assert moves.claim_run(tx, seeded.run_id, at=AT, lease_until=AT + HOUR) is None
        assert not moves.change_run_status(tx, claimed, R.COMPLETED, at=AT, fence=4)
        assert not moves.renew_lease(tx, seeded.run_id, 4, AT + 2 * HOUR)
        assert moves.renew_lease(tx, seeded.run_id, 5, AT + 2 * HOUR)
        with pytest.raises(moves.StaleFenceError):
            runs.get_run_with_fence(tx, seeded.run_id, 4)
        assert runs.get_run_with_fence(tx, seeded.run_id, 5).lease_until == AT + 2 * HOUR
    assert seeded.events() == ["run.running"]


def test_a_run_is_free_again_when_its_lease_ends(store: Store) -> None:
    """It is not a microsecond before."""
    seeded = seed(store, run=R.RUNNING)
    seed(store, run=R.WAITING)
    with store.read() as tx:
        assert moves.list_runs_with_expired_lease(tx, (AT + HOUR).replace(microsecond=0)) == []
        assert [run.id for run in moves.list_runs_with_expired_lease(tx, AT + HOUR)] == [
            seeded.run_id
        ]


@pytest.mark.parametrize("broken", ["audit", "message", "plan", "vote"])
def test_a_decision_is_written_completely_or_not_at_all(store: Store, broken: str) -> None:
    """One of vote, status, audit and outbox cannot be written."""
    seeded = seed(store)
    event = {
        "audit": "INSERT ON audit",
        "message": "UPDATE ON message",
        "plan": "UPDATE ON plan",
    }.get(broken, "INSERT ON vote")
    with store.write() as tx:
        tx.exec_driver_sql(
            f"CREATE TRIGGER broken BEFORE {event} BEGIN SELECT RAISE(ABORT, 'disk on fire'); END"
        )
    with pytest.raises(Exception, match="disk on fire"), store.write() as tx:
        decisions.apply_vote(tx, build_vote(seeded.ids[0], 1, "approve", "UANA00001"), ONE)
    assert (seeded.call().status, seeded.run().status) == (C.PENDING, R.WAITING)
    assert (seeded.votes(), seeded.events(), seeded.card().wanted, seeded.plan().revision) == (
        [],
        [],
        1,
        1,
    )
    with store.write() as tx:
        tx.exec_driver_sql("DROP TRIGGER broken")
        decisions.apply_vote(tx, build_vote(seeded.ids[0], 1, "approve", "UANA00001"), ONE)
        assert find_first_broken_row(tx) is None
    assert (seeded.call().status, len(seeded.votes()), seeded.card().wanted) == (C.APPROVED, 1, 2)


def test_a_crash_before_the_commit_undoes_the_decision(store: Store) -> None:
    """The click can be handled again."""
    seeded = seed(store)

    def decide_and_die() -> None:
        with store.write() as tx:
            won = decisions.apply_vote(
                tx, build_vote(seeded.ids[0], 1, "approve", "UANA00001"), ONE
            )
            assert isinstance(won, AppliedDecision)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decide_and_die()
    assert (seeded.call().status, seeded.run().status) == (C.PENDING, R.WAITING)
    assert (seeded.votes(), seeded.events()) == ([], [])


def test_a_changed_call_redraws_only_the_card_that_shows_it(store: Store) -> None:
    """Cards of other plans stay."""
    seeded, other = seed(store), seed(store)
    with store.write() as tx:
        moves.mark_plan_changed(tx, seeded.plan_id, seeded.ids[0])
    assert (seeded.plan().revision, seeded.card().wanted) == (2, 2)
    assert (other.plan().revision, other.card().wanted) == (1, 1)
    with store.write() as tx:
        moves.record_message_version_in_slack(tx, other.card(), ts="1.1", version=1)
        moves.mark_plan_changed(tx, other.plan_id, seeded.ids[0])
    assert (other.plan().revision, other.card().wanted) == (2, 1)  # its card lacks that call
