"""Turns what the model proposed into calls: parsed, validated, gated, with a place for their card.

It looks people up in Slack, so it runs outside any transaction; the worker stores the results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from bot.agent import outputs
from bot.agent.turn import FunctionCall
from bot.approvals import call_state
from bot.approvals.call_checks import (
    CallRefusedError,
    ReachedLimit,
    UsageLimits,
    explain_incomplete_display,
    find_earlier_same_call,
    parse_arguments_and_reason,
)
from bot.approvals.call_gates import (
    AFTER_REJECTION_TEXT,
    PolicyFactSources,
    allow_full_preview_in_thread,
    compute_gate_in_transaction,
    load_policy_facts,
)
from bot.approvals.card_routing import resolve_card_place
from bot.approvals.grants import find_valid_grant, list_candidate_grants
from bot.approvals.person_questions import prepare_question
from bot.policy.authority import Authority
from bot.policy.gates import Allow, Ask, Deny, Gate
from bot.runs.plans import PreparedCall
from bot.runs.sub_agent_runs import AgentRoleLoader
from bot.tools import Registry, Tool, ToolError
from bot.tools.arguments import dump_arguments
from bot.tools.names import SlackIdResolver
from bot.tools.person_question import AskPerson
from bot.tools.preview import PreviewRunner
from countersign.durations import format_count
from storage.grants import Grant
from storage.record import Call, Run, Transaction
from storage.states import MODEL_DRIVEN_SOURCES, CallStatus


class ProposalPreparer:
    """Validates and gates proposed calls; one for all workers, on any thread."""

    def __init__(
        self,
        sources: PolicyFactSources,
        authority: Authority,
        tools: Registry,
        limits: UsageLimits,
        key: bytes,
        previews: PreviewRunner,
    ) -> None:
        """`key` signs the digests of calls; `authority` finds the approvers."""
        self.sources = sources
        self._authority = authority
        self.tools = tools
        self.roles = AgentRoleLoader(sources.store, tools, limits.settings.max_depth)
        self.limits = limits
        self._key = key
        self._previews = previews

    def prepare_calls(
        self,
        run: Run,
        plan_id: str,
        proposed: Sequence[FunctionCall],
        used_ids: frozenset[str],
        action: str = "",
    ) -> list[PreparedCall]:
        """Return each proposed call validated and gated, ready to be stored.

        `used_ids`: the model's call ids already in the thread's transcript. `action`: the
        description of a call that the asking program executes itself.
        """
        result: list[PreparedCall] = []
        seen = set(used_ids)
        most = self.limits.settings.max_calls
        tools = self.roles.load_role(run).tools
        used = self.roles.count_proposed_calls_of_request(run)
        for position, each in enumerate(proposed):
            provider_id = each.provider_id if each.provider_id not in seen else ""
            call = Call(
                run_id=run.id,
                plan_id=plan_id,
                position=position,
                provider_id=provider_id,
                tool=each.name[:200],
                action=action,
                status=CallStatus.REFUSED,
                created_at=self.sources.clock.now(),
            )
            # an empty or repeated id would confuse the transcript
            call.provider_id = provider_id or f"call_{call.id}"
            seen.add(call.provider_id)
            prepared = PreparedCall(call, each.arguments)
            try:
                if used + position >= most:
                    why = f"one request may propose {format_count(most, 'call')} at most"
                    raise CallRefusedError(outputs.too_many_calls_output(most), why)
                self._validate_and_gate_call(run, each, prepared, result, tools)
            except CallRefusedError as refusal:
                call.status, call.output = CallStatus.REFUSED, refusal.output
                call.note = prepared.audit_data["refused"] = refusal.note
                prepared.reason_for_requester = refusal.note if refusal.tell else ""
            result.append(prepared)
        return result

    def _validate_and_gate_call(
        self,
        run: Run,
        proposed: FunctionCall,
        prepared: PreparedCall,
        earlier: Sequence[PreparedCall],
        tools: Registry,
    ) -> None:
        """Validate one call, apply policy to it, and sign the result. Raises CallRefusedError."""
        call = prepared.call
        tool = _get_proposed_tool(tools, run, call)
        names = SlackIdResolver(self.sources.directory, run.requester)
        args, call.reason = parse_arguments_and_reason(tool, proposed.arguments, names)
        call.names, arguments = json.dumps(names.names_by_id), dump_arguments(args)
        call.does, call.schema_digest = tool.does, tool.schema_digest()
        facts = load_policy_facts(self.sources, run, tool, args)
        siblings = [(each.call, each.revision.arguments) for each in earlier if each.revision]
        others = [(each.tool, given) for each, given in siblings]
        with self.sources.store.read() as tx:
            repeat = find_earlier_same_call(tx, run, tool, arguments, siblings, call.created_at)
            if repeat and repeat.reusable_call:
                raise prepared.build_repeated_call_refusal(repeat.reusable_call)
            gate = compute_gate_in_transaction(tx, self.sources, run, tool, facts, siblings=others)
            limit_inputs = (tx, run, tool, gate, arguments, earlier)
            given, limit = self._list_grants_and_check_limit(*limit_inputs)
        remembered = self._find_covering_grant(run, gate, given, limit)
        prepared.gate = gate
        match gate:
            case Deny(reason=reason):
                output = outputs.forbidden_output(reason)
                raise CallRefusedError(output, f"policy: {reason}", tell=True)
            case Allow() if isinstance(args, AskPerson):
                question = (run, call, args, _count_pending_calls(earlier))
                prepared.question = prepare_question(
                    self.sources, self._authority, self.limits, *question
                )
            case Ask() if isinstance(args, AskPerson):
                raise CallRefusedError(outputs.NEEDS_APPROVAL, "policy wants an approval for it")
            case Allow(rule=rule):
                call.status = CallStatus.APPROVED
                prepared.audit_data["approved_by"] = f"policy: {rule}"
            case Ask() if remembered is not None:
                call.status, call.grant_id = CallStatus.APPROVED, remembered.id
                by = f"grant {remembered.id} of {remembered.given_by}"
                prepared.audit_data["approved_by"] = by
            case Ask():
                self._make_pending(run, prepared, tool, args, gate, earlier)
                notes = [repeat.note] if repeat and repeat.note else []
                call.note = "; ".join(notes + [AFTER_REJECTION_TEXT] * gate.would_allow)
        prepared.sign(self._key, run, tool, arguments, gate)

    def _list_grants_and_check_limit(
        self,
        tx: Transaction,
        run: Run,
        tool: Tool[Any],
        gate: Gate,
        arguments: str,
        earlier: Sequence[PreparedCall],
    ) -> tuple[list[Grant], ReachedLimit | None]:
        """Return the grants that may cover the call, and the limit on asking people if reached."""
        if not isinstance(gate, Ask):
            return [], None
        given = list_candidate_grants(tx, self.sources, run, tool, gate, arguments)
        return given, self.limits.find_reached_asking_limit(tx, run, _count_pending_calls(earlier))

    def _find_covering_grant(
        self, run: Run, gate: Gate, given: list[Grant], reached: ReachedLimit | None
    ) -> Grant | None:
        """Return the grant that the call may run on; None if people have to be asked.

        Looks people up in Slack. Raises CallRefusedError if a limit forbids asking.
        """
        if not isinstance(gate, Ask):
            return None
        if remembered := find_valid_grant(self._authority, run, gate, given):
            return remembered
        if reached:
            raise CallRefusedError(reached.output, reached.note, tell=True)
        return None

    def _make_pending(
        self,
        run: Run,
        prepared: PreparedCall,
        tool: Tool[Any],
        args: BaseModel,
        gate: Ask,
        earlier: Sequence[PreparedCall],
    ) -> None:
        """Make the call PENDING, with a place for its card, a preview and a deadline.

        Raises CallRefusedError.
        """
        call = prepared.call
        place = resolve_card_place(self._authority, run, gate)
        context = call_state.build_tool_context(run, call, self.sources.clock.now())
        try:
            seen = allow_full_preview_in_thread(
                self.sources, run, self._previews.run_preview(tool, args, context)
            )
        except ToolError as error:
            waits = any(each.call.status is CallStatus.PENDING for each in earlier)
            why = outputs.would_fail_output(str(error), earlier=waits)
            raise CallRefusedError(why, f"it would fail: {error}") from error
        self._require_showable(prepared, tool, args, seen.text)
        prepared.place = place
        call.status, call.asked_at = CallStatus.PENDING, call.created_at
        call.next_at = call_state.find_next_notification_time(gate, call.created_at)
        call.deadline = gate.compute_due_time(call.created_at, gate.deadline)
        for name, value in call_state.dump_preview_to_call_columns(seen).items():
            setattr(call, name, value)

    def _require_showable(
        self, prepared: PreparedCall, tool: Tool[Any], args: BaseModel, preview: str
    ) -> None:
        """Raise CallRefusedError if the approvers could not be shown all of what would run."""
        call = prepared.call
        names: dict[str, str] = json.loads(call.names)
        why = explain_incomplete_display(
            tool, dump_arguments(args), names, preview=preview, reason=call.reason
        )
        if why:
            raise CallRefusedError(outputs.not_showable_output(why), why.rstrip("."), tell=True)


def _get_proposed_tool(tools: Registry, run: Run, call: Call) -> Tool[Any]:
    """Return the tool that the call names; raises CallRefusedError if it is not among `tools`.

    Tools whose calls only the bot itself proposes are unknown to a model.
    """
    by_model = run.source in MODEL_DRIVEN_SOURCES
    tool = tools.get(call.tool) if by_model else tools.find_tool_of_call(call)
    if tool is None:
        why = outputs.unknown_tool_output(call.tool, (each.name for each in tools))
        raise CallRefusedError(why, "there is no such tool")
    return tool


def _count_pending_calls(earlier: Sequence[PreparedCall]) -> int:
    """Return how many of these calls wait for people."""
    return sum(each.call.status is CallStatus.PENDING for each in earlier)
