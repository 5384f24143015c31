"""What a request has proposed before, which the next call of it is held against.

The same calls, and what people have rejected. Only reads.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, bindparam, select
from sqlmodel import col

from storage.models import Call, Plan, Revision
from storage.states import CallStatus
from storage.transaction import Transaction, rows

_ID: BindParameter[Any] = bindparam("id_")
_TOOL = col(Call.tool).concat("")  # alone, SQLite would look through all calls of the tool
_GATE_OF_REJECTED = (
    select(col(Call.gate))
    .where(col(Call.run_id) == _ID, col(Call.status) == CallStatus.REJECTED)
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
    .where(
        col(Call.run_id) == _ID,
        bindparam("tool_") == _TOOL,
        col(Call.status) != CallStatus.REFUSED,
    )
    .where(col(Revision.arguments) == bindparam("arguments_"))
    .order_by(col(Plan.turn), col(Call.position))
)


def same_before(tx: Transaction, run_id: str, tool: str, arguments: str) -> list[Call]:
    """The run's calls of this tool with these canonical arguments, in the order they were proposed.

    None refused.
    """
    return rows(tx, Call, _SAME_BEFORE, id_=run_id, tool_=tool, arguments_=arguments)


def gate_of_rejected(tx: Transaction, run_id: str) -> str | None:
    """The gate (JSON) of the call that people rejected last in this run; None for no rejection."""
    found: str | None = tx.scalar(_GATE_OF_REJECTED, {"id_": run_id})
    return found
