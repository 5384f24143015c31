"""Questions to people, which are calls that wait: storing their answers and listing them.

An answer ends its own call and no other; the caller knows whether a call is a question, and to
whom.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, select, update
from sqlmodel import col

from storage import moves
from storage.columns import get_column_values
from storage.decisions import AppliedDecision, DecidableCall, UndecidableOutcome, check_decidable
from storage.models import Call, Message, PersonAnswer, Run
from storage.states import CallStatus, MessageStatus
from storage.transaction import Transaction, build_insert, fetch_first_row, fetch_readable_rows

_GIVEN = select(PersonAnswer).where(col(PersonAnswer.call_id) == bindparam("id_"))
_WAITING = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.status) == CallStatus.PENDING, col(Call.tool) == bindparam("tool_"))
    .where(col(Run.team) == bindparam("team_"), col(Call.deadline) > bindparam("at_"))
    .order_by(col(Call.deadline))
)

_BEING_POSTED = (
    select(Message)
    .join(Call, col(Call.plan_id) == col(Message.plan_id))
    .where(col(Message.channel) == bindparam("channel_"))
    .where(col(Message.status) == MessageStatus.SENDING, col(Message.ts) == "")
    .where(col(Call.status) == CallStatus.PENDING, col(Call.tool) == bindparam("tool_"))
    .limit(1)
)


def store_person_answer(
    tx: Transaction,
    call_id: str,
    revision: int,
    person: str,
    *,
    at: datetime,
    given: str,
    declined: bool,
    output: str,
) -> AppliedDecision | UndecidableOutcome:
    """Store a person's answer as of the moment `at`, and let the run go on.

    `given`: canonical JSON of the values; `output`: the text for the model. Returns the outcome,
    which tells a second person that another was first.
    """
    found = check_decidable(tx, call_id, revision, at)
    if not isinstance(found, DecidableCall):
        return found
    call = found.call
    row = PersonAnswer(
        call_id=call.id,
        revision=revision,
        person=person,
        given=given,
        declined=declined,
        created_at=at,
    )
    tx.execute(build_insert(PersonAnswer), get_column_values(row))
    digest = tx.chain.sign("answer", call.id, given)
    moved = moves.change_call_status(
        tx,
        call,
        CallStatus.ANSWERED,
        at=at,
        actor=person,
        event="question.answered",
        data={"answer": digest, "declined": declined},
        decided_at=at,
        finished_at=at,
        output=output,
    )
    if not moved:
        raise RuntimeError("a call moved inside the writer's own transaction")
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=person)
    return AppliedDecision(call)


def find_person_answer(tx: Transaction, call_id: str) -> PersonAnswer | None:
    """Return the answer to the question; None if nobody has answered."""
    return fetch_first_row(tx, PersonAnswer, _GIVEN, id_=call_id)


def list_waiting_questions(tx: Transaction, tool: str, team: str, at: datetime) -> list[Call]:
    """Return a workspace's questions (calls of `tool`) that wait then, earliest deadline first."""
    return fetch_readable_rows(tx, Call, col(Call.id), _WAITING, tool_=tool, team_=team, at_=at)


def mark_question_reminded(tx: Transaction, call: Call) -> bool:
    """Stop further reminders before the question's deadline; False if it has changed meanwhile."""
    where = (
        col(Call.id) == call.id,
        col(Call.revision) == call.revision,
        col(Call.status) == CallStatus.PENDING,
    )
    return tx.execute(update(Call).where(*where).values(next_at=None)).rowcount == 1


def is_question_being_posted(tx: Transaction, tool: str, channel: str) -> bool:
    """Return whether a waiting question is about to be posted in this channel.

    `tool`: the tool that asks people.
    """
    return fetch_first_row(tx, Message, _BEING_POSTED, tool_=tool, channel_=channel) is not None
