"""The policy's word on one call, looked up live; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from bot.approvals.modes.narrowing import narrowed, strictest
from bot.approvals.terms.facts import Sources, facts_of, with_sums
from bot.policy.conditions.facts import Facts
from bot.policy.gates import Allow, Ask, Deny, load_gate
from bot.tools import Effect, Tool
from storage import call_history, channel_modes
from storage.models import Call, Run
from storage.states import Mode
from storage.transaction import Transaction

AFTER_REJECTION = "something in this request was rejected, so what policy allows is asked as well"


def gate_of(
    sources: Sources,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return what policy says now; outside any transaction.

    `call`, `siblings`: see bot.approvals.facts.with_sums.
    """
    facts = facts_of(sources, run, tool, args)
    with sources.store.read() as tx:
        return gate_within(tx, sources, run, tool, facts, call=call, siblings=siblings)


def gate_within(
    tx: Transaction,
    sources: Sources,
    run: Run,
    tool: Tool[Any],
    facts: Facts,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return what policy says of these facts, their sums read in this transaction.

    `call`, `siblings`: see bot.approvals.facts.with_sums.
    """
    summed = with_sums(tx, sources, run, tool, facts, beside=call, siblings=siblings)
    gate, _ = in_mode(tx, sources, run, summed, sources.policy.policy.gate(summed))
    # it has proposed nothing that could be rejected
    is_first = not run.parent_call and run.calls == (call is not None)
    reads = facts.effect == Effect.READ
    return gate if reads or is_first else _after_rejection(tx, run, gate)


def in_mode(
    tx: Transaction, sources: Sources, run: Run, facts: Facts, gate: Allow | Deny | Ask
) -> tuple[Allow | Deny | Ask, Mode]:
    """Return what the request's mode makes of the policy's word on a call, and that mode."""
    mode = strictest(channel_modes.of_run(tx, run))
    default = sources.policy.policy.fallback(facts) if mode is Mode.STRICT else None
    return narrowed(gate, mode, default, reads=facts.effect == Effect.READ), mode


def _after_rejection(tx: Transaction, run: Run, gate: Allow | Deny | Ask) -> Allow | Deny | Ask:
    """Once people have rejected something in a request, they are asked about what changes something
    in it: who could have rejected it then. Nothing runs there on a remembered approval.
    """
    if isinstance(gate, Deny) or (isinstance(gate, Allow) and gate.after_rejection == "allow"):
        return gate
    text = call_history.gate_of_rejected(tx, run.root_id)
    if text is None:
        return gate
    if isinstance(gate, Ask):
        return gate.forgetful()
    asked = load_gate(text)
    if not isinstance(asked, Ask):
        return gate
    return asked.forgetful().model_copy(update={"would_allow": True, "editable": None})
