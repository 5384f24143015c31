"""Votes, edits and other decisions of people on a call, each in the caller's transaction.

Whether a person may decide is settled before (bot.policy.authority); whether the decision still
counts is settled here, by compare-and-swap on status, revision and deadline. The loser gets a typed
outcome that says what happened instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import update
from sqlmodel import col

from storage import calls, moves, outbox, runs, spending, trail
from storage.columns import altered_row
from storage.masking import ValuePath
from storage.models import Call, Plan, Revision, Vote
from storage.states import Balance, CallStatus, Resolution, Surface, Verb
from storage.transaction import Transaction

# The outcomes of a decision: applied, already decided, stale, late, or no such call.


@dataclass(frozen=True, slots=True)
class OpenRevision:
    """The call can be decided: it is pending, and the revision is its newest."""

    call: Call


@dataclass(frozen=True, slots=True)
class AppliedDecision:
    """The decision was applied; `call` is its state afterwards."""

    call: Call


@dataclass(frozen=True, slots=True)
class AlreadyDecided:
    """Another person or the deadline decided the call first; `call` is its current state."""

    call: Call


@dataclass(frozen=True, slots=True)
class StaleRevision:
    """The button belongs to an older revision of the call."""

    call: Call


@dataclass(frozen=True, slots=True)
class MissedDeadline:
    """The decision was stored at or after the call's deadline."""

    call: Call


@dataclass(frozen=True, slots=True)
class MissingCall:
    """No call has that id."""


@dataclass(frozen=True, slots=True)
class RepeatedVote:
    """This person, or a delegate for them, has voted on this revision before."""

    call: Call
    verb: Verb
    by: str  # who has


Closed = AlreadyDecided | StaleRevision | MissedDeadline | MissingCall
Outcome = AppliedDecision | RepeatedVote | Closed


class Outputs(Protocol):
    """The texts that the model gets for calls that end here; `bot.agent.outputs` implements it."""

    def rejected(self, votes: Sequence[tuple[str, str]]) -> str: ...
    def expired(self) -> str: ...
    def cancelled(self) -> str: ...
    def withdrawn(self) -> str: ...
    def left_behind(self) -> str: ...
    def superseded(self) -> str: ...
    def sent_back(self, person: str, feedback: str) -> str: ...
    def lost(self) -> str: ...
    def resolved(self, person: str, done: bool) -> str: ...
    def stopped(self, why: str, done: Sequence[tuple[str, str, str]]) -> str: ...
    def abandoned(self) -> str: ...


class VoteTally(Protocol):
    """The state of the votes on a call, computed by code that knows the gate."""

    @property
    def outcome(self) -> Balance:
        """Return the result of the votes so far."""
        ...

    @property
    def stage(self) -> int:
        """Return the number of the open stage, or of the first open one, from 0."""
        ...

    @property
    def open(self) -> tuple[int, ...]:
        """Return the stages in which an approval counts now."""
        ...


TallyVotes = Callable[[list[Vote]], VoteTally]


def check_decidable(
    tx: Transaction, call_id: str, revision: int, at: datetime
) -> OpenRevision | Closed:
    """Return whether this revision can be decided at `at`, or the outcome that prevents it."""
    call = calls.get(tx, call_id)
    if call is None:
        return MissingCall()
    if call.status is not CallStatus.PENDING:
        return AlreadyDecided(call)
    if call.revision != revision:
        return StaleRevision(call)
    if call.deadline is not None and at >= call.deadline:
        return MissedDeadline(call)
    return OpenRevision(call)


__all__ = ["check_decidable"]
C = CallStatus


def vote(
    tx: Transaction,
    call_id: str,
    revision: int,
    verb: Verb,
    person: str,
    *,
    at: datetime,
    weigh: TallyVotes,
    words: Outputs,
    stage: int = 0,
    also: Sequence[int] = (),
    reason: str = "",
    counts_as: str = "",
    surface: Surface = Surface.SLACK,
    giver: str = "",
) -> Outcome:
    """Record a vote on one revision, as of the moment `at` when the click was stored.

    `stage`: the one in which this person may vote, `also`: others where the vote may count; an
    approval meets StaleRevision if none of them is open by now. A person who has approved may still
    reject. `weigh` says whether the votes have decided the call; `words` gives the model's text.
    `giver`: the delegator whose right the person uses; the two count as one.
    """
    if verb not in (Verb.APPROVE, Verb.REJECT):
        raise ValueError(f"unknown verb {verb!r}")
    found = check_decidable(tx, call_id, revision, at)
    if not isinstance(found, OpenRevision):
        return found
    call, before = found.call, calls.votes(tx, call_id, revision)
    if said := _said(before, verb, person, giver):
        return RepeatedVote(call, said.verb, said.person)
    if verb == Verb.APPROVE and not {stage, *also} & set(weigh(before).open):
        return StaleRevision(call)
    row = Vote(
        call_id=call.id,
        revision=revision,
        person=person,
        verb=verb,
        stage=stage,
        also=",".join(map(str, also)),
        digest=call.digest,
        reason=reason,
        for_person=giver,
        created_at=at,
    )
    calls.add_vote(tx, row)
    why = {"counts_as": counts_as, **({} if surface is Surface.SLACK else {"surface": surface})}
    now = weigh([*before, row])
    return AppliedDecision(_moved_by_votes(tx, call, now, [*before, row], at, words, why))


def _said(before: Sequence[Vote], verb: Verb, person: str, giver: str) -> Vote | None:
    """Return the earlier vote (own, giver's or delegate's) that keeps this one from counting."""
    own = [each for each in before if each.person == person or each.counts_for == (giver or person)]
    another = bool(giver) and any(each.person != person for each in own)
    over = verb == Verb.APPROVE or Verb.REJECT in {each.verb for each in own}
    return own[-1] if own and (another or over) else None


def _moved_by_votes(
    tx: Transaction,
    call: Call,
    standing: VoteTally,
    votes: list[Vote],
    at: datetime,
    words: Outputs,
    why: Mapping[str, str],
) -> Call:
    """Record the effect of the last of these votes; return the call as it is afterwards."""
    last = votes[-1]
    details = {
        "tool": call.tool,
        "vote": last.verb,
        "revision": last.revision,
        "stage": last.stage,
        "digest": last.digest,
        "reason": last.reason,
        **why,
        **({"for": last.for_person} if last.for_person else {}),
    }
    details |= {"also": last.also} if last.also else {}
    if standing.outcome == Balance.OPEN:
        event, about = f"call.vote.{last.verb}", {"run_id": call.run_id, "call_id": call.id}
        trail.record(tx, event, at=at, actor=last.person, data=details, **about)
        if standing.stage > call.told_stage:  # the people of the next stage have to be told
            tx.execute(update(Call).where(col(Call.id) == call.id).values(next_at=at))
        moves.touch(tx, call.plan_id, call.id)
        return call
    target = C.APPROVED if standing.outcome == Balance.APPROVED else C.REJECTED
    against = [(each.person, each.reason) for each in votes if each.verb == Verb.REJECT]
    output = words.rejected(against) if target is C.REJECTED else ""
    columns: dict[str, Any] = {"decided_at": at, "note": last.reason, "output": output}
    if not moves.call(tx, call, target, at=at, actor=last.person, data=details, **columns):
        raise RuntimeError("a call moved inside the writer's own transaction")
    runs.free_if_decided(tx, call.run_id, at=at, actor=last.person)
    return altered_row(call, status=target, **columns)


def edit(
    tx: Transaction,
    call_id: str,
    revision: int,
    person: str,
    *,
    at: datetime,
    arguments: str,
    digest: str,
    gate: str,
    deadline: datetime | None,
    next_at: datetime | None = None,
    secret: Collection[ValuePath] = (),
    **shown: str | None,
) -> Outcome:
    """Store an edit as the next revision: earlier votes stop counting, older buttons stop working.

    `secret`: values that the audit keeps as digests only. `shown`: columns for the new card:
    preview, preview_in_thread, preview_rows, expects.
    """
    found = check_decidable(tx, call_id, revision, at)
    if not isinstance(found, OpenRevision):
        return found
    call, number = found.call, revision + 1
    row = Revision(
        call_id=call.id,
        number=number,
        arguments=arguments,
        digest=digest,
        author=person,
        created_at=at,
    )
    # the same people are not told twice
    told = {} if gate == call.gate else {"next_at": next_at, "told_moments": 0}
    calls.revise(
        tx,
        call,
        row,
        gate=gate,
        deadline=deadline,
        told_stage=0,
        **shown,
        **told,
    )
    details = {"tool": call.tool, **trail.evidence_of_revision(tx, row, secret)}
    trail.record(
        tx, "call.edited", at=at, actor=person, run_id=call.run_id, call_id=call.id, data=details
    )
    moves.touch(tx, call.plan_id, call.id)
    return AppliedDecision(calls.get(tx, call_id) or call)


def ask_again(
    tx: Transaction,
    call: Call,
    *,
    at: datetime,
    actor: str,
    why: str,
    deadline: datetime,
    digest: str,
    next_at: datetime | None = None,
    **shown: Any,
) -> bool:
    """Make a new revision with the same arguments, so that people are asked again.

    APPROVED, or RUNNING where nothing was done, goes back to PENDING; older buttons stop working.
    `shown`: columns for the new card. False if the call has no revision or has changed meanwhile.
    """
    current = calls.revision(tx, call.id, call.revision)
    if current is None:
        return False
    number = call.revision + 1
    row = Revision(
        call_id=call.id,
        number=number,
        arguments=current.arguments,
        digest=digest,
        author=calls.AGENT,
    )
    row.created_at = at
    said = {"why": why, "tool": call.tool, "revision": number, "digest": digest}
    columns: dict[str, Any] = {"deadline": deadline, "note": why}
    if calls.waits(call):
        about = {"run_id": call.run_id, "call_id": call.id}
        trail.record(tx, "call.asked_again", at=at, actor=actor, data=said, **about)
        moves.touch(tx, call.plan_id, call.id)
        shown |= columns
    elif not moves.call(tx, call, C.PENDING, at=at, actor=actor, data=said, **columns):
        return False
    calls.revise(
        tx,
        call,
        row,
        asked_at=at,
        next_at=next_at,
        told_stage=0,
        told_moments=0,
        grant_id="",
        **shown,
    )
    return True


def plan_calls(tx: Transaction, plan: Plan, only: Sequence[str]) -> list[Call]:
    """Return the plan's pending calls with ids in `only` (the clicked card's calls), in order."""
    return [
        call for call in calls.of_plan(tx, plan.id) if call.id in only and call.status is C.PENDING
    ]


def pending_calls_on_card(tx: Transaction, plan_id: str, revision: int, card: int) -> list[Call]:
    """Return the pending calls on a card, given its number in the outbox.

    Empty if the pending calls or their revisions no longer match the card's `revision`.
    """
    plan = calls.plan(tx, plan_id)
    if plan is None:
        return []
    waiting = plan_calls(tx, plan, outbox.calls_of(tx, plan_id, card))
    return waiting if calls.card_revision(waiting) == revision else []


# Resolving calls whose outcome is UNKNOWN, in the caller's transaction.


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
    """Record what a person says became of an UNKNOWN call, or approve running it again.

    If the requester says that it was not done, or has it run again, it still counts as an attempt
    for spending limits. Running it again is a vote of its own, on a new revision of the same
    arguments, with that `digest`. `giver`: the delegator whose right the person uses.
    """
    targets = {
        Resolution.DONE: C.SUCCEEDED,
        Resolution.NOT_DONE: C.FAILED,
        Resolution.AGAIN: C.APPROVED,
    }
    again = resolution == Resolution.AGAIN
    call = calls.get(tx, call_id)
    if call is None:
        return MissingCall()
    if call.status is not C.UNKNOWN or call.deadline is None:
        return AlreadyDecided(call)
    if call.revision != revision:
        return StaleRevision(call)
    if at >= call.deadline:
        return MissedDeadline(call)
    if resolution != Resolution.DONE and runs.is_requester(tx, call.run_id, person):
        spending.keep_attempt(tx, call, at)
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
    runs.free_if_decided(tx, call.run_id, at=at, actor=person)
    return AppliedDecision(calls.get(tx, call_id) or call)


def _vote(call: Call, person: str, giver: str, digest: str, at: datetime) -> Vote:
    """Return the approving vote for the revision with which the call runs again."""
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
    """Store the revision that the vote is for, with the current arguments, and the vote itself."""
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
