"""A channel with another id, or that is shared: what is stored follows it, or leaves it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlmodel import col

from storage import calls, channel_modes, moves, outbox, sub_agents, trail, transcripts
from storage.grants import Grant
from storage.models import Delivery, Message, Run
from storage.states import CallStatus, RunStatus
from storage.transaction import Transaction, rows


def follow_channel(tx: Transaction, team: str, old: str, new: str, *, at: datetime) -> int:
    """Give all that is in the channel its new id; return how many requests there are in it.

    A run whose worker is at a model turn is handed back, for what that worker writes would go to
    the old id. What the arguments of calls name stays as it was voted on.
    """
    here = (col(Run.team) == team, col(Run.channel) == old)
    found = rows(tx, Run, select(Run).where(*here))
    before, after = f"msg:{team}:{old}:", f"msg:{team}:{new}:"
    for model in (Run, Grant, Delivery):
        here = (col(model.team) == team, col(model.channel) == old)
        columns: dict[str, Any] = {"channel": new}
        if model is Delivery:
            columns["key"] = func.replace(col(Delivery.key), before, after)
        tx.execute(update(model).where(*here).values(columns))
    origin = (col(Run.team) == team, col(Run.asked_in) == old)
    tx.execute(update(Run).where(*origin).values(asked_in=new))
    transcripts.follow_channel_files(tx, team, old, new)
    channel_modes.carry_over_mode(tx, team, old, new, at=at)
    tx.execute(update(Message).where(col(Message.channel) == old).values(channel=new))
    for run in found:
        if run.status is RunStatus.RUNNING and not _runs_a_call(tx, run):
            why = {"why": "its channel has another id"}
            moves.run(tx, run, RunStatus.READY, at=at, actor="system", data=why)
    data = {"from": old, "to": new, "requests": len(found)}
    trail.record(tx, "channel.moved", at=at, actor="system", data=data)
    return len(found)


def leave_channel(tx: Transaction, run: Run, *, at: datetime) -> bool:
    """Take an open request out of its channel: it has no thread until a message begins one with
    its requester, and no worker takes it before. Its cards there show nothing of it any more.

    False where one of its calls runs: whoever runs it would say there what came of it.
    """
    found = sub_agents.open_runs_of_request(tx, run.id)
    if any(_runs_a_call(tx, each) for each in found):
        return False
    for plan in (plan for each in found for plan in calls.open_plans(tx, each.id)):
        for card in (row for row in outbox.cards(tx, plan.id) if row.channel == run.channel):
            if outbox.QUESTION not in outbox.body(card):  # that is answered where it stands
                outbox.update_message(
                    tx, card, body=outbox.dump_body({**outbox.body(card), "calls": []})
                )
        outbox.redraw(tx, plan.id)
    why = {"why": "its channel is shared"}
    for each in found:
        columns = {"channel": run.requester, "thread_ts": ""}
        tx.execute(update(Run).where(col(Run.id) == each.id).values(**columns))
        if each.status is not RunStatus.READY:
            moves.run(tx, each, RunStatus.READY, at=at, actor="system", data=why)
    data = {"from": run.channel}
    trail.record(tx, "request.left", at=at, actor="system", run_id=run.id, data=data)
    return True


def _runs_a_call(tx: Transaction, run: Run) -> bool:
    """Whether a call is under way, of which nobody would know by handing the run back."""
    plans = calls.open_plans(tx, run.id)
    found = (call for plan in plans for call in calls.of_plan(tx, plan.id))
    return any(call.status is CallStatus.RUNNING for call in found)
