"""The policy's word on one call, and how far votes have come towards meeting it.

Looks up live; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel

from bot.approvals.terms.facts import Sources, facts_of, with_sums
from bot.policy.conditions.facts import Facts
from bot.policy.gates import Allow, Ask, Ballot, Deny, Tally, load_gate, tally
from bot.tools import Tool
from storage import calls
from storage.decisions import Weigh
from storage.models import Call, Run, Vote
from storage.states import CallStatus
from storage.transaction import Transaction


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
    return sources.policy.policy.gate(summed)


def standing(gate: Ask, votes: Sequence[Vote]) -> Tally:
    """Return how far these votes of one revision have come."""
    return tally(gate, ballots_of(votes))


def ballots_of(votes: Sequence[Vote]) -> list[Ballot]:
    """Return stored votes as the tally counts them."""
    return [Ballot(each.person, each.verb, each.stage, each.created_at) for each in votes]


def weigher(gate: Ask) -> Weigh:
    """Return `standing` bound to one gate."""
    return partial(standing, gate)


def still_needed(tx: Transaction, call: Call) -> int:
    """Return how many more people have to approve a pending call; 0 for any other."""
    gate = load_gate(call.gate)
    if call.status is not CallStatus.PENDING or not isinstance(gate, Ask):
        return 0
    return gate.people - sum(
        map(len, standing(gate, calls.votes(tx, call.id, call.revision)).approved)
    )


def waited(call: Call, at: datetime) -> timedelta:
    """Return how long the call has waited for people at that moment."""
    return max(at - (call.asked_at or call.created_at), timedelta())


def next_moment(gate: Ask, asked_at: datetime, dealt_with: int = 0) -> datetime | None:
    """Return when a reminder or an escalation is due next; None when none is left."""
    moments = gate.moments()[dealt_with:]
    return asked_at + timedelta(seconds=moments[0]) if moments else None
