"""A call that was approved is asked again as a new revision, because what people were shown no
longer holds.

Two reasons: policy has become stricter, or the tool found that it would do something else and did
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from bot.approvals.cards.routing import withdraw
from bot.approvals.terms.fingerprint import fingerprint
from bot.approvals.terms.gating import gate_of, next_moment
from bot.core import Core
from bot.policy.gates import Ask, Deny, dump_gate, load_gate
from bot.policy.gates import stricter as both
from bot.tools import Preview, Tool
from bot.tools.preview import preview
from bot.tools.runner import Refused
from storage import calls, decisions
from storage.models import Call, Run
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Again:
    """What the new card stands on."""

    gate: Ask
    seen: Preview
    why: str  # for people
    actor: str  # policy | worker


def stricter(call: Call, gate: Ask) -> Again:
    """Policy asks something else than the gate that was met.

    What would happen is as it was shown.
    """
    shown = load_gate(call.gate)
    if isinstance(shown, Ask):
        gate = gate.model_copy(update={"deadline": min(shown.deadline, gate.deadline)})
    why = "policy changed after this was approved, so it is asked again"
    return Again(gate, Preview(call.preview, call.expects), why, "policy")


def no_longer_remembered(call: Call, gate: Ask) -> Again:
    """It was to run on a remembered approval, which is used up, over, revoked or no longer offered."""
    why = "the approval that was remembered for this no longer holds, so it is asked"
    return Again(gate, Preview(call.preview, call.expects), why, "policy")


def changed(
    core: Core, run: Run, tool: Tool[Any], args: BaseModel, call: Call, why: str
) -> Again | Refused:
    """The tool did nothing, for `why`: asked again with a new preview, where people were asked in
    the first place.
    """
    shown, now = load_gate(call.gate), gate_of(core, run, tool, args, call=call)
    if isinstance(now, Deny):
        return Refused(f"{why} Nothing was done, and policy now forbids it: {now.reason}")
    gate = now if isinstance(now, Ask) else shown  # people who were asked once are asked again
    if isinstance(now, Ask) and isinstance(shown, Ask):
        gate = both(shown, now)
    if not isinstance(gate, Ask):
        return Refused(f"{why} Nothing was done.")
    return Again(gate, preview(tool, args), why, "worker")


def ask(core: Core, tx: Transaction, run: Run, call: Call, again: Again) -> bool:
    """Back to PENDING, off its card; the worker puts it on a new one.

    False when the call has moved meanwhile.
    """
    current = calls.revision(tx, call.id, call.revision)
    if current is None:
        return False
    now, gate, seen = core.clock.now(), dump_gate(again.gate), again.seen
    tool = core.tools.tools[call.tool]
    digest = fingerprint(
        core,
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
        deadline=now + timedelta(seconds=again.gate.deadline),
        digest=digest,
        gate=gate,
        preview=seen.text,
        expects=seen.expects,
        next_at=next_moment(again.gate, now),
    ):
        return False
    withdraw(tx, call.plan_id, {call.id})
    return True
