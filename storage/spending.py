"""What calls of one tool, a requester's or anyone's, add up to over a window: the sums and counts
that policies set limits on.

What may have happened counts, whatever became of its call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.columns import values
from storage.models import Attempt, Call, Revision, Run
from storage.states import CallStatus
from storage.transaction import Transaction, insert_into

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
    """One call that counts: when it ended or was decided, None until then, and its arguments
    (canonical JSON).
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
    """The calls of `requester` (None: of anyone) with `tool` that are open, or have run or may have
    since then, each start that may have had its effect by itself.

    `beside`: a call about to run. It does not count against itself, and an open one born after it
    gives way to it.
    """
    for _, counts in attempts(tx, team, requester, tool):
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


def attempts(
    tx: Transaction, team: str, requester: str | None, tool: str
) -> Iterator[tuple[str, CountedCall]]:
    """The starts of this person's calls (None: of anyone's) that may have had their effect all the
    same, with the ids of their calls, in order.
    """
    about = {"team_": team, "requester_": requester, "tool_": tool}
    found = tx.execute(_ATTEMPTS if requester is None else _ATTEMPTS_OF_ONE, about)
    for call_id, at, arguments in found:
        yield call_id, CountedCall(at, arguments)


def keep_attempt(tx: Transaction, call: Call, at: datetime) -> None:
    """Have what this call may have done count on, whatever becomes of it."""
    row = Attempt(call_id=call.id, revision=call.revision, at=at)
    tx.execute(insert_into(Attempt), values(row))
