"""Queries over plans, calls, their revisions and votes. Reads, and appends; a status is moved only by `moves`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlmodel import col

from storage.models import Call, Plan, Revision, Run, Vote, values
from storage.states import CALL_FINAL, CallStatus
from storage.store import first, rows


@dataclass(frozen=True, slots=True)
class Shown:
    """A call with the revision that is shown now."""

    call: Call
    revision: Revision

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values."""
        loaded: dict[str, Any] = json.loads(self.revision.arguments)
        return loaded


def get(tx: Connection, call_id: str) -> Call | None:
    """The call, or None."""
    return first(tx, Call, select(Call).where(col(Call.id) == call_id))


def plan(tx: Connection, plan_id: str) -> Plan | None:
    """The plan, or None."""
    return first(tx, Plan, select(Plan).where(col(Plan.id) == plan_id))


def of_plan(tx: Connection, plan_id: str) -> list[Call]:
    """A plan's calls in the model's order."""
    return rows(tx, Call, select(Call).where(col(Call.plan_id) == plan_id).order_by(col(Call.position)))


def open_plan(tx: Connection, run_id: str) -> Plan | None:
    """The run's plan whose outputs the model has not been told, if there is one."""
    where = (col(Plan.run_id) == run_id, col(Plan.answered).is_(False))
    return first(tx, Plan, select(Plan).where(*where).order_by(col(Plan.turn).desc()))


def revision(tx: Connection, call_id: str, number: int) -> Revision | None:
    """One revision of a call, or None."""
    where = (col(Revision.call_id) == call_id, col(Revision.number) == number)
    return first(tx, Revision, select(Revision).where(*where))


def shown(tx: Connection, call_id: str) -> Shown | None:
    """The call with its current revision; None when either is missing."""
    call = get(tx, call_id)
    current = call and revision(tx, call_id, call.revision)
    return Shown(call, current) if call and current else None


def editors(tx: Connection, call_id: str) -> frozenset[str]:
    """Everybody who edited this call."""
    found = tx.scalars(select(col(Revision.author)).where(col(Revision.call_id) == call_id))
    return frozenset(found) - {"agent"}


def votes(tx: Connection, call_id: str, number: int) -> list[Vote]:
    """The votes on one revision, oldest first."""
    where = (col(Vote.call_id) == call_id, col(Vote.revision) == number)
    return rows(tx, Vote, select(Vote).where(*where).order_by(col(Vote.seq)))


def add_vote(tx: Connection, row: Vote) -> None:
    """Append a vote."""
    tx.execute(insert(Vote).values(values(row)))


def add_revision(tx: Connection, row: Revision) -> None:
    """Append a revision."""
    tx.execute(insert(Revision).values(values(row)))


def add_plan(tx: Connection, row: Plan) -> None:
    """Insert a plan."""
    tx.execute(insert(Plan).values(values(row)))


def mark_answered(tx: Connection, plan_id: str) -> None:
    """The outputs of all of the plan's calls are in the transcript."""
    tx.execute(update(Plan).where(col(Plan.id) == plan_id).values(answered=True))


def waits(call: Call) -> bool:
    """Whether people still have a say: pending, or unknown with its deadline not given up."""
    return call.status is CallStatus.PENDING or (call.status is CallStatus.UNKNOWN and call.deadline is not None)


def settled(call: Call) -> bool:
    """Whether the model can be told how it ended."""
    return call.status in CALL_FINAL or (call.status is CallStatus.UNKNOWN and call.deadline is None)


def due(tx: Connection, horizon: datetime) -> list[str]:
    """Ids of calls whose deadline has fallen at `horizon`, oldest deadline first; a broken row is as good as any."""
    waiting = col(Call.status).in_((CallStatus.PENDING, CallStatus.UNKNOWN))
    where = (waiting, col(Call.deadline).is_not(None), col(Call.deadline) <= horizon)
    return list(tx.scalars(select(col(Call.id)).where(*where).order_by(col(Call.deadline), col(Call.position))))


def next_deadline(tx: Connection) -> datetime | None:
    """The nearest deadline of a call that waits for people."""
    waiting = col(Call.status).in_((CallStatus.PENDING, CallStatus.UNKNOWN))
    return tx.scalar(select(func.min(col(Call.deadline))).where(waiting))


def pending_of(tx: Connection, team: str, requester: str) -> int:
    """How many calls of this requester wait for people."""
    joined = select(func.count()).select_from(Call).join(Run, col(Run.id) == col(Call.run_id))
    where = (col(Run.team) == team, col(Run.requester) == requester, col(Call.status) == CallStatus.PENDING)
    return tx.scalar(joined.where(*where)) or 0


def rejected_before(tx: Connection, run_id: str, tool: str, arguments: str) -> bool:
    """Whether a person rejected this very call (same tool, same canonical arguments) in this run."""
    joined = (
        select(func.count())
        .select_from(Call)
        .join(Revision, (col(Revision.call_id) == col(Call.id)) & (col(Revision.number) == col(Call.revision)))
    )
    where = (col(Call.run_id) == run_id, col(Call.tool) == tool, col(Call.status) == CallStatus.REJECTED)
    return bool(tx.scalar(joined.where(*where, col(Revision.arguments) == arguments)))


def provider_ids(tx: Connection, team: str, channel: str, thread_ts: str) -> frozenset[str]:
    """The provider's call ids that the thread's transcript holds already."""
    joined = select(col(Call.provider_id)).join(Run, col(Run.id) == col(Call.run_id))
    where = (col(Run.team) == team, col(Run.channel) == channel, col(Run.thread_ts) == thread_ts)
    return frozenset(tx.scalars(joined.where(*where)))
