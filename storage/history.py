"""What was proposed, and what counted at a moment that is past, as well as the rows allow.

Reads only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, func, select
from sqlmodel import col

from storage.models import Call, Item, Revision, Run
from storage.spending import AT_WORK, OPEN, Counted, attempts
from storage.states import CallStatus
from storage.transaction import Transaction, rows

C = CallStatus
_SINCE = (
    select(Call)
    .where(col(Call.created_at) >= bindparam("since_"))
    .order_by(col(Call.created_at), col(Call.id))
)
_ARGUMENTS = select(col(Revision.arguments)).where(
    col(Revision.call_id) == bindparam("call_"), col(Revision.number) == bindparam("number_")
)
_ITEMS = select(col(Item.body)).where(col(Item.run_id) == bindparam("run_")).order_by(col(Item.seq))
_ONE = (
    Call.id,
    Call.plan_id,
    Call.position,
    Call.status,
    Call.created_at,
    Call.decided_at,
    Call.finished_at,
)
_OF_ANYONE = (
    select(*map(col, _ONE), col(Revision.created_at).label("revised_at"), col(Revision.arguments))
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(Revision, col(Revision.call_id) == col(Call.id))
    .where(
        col(Run.team) == bindparam("team_"),
        col(Call.tool) == bindparam("tool_"),
        col(Call.status) != C.REFUSED,
    )
    .order_by(col(Call.created_at), col(Call.id), col(Revision.number))
)
_OF_ONE = _OF_ANYONE.where(col(Run.requester) == bindparam("requester_"))


_ASKED = (
    select(col(Call.gate), col(Run.requester), func.count())
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.created_at) >= bindparam("since_"), col(Call.status) != C.REFUSED)
    .group_by(col(Call.gate), col(Run.requester))
)


@dataclass(frozen=True, slots=True)
class Once:
    """A call of one requester with one tool, and the arguments it had, with the moments from which
    it had them.
    """

    id: str
    plan_id: str
    position: int
    status: CallStatus
    created_at: datetime
    ended_at: datetime | None
    arguments: tuple[tuple[datetime, str], ...]
    attempts: tuple[Counted, ...]  # what it may have done besides


def since(tx: Transaction, moment: datetime) -> list[Call]:
    """The calls proposed since then, in order."""
    return rows(tx, Call, _SINCE, since_=moment)


def asked(tx: Transaction, moment: datetime) -> list[tuple[str, str, int]]:
    """Gates (JSON) of the calls proposed since then, with who asked and how often."""
    return [
        (gate, requester, count)
        for gate, requester, count in tx.execute(_ASKED, {"since_": moment})
    ]


def arguments(tx: Transaction, call: Call) -> str | None:
    """The call's arguments as they stand (canonical JSON); None where it was refused before it had
    any.
    """
    found: str | None = tx.scalar(_ARGUMENTS, {"call_": call.id, "number_": call.revision})
    return found


def proposed(tx: Transaction, call: Call) -> str | None:
    """The arguments in the model's own words, from the transcript; None where there are none."""
    for text in tx.scalars(_ITEMS, {"run_": call.run_id}):
        item = json.loads(text)
        if item.get("type") == "function_call" and item.get("call_id") == call.provider_id:
            return str(item.get("arguments"))
    return None


def of_one(tx: Transaction, team: str, requester: str | None, tool: str) -> list[Once]:
    """All that this person's requests (None: anyone's) asked of this tool and was not refused, in
    order.
    """
    found: dict[str, Once] = {}
    tried = defaultdict[str, tuple[Counted, ...]](tuple)
    for call_id, counts in attempts(tx, team, requester, tool):
        tried[call_id] += (counts,)
    about = {"team_": team, "requester_": requester, "tool_": tool}
    found_rows = tx.execute(_OF_ANYONE if requester is None else _OF_ONE, about)
    for row in found_rows.named():
        had = found[row.id].arguments if row.id in found else ()
        found[row.id] = Once(
            row.id,
            row.plan_id,
            row.position,
            row.status,
            row.created_at,
            row.finished_at or row.decided_at,
            (*had, (row.revised_at, row.arguments)),
            tried[row.id],
        )
    return list(found.values())


def counted_before(history: Sequence[Once], call: Call) -> Iterator[Counted]:
    """What counted towards a sum when `call` was proposed, as `storage.spending.counted` would have
    said then.
    """
    now = call.created_at
    for each in history:
        yield from (one for one in each.attempts if one.at is not None and one.at <= now)
        sibling = each.plan_id == call.plan_id
        if each.position >= call.position if sibling else each.created_at >= now:
            continue
        had = [text for since, text in each.arguments if since <= now] or [each.arguments[0][1]]
        over = each.ended_at is not None and each.ended_at <= now and each.status not in OPEN
        if not over and (each.ended_at is not None or each.status in OPEN):
            yield Counted(None, had[-1])
        elif each.status in (C.SUCCEEDED, C.UNKNOWN, *AT_WORK):
            yield Counted(each.ended_at or each.created_at, had[-1])
