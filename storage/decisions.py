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

from storage import call_history, call_outputs, calls, moves, outbox, runs, states, trail
from storage.columns import copy_row_with_changes
from storage.masking import ValuePath
from storage.models import Call, Revision, Vote
from storage.states import CallStatus, CallVerb, Surface, UnknownCallResolution, VoteOutcome
from storage.transaction import Transaction

# The outcomes of a decision: applied, already decided, stale, late, or no such call.


@dataclass(frozen=True)
class _OutcomeOfCall:
    call: Call


class DecidableCall(_OutcomeOfCall):
    """The call can be decided: people are asked about it, and the revision is its newest."""


class AppliedDecision(_OutcomeOfCall):
    """The decision was applied; `call` is its state afterwards."""


class EarlierDecision(_OutcomeOfCall):
    """Another person or the deadline decided the call first; `call` is its current state."""


class StaleRevision(_OutcomeOfCall):
    """The button belongs to an older revision of the call."""


class DeadlinePassed(_OutcomeOfCall):
    """The decision was stored at or after the call's deadline."""


@dataclass(frozen=True)
class RepeatedVote(_OutcomeOfCall):
    """This person, or a delegate for them, has voted on this revision before."""

    verb: CallVerb
    earlier_voter: str  # the person who voted then


@dataclass(frozen=True, slots=True)
class MissingCall:
    """No call has that id."""


UndecidableOutcome = EarlierDecision | StaleRevision | DeadlinePassed | MissingCall
DecisionOutcome = AppliedDecision | RepeatedVote | UndecidableOutcome


class VoteTally(Protocol):
    """The state of the votes on a call, computed by code that knows the gate."""

    @property
    def outcome(self) -> VoteOutcome: ...
    @property
    def stage(self) -> int: ...  # number of the first open stage, from 0
    @property
    def open_stages(self) -> tuple[int, ...]: ...  # stages in which an approval counts now


VoteCounter = Callable[[list[Vote]], VoteTally]


def check_revision_is_decidable(
    tx: Transaction,
    call_id: str,
    revision: int,
    at: datetime,
    status: CallStatus = CallStatus.PENDING,
) -> DecidableCall | UndecidableOutcome:
    """Return whether this revision can be decided at `at`, or the outcome that prevents it.

    `status`: PENDING, or UNKNOWN where people are asked what became of the call.
    """
    call = calls.find_call(tx, call_id)
    if call is None:
        return MissingCall()
    if call.status is not status or not calls.is_waiting_for_people(call):
        return EarlierDecision(call)
    if call.revision != revision:
        return StaleRevision(call)
    if call.deadline is not None and at >= call.deadline:
        return DeadlinePassed(call)
    return DecidableCall(call)


C = CallStatus
VOTE_VERBS = (CallVerb.APPROVE, CallVerb.REJECT, CallVerb.BREAK_GLASS, *states.LOOK_VERBS)


def check_vote_is_possible(
    tx: Transaction, call_id: str, revision: int, verb: CallVerb, at: datetime
) -> DecidableCall | UndecidableOutcome:
    """Return whether a vote `verb` on this revision is possible at `at`, or what prevents it.

    LOOK and OBJECT are possible, without a deadline, until somebody has looked at a call that ran
    without approval.
    """
    if verb not in states.LOOK_VERBS:
        found = check_revision_is_decidable(tx, call_id, revision, at)
        if isinstance(found, DecidableCall) and calls.is_scheduled(found.call):
            return EarlierDecision(found.call) if verb == CallVerb.APPROVE else found
        return found
    call = calls.find_call(tx, call_id)
    if call is None or call.revision != revision:
        return StaleRevision(call) if call else MissingCall()
    return DecidableCall(call) if calls.is_to_be_looked_at(call) else EarlierDecision(call)


def apply_vote(
    tx: Transaction,
    vote: Vote,
    count_votes: VoteCounter,
    *,
    counts_as: str = "",
    surface: Surface = Surface.SLACK,
    starts_at: datetime | None = None,
) -> DecisionOutcome:
    """Record a vote on the revision that it names, as of its `created_at`: when it was clicked.

    Its digest is filled in. An approval gets StaleRevision if none of its stages is open any more.
    A person who has approved may still reject. If it names a passkey, the caller stores the
    signature.

    `count_votes`: says whether the votes have decided the call. `counts_as`: why this person may
    vote, for the audit. `starts_at`: when the call starts if this vote approves it, unless a
    rejection stops it before then; None: at once.
    """
    if vote.verb not in VOTE_VERBS:
        raise ValueError(f"{vote.verb!r} is no vote")
    check_result = check_vote_is_possible(
        tx, vote.call_id, vote.revision, vote.verb, vote.created_at
    )
    if not isinstance(check_result, DecidableCall):
        return check_result
    call = check_result.call
    before = calls.list_votes_on_revision(tx, call.id, vote.revision)
    if conflicting_vote := _find_conflicting_vote(before, vote):
        return RepeatedVote(call, conflicting_vote.verb, conflicting_vote.person)
    if vote.verb == CallVerb.APPROVE and not set(vote.stages) & set(
        count_votes(before).open_stages
    ):
        return StaleRevision(call)
    vote = copy_row_with_changes(vote, digest=call.digest)
    calls.insert_vote(tx, vote)
    why = {"counts_as": counts_as} | ({} if surface is Surface.SLACK else {"surface": surface})
    votes = [*before, vote]
    return AppliedDecision(_apply_tally(tx, call, count_votes(votes), votes, why, starts_at))


def _find_conflicting_vote(before: Sequence[Vote], vote: Vote) -> Vote | None:
    """Return the earlier vote, cast by or counted for the same person, that rules this one out."""
    person, verb = vote.person, vote.verb
    own = [
        each
        for each in before
        if each.person == person or each.counted_person == vote.counted_person
    ]
    if verb not in (CallVerb.APPROVE, CallVerb.REJECT):  # an earlier approval does not conflict
        own = own if verb == CallVerb.BREAK_GLASS else []
        return next((each for each in own if each.verb == CallVerb.REJECT), None)
    another = bool(vote.for_person) and any(each.person != person for each in own)
    over = verb == CallVerb.APPROVE or CallVerb.REJECT in {each.verb for each in own}
    return own[-1] if own and (another or over) else None


def _describe_vote(vote: Vote, call: Call, why: Mapping[str, str]) -> dict[str, Any]:
    """Return the data that the audit records about a vote."""
    details = {
        "tool": call.tool,
        "vote": vote.verb,
        "revision": vote.revision,
        "stage": vote.stage,
        "digest": vote.digest,
        "reason": vote.reason,
        **why,
    }
    rare = {"for": vote.for_person, "also": vote.also, "passkey": vote.passkey_id}
    return details | {name: value for name, value in rare.items() if value}


def _schedule_call(
    tx: Transaction, call: Call, vote: Vote, starts_at: datetime, why: Mapping[str, str]
) -> Call:
    """Have an approved call wait for the time at which it is to start; nobody is reminded of it."""
    columns: dict[str, Any] = {"starts_at": starts_at, "deadline": starts_at, "next_at": None}
    columns |= {"assignee": "", "assigned_by": ""}
    tx.update_rows(Call, {"id": call.id}, **columns)
    said = _describe_vote(vote, call, why) | {"starts_at": starts_at.isoformat()}
    at, actor = vote.created_at, vote.person
    trail.record_event(tx, "call.scheduled", at=at, actor=actor, call=call, data=said)
    moves.mark_plan_changed(tx, call.plan_id, call.id)
    return copy_row_with_changes(call, **columns)


def _apply_tally(
    tx: Transaction,
    call: Call,
    tally: VoteTally,
    votes: list[Vote],
    why: Mapping[str, str],
    starts_at: datetime | None,
) -> Call:
    """Record what the newest of these votes does to the call; return the call's new state."""
    last_vote, at = votes[-1], votes[-1].created_at
    if starts_at and tally.outcome == VoteOutcome.APPROVED:
        return _schedule_call(tx, call, last_vote, starts_at, why)
    details = _describe_vote(last_vote, call, why)
    stopped = last_vote.verb == CallVerb.REJECT and calls.is_scheduled(call)
    if last_vote.verb in states.LOOK_VERBS or (tally.outcome == VoteOutcome.OPEN and not stopped):
        event = f"call.vote.{last_vote.verb}"
        trail.record_event(tx, event, at=at, actor=last_vote.person, call=call, data=details)
        # looking afterwards changes nothing that ran, and ends the reminders to look
        if last_vote.verb in states.LOOK_VERBS:
            tx.update_rows(Call, {"id": call.id}, look_due_at=None)
        elif tally.stage > call.told_stage:  # the next stage's people must be notified
            tx.update_rows(Call, {"id": call.id}, next_at=at)
        moves.mark_plan_changed(tx, call.plan_id, call.id)
        return call
    approved = tally.outcome == VoteOutcome.APPROVED and not stopped
    target = C.APPROVED if approved else C.REJECTED
    against = [(each.person, each.reason) for each in votes if each.verb == CallVerb.REJECT]
    output = call_outputs.rejected_output(against) if target is C.REJECTED else ""
    columns: dict[str, Any] = {"decided_at": at, "note": last_vote.reason, "output": output}
    if last_vote.verb == CallVerb.BREAK_GLASS:  # others are asked at once to look at it
        columns |= {"note": "", "look_due_at": at, "told_moments": 0}
    if not moves.change_call_status(
        tx, call, target, at=at, actor=last_vote.person, data=details, **columns
    ):
        raise RuntimeError("a call moved inside the writer's own transaction")
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=last_vote.person)
    return copy_row_with_changes(call, status=target, **columns)


def apply_edit(
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
) -> DecisionOutcome:
    """Store an edit as the next revision: earlier votes stop counting, older buttons stop working.

    `secret`: values that the audit keeps as digests only. `shown`: columns for the new card:
    preview, preview_in_thread, preview_rows, expects.
    """
    check_result = check_revision_is_decidable(tx, call_id, revision, at)
    if not isinstance(check_result, DecidableCall):
        return check_result
    call = check_result.call
    row = _build_revision(call, arguments, digest, person, at)
    # with the same gate, the same people need not be notified again
    reminder_columns = {} if gate == call.gate else {"next_at": next_at, "told_moments": 0}
    calls.revise_call(
        tx, call, row, gate=gate, deadline=deadline, told_stage=0, **shown, **reminder_columns
    )
    details = {"tool": call.tool, **trail.build_revision_evidence(tx, row, secret)}
    trail.record_event(tx, "call.edited", at=at, actor=person, call=call, data=details)
    moves.mark_plan_changed(tx, call.plan_id, call.id)
    return AppliedDecision(calls.get_call(tx, call_id))


def return_call_to_pending(
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

    An APPROVED call, or a RUNNING one that has not done anything yet, becomes PENDING; a PENDING
    one stays so. Older buttons stop working. `shown`: columns for the new card. False if the call
    has no revision or has changed meanwhile.
    """
    current = calls.find_revision(tx, call.id, call.revision)
    if current is None:
        return False
    row = _build_revision(call, current.arguments, digest, calls.AGENT_AUTHOR, at)
    audit_data = {"why": why, "tool": call.tool, "revision": row.number, "digest": digest}
    columns: dict[str, Any] = {"deadline": deadline, "note": why}
    if calls.is_waiting_for_people(call):
        trail.record_event(tx, "call.asked_again", at=at, actor=actor, call=call, data=audit_data)
        moves.mark_plan_changed(tx, call.plan_id, call.id)
        shown |= columns
    elif not moves.change_call_status(
        tx, call, C.PENDING, at=at, actor=actor, data=audit_data, **columns
    ):
        return False
    calls.revise_call(
        tx,
        call,
        row,
        asked_at=at,
        next_at=next_at,
        told_stage=0,
        told_moments=0,
        look_due_at=None,
        grant_id="",
        **shown,
    )
    return True


def _build_revision(call: Call, arguments: str, digest: str, author: str, at: datetime) -> Revision:
    """Return the call's next revision."""
    return Revision(
        call_id=call.id,
        number=call.revision + 1,
        arguments=arguments,
        digest=digest,
        author=author,
        created_at=at,
    )


def list_pending_calls_on_card(
    tx: Transaction, plan_id: str, revision: int, card: int
) -> list[Call]:
    """Return the pending calls on a card in order, given its number in the outbox.

    Empty if the pending calls or their revisions no longer match the card's `revision`.
    """
    shown = outbox.list_call_ids_on_card(tx, plan_id, card)
    found = calls.list_calls_of_plan(tx, plan_id)
    waiting = [call for call in found if call.id in shown and call.status is C.PENDING]
    return waiting if calls.compute_card_revision(waiting) == revision else []


# Resolving calls whose outcome is UNKNOWN, in the caller's transaction.

_STATUS_BY_RESOLUTION = {
    UnknownCallResolution.DONE: C.SUCCEEDED,
    UnknownCallResolution.NOT_DONE: C.FAILED,
    UnknownCallResolution.AGAIN: C.APPROVED,
}


def resolve_unknown_call(
    tx: Transaction,
    call_id: str,
    revision: int,
    person: str,
    resolution: UnknownCallResolution,
    *,
    at: datetime,
    counts_as: str = "",
    delegator: str = "",
    rerun: Vote | None = None,
) -> DecisionOutcome:
    """Record what a person says became of an UNKNOWN call, or approve running it again.

    If the requester says that it was not done, or has it run again, it still counts as an attempt
    for spending limits. `counts_as`: why this person may say so, for the audit. `delegator`: the
    person whose right is used. `rerun`: the approval to run it again, on the next revision, with
    the digest that this has with the same arguments; None if it is not to run again.
    """
    if (resolution == UnknownCallResolution.AGAIN) != (rerun is not None):
        raise ValueError("a call runs again by a vote, and only then")
    check_result = check_revision_is_decidable(tx, call_id, revision, at, C.UNKNOWN)
    if not isinstance(check_result, DecidableCall):
        return check_result
    call = check_result.call
    happened = resolution == UnknownCallResolution.DONE
    if not happened and runs.is_requester_of_run(tx, call.run_id, person):
        call_history.record_possible_effect(tx, call, at)
    data: dict[str, Any] = {trail.SAID_KEY: resolution, "counts_as": counts_as, "for": delegator}
    if rerun is not None:
        data |= {"vote": rerun.verb, "revision": rerun.revision, "stage": 0, "digest": rerun.digest}
        data |= {"passkey": rerun.passkey_id} if rerun.passkey_id else {}
        column_values: dict[str, Any] = {"output": "", "asked_at": at, "decided_at": at}
    else:
        output = call_outputs.person_reported_outcome_output(person, happened)
        column_values = {"output": output, "finished_at": at}
        column_values |= {"note": ""} if happened else {}  # why nobody knew is not what it did
    target = _STATUS_BY_RESOLUTION[resolution]
    moves.change_call_status(
        tx, call, target, at=at, actor=person, data=data, deadline=None, **column_values
    )
    if rerun is not None:
        current = calls.find_revision(tx, call.id, call.revision)
        same, author = current.arguments if current else "{}", calls.AGENT_AUTHOR
        calls.revise_call(tx, call, _build_revision(call, same, rerun.digest, author, at))
        calls.insert_vote(tx, rerun)
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=person)
    return AppliedDecision(calls.get_call(tx, call_id))
