"""Sums and counts of a tool's calls over a time window, on which policies set limits.

They are of one requester or of everybody. A call that may have had its effect counts, even if its
outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.models import Attempt, Call, Revision, Run
from storage.states import CallStatus
from storage.transaction import Transaction, insert_row

C = CallStatus
EVER = datetime.min.replace(tzinfo=UTC)
OPEN = (C.PENDING, C.APPROVED)
AT_WORK = (C.RUNNING, C.ENTRUSTED)
COUNTED = (*OPEN, *AT_WORK, C.SUCCEEDED, C.UNKNOWN)
_COUNTED = (
    select(
        col(Call.id),
        col(Call.status),
        col(Call.created_at),
        col(Call.finished_at),
        col(Call.decided_at),
        col(Revision.arguments),
    )
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(
        Revision,
        (col(Revision.call_id) == col(Call.id)) & (col(Revision.number) == col(Call.revision)),
    )
    .where(
        col(Run.team) == bindparam("team_"),
        col(Call.tool) == bindparam("tool_"),
        col(Call.status).in_(COUNTED),
        col(Call.status).in_((*OPEN, *AT_WORK))
        | col(Call.finished_at).is_(None)
        | (col(Call.finished_at) > bindparam("since_")),
    )
)
_ATTEMPTS = (
    select(col(Call.id), col(Attempt.at), col(Revision.arguments))
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(Attempt, col(Attempt.call_id) == col(Call.id))
    .join(
        Revision,
        (col(Revision.call_id) == col(Call.id)) & (col(Revision.number) == col(Attempt.revision)),
    )
    .where(col(Run.team) == bindparam("team_"), col(Call.tool) == bindparam("tool_"))
    .order_by(col(Attempt.seq))
)
_ONE_PERSON = col(Run.requester) == bindparam("requester_")
_COUNTED_OF_ONE, _ATTEMPTS_OF_ONE = _COUNTED.where(_ONE_PERSON), _ATTEMPTS.where(_ONE_PERSON)


@dataclass(frozen=True, slots=True)
class CountedCall:
    """One call that counts: when it ended or was decided (None until then), and its arguments.

    The arguments are canonical JSON.
    """

    at: datetime | None
    arguments: str


def counted_calls(
    tx: Transaction,
    team: str,
    requester: str | None,
    tool: str,
    *,
    since: datetime = EVER,
    beside: Call | None = None,
) -> Iterator[CountedCall]:
    """Yield the tool's calls that are open, or that have run or may have run since then.

    `requester`: whose calls; None: everybody's. Each start that may have had its effect counts by
    itself. `beside`: a call about to run; it does not count against itself, nor does an open one
    made after it.
    """
    for _, counts in attempts_of_tool(tx, team, requester, tool):
        yield counts
    about = {"team_": team, "requester_": requester, "tool_": tool, "since_": since}
    found = tx.execute(_COUNTED if requester is None else _COUNTED_OF_ONE, about)
    for call_id, status, created_at, finished_at, decided_at, arguments in found:
        if beside is not None:
            later = (created_at, call_id) > (beside.created_at, beside.id)
            if call_id == beside.id or (later and status in OPEN):
                continue
        ended = None if status in (*OPEN, *AT_WORK) else finished_at or decided_at or created_at
        yield CountedCall(ended, arguments)


def attempts_of_tool(
    tx: Transaction, team: str, requester: str | None, tool: str
) -> Iterator[tuple[str, CountedCall]]:
    """Yield (call id, counted call) for each start that may have had its effect, in order.

    `requester`: whose calls; None: everybody's.
    """
    about = {"team_": team, "requester_": requester, "tool_": tool}
    found = tx.execute(_ATTEMPTS if requester is None else _ATTEMPTS_OF_ONE, about)
    for call_id, at, arguments in found:
        yield call_id, CountedCall(at, arguments)


def insert_attempt(tx: Transaction, call: Call, at: datetime) -> None:
    """Store that this call may have had its effect, so that it counts whatever its outcome."""
    row = Attempt(call_id=call.id, revision=call.revision, at=at)
    insert_row(tx, row)
