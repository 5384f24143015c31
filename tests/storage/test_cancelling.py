"""Cancelled runs and replaced plans: what ends, what goes on, and one output for each call."""

from __future__ import annotations

from storage import endings, moves, outbox, runs
from storage.decisions import EarlierDecision
from storage.models import Message
from storage.states import MessageKind, MessageStatus
from storage.store import Store
from tests.record_checks import list_transcript_items
from tests.storage.builders import AT, C, R, Seeded, seed
from tests.storage.steps import ANA, vote


def list_outputs(seeded: Seeded) -> list[tuple[str, str]]:
    """The transcript's outputs: the model's id of the call, and the first word."""
    with seeded.store.read() as tx:
        return [
            (item["call_id"], item["output"].split()[0])
            for item in list_transcript_items(tx, seeded.run())
        ]


def test_cancelling_gives_each_call_one_output(store: Store) -> None:
    """Calls that were not started are cancelled; the others keep what they have."""
    seeded = seed(store, C.PENDING, C.APPROVED, C.REJECTED, C.UNKNOWN, C.SUCCEEDED)
    with store.write() as tx:
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA)
        assert not endings.cancel_run(
            tx, runs.find_run(tx, seeded.run_id) or seeded.run(), at=AT, actor=ANA
        )
    assert seeded.run().status is R.CANCELLED
    found = [seeded.call(i) for i in range(5)]
    assert [c.status for c in found] == [
        C.CANCELLED,
        C.CANCELLED,
        C.REJECTED,
        C.UNKNOWN,
        C.SUCCEEDED,
    ]
    assert found[3].deadline is None
    told = ["CANCELLED", "CANCELLED", "output", "output", "output"]
    assert list_outputs(seeded) == [(f"call_{i}", word) for i, word in enumerate(told)]
    assert isinstance(vote(seeded), EarlierDecision)


def test_a_run_cancelled_while_a_tool_runs_waits_for_its_result(store: Store) -> None:
    """Only then does the transcript get the outputs."""
    seeded = seed(store, C.RUNNING, C.APPROVED, run=R.RUNNING)
    with store.write() as tx:
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA)
    assert ([seeded.call(i).status for i in range(2)], list_outputs(seeded)) == (
        [C.RUNNING, C.CANCELLED],
        [],
    )
    with store.write() as tx:
        moves.change_call_status(
            tx, seeded.call(), C.SUCCEEDED, at=AT, actor="worker", output="SUCCEEDED."
        )
        endings.close_plans_of_ended_run(tx, seeded.run(), at=AT)
        endings.close_plans_of_ended_run(tx, seeded.run(), at=AT)
    assert list_outputs(seeded) == [("call_0", "SUCCEEDED."), ("call_1", "CANCELLED")]


def test_a_run_cancelled_after_a_crash_leaves_its_call_unknown(store: Store) -> None:
    """Its worker died, and no other one has taken the run over."""
    seeded = seed(store, C.RUNNING, C.APPROVED, run=R.READY)
    with store.write() as tx:
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA)
    assert [(seeded.call(i).status, seeded.call(i).deadline is None) for i in range(2)] == [
        (C.UNKNOWN, True),
        (C.CANCELLED, False),
    ]
    assert [call for call, _ in list_outputs(seeded)] == ["call_0", "call_1"]


def test_cancelling_closes_an_open_stream(store: Store) -> None:
    """Its worker may have died, and no other one takes the run."""
    seeded = seed(store)
    with store.write() as tx:
        row = Message(key="answer", kind=MessageKind.ANSWER, status=MessageStatus.STREAMING)
        row.run_id, row.channel, row.body = seeded.run_id, "C1", "{}"
        outbox.queue_message(tx, row)
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA)
    with store.read() as tx:
        closing = outbox.find_message_by_key(tx, "answer")
    assert closing is not None
    assert closing.status is MessageStatus.CLOSING


def test_a_replaced_plan_supersedes_calls_that_had_not_started(store: Store) -> None:
    """Its card decides nothing more, and the model has an output for each of its calls."""
    seeded = seed(store, C.PENDING, C.APPROVED, C.UNKNOWN, C.FAILED)
    with store.write() as tx:
        assert endings.supersede_unstarted_calls_of_run(tx, seeded.run(), at=AT) == 2
        assert endings.supersede_unstarted_calls_of_run(tx, seeded.run(), at=AT) == 0
    assert [seeded.call(i).status for i in range(4)] == [
        C.SUPERSEDED,
        C.SUPERSEDED,
        C.UNKNOWN,
        C.FAILED,
    ]
    assert (seeded.run().status, seeded.call(2).deadline) == (R.WAITING, None)
    assert len(list_outputs(seeded)) == 4
    assert isinstance(vote(seeded), EarlierDecision)
