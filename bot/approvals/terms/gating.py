"""The policy's word on one call, looked up live; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from bot.approvals.terms.facts import Sources, facts_of, with_sums
from bot.policy.conditions.facts import Facts
from bot.policy.gates import Allow, Ask, Deny
from bot.tools import Tool
from storage.models import Call, Run
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
