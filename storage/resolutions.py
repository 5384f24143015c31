"""What people say of a call of which nobody knows how it ended, in the caller's transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from storage import calls, moves, runs, spending
from storage.models import Call, Revision, Vote
from storage.outcomes import Applied, Decided, Gone, Outcome, Outputs, Stale, TooLate
from storage.states import CallStatus, Resolution, Verb
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
    digest: str = "",
    counts_as: str = "",
    giver: str = "",
) -> Outcome:
    """Write down how an UNKNOWN call ended, as a person says, or have it run again.

    What only its requester calls not done, or has run again, counts as an attempt all the same.
    To have it run again is a vote of its own, on a new revision of the same arguments; `digest`
    is that revision's. `counts_as`: why this person may; `giver`: by whose right, if not theirs.
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
    data: dict[str, Any] = {"said": resolution, "counts_as": counts_as, "for": giver}
    if again:
        vote = _vote(call, person, giver, digest, at)
        data |= {"vote": vote.verb, "revision": vote.revision, "stage": 0, "digest": digest}
        ended: dict[str, Any] = {"output": "", "asked_at": at, "decided_at": at}
    else:
        output = words.resolved(person, resolution == Resolution.DONE)
        ended = {"output": output, "finished_at": at}
    target = targets[resolution]
    moves.call(tx, call, target, at=at, actor=person, data=data, deadline=None, **ended)
    if again:
        _renew(tx, call, vote)
    runs.free(tx, call.run_id, at=at, actor=person)
    return Applied(calls.get(tx, call_id) or call)


def _vote(call: Call, person: str, giver: str, digest: str, at: datetime) -> Vote:
    """To run it again: a vote on the revision to come."""
    return Vote(
        call_id=call.id,
        revision=call.revision + 1,
        person=person,
        verb=Verb.APPROVE,
        for_person=giver,
        digest=digest,
        created_at=at,
    )


def _renew(tx: Transaction, call: Call, vote: Vote) -> None:
    """Make the revision that the vote is for, of the arguments there are, and store the vote."""
    current = calls.revision(tx, call.id, call.revision)
    revision = Revision(
        call_id=call.id,
        number=vote.revision,
        arguments=current.arguments if current else "{}",
        digest=vote.digest,
        author=calls.AGENT,
        created_at=vote.created_at,
    )
    calls.revise(tx, call, revision)
    calls.add_vote(tx, vote)
