"""What a status change writes besides the status: an audit row, times, and what goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import col

from storage import moves, outbox
from storage.models import Call, Message, Run
from storage.states import IllegalStatusChangeError, MessageStatus
from storage.store import Store
from tests.storage.builders import AT, HOUR, TEAM, C, R, Seeded, delivery, seed, set_message

M = MessageStatus


def make_run(**columns: Any) -> Run:
    """A run that is not stored yet."""
    given = {"team": TEAM, "channel": "C1", "thread_ts": "9.0", "requester": "U1", **columns}
    return Run(**given, created_at=AT, updated_at=AT)


def get_last_audit_data(seeded: Seeded) -> dict[str, Any]:
    """The data of the run's last audit row."""
    found: dict[str, Any] = json.loads(seeded.audit()[-1].data)
    return found


def test_a_status_change_is_audited_with_the_callers_data(store: Store) -> None:
    """Calls and runs may have an event name of their own."""
    seeded = seed(store, run=R.RUNNING)
    with store.write() as tx:
        extra = {"why": "late"}
        assert moves.change_call_status(
            tx, seeded.call(), C.EXPIRED, at=AT, actor="clock", event="e", data=extra
        )
    assert (seeded.events(), get_last_audit_data(seeded)["why"]) == (["e"], "late")
    with store.write() as tx:
        assert moves.change_run_status(tx, seeded.run(), R.FAILED, at=AT, data={"why": "ends"})
    assert get_last_audit_data(seeded) == {"from": "running", "to": "failed", "why": "ends"}
    born = Call(
        run_id=seeded.run_id,
        plan_id=seeded.plan_id,
        position=9,
        provider_id="p",
        tool="t",
        digest="d",
        created_at=AT,
        status=C.PENDING,
    )
    with store.write() as tx:
        moves.insert_call(tx, born, at=AT, actor="agent", data={"by": "policy"})
    assert get_last_audit_data(seeded) == {
        "tool": "t",
        "digest": "d",
        "revision": 1,
        "by": "policy",
    }


def test_a_decided_call_reports_since_when_it_was_asked(store: Store) -> None:
    """A call that ran does not."""
    waits, ran = seed(store), seed(store, C.RUNNING)
    for each in (waits, ran):
        with store.write() as tx:
            tx.execute(update(Call).where(col(Call.id) == each.ids[0]).values(asked_at=AT - HOUR))
    with store.write() as tx:
        moves.change_call_status(tx, waits.call(), C.EXPIRED, at=AT, actor="clock")
        assert tx.appended[-1].since == AT - HOUR
        moves.change_call_status(tx, ran.call(), C.FAILED, at=AT, actor="worker")
        assert tx.appended[-1].since is None


def test_a_restart_after_a_crash_is_audited_as_such(store: Store) -> None:
    """The row says what runs."""
    seeded = seed(store, C.RUNNING)
    with store.write() as tx:
        moves.record_call_restart(tx, seeded.call(), at=AT)
    expected = {"again": True, "tool": "note", "revision": 1, "digest": "digest-0"}
    assert (seeded.events(), get_last_audit_data(seeded)) == (["call.running"], expected)


def test_ready_runs_are_handed_out_with_the_commit(store: Store) -> None:
    """Runs whose thread does not exist yet are not."""
    with store.write() as tx:
        here, nowhere = make_run(), make_run(thread_ts="")
        for each in (here, nowhere):
            moves.insert_run(tx, each, at=AT)
        assert tx.ready == [here.id]
    waits, unbegun, ends = (seed(store, C.REJECTED), seed(store), seed(store, run=R.RUNNING))
    with store.write() as tx:
        tx.execute(update(Run).where(col(Run.id) == unbegun.run_id).values(thread_ts=""))
    with store.write() as tx:
        assert moves.change_run_status(tx, waits.run(), R.READY, at=AT)
        assert moves.change_run_status(tx, unbegun.run(), R.READY, at=AT)
        assert moves.change_run_status(tx, ends.run(), R.COMPLETED, at=AT)
        assert tx.ready == [waits.run_id]
    freed, held = seed(store, C.REJECTED), seed(store)
    with store.write() as tx:
        assert moves.resume_run_if_unblocked(tx, freed.run_id, at=AT, actor="U1") is True
        assert moves.resume_run_if_unblocked(tx, freed.run_id, at=AT, actor="U1") is False
        assert moves.resume_run_if_unblocked(tx, held.run_id, at=AT, actor="U1") is False
        assert tx.ready == [freed.run_id]
    assert [(each.event, each.actor) for each in freed.audit()] == [("run.ready", "U1")]
    assert get_last_audit_data(freed) == {"from": "waiting", "to": "ready"}
    assert (freed.run().status, held.run().status) == (R.READY, R.WAITING)
    assert (freed.run().lease_until, freed.run().updated_at) == (None, AT)


def test_a_run_is_audited_with_its_origin(store: Store) -> None:
    """A request is its person's, a sub-agent's run is the agent's and names the call."""
    seeded = seed(store)
    own = make_run()
    child = make_run(root_id=seeded.run_id, parent_call=seeded.ids[0])
    with store.write() as tx:
        moves.insert_run(tx, own, at=AT)
        moves.insert_run(tx, child, at=AT)
    [first], [second] = (Seeded(store, each.id, "", []).audit() for each in (own, child))
    assert (own.root_id, child.root_id) == (own.id, seeded.run_id)
    assert (first.actor, second.actor) == ("U1", "agent")
    place = {"channel": "C1", "thread_ts": "9.0", "source": "message"}
    assert json.loads(first.data) == place
    assert json.loads(second.data) == {**place, "call": seeded.ids[0]}


def test_a_claim_is_audited_and_a_failed_one_is_not(store: Store) -> None:
    """The run can be claimed once."""
    seeded = seed(store, run=R.READY)
    with store.write() as tx:
        assert moves.claim_run(tx, seeded.run_id, at=AT, lease_until=AT + HOUR) is not None
        assert [each.event for each in tx.appended] == ["run.running"]
        assert moves.claim_run(tx, seeded.run_id, at=AT, lease_until=AT + HOUR) is None
    assert (seeded.events(), get_last_audit_data(seeded)) == (
        ["run.running"],
        {"from": "ready", "to": "running"},
    )


def test_a_claim_takes_only_the_run_it_names(store: Store) -> None:
    """Another ready run stays ready, for another worker."""
    claimed, other = seed(store, run=R.READY), seed(store, run=R.READY)
    with store.write() as tx:
        moves.claim_run(tx, claimed.run_id, at=AT, lease_until=AT + HOUR)
    assert (claimed.run().status, other.run().status) == (R.RUNNING, R.READY)
    assert (other.run().fence, other.events()) == (1, [])


def test_a_sub_agents_run_was_asked_where_its_request_was(store: Store) -> None:
    """What other requests were asked in does not matter."""
    with store.write() as tx:
        for name in ("C0", "C1", "C2"):
            moves.insert_run(tx, make_run(id=f"root{name}", asked_in=name), at=AT)
        child = make_run(thread_ts="", root_id="rootC1", parent_call="a call")
        moves.insert_run(tx, child, at=AT)
    assert child.asked_in == "C1"


def test_a_card_is_redrawn_once_no_call_of_its_plan_is_to_run(store: Store) -> None:
    """Calls of other plans, and those that a program will run, are not waited for."""
    waits, goes_on = seed(store, C.RUNNING, C.APPROVED), seed(store, C.RUNNING, C.APPROVED)
    with store.write() as tx:
        for each in (waits, goes_on):
            set_message(tx, each.card(), status=M.SENT, ts="1.1", shown=1)
        tx.update_rows(Call, {"id": goes_on.ids[1]}, action="a program's action")
        for each in (waits, goes_on):
            assert moves.change_call_status(tx, each.call(), C.SUCCEEDED, at=AT, actor="worker")
    assert (waits.card().status, goes_on.card().status) == (M.SENT, M.STALE)
    assert (waits.card().wanted, goes_on.card().wanted) == (2, 2)


@pytest.mark.parametrize(
    ("before", "after"), [(C.RUNNING, C.UNKNOWN), (C.UNKNOWN, C.SUCCEEDED)], ids=["unknown", "told"]
)
def test_a_card_is_redrawn_at_once_if_people_may_wait_for_it(
    store: Store, before: C, after: C
) -> None:
    """That another call of the plan is to run does not matter."""
    seeded = seed(store, before, C.APPROVED)
    with store.write() as tx:
        set_message(tx, seeded.card(), status=M.SENT, ts="1.1", shown=1)
        assert moves.change_call_status(tx, seeded.call(), after, at=AT, actor="worker")
    assert seeded.card().status is M.STALE


def test_a_call_that_ends_undecided_redraws_the_cards_of_the_others(store: Store) -> None:
    """The head of each counts what is still to be decided; a vote redraws its own card alone."""
    for target, wanted in ((C.EXPIRED, 2), (C.REJECTED, 1)):
        seeded = seed(store, C.PENDING, C.PENDING)
        with store.write() as tx:
            set_message(tx, seeded.card(), body=f'{{"calls": ["{seeded.ids[1]}"]}}', shown=1)
            assert moves.change_call_status(tx, seeded.call(), target, at=AT, actor="system")
        assert seeded.card().wanted == wanted


def test_a_failed_card_that_is_in_slack_is_redrawn_with_the_next_change(store: Store) -> None:
    """One that was never posted stays pending."""
    stands, gone = seed(store), seed(store)
    with store.write() as tx:
        set_message(tx, stands.card(), status=M.FAILED, ts="1.1")
        set_message(tx, gone.card(), status=M.PENDING, ts="1.2")
        for each in (stands, gone):
            moves.mark_cards_for_redraw(tx, each.plan_id)
    assert (stands.card().status, gone.card().status) == (M.STALE, M.PENDING)


def test_only_failed_cards_that_are_in_slack_are_redrawn_later(store: Store) -> None:
    """Neither one that Slack never accepted, nor an answer, nor a card that was drawn."""
    stands, unposted, answer, drawn = (seed(store) for _ in range(4))
    with store.write() as tx:
        set_message(tx, stands.card(), status=M.FAILED, ts="1.1", attempts=3, due_at=AT)
        set_message(tx, unposted.card(), status=M.FAILED)
        set_message(tx, answer.card(), status=M.FAILED, ts="1.2", kind="answer")
        set_message(tx, drawn.card(), status=M.SENT, ts="1.3")
    other_rows = [each.card() for each in (unposted, drawn)]
    with store.write() as tx:
        moves.mark_failed_cards_for_redraw(tx)
    row = stands.card()
    assert (row.status, row.wanted, row.attempts, row.due_at) == (M.STALE, 2, 0, None)
    assert [each.card() for each in (unposted, drawn)] == other_rows
    assert answer.card().status is M.FAILED


def test_a_posted_message_forgets_its_earlier_failures(store: Store) -> None:
    """Those of other messages stay."""
    seeded, other = seed(store), seed(store)
    with store.write() as tx:
        failed = {"attempts": 3, "due_at": AT, "error": "why"}
        set_message(tx, seeded.card(), **failed)
        set_message(tx, other.card(), **failed)
        assert moves.record_message_version_in_slack(tx, seeded.card(), ts="1.1", version=1) is True
    row = seeded.card()
    assert (row.status, row.ts, row.shown) == (M.SENT, "1.1", 1)
    assert (row.attempts, row.due_at, row.error) == (0, None, "")
    assert (other.card().attempts, other.card().status) == (3, M.PENDING)
    with store.write() as tx:
        stale = seeded.card()
        set_message(tx, stale, status=M.PENDING)
        stale.status = M.STALE
        assert moves.record_message_version_in_slack(tx, stale, ts="1.2", version=1) is False


def test_open_streams_of_a_run_are_closed(store: Store) -> None:
    """The result says whether there was one."""
    seeded = seed(store)
    with store.write() as tx:
        assert moves.close_open_streams(tx, seeded.run_id, "{}") is False
        row = Message(key="s", kind="answer", channel="C1", run_id=seeded.run_id)
        row.status = M.STREAMING
        assert outbox.queue_message(tx, row) is True
        assert outbox.queue_message(tx, row) is False
        assert moves.close_open_streams(tx, seeded.run_id, "{}") is True


def test_an_edited_delivery_is_not_settled_as_it_was_read(store: Store) -> None:
    """The body is compared."""
    with store.write() as tx:
        row = delivery("a")
        assert moves.insert_delivery(tx, row) is True
        assert moves.insert_delivery(tx, delivery("a")) is False
        row.seq = 1
        row.body = "{ }"
        assert moves.change_delivery_status_if_unedited(tx, row, "done", note="n") is False
        row.body = "{}"
        assert moves.change_delivery_status_if_unedited(tx, row, "done", note="n") is True
        assert moves.change_delivery_status(tx, row, "done") is False


@pytest.mark.parametrize("status", ["done", "held", "broken"])
def test_a_delivery_must_be_new_when_it_is_stored(store: Store, status: str) -> None:
    """Any other status raises."""
    row = delivery("b")
    row.status = status
    with store.write() as tx, pytest.raises(IllegalStatusChangeError):
        moves.insert_delivery(tx, row)
