"""Asks people again about an approved call, as a new revision, if what they saw no longer holds.

There are two reasons: policy has become stricter, or the tool found that it would do something else
than was shown, and did nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from bot.approvals.call_gates import Renewal, for_thread, gate_of
from bot.approvals.call_state import context_of, fingerprint, kept, next_moment
from bot.approvals.card_routing import withdraw
from bot.approvals.facts import Sources
from bot.policy.gates import Ask, Deny, dump_gate, load_gate
from bot.policy.gates import stricter_gate as both
from bot.tools import Tool, ToolError
from bot.tools.preview import Previews
from bot.tools.runner import ToolRefusal
from storage import calls, decisions
from storage.chain import key_with_id
from storage.models import Call, Run
from storage.transaction import Transaction


def renew_or_refuse(
    sources: Sources,
    previews: Previews,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    call: Call,
    why: str,
) -> Renewal | ToolRefusal:
    """Return how to ask again about a call whose tool did nothing (`why`), or the refusal.

    Refused if policy forbids the call now, if nobody had to be asked, or if it would fail.
    """
    shown, now = load_gate(call.gate), gate_of(sources, run, tool, args, call=call)
    if isinstance(now, Deny):
        return ToolRefusal(f"{why} Nothing was done, and policy now forbids it: {now.reason}")
    gate = now if isinstance(now, Ask) else shown  # people who were asked once are asked again
    if isinstance(now, Ask) and isinstance(shown, Ask):
        gate = both(shown, now)
    if not isinstance(gate, Ask):
        return ToolRefusal(f"{why} Nothing was done.")
    try:
        seen = previews.of(tool, args, context_of(run, call, sources.clock.now()))
        seen = for_thread(sources, run, seen)
    except ToolError as error:
        return ToolRefusal(f"{why} {error}")
    return Renewal(gate, seen, why, "worker")


def ask_again(
    tx: Transaction,
    run: Run,
    call: Call,
    again: Renewal,
    tool: Tool[Any],
    key: bytes,
    now: datetime,
) -> bool:
    """Put a call back to PENDING as a new revision, and take it off its card.

    The worker then makes a new card. Returns False if the call has changed meanwhile.
    """
    current = calls.revision(tx, call.id, call.revision)
    if current is None:
        return False
    gate, seen = dump_gate(again.gate), again.seen
    digest = fingerprint(
        key_with_id(key, call.key_id),
        run,
        tool,
        current.arguments,
        gate=gate,
        revision=call.revision + 1,
        expects=seen.expects,
    )
    if not decisions.ask_again(
        tx,
        call,
        at=now,
        actor=again.actor,
        why=again.why,
        deadline=again.gate.after(now, again.gate.deadline),
        digest=digest,
        gate=gate,
        next_at=next_moment(again.gate, now),
        **kept(seen),
    ):
        return False
    withdraw(tx, call.plan_id, {call.id})
    return True
