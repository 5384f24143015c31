"""What people say of a call of which nobody knows how it ended, in the caller's transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from storage import audit, calls, moves, runs, spending
from storage.outcomes import Applied, Decided, Gone, Outcome, Outputs, Stale, TooLate
from storage.states import CallStatus, Resolution
from storage.transaction import Transaction

C = CallStatus


def resolve(
    tx: Transaction,
    call_id: str,
    revision: int,
    person: str,
    resolution: Resolution,
    *,
    at: datetime,
    words: Outputs,
) -> Outcome:
    """Write down how an UNKNOWN call ended, as a person says, or have it run again.

    What only its requester calls not done, or has run again, counts as an attempt all the same.
    """
    targets = {
        Resolution.DONE: C.SUCCEEDED,
        Resolution.NOT_DONE: C.FAILED,
        Resolution.AGAIN: C.APPROVED,
    }
    again = resolution == Resolution.AGAIN
    call = calls.get(tx, call_id)
    if call is None:
        return Gone()
    if call.status is not C.UNKNOWN or call.deadline is None:
        return Decided(call)
    if call.revision != revision:
        return Stale(call)
    if at >= call.deadline:
        return TooLate(call)
    if resolution != Resolution.DONE and runs.is_of(tx, call.run_id, person):
        spending.keep(tx, call, at)
    said = "" if again else words.resolved(person, resolution == Resolution.DONE)
    ended: dict[str, Any] = {"decided_at": at} if again else {"finished_at": at}
    moves.call(
        tx,
        call,
        targets[resolution],
        at=at,
        actor=person,
        data={"said": resolution},
        output=said,
        deadline=None,
        **ended,
    )
    if again:
        audit.record(
            tx, "call.vote_again", at=at, actor=person, run_id=call.run_id, call_id=call.id
        )
    runs.free(tx, call.run_id, at=at, actor=person)
    return Applied(calls.get(tx, call_id) or call)
