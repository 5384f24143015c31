"""What a request has proposed before, which the next call of it is held against.

The same calls, and what people have rejected. Only reads.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.calls import IN_REQUEST
from storage.models import Call, Plan, Revision
from storage.states import CallStatus
from storage.transaction import Transaction, rows

_TOOL = col(Call.tool).concat("")  # alone, SQLite would look through all calls of the tool
_GATE_OF_REJECTED = (
    select(col(Call.gate))
    .where(IN_REQUEST, col(Call.status) == CallStatus.REJECTED)
    .order_by(col(Call.decided_at).desc())
    .limit(1)
)
_SAME_BEFORE = (
    select(Call)
    .join(Plan, col(Plan.id) == col(Call.plan_id))
    .join(
        Revision,
        (col(Revision.call_id) == col(Call.id)) & (col(Revision.number) == col(Call.revision)),
    )
    .where(IN_REQUEST, bindparam("tool_") == _TOOL, col(Call.status) != CallStatus.REFUSED)
    .where(col(Revision.arguments) == bindparam("arguments_"))
    .order_by(col(Call.created_at), col(Plan.turn), col(Call.position))
)


def same_before(tx: Transaction, root_id: str, tool: str, arguments: str) -> list[Call]:
    """The request's calls of this tool with these canonical arguments, in order; none refused.

    Also those of its sub-agents.
    """
    return rows(tx, Call, _SAME_BEFORE, id_=root_id, tool_=tool, arguments_=arguments)


def gate_of_rejected(tx: Transaction, root_id: str) -> str | None:
    """The gate (JSON) of the call that people rejected last in this request; None for none."""
    found: str | None = tx.scalar(_GATE_OF_REJECTED, {"id_": root_id})
    return found
