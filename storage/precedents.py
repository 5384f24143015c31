"""What was proposed before, which the next call is held against: of its request, of its program.

The same calls, and what people have rejected. Only reads.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.calls import IN_REQUEST
from storage.models import Call, Plan, Revision, Run
from storage.states import CallStatus
from storage.transaction import Transaction, first, rows

C = CallStatus
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
_LATELY = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(
        Revision,
        (col(Revision.call_id) == col(Call.id))
        & (col(Revision.number).in_((1, col(Call.revision)))),
    )
    .where(col(Run.client) == bindparam("client_"), col(Run.created_at) > bindparam("since_"))
    .where(bindparam("tool_") == _TOOL, col(Revision.arguments) == bindparam("arguments_"))
    .where(col(Call.status).in_((C.RUNNING, C.SUCCEEDED, C.UNKNOWN)))
    .order_by(col(Call.created_at).desc())
    .limit(1)
)


def same_before(tx: Transaction, root_id: str, tool: str, arguments: str) -> list[Call]:
    """The request's calls of this tool with these canonical arguments, in order; none refused.

    Also those of its sub-agents.
    """
    return rows(tx, Call, _SAME_BEFORE, id_=root_id, tool_=tool, arguments_=arguments)


def begun_lately(
    tx: Transaction, client: str, tool: str, arguments: str, since: datetime
) -> Call | None:
    """The last call of this tool that this program asked with these canonical arguments.

    As it asked, or as people edited it; asked after `since`, and begun.
    """
    values = {"client_": client, "tool_": tool, "arguments_": arguments, "since_": since}
    return first(tx, Call, _LATELY, **values)


def gate_of_rejected(tx: Transaction, root_id: str) -> str | None:
    """The gate (JSON) of the call that people rejected last in this request; None for none."""
    found: str | None = tx.scalar(_GATE_OF_REJECTED, {"id_": root_id})
    return found
