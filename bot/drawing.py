"""Rows become what a card shows. Reads the database; draws nothing (`bot.slack.cards` does) and sends nothing."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from bot.core import Core, load_arguments, readable_arguments
from bot.slack.fields import values
from bot.slack.views import CallView, CardView, Value
from bot.tools import Tool
from storage import calls, outbox, runs
from storage.models import Call, Message, Revision
from storage.states import CallStatus

DECIDED = (CallStatus.APPROVED, CallStatus.REJECTED)


def effect_of(core: Core, tx: Connection, call: Call) -> str:
    """The sentence that says what the call would do, from its current revision."""
    current = calls.revision(tx, call.id, call.revision)
    return _effect(core, call, current) if current else call.tool


def _effect(core: Core, call: Call, revision: Revision) -> str:
    tool = core.tools.get(call.tool)
    if tool is None:
        return f"{call.tool} (this tool is no longer there)"
    try:
        return tool.effect_sentence(load_arguments(tool, revision.arguments))
    except ValidationError:
        return f"{tool.title} (its arguments no longer fit the tool)"


def call_view(core: Core, tx: Connection, call_id: str) -> CallView | None:
    """One call as its readers see it; None when it is not there."""
    shown = calls.shown(tx, call_id)
    if shown is None:
        return None
    call, tool = shown.call, core.tools.get(shown.call.tool)
    before = calls.revision(tx, call.id, call.revision - 1) if call.revision > 1 else None
    changed = before is not None and before.arguments != shown.revision.arguments
    votes = calls.votes(tx, call.id, call.revision)
    over = call.status is CallStatus.SUCCEEDED
    return CallView(
        id=call.id,
        revision=call.revision,
        title=tool.title if tool else call.tool,
        effect=_effect(core, call, shown.revision),
        does=call.does,
        status=call.status,
        values=_values(core, call, shown.revision, before if changed else None),
        digest=call.digest,
        deadline=call.deadline,
        preview=call.preview,
        agent_reason=call.reason,
        edited_by=shown.revision.author if shown.revision.author != "agent" else "",
        decided_by=votes[-1].person if votes else "",
        decided_at=call.decided_at,
        note="" if over else call.note,
        result=call.note if over else "",
        editable=tool is not None and (tool.editable is None or bool(tool.editable)),
    )


def _values(core: Core, call: Call, now: Revision, before: Revision | None) -> tuple[Value, ...]:
    tool = core.tools.get(call.tool)
    if tool is None:  # which of them were secret went with the tool, so none of them is shown
        return tuple(Value(name, "••••••••") for name in json.loads(now.arguments))
    return values(tool, _readable(tool, now), _readable(tool, before) if before else None)


def _readable(tool: Tool[Any], revision: Revision) -> dict[str, Any]:
    try:
        return readable_arguments(tool, revision.arguments)
    except ValidationError:  # the tool has changed since; as they were stored, then
        stored: dict[str, Any] = json.loads(revision.arguments)
        return stored


def card_view(core: Core, tx: Connection, row: Message) -> CardView | None:
    """A card's row as its readers see it; None when its plan or calls are not there."""
    body, plan, run = outbox.body(row), calls.plan(tx, row.plan_id), runs.get(tx, row.run_id)
    views = [view for call_id in body["calls"] if (view := call_view(core, tx, call_id))]
    if plan is None or run is None or not views:
        return None
    return CardView(
        plan_id=plan.id,
        plan_revision=plan.revision,
        run_id=run.id,
        requester=run.requester,
        calls=tuple(views),
        approver_users=tuple(body["users"]),
        approver_groups=tuple(body["groups"]),
        approver_channel=body["channel"],
        self_approval=body["self"],
        origin=body.get("origin", ""),
        card=row.seq or 0,
        part=body["part"],
        parts=body["parts"],
    )
