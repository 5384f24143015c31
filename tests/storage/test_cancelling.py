"""Cancelling and remaking: what ends, what goes on, and one output for each call."""

from __future__ import annotations

from bot.agent import outputs
from storage import endings, moves, outbox, runs
from storage.decisions import EarlierDecision
from storage.models import Message
from storage.states import MessageKind, MessageStatus
from storage.store import Store
from tests.record_checks import list_transcript_items
from tests.storage.builders import AT, C, R, Seeded, seed
from tests.storage.steps import ANA, vote


def told_outputs(seeded: Seeded) -> list[tuple[str, str]]:
    """The transcript's outputs: provider call id, and its first word."""
    with seeded.store.read() as tx:
        return [
            (item["call_id"], item["output"].split()[0])
            for item in list_transcript_items(tx, seeded.run())
        ]


def test_cancelling_gives_each_call_one_output(store: Store) -> None:
    """Cancelling ends what was not started, keeps what was, and gives each call its one output."""
    seeded = seed(store, C.PENDING, C.APPROVED, C.REJECTED, C.UNKNOWN, C.SUCCEEDED)
    with store.write() as tx:
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA, words=outputs)
        assert not endings.cancel_run(
            tx, runs.find_run(tx, seeded.run_id) or seeded.run(), at=AT, actor=ANA, words=outputs
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
    assert told_outputs(seeded) == [(f"call_{i}", word) for i, word in enumerate(told)]
    assert isinstance(vote(seeded), EarlierDecision)


def test_cancel_while_a_tool_runs(store: Store) -> None:
    """The result of what runs is awaited and recorded.

    Only then does the transcript get its outputs.
    """
    seeded = seed(store, C.RUNNING, C.APPROVED, run=R.RUNNING)
    with store.write() as tx:
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA, words=outputs)
    assert ([seeded.call(i).status for i in range(2)], told_outputs(seeded)) == (
        [C.RUNNING, C.CANCELLED],
        [],
    )
    with store.write() as tx:
        moves.change_call_status(
            tx, seeded.call(), C.SUCCEEDED, at=AT, actor="worker", output="SUCCEEDED."
        )
        endings.close_plans_of_ended_run(tx, seeded.run(), at=AT)
        endings.close_plans_of_ended_run(tx, seeded.run(), at=AT)
    assert told_outputs(seeded) == [("call_0", "SUCCEEDED."), ("call_1", "CANCELLED")]


def test_cancel_after_a_crash(store: Store) -> None:
    """A call whose worker died, and whose run was cancelled before a take-over, ends unknown."""
    seeded = seed(store, C.RUNNING, C.APPROVED, run=R.READY)
    with store.write() as tx:
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA, words=outputs)
    assert [(seeded.call(i).status, seeded.call(i).deadline is None) for i in range(2)] == [
        (C.UNKNOWN, True),
        (C.CANCELLED, False),
    ]
    assert [call for call, _ in told_outputs(seeded)] == ["call_0", "call_1"]


def test_cancel_while_an_answer_is_streamed(store: Store) -> None:
    """Its stream is closed, for whoever wrote to it may have died, and nobody takes the run up."""
    seeded = seed(store)
    with store.write() as tx:
        row = Message(key="answer", kind=MessageKind.ANSWER, status=MessageStatus.STREAMING)
        row.run_id, row.channel, row.body = seeded.run_id, "C1", "{}"
        outbox.queue_message(tx, row)
        assert endings.cancel_run(tx, seeded.run(), at=AT, actor=ANA, words=outputs)
    with store.read() as tx:
        closing = outbox.find_message_by_key(tx, "answer")
    assert closing is not None
    assert closing.status is MessageStatus.CLOSING


def test_a_remade_plan_supersedes_what_waited(store: Store) -> None:
    """Asking for something else supersedes what was not started.

    Its card is dead, and the model has an output for each of its calls.
    """
    seeded = seed(store, C.PENDING, C.APPROVED, C.UNKNOWN, C.FAILED)
    with store.write() as tx:
        assert endings.supersede_unstarted_calls_of_run(tx, seeded.run(), at=AT, words=outputs) == 2
        assert endings.supersede_unstarted_calls_of_run(tx, seeded.run(), at=AT, words=outputs) == 0
    assert [seeded.call(i).status for i in range(4)] == [
        C.SUPERSEDED,
        C.SUPERSEDED,
        C.UNKNOWN,
        C.FAILED,
    ]
    assert (seeded.run().status, seeded.call(2).deadline) == (R.WAITING, None)
    assert len(told_outputs(seeded)) == 4
    assert isinstance(vote(seeded), EarlierDecision)
