"""Calls with a verdict, ready to be stored and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.agent import outputs, sub_agents
from bot.approvals.cards.mark import put_mark
from bot.approvals.cards.placement import Place
from bot.approvals.cards.routing import Asked, put_cards
from bot.approvals.questions.asking import PlacedQuestion, put_question
from bot.policy.gates import Allow, Ask, Deny
from bot.tools import Effect, Registry
from storage import calls, evidence, moves
from storage.digest import OddValueError, parse_object
from storage.models import Call, Plan, Revision, Run
from storage.states import CallStatus
from storage.transaction import Transaction


@dataclass(slots=True)
class Prepared:
    """One call, ready to be stored."""

    call: Call
    proposed: str = ""  # its arguments in the model's words
    revision: Revision | None = None
    gate: Allow | Ask | Deny | None = None
    place: Place | None = None
    question: PlacedQuestion | None = None
    birth: dict[str, Any] = field(default_factory=dict)  # for the audit
    tell_requester: str = ""  # why it was refused, where a person should know


def asks_people(prepared: Sequence[Prepared]) -> bool:
    """Return whether people are asked about any of these calls, or by one."""
    return any(each.place or each.question for each in prepared)


def only_waits(prepared: Sequence[Prepared]) -> bool:
    """Return whether people are asked, and nothing runs at once before they answer."""
    approved = (each.call for each in prepared if each.call.status is CallStatus.APPROVED)
    return asks_people(prepared) and all(call.does != Effect.READ for call in approved)


def born(
    tx: Transaction, tools: Registry, plan: Plan, prepared: Sequence[Prepared], *, actor: str
) -> None:
    """Store a plan with its calls; `actor` has proposed them."""
    calls.add_plan(tx, plan)
    for each in prepared:
        data = {**each.birth, **_evidence(tx, tools, each)}
        moves.born(tx, each.call, at=plan.created_at, actor=actor, data=data)
        if each.revision is not None:
            calls.add_revision(tx, each.revision)


def show(tx: Transaction, run: Run, plan_id: str, prepared: Sequence[Prepared]) -> None:
    """Put a stored plan before those who decide or answer, and have its request marked."""
    found = ((each.call, each.gate, each.place) for each in prepared)
    asked = [Asked(call, gate, at) for call, gate, at in found if isinstance(gate, Ask) and at]
    for each in prepared:
        if each.question is not None:
            put_question(tx, run, each.call, each.question)
    put_cards(tx, run, plan_id, asked)
    if asks_people(prepared):
        put_mark(tx, run, plan_id)


def _evidence(tx: Transaction, tools: Registry, proposed: Prepared) -> dict[str, Any]:
    """Return what the audit keeps of the arguments; fields of unknown tools may be secret."""
    tool = tools.of(proposed.call)
    known = [each for each in ([tool] if tool else tools) if each.has_secrets]
    text = proposed.revision.arguments if proposed.revision else proposed.proposed
    try:
        given = parse_object(text)
        secret = {path for each in known for path in each.secret_paths(given)}
    except OddValueError:  # any of it may be secret
        secret = {() for _ in known}
    if proposed.revision is not None:
        return evidence.revised(tx, proposed.revision, secret)
    return evidence.refused(tx, proposed.call.id, text, secret)


def only_reads(prepared: Sequence[Prepared], tools: Registry) -> None:
    """Refuse what may not stand beside calls that wait: all but reads that run and end at once."""
    for each in prepared:
        call, tool = each.call, tools.of(each.call)
        entrusts = tool is not None and tool.agent is not None
        if call.status is CallStatus.REFUSED or (
            call.status is CallStatus.APPROVED and call.does == Effect.READ and not entrusts
        ):
            continue
        call.output = sub_agents.NOT_BESIDE if entrusts else outputs.BESIDE
        call.status, call.note = CallStatus.REFUSED, "others wait"
        call.asked_at = call.next_at = call.deadline = None
        each.place = each.question = None
        each.birth = {"refused": call.note}
