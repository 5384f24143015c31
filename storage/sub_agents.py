"""Queries over the runs below a call: which works on it, who asked whom, what they did."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlmodel import col

from storage import calls, moves, runs
from storage.models import Call, Run
from storage.states import RUN_OPEN, CallStatus, RunSource, RunStatus
from storage.transaction import Transaction, first, rows

# A call is entrusted to a sub-agent's run, and how that ends is what comes of the call.


def delegate(
    tx: Transaction, parent: Run, call: Call, task: dict[str, Any], *, at: datetime
) -> Run:
    """RUNNING -> ENTRUSTED, and a new run for the call, in the same thread and requester's name.

    `task`: the first item of its own transcript.
    """
    moves.call(tx, call, CallStatus.ENTRUSTED, at=at, actor="worker")
    row = Run(
        team=parent.team,
        channel=parent.channel,
        thread_ts=parent.thread_ts,
        requester=parent.requester,
        source=RunSource.RUN,
        root_id=parent.root_id or parent.id,
        parent_call=call.id,
        created_at=at,
        updated_at=at,
    )
    moves.insert_run(tx, row, at=at)
    runs.append(tx, row, task, at=at)
    return row


def hand_in_result(
    tx: Transaction,
    child: Run,
    target: CallStatus,
    *,
    at: datetime,
    actor: str,
    output: str,
    note: str,
) -> str:
    """The sub-agent's run has ended: so does the call that entrusted it, and its run goes on.

    Returns the call's id, "" where it had ended before.
    """
    call = calls.get(tx, child.parent_call)
    if call is None or call.status is not CallStatus.ENTRUSTED:
        return ""
    moves.call(tx, call, target, at=at, actor=actor, finished_at=at, output=output, note=note)
    runs.free_if_decided(tx, call.run_id, at=at, actor=actor)
    return call.id


C = CallStatus
_GET = select(Run).where(col(Run.id) == bindparam("id_"))
_BELOW = col(Run.root_id) == bindparam("root_"), col(Run.parent_call) == bindparam("call_")
_OF_CALL = select(Run).where(*_BELOW, col(Run.source) == RunSource.RUN)
_ASKING = select(Run).where(
    *_BELOW, col(Run.source) == RunSource.SERVER, col(Run.status).in_(RUN_OPEN)
)
_PARENT = (
    select(Run)
    .join(Call, col(Call.run_id) == col(Run.id))
    .where(col(Call.id) == bindparam("call_"))
)
_OPEN_IN_REQUEST = (
    select(Run)
    .where(col(Run.root_id) == bindparam("root_"), col(Run.status).in_(RUN_OPEN))
    .order_by(col(Run.created_at), col(Run.id))
)
_RUNNING_BESIDE = (
    select(func.count())
    .select_from(Run)
    .where(col(Run.root_id) == bindparam("root_"), col(Run.status) == RunStatus.RUNNING)
    .where(col(Run.id) != bindparam("id_"))
)
# what may have changed something, or has
TOLD = (C.PENDING, C.APPROVED, C.RUNNING, C.SUCCEEDED, C.FAILED, C.UNKNOWN, C.REJECTED, C.EXPIRED)


class SubAgentCall(NamedTuple):
    """One call of a sub-agent that does more than read, as it is on record."""

    tool: str
    arguments: str  # canonical JSON
    status: CallStatus


def root_run(tx: Transaction, run: Run) -> Run:
    """The first run of the request: this one, or that in which its sub-agents were asked."""
    return (first(tx, Run, _GET, id_=run.root_id) if run.parent_call else None) or run


def run_of_call(tx: Transaction, root_id: str, call_id: str) -> Run | None:
    """The run that works on this call of a request, or did; None for any other call."""
    return first(tx, Run, _OF_CALL, root_=root_id, call_=call_id)


def asking_runs(tx: Transaction, root_id: str, call_id: str) -> list[Run]:
    """The runs by which a server asks people amid this call, and that are open."""
    return rows(tx, Run, _ASKING, root_=root_id, call_=call_id)


def open_runs_of_request(tx: Transaction, root_id: str) -> list[Run]:
    """The runs of a request that are open, its own first."""
    return rows(tx, Run, _OPEN_IN_REQUEST, root_=root_id)


def running_beside(tx: Transaction, run: Run) -> int:
    """How many other runs of its request a worker has at this moment."""
    return int(tx.scalar(_RUNNING_BESIDE, {"root_": run.root_id, "id_": run.id}) or 0)


def calling_chain(tx: Transaction, run: Run) -> list[Call]:
    """The calls by which the run came about, the one of the request's first run first."""
    found: list[Call] = []
    while run.parent_call:
        call, parent = (
            calls.get(tx, run.parent_call),
            first(tx, Run, _PARENT, call_=run.parent_call),
        )
        if call is None or parent is None:
            break
        found.append(call)
        run = parent
    return found[::-1]


def nesting_depth(tx: Transaction, run: Run) -> int:
    """How many sub-agents stand between the requester's agent and this run, itself included."""
    return len(calling_chain(tx, run)) if run.parent_call else 0


def recorded_actions(tx: Transaction, run: Run) -> list[SubAgentCall]:
    """What a sub-agent, and those it asked, have done or tried to do, in order."""
    found: list[SubAgentCall] = []
    for call in calls.of_run(tx, run.id):
        below = run_of_call(tx, run.root_id, call.id)
        if below is not None:
            found += recorded_actions(tx, below)
        elif call.does != "read" and call.status in TOLD:
            current = calls.revision(tx, call.id, call.revision)
            found.append(
                SubAgentCall(call.tool, current.arguments if current else "{}", call.status)
            )
    return found
