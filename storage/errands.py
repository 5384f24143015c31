"""A call is entrusted to a sub-agent's run, and how that ends is what comes of the call.

In the caller's transaction; a status is moved only by `moves`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from storage import calls, moves, runs
from storage.models import Call, Run
from storage.states import CallStatus, RunSource
from storage.transaction import Transaction


def entrust(tx: Transaction, parent: Run, call: Call, task: dict[str, Any], *, at: datetime) -> Run:
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
    moves.started(tx, row, at=at)
    runs.append(tx, row, task, at=at)
    return row


def hand_in(
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
    runs.free(tx, call.run_id, at=at, actor=actor)
    return call.id
