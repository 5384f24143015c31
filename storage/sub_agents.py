"""Delegated tasks: calls that a sub-agent's run works on, and queries over such runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlmodel import col

from storage import calls, moves, runs
from storage.models import Call, Run
from storage.states import RUN_OPEN_STATUSES, CallStatus, RunSource, RunStatus
from storage.transaction import Transaction

# A call is ENTRUSTED to a sub-agent's run, and that run's end decides the call's outcome.


def hand_call_to_sub_agent(
    tx: Transaction, parent: Run, call: Call, task: dict[str, Any], *, at: datetime
) -> Run:
    """Hand a call to a sub-agent: create a run for it in the same thread (the call is ENTRUSTED).

    `task`: the first item of the new run's own transcript.
    """
    moves.change_call_status(tx, call, CallStatus.ENTRUSTED, at=at, actor="worker")
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
    runs.append_transcript_item(tx, row, task, at=at)
    return row


def end_call_of_sub_agent(
    tx: Transaction,
    child: Run,
    target: CallStatus,
    *,
    at: datetime,
    actor: str,
    output: str,
    note: str,
) -> str:
    """End the call that an ended sub-agent's run worked on, and let the parent run go on.

    Returns the call's id, "" if it had ended before.
    """
    call = calls.find_call(tx, child.parent_call)
    if call is None or call.status is not CallStatus.ENTRUSTED:
        return ""
    moves.change_call_status(
        tx, call, target, at=at, actor=actor, finished_at=at, output=output, note=note
    )
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=actor)
    return call.id


C = CallStatus
_COUNT_OTHER_RUNNING_RUNS = (
    select(func.count())
    .select_from(Run)
    .where(col(Run.root_id) == bindparam("root_"), col(Run.status) == RunStatus.RUNNING)
    .where(col(Run.id) != bindparam("id_"))
)
# calls that have changed something, or may have
REPORTED_STATUSES = (
    C.PENDING,
    C.APPROVED,
    C.RUNNING,
    C.SUCCEEDED,
    C.FAILED,
    C.UNKNOWN,
    C.REJECTED,
    C.EXPIRED,
)


class NonReadingSubAgentCall(NamedTuple):
    """One recorded call of a sub-agent that does more than read."""

    tool: str
    arguments: str  # canonical JSON
    status: CallStatus


def get_root_run(tx: Transaction, run: Run) -> Run:
    """Return the request's first run: this run, or the one that started its sub-agents."""
    return runs.get_run(tx, run.root_id) if run.parent_call else run


def find_sub_agent_run(tx: Transaction, root_id: str, call_id: str) -> Run | None:
    """Return the sub-agent's run that works or worked on this call; None for any other call."""
    held = {"root_id": root_id, "parent_call": call_id, "source": RunSource.RUN}
    return tx.find_row(Run, **held)


def list_open_elicitation_runs(tx: Transaction, root_id: str, call_id: str) -> list[Run]:
    """Return the open runs with which an MCP server asks people questions during this call."""
    held = {"root_id": root_id, "parent_call": call_id, "source": RunSource.SERVER}
    return [run for run in tx.list_rows(Run, **held) if run.status in RUN_OPEN_STATUSES]


def count_other_running_runs(tx: Transaction, run: Run) -> int:
    """Return how many other runs of the same request are RUNNING."""
    return int(tx.scalar(_COUNT_OTHER_RUNNING_RUNS, {"root_": run.root_id, "id_": run.id}) or 0)


def list_calls_leading_to_run(tx: Transaction, run: Run) -> list[Call]:
    """Return the delegated calls above this run, from the request's first run downwards."""
    found: list[Call] = []
    while run.parent_call:
        call = calls.get_call(tx, run.parent_call)
        found.append(call)
        run = runs.get_run(tx, call.run_id)
    return found[::-1]


def count_nesting_levels(tx: Transaction, run: Run) -> int:
    """Return how many levels of sub-agents lead to this run, itself included; 0 for a first run."""
    return len(list_calls_leading_to_run(tx, run)) if run.parent_call else 0


def list_non_reading_sub_agent_calls(tx: Transaction, run: Run) -> list[NonReadingSubAgentCall]:
    """Return the calls of this sub-agent, and of those it started, that do more than read.

    In the order of proposal, and only those with a status in REPORTED_STATUSES.
    """
    non_reading_calls: list[NonReadingSubAgentCall] = []
    for call in calls.list_calls_of_run(tx, run.id):
        below = find_sub_agent_run(tx, run.root_id, call.id)
        if below is not None:
            non_reading_calls += list_non_reading_sub_agent_calls(tx, below)
        elif call.does != "read" and call.status in REPORTED_STATUSES:
            current = calls.find_revision(tx, call.id, call.revision)
            non_reading_calls.append(
                NonReadingSubAgentCall(
                    call.tool, current.arguments if current else "{}", call.status
                )
            )
    return non_reading_calls
