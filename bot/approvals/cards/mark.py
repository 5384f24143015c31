"""The mark on the request's own message: one emoji that says how its approvals stand.

So that a channel of twenty requests can be read at a glance.
"""

from __future__ import annotations

from collections.abc import Iterable

from bot.policy.gates import Ask, load_gate
from storage import calls, inbox, outbox, sub_agents
from storage.models import Call, Message, Run
from storage.states import CallStatus, MessageKind, RunSource
from storage.transaction import Transaction

WAITS = "hourglass_flowing_sand"
HANDED_ON = "outbox_tray"
ENDS = {  # the first of these that a call ended with is the request's
    CallStatus.UNKNOWN: "question",
    CallStatus.FAILED: "x",
    CallStatus.REJECTED: "no_entry_sign",
    CallStatus.EXPIRED: "hourglass",
    CallStatus.SUCCEEDED: "white_check_mark",
}


def mark_of(found: Iterable[Call]) -> str:
    """Return the emoji's name for a run's calls; "" where people decided about none of them."""
    found = [call for call in found if call.asked_at]
    asked = [call for call in found if isinstance(load_gate(call.gate), Ask)]
    status = {call.status for call in asked}
    if CallStatus.UNKNOWN not in status and not all(map(calls.settled, found)):
        return WAITS  # also for an answer
    if asked and all(map(calls.is_handed_on, asked)):
        return HANDED_ON
    return next((name for ended, name in ENDS.items() if ended in status), "")


def begins_with(tx: Transaction, run: Run) -> str:
    """Return the Slack ts of the message that the request begins with, or ""."""
    asked_here = not run.channel.startswith("D") or not outbox.has_root(tx, run)
    if run.source is RunSource.MESSAGE and asked_here:
        return inbox.request_of(tx, run.id)
    return run.thread_ts  # the bot's own: with a form, or for what was asked in a shared channel


def put_mark(tx: Transaction, run: Run, plan_id: str) -> None:
    """Have the request marked as this plan of it changes, besides those before it."""
    run = sub_agents.root(tx, run)
    ts = begins_with(tx, run)
    mark = Message(
        key=f"mark:{run.id}",
        kind=MessageKind.MARK,
        run_id=run.id,
        plan_id=plan_id,
        channel=run.channel,
        thread_ts=run.thread_ts,
        body=outbox.dump({"names": []}),
        ts=ts,
    )
    if not ts or outbox.put(tx, mark):
        return
    if row := outbox.by_key(tx, mark.key):
        outbox.change(tx, row, plan_id=plan_id)
        outbox.redraw(tx, plan_id)
