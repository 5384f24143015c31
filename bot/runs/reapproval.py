"""Asks people again about an approved call, as a new revision, if what they saw no longer holds.

There are two reasons: policy has become stricter, or the tool found that it would do something else
than was shown, and did nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from bot.approvals import call_state
from bot.approvals.call_gates import (
    FactSources,
    ReapprovalRequest,
    compute_gate,
    prepare_preview_for_thread,
)
from bot.approvals.card_routing import remove_calls_from_cards
from bot.policy.gates import Ask, Deny, dump_gate, load_gate
from bot.policy.gates import combine_gates as both
from bot.tools import Tool, ToolError
from bot.tools.preview import PreviewRunner
from bot.tools.runner import ToolRefusal
from storage import calls, decisions
from storage.models import Call, Run
from storage.transaction import Transaction


def build_renewal_or_refusal(
    sources: FactSources,
    previews: PreviewRunner,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    call: Call,
    why: str,
) -> ReapprovalRequest | ToolRefusal:
    """Return how to ask again about a call whose tool did nothing (`why`), or the refusal.

    Refused if policy forbids the call now, if nobody had to be asked, or if it would fail.
    """
    shown, now = load_gate(call.gate), compute_gate(sources, run, tool, args, call=call)
    if isinstance(now, Deny):
        return ToolRefusal(f"{why} Nothing was done, and policy now forbids it: {now.reason}")
    gate = now if isinstance(now, Ask) else shown  # people who were asked once are asked again
    if isinstance(now, Ask) and isinstance(shown, Ask):
        gate = both(shown, now)
    if not isinstance(gate, Ask):
        return ToolRefusal(f"{why} Nothing was done.")
    try:
        seen = previews.run_preview(
            tool, args, call_state.build_tool_context(run, call, sources.clock.now())
        )
        seen = prepare_preview_for_thread(sources, run, seen)
    except ToolError as error:
        return ToolRefusal(f"{why} {error}")
    return ReapprovalRequest(gate, seen, why, "worker")


def ask_people_again(
    tx: Transaction,
    run: Run,
    call: Call,
    again: ReapprovalRequest,
    tool: Tool[Any],
    key: bytes,
    now: datetime,
) -> bool:
    """Put a call back to PENDING as a new revision, and take it off its card.

    The worker then makes a new card. Returns False if the call has changed meanwhile.
    """
    current = calls.find_revision(tx, call.id, call.revision)
    if current is None:
        return False
    gate, seen = dump_gate(again.gate), again.preview
    digest = call_state.compute_call_digest(
        key,
        run,
        tool,
        current.arguments,
        gate=gate,
        revision=call.revision + 1,
        expects=seen.expects,
        key_id=call.key_id,
    )
    if not decisions.ask_people_again(
        tx,
        call,
        at=now,
        actor=again.actor,
        why=again.reason,
        deadline=again.gate.compute_due_time(now, again.gate.deadline),
        digest=digest,
        gate=gate,
        next_at=call_state.find_next_notification_time(again.gate, now),
        **call_state.build_preview_columns(seen),
    ):
        return False
    remove_calls_from_cards(tx, call.plan_id, {call.id})
    return True
