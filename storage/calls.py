"""Queries over plans, calls, their revisions and votes.

It reads and appends rows; a status is changed only by `moves`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from sqlalchemy import BindParameter, and_, bindparam, func, or_, select
from sqlmodel import col

from storage.columns import hide_from_indexes
from storage.models import Call, Message, PersonAnswer, Plan, Revision, Run, Vote
from storage.states import (
    CALL_FINAL_STATUSES,
    RUN_OPEN_STATUSES,
    CallStatus,
    MessageStatus,
    RunStatus,
)
from storage.transaction import (
    Transaction,
    fetch_first_row,
    fetch_readable_rows,
    fetch_rows,
    insert_row,
)

# Statements are built once: building one costs several times what SQLite takes to run it.
_ID_PARAMETER: BindParameter[Any] = bindparam("id_")
UNFINISHED_RUN_STATUSES = (*RUN_OPEN_STATUSES, RunStatus.FAILED)  # runs that may have pending calls
WAITING_FOR_PEOPLE_CONDITION = or_(  # as in `is_waiting_for_people`
    col(Call.status) == CallStatus.PENDING,
    (col(Call.status) == CallStatus.UNKNOWN) & col(Call.deadline).is_not(None),
)
_HELD_BY_PROGRAM_CONDITION = (
    col(Call.action) != ""
) & or_(  # as in `is_awaiting_program_claim_or_report`
    col(Call.status) == CallStatus.RUNNING,
    (col(Call.status) == CallStatus.APPROVED) & (col(Call.claimant) == ""),
)
APPROVED_BY_PEOPLE_CONDITION = and_(  # as in `is_people_approved_and_unstarted`
    col(Call.status) == CallStatus.APPROVED,
    or_(col(Call.decided_at).is_not(None), col(Call.grant_id) != ""),
)
# as in `is_blocking_run`
BLOCKING_RUN_CONDITION = or_(
    WAITING_FOR_PEOPLE_CONDITION,
    col(Call.status) == CallStatus.ENTRUSTED,
    _HELD_BY_PROGRAM_CONDITION,
)
_OPEN_PLAN_CONDITIONS = (col(Plan.run_id) == _ID_PARAMETER, col(Plan.answered).is_(False))
RUN_IS_BLOCKED_CONDITION = (  # whether a call of an open plan blocks the run
    select(col(Call.id))
    .join(Plan, col(Plan.id) == col(Call.plan_id))
    .where(*_OPEN_PLAN_CONDITIONS, BLOCKING_RUN_CONDITION)
    .exists()
)
CALL_OF_REQUEST_CONDITION = col(Call.run_id).in_(
    select(col(Run.id)).where(col(Run.root_id) == _ID_PARAMETER)
)
_SELECT_OPEN_PLANS = select(Plan).where(*_OPEN_PLAN_CONDITIONS).order_by(col(Plan.turn).desc())
_SELECT_NEWEST_OPEN_PLAN = _SELECT_OPEN_PLANS.limit(1)
_SELECT_CALLS_OF_OPEN_PLAN = (
    select(Call)
    .where(
        col(Call.plan_id)
        == _SELECT_NEWEST_OPEN_PLAN.with_only_columns(col(Plan.id)).scalar_subquery()
    )
    .order_by(col(Call.position))
)
_SELECT_REVISION_AUTHORS = select(col(Revision.author)).where(
    col(Revision.call_id) == _ID_PARAMETER
)
_SELECT_CALLS_WITH_PLANS = select(Call).join(Plan, col(Plan.id) == col(Call.plan_id))
_SELECT_CALLS_OF_RUN = _SELECT_CALLS_WITH_PLANS.where(col(Call.run_id) == _ID_PARAMETER).order_by(
    col(Plan.turn), col(Call.position)
)
_SELECT_CALLS_OF_REQUEST = _SELECT_CALLS_WITH_PLANS.where(CALL_OF_REQUEST_CONDITION).order_by(
    col(Call.created_at), col(Plan.turn), col(Call.position)
)
_UNSTARTED_CALL_CONDITION = col(Call.status).in_((CallStatus.PENDING, CallStatus.APPROVED))
_COUNT_UNSTARTED_BY_KEY = (
    select(col(Call.key_id), func.count())
    .where(_UNSTARTED_CALL_CONDITION)
    .group_by(col(Call.key_id))
)
_SELECT_UNSTARTED_OF_KEY = select(Call).where(
    _UNSTARTED_CALL_CONDITION, col(Call.key_id) == _ID_PARAMETER
)


NOT_RUN_STATUSES = frozenset(  # to be asked again, or ended before they started
    {CallStatus.PENDING, CallStatus.CANCELLED, CallStatus.SUPERSEDED, CallStatus.INVALIDATED}
)
AGENT_AUTHOR = "agent"  # author of the arguments that the agent proposed
FORM_AUTHOR = "form"  # author of the arguments that a person entered in a form
NON_PERSON_AUTHORS = frozenset({AGENT_AUTHOR, FORM_AUTHOR})


@dataclass(frozen=True, slots=True)
class CallWithRevision:
    """A call together with its current revision."""

    call: Call
    revision: Revision

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the revision's arguments, parsed from JSON."""
        loaded: dict[str, Any] = json.loads(self.revision.arguments)
        return loaded


@dataclass(frozen=True, slots=True)
class CallWithVotes(CallWithRevision):
    """A call with its current revision, the votes on that revision, and everyone who edited it."""

    votes: tuple[Vote, ...]
    editors: frozenset[str]


@dataclass(frozen=True, slots=True)
class CallEditorsAndVotes:
    """Who edited a call, and the votes on its newest revision."""

    editors: frozenset[str]  # people who edited any of its revisions
    votes: tuple[Vote, ...]  # on the newest revision, oldest first


def find_call(tx: Transaction, call_id: str) -> Call | None:
    """Return the call with that id, or None."""
    return tx.find_row(Call, id=call_id)


def get_call(tx: Transaction, call_id: str) -> Call:
    """Return the call that another row refers to, as it is now."""
    return tx.get_row(Call, id=call_id)


def find_plan(tx: Transaction, plan_id: str) -> Plan | None:
    """Return the plan with that id, or None."""
    return tx.find_row(Plan, id=plan_id)


class CallRevisionReference(Protocol):
    """The id and revision of a call, as a database row or a card holds them."""

    @property
    def id(self) -> str: ...

    @property
    def revision(self) -> int: ...


def compute_card_revision(waiting: Iterable[CallRevisionReference]) -> int:
    """Return a hash of the waiting calls' revisions, which a card's buttons for all of them carry.

    A decision on another card of the plan does not change it.
    """
    said = ",".join(sorted(f"{each.id}:{each.revision}" for each in waiting))
    return int.from_bytes(sha256(said.encode()).digest()[:6])


def list_calls_of_plan(tx: Transaction, plan_id: str) -> list[Call]:
    """Return a plan's calls in the model's order."""
    return tx.list_rows(Call, order_by="position", plan_id=plan_id)


def find_open_plan(tx: Transaction, run_id: str) -> Plan | None:
    """Return the run's newest plan whose outputs the model has not received yet; None if none."""
    return fetch_first_row(tx, Plan, _SELECT_NEWEST_OPEN_PLAN, id_=run_id)


def list_calls_of_open_plan(tx: Transaction, run_id: str) -> list[Call]:
    """Return all calls of the run's newest open plan, also ended ones; [] if it has none."""
    return fetch_rows(tx, Call, _SELECT_CALLS_OF_OPEN_PLAN, id_=run_id)


def list_open_plans(tx: Transaction, run_id: str) -> list[Plan]:
    """Return the run's plans whose outputs the model has not received yet, newest first.

    There are two while the model looks something up during a side turn.
    """
    return fetch_rows(tx, Plan, _SELECT_OPEN_PLANS, id_=run_id)


def list_calls_of_all_open_plans(tx: Transaction, run_id: str) -> list[Call]:
    """Return the calls of all open plans of the run, also ended ones."""
    plans = list_open_plans(tx, run_id)
    return [call for plan in plans for call in list_calls_of_plan(tx, plan.id)]


def find_revision(tx: Transaction, call_id: str, number: int) -> Revision | None:
    """Return one revision of a call, or None."""
    return tx.find_row(Revision, call_id=call_id, number=number)


def list_revisions(tx: Transaction, call_id: str) -> list[Revision]:
    """Return all revisions of a call, oldest first."""
    return tx.list_rows(Revision, order_by="number", call_id=call_id)


def find_call_with_revision(tx: Transaction, call_id: str) -> CallWithRevision | None:
    """Return the call with its current revision; None if either is missing."""
    call = find_call(tx, call_id)
    current = call and find_revision(tx, call_id, call.revision)
    return CallWithRevision(call, current) if call and current else None


def find_call_with_votes(tx: Transaction, call: Call) -> CallWithVotes | None:
    """Return the call with its current revision, votes and editors; None if it has no revision."""
    revisions = list_revisions(tx, call.id)
    current = next((each for each in revisions if each.number == call.revision), None)
    if current is None:
        return None
    edited_by = frozenset(each.author for each in revisions) - NON_PERSON_AUTHORS
    return CallWithVotes(
        call, current, tuple(list_votes_on_revision(tx, call.id, call.revision)), edited_by
    )


def list_editors(tx: Transaction, call_id: str) -> frozenset[str]:
    """Return the people who edited this call."""
    return frozenset(tx.scalars(_SELECT_REVISION_AUTHORS, {"id_": call_id})) - NON_PERSON_AUTHORS


def get_call_editors_and_votes(tx: Transaction, call: Call) -> CallEditorsAndVotes:
    """Return who edited this call and who voted on its current revision."""
    return CallEditorsAndVotes(
        list_editors(tx, call.id), tuple(list_votes_on_revision(tx, call.id, call.revision))
    )


def list_votes_on_revision(tx: Transaction, call_id: str, number: int) -> list[Vote]:
    """Return the votes on one revision, oldest first."""
    return tx.list_rows(Vote, order_by="seq", call_id=call_id, revision=number)


def insert_vote(tx: Transaction, row: Vote) -> None:
    """Append a vote."""
    insert_row(tx, row)


def insert_revision(tx: Transaction, row: Revision) -> None:
    """Append a revision."""
    insert_row(tx, row)


def revise_call(tx: Transaction, call: Call, row: Revision, **columns: object) -> None:
    """Store `row` as the call's newest revision, and set further `columns` of the call.

    The new revision has no assignee and no time to start.
    """
    insert_revision(tx, row)
    held = {"id": call.id, "revision": call.revision}
    columns |= {"revision": row.number, "digest": row.digest, "assignee": "", "assigned_by": ""}
    columns |= {"starts_at": None}
    tx.update_rows(Call, held, **columns)


def insert_plan(tx: Transaction, row: Plan) -> None:
    """Insert a plan."""
    insert_row(tx, row)


def mark_plan_outputs_in_transcript(tx: Transaction, plan_id: str) -> None:
    """Record that the outputs of all calls of the plan are in the transcript."""
    tx.update_rows(Plan, {"id": plan_id}, answered=True)


def is_waiting_for_people(call: Call) -> bool:
    """Return whether people can still decide the call: PENDING, or UNKNOWN with a deadline."""
    return call.status is CallStatus.PENDING or (
        call.status is CallStatus.UNKNOWN and call.deadline is not None
    )


def is_scheduled(call: Call) -> bool:
    """Return whether the call is approved and waits for the time at which it is to start."""
    return call.status is CallStatus.PENDING and call.starts_at is not None


def get_shown_status(call: Call) -> CallStatus:
    """Return the call's status as lists show it: APPROVED while it waits for its time to start."""
    return CallStatus.APPROVED if is_scheduled(call) else call.status


def is_to_be_looked_at(call: Call) -> bool:
    """Return whether the call goes ahead, or ran, without approval, and nobody has looked at it."""
    return call.look_due_at is not None and call.status not in NOT_RUN_STATUSES


def is_awaiting_program_claim_or_report(call: Call) -> bool:
    """Return whether the asking program has yet to claim the call or to report its outcome."""
    if not call.action:
        return False
    return call.status is CallStatus.RUNNING or (
        call.status is CallStatus.APPROVED and not call.claimant
    )


def was_left_unreported_by_program(call: Call) -> bool:
    """Return whether a program handed the call's work on and has not reported its outcome."""
    unsaid = call.status is CallStatus.UNKNOWN and call.deadline is None
    return bool(call.action) and unsaid and call.held_until is None


def is_blocking_run(call: Call) -> bool:
    """Return whether the run has to wait for this call: for people, a sub-agent or a program."""
    return (
        is_waiting_for_people(call)
        or call.status is CallStatus.ENTRUSTED
        or is_awaiting_program_claim_or_report(call)
    )


def can_worker_run_call(call: Call) -> bool:
    """Return whether the call is approved and does not have to be claimed by a program first."""
    return call.status is CallStatus.APPROVED and not is_awaiting_program_claim_or_report(call)


def is_people_approved_and_unstarted(call: Call) -> bool:
    """Return whether people or a grant approved the call and it has not started.

    A run with such a call has precedence over others.
    """
    is_approved = call.status is CallStatus.APPROVED
    return is_approved and (call.decided_at is not None or bool(call.grant_id))


def is_run_blocked(tx: Transaction, run_id: str) -> bool:
    """Return whether a call of the run waits for people, a sub-agent or a program."""
    return any(map(is_blocking_run, list_calls_of_all_open_plans(tx, run_id)))


def has_final_outcome(call: Call) -> bool:
    """Return whether the call has a final outcome that the model can be given."""
    return call.status in CALL_FINAL_STATUSES or (
        call.status is CallStatus.UNKNOWN and call.deadline is None
    )


def list_later_calls_of_run(tx: Transaction, call: Call) -> list[Call]:
    """Return the calls of the same run that were proposed after this one, in order."""
    found = list_calls_of_run(tx, call.run_id)
    return found[[each.id for each in found].index(call.id) + 1 :]


def list_calls_of_run(tx: Transaction, run_id: str) -> list[Call]:
    """Return all calls of a run, in the order in which they were proposed."""
    return fetch_rows(tx, Call, _SELECT_CALLS_OF_RUN, id_=run_id)


def list_calls_of_request(tx: Transaction, root_id: str) -> list[Call]:
    """Return all calls of a request, including its sub-agents' calls, in the order of proposal."""
    return fetch_rows(tx, Call, _SELECT_CALLS_OF_REQUEST, id_=root_id)


def count_open_calls_by_signing_key(tx: Transaction) -> dict[str, int]:
    """Return the number of pending and approved calls for each signing key id."""
    return {str(row[0]): int(row[1]) for row in tx.execute(_COUNT_UNSTARTED_BY_KEY)}


def list_open_calls_of_signing_key(tx: Transaction, key: str) -> list[Call]:
    """Return the pending and approved calls whose digest was made with this key id."""
    return fetch_rows(tx, Call, _SELECT_UNSTARTED_OF_KEY, id_=key)


_SELECT_PENDING_QUESTIONS = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.status) == CallStatus.PENDING, col(Call.tool) == bindparam("tool_"))
    .where(col(Run.team) == bindparam("team_"), col(Call.deadline) > bindparam("at_"))
    .order_by(col(Call.deadline))
)
_SELECT_QUESTION_BEING_POSTED = (
    select(Message)
    .join(Call, col(Call.plan_id) == col(Message.plan_id))
    .where(col(Message.channel) == bindparam("channel_"))
    .where(col(Message.status) == MessageStatus.SENDING, hide_from_indexes(Message.ts) == "")
    .where(col(Call.status) == CallStatus.PENDING, col(Call.tool) == bindparam("tool_"))
    .limit(1)
)


def find_person_answer(tx: Transaction, call_id: str) -> PersonAnswer | None:
    """Return the answer to this call's question; None if nobody has answered."""
    return tx.find_row(PersonAnswer, call_id=call_id)


def list_waiting_questions(tx: Transaction, tool: str, team: str, at: datetime) -> list[Call]:
    """Return a workspace's questions (calls of `tool`) open at `at`, earliest deadline first."""
    return fetch_readable_rows(
        tx, Call, col(Call.id), _SELECT_PENDING_QUESTIONS, tool_=tool, team_=team, at_=at
    )


def schedule_question_reminder(tx: Transaction, call: Call, next_at: datetime | None) -> bool:
    """Set the next reminder of an open question; False if it is revised or decided by now."""
    held = {"id": call.id, "revision": call.revision, "status": CallStatus.PENDING}
    return tx.update_rows(Call, held, next_at=next_at) == 1


def is_question_being_posted(tx: Transaction, tool: str, channel: str) -> bool:
    """Return whether a waiting question is about to be posted in this channel.

    `tool`: the tool that asks people.
    """
    return (
        fetch_first_row(tx, Message, _SELECT_QUESTION_BEING_POSTED, tool_=tool, channel_=channel)
        is not None
    )
