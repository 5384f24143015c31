"""From what the model proposed to calls with a verdict: parsed, validated, gated, and given a place
to be shown.

Looks people up (live), so it runs outside any transaction; the worker stores what comes of it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from bot.agent.turn import Proposed
from bot.approvals.cards.placement import Place, find_place
from bot.approvals.terms import duplicates, grants, limits
from bot.approvals.terms.fingerprint import fingerprint
from bot.approvals.terms.gating import gate_of, next_moment
from bot.approvals.terms.refusals import RefusedError, parse
from bot.core import Core
from bot.policy.gates import Allow, Ask, Deny, dump_gate
from bot.tools import Tool
from bot.tools.arguments import dump_arguments
from bot.tools.preview import preview
from storage import calls
from storage.digest import key_id
from storage.models import Call, Revision, Run
from storage.states import CallStatus

log = logging.getLogger("countersign.proposals")


@dataclass(slots=True)
class Prepared:
    """One call, ready to be stored."""

    call: Call
    revision: Revision | None = None
    gate: Allow | Ask | Deny | None = None
    place: Place | None = None
    birth: dict[str, Any] = field(default_factory=dict)  # for the audit
    tell_requester: str = ""  # why it was refused, where a person should know


def prepare(
    core: Core, run: Run, plan_id: str, proposed: Sequence[Proposed], taken: frozenset[str]
) -> list[Prepared]:
    """Give every proposed call a verdict.

    `taken`: provider call ids already in the thread's transcript.
    """
    result: list[Prepared] = []
    seen = set(taken)
    for position, each in enumerate(proposed):
        provider_id = each.provider_id if each.provider_id and each.provider_id not in seen else ""
        call = Call(
            run_id=run.id,
            plan_id=plan_id,
            position=position,
            provider_id=provider_id,
            tool=each.name[:200],
            status=CallStatus.REFUSED,
            created_at=core.clock.now(),
        )
        # an empty or repeated id would confuse the transcript
        call.provider_id = provider_id or f"call_{call.id}"
        seen.add(call.provider_id)
        prepared = Prepared(call)
        try:
            if run.calls + position >= core.settings.max_calls:
                raise RefusedError(
                    f"REFUSED: this request may propose {core.settings.max_calls} calls at most."
                )
            _judge(core, run, each, prepared, result)
        except RefusedError as refusal:
            call.status, call.output, call.note = CallStatus.REFUSED, refusal.output, refusal.note
            prepared.birth["refused"] = refusal.note
            prepared.tell_requester = refusal.note if refusal.tell else ""
        result.append(prepared)
    return result


def _judge(
    core: Core, run: Run, proposed: Proposed, prepared: Prepared, earlier: Sequence[Prepared]
) -> None:
    call = prepared.call
    tool = core.tools.get(proposed.name)
    if tool is None:
        known = ", ".join(sorted(each.name for each in core.tools))
        raise RefusedError(
            f"REFUSED: there is no tool named {proposed.name[:100]!r}. The tools are: {known}."
        )
    args, call.reason = parse(tool, proposed.arguments)
    call.does, call.schema_digest = tool.does, tool.schema_digest()
    arguments = dump_arguments(args)
    with core.store.read() as tx:
        if calls.rejected_before(tx, run.id, tool.name, arguments):
            raise RefusedError(
                "REFUSED: a person rejected this very call in this request. Change it, or ask the requester.",
                "the same call was rejected before",
            )
    beside = [(each.call, each.revision.arguments) for each in earlier if each.revision]
    repeat = duplicates.find(core, run, tool, arguments, beside)
    if repeat and repeat.stands:
        prepared.birth["same_as"] = repeat.stands.id
        raise RefusedError(duplicates.output_of(repeat.stands), duplicates.SAME)
    siblings = [(each.tool, given) for each, given in beside]
    gate = gate_of(core, run, tool, args, siblings=siblings)
    prepared.gate = gate
    match gate:
        case Deny(reason=reason):
            raise RefusedError(f"REFUSED by policy: {reason}", f"policy: {reason}", tell=True)
        case Allow(rule=rule):
            call.status = CallStatus.APPROVED
            prepared.birth["approved_by"] = f"policy: {rule}"
        case Ask():
            if remembered := grants.find(core, run, tool, gate, arguments):
                call.status, call.grant_id = CallStatus.APPROVED, remembered.id
                prepared.birth["approved_by"] = f"grant {remembered.id} of {remembered.given_by}"
            else:
                _ask(core, run, prepared, tool, args, gate, earlier)
                call.note = repeat.note if repeat else ""
    call.gate = dump_gate(gate)
    call.digest = fingerprint(
        core, run, tool, arguments, gate=call.gate, revision=1, expects=call.expects
    )
    call.key_id = key_id(core.key)
    prepared.revision = Revision(
        call_id=call.id,
        number=1,
        arguments=arguments,
        digest=call.digest,
        author="agent",
        created_at=call.created_at,
    )


def _ask(
    core: Core,
    run: Run,
    prepared: Prepared,
    tool: Tool[Any],
    args: BaseModel,
    gate: Ask,
    earlier: Sequence[Prepared],
) -> None:
    """People are to decide: within the limits, where they see it, until the deadline.

    Raises RefusedError.
    """
    call = prepared.call
    _limits(core, run, sum(each.call.status is CallStatus.PENDING for each in earlier))
    prepared.place = find_place(core, run, gate)
    call.status, call.asked_at = CallStatus.PENDING, call.created_at
    call.next_at = next_moment(gate, call.created_at)
    call.deadline = call.created_at + timedelta(seconds=gate.deadline)
    seen = preview(tool, args)
    call.preview, call.expects = seen.text, seen.expects


def _limits(core: Core, run: Run, pending: int) -> None:
    if reached := limits.on_asking(core, run, pending):
        raise RefusedError(reached.output, reached.note, tell=True)
