"""Turns what the model proposed into calls: parsed, validated, gated, with a place for their card.

It looks people up in Slack, so it runs outside any transaction; the worker stores the results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from bot.agent import outputs, prompt
from bot.agent.turn import FunctionCall
from bot.approvals import call_checks, call_state, card_routing, grants, person_questions
from bot.approvals.call_checks import (
    CallRefusedError,
    ReachedLimit,
    RepeatedCall,
    UsageLimits,
    parse_call_arguments,
)
from bot.approvals.call_gates import (
    AFTER_REJECTION,
    FactSources,
    compute_gate_in_transaction,
    load_facts,
    prepare_preview_for_thread,
)
from bot.approvals.person_questions import PlacedQuestion, queue_question
from bot.policy.authority import Authority
from bot.policy.gates import Allow, Ask, Deny, Gate, dump_gate
from bot.runs.sub_agent_runs import AgentRoles
from bot.tools import Effect, Registry, Tool, ToolError
from bot.tools.arguments import dump_arguments
from bot.tools.names import NameResolver
from bot.tools.person_question import AskPerson
from bot.tools.preview import PreviewRunner
from storage import call_history, calls, moves, trail
from storage import sub_agents as children
from storage.chain import compute_key_id
from storage.digest import NonCanonicalValueError, parse_json_object
from storage.grants import Grant
from storage.models import Call, Plan, Revision, Run
from storage.states import MODELLED, CallStatus
from storage.transaction import Transaction

# Calls with a status and a gate, ready to be stored and shown.


@dataclass(slots=True)
class PreparedCall:
    """One call, ready to be stored."""

    call: Call
    proposed_arguments: str = ""  # its arguments in the model's words
    revision: Revision | None = None
    gate: Allow | Ask | Deny | None = None
    place: card_routing.CardPlace | None = None
    question: PlacedQuestion | None = None
    audit_data: dict[str, Any] = field(default_factory=dict)  # for the audit
    reason_for_requester: str = ""  # why it was refused, where a person should know


def needs_people(prepared: Sequence[PreparedCall]) -> bool:
    """Return whether people have to approve or answer any of these calls."""
    return any(each.place or each.question for each in prepared)


def should_wait_for_people(prepared: Sequence[PreparedCall]) -> bool:
    """Return whether people are asked, and no call of the plan is a read that can run at once."""
    approved = (each.call for each in prepared if each.call.status is CallStatus.APPROVED)
    return needs_people(prepared) and all(call.does != Effect.READ for call in approved)


def store_plan(
    tx: Transaction, tools: Registry, plan: Plan, prepared: Sequence[PreparedCall], *, actor: str
) -> None:
    """Store a plan with its calls; `actor` is who proposed them, for the audit."""
    calls.insert_plan(tx, plan)
    for each in prepared:
        data = {**each.audit_data, **_build_audit_evidence(tx, tools, each)}
        moves.insert_call(tx, each.call, at=plan.created_at, actor=actor, data=data)
        if each.revision is not None:
            calls.insert_revision(tx, each.revision)


def post_plan_cards(
    tx: Transaction, run: Run, plan_id: str, prepared: Sequence[PreparedCall]
) -> None:
    """Post the cards and questions of a stored plan, and mark the message that asked for it."""
    found = ((each.call, each.gate, each.place) for each in prepared)
    asked = [
        card_routing.RoutedCall(call, gate, at)
        for call, gate, at in found
        if isinstance(gate, Ask) and at
    ]
    for each in prepared:
        if each.question is not None:
            queue_question(tx, run, each.call, each.question)
    card_routing.queue_cards(tx, run, plan_id, asked)
    if needs_people(prepared):
        card_routing.queue_status_emoji(tx, run, plan_id)


def _build_audit_evidence(
    tx: Transaction, tools: Registry, proposed: PreparedCall
) -> dict[str, Any]:
    """Return what the audit keeps of the arguments; an unknown tool's fields may be secret."""
    tool = tools.find_tool_of_call(proposed.call)
    known = [each for each in ([tool] if tool else tools) if each.has_secrets]
    text = proposed.revision.arguments if proposed.revision else proposed.proposed_arguments
    try:
        given = parse_json_object(text)
        secret = {path for each in known for path in each.list_secret_paths(given)}
    except NonCanonicalValueError:  # any of it may be secret
        secret = {() for _ in known}
    if proposed.revision is not None:
        return trail.build_revision_evidence(tx, proposed.revision, secret)
    return trail.build_refusal_evidence(tx, proposed.call.id, text, secret)


def refuse_all_but_reads(prepared: Sequence[PreparedCall], tools: Registry) -> None:
    """Refuse all proposed calls but plain reads, because other calls of the run are waiting."""
    for each in prepared:
        call, tool = each.call, tools.find_tool_of_call(each.call)
        entrusts = tool is not None and tool.agent is not None
        if call.status is CallStatus.REFUSED or (
            call.status is CallStatus.APPROVED and call.does == Effect.READ and not entrusts
        ):
            continue
        call.output = prompt.NOT_BESIDE if entrusts else outputs.BESIDE
        call.status, call.note = CallStatus.REFUSED, "others wait"
        call.asked_at = call.next_at = call.deadline = None
        each.place = each.question = None
        each.audit_data = {"refused": call.note}


class ProposalPreparer:
    """Validates and gates proposed calls; one for all workers, on any thread."""

    def __init__(
        self,
        sources: FactSources,
        authority: Authority,
        tools: Registry,
        limits: UsageLimits,
        key: bytes,
        previews: PreviewRunner,
    ) -> None:
        """`key` signs the digests of calls; `authority` finds the approvers."""
        self._sources = sources
        self._authority = authority
        self.roles = AgentRoles(sources.store, tools, limits.settings.max_depth)
        self._limits = limits
        self._key = key
        self._previews = previews

    def prepare_calls(
        self,
        run: Run,
        plan_id: str,
        proposed: Sequence[FunctionCall],
        taken: frozenset[str],
        action: str = "",
    ) -> list[PreparedCall]:
        """Return each proposed call validated and gated, ready to be stored.

        `taken`: the model's call ids already in the thread's transcript. `action`: the description
        of a call that the asking program executes itself.
        """
        result: list[PreparedCall] = []
        seen, most, tools = (
            set(taken),
            self._limits.settings.max_calls,
            self.roles.load_role(run).tools,
        )
        used = self._count_proposed_calls(run)
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
                created_at=self._sources.clock.now(),
            )
            # an empty or repeated id would confuse the transcript
            call.provider_id = provider_id or f"call_{call.id}"
            seen.add(call.provider_id)
            prepared = PreparedCall(call, each.arguments)
            try:
                if used + position >= most:
                    why = f"one request may propose {most} calls at most"
                    raise CallRefusedError(outputs.too_many_calls_output(most), why)
                self._validate_and_gate_call(run, each, prepared, result, tools)
            except CallRefusedError as refusal:
                call.status, call.output = CallStatus.REFUSED, refusal.output
                call.note = prepared.audit_data["refused"] = refusal.note
                prepared.reason_for_requester = refusal.note if refusal.tell else ""
            result.append(prepared)
        return result

    def _count_proposed_calls(self, run: Run) -> int:
        """Return how many calls the request has proposed, those of its sub-agents included."""
        if not run.parent_call:
            return run.calls
        with self._sources.store.read() as tx:
            return children.get_root_run(tx, run).calls

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
        tool = _get_proposed_tool(tools, call)
        names = NameResolver(self._sources.directory, run.requester)
        args, call.reason = parse_call_arguments(tool, proposed.arguments, names)
        call.names, arguments = json.dumps(names.names_by_id), dump_arguments(args)
        call.does, call.schema_digest = tool.does, tool.schema_digest()
        facts = load_facts(self._sources, run, tool, args)
        beside = [(each.call, each.revision.arguments) for each in earlier if each.revision]
        siblings = [(each.tool, given) for each, given in beside]
        with self._sources.store.read() as tx:
            repeat = self._find_repeat(tx, run, tool, arguments, prepared, beside)
            about = (tx, self._sources, run, tool, facts)
            gate = compute_gate_in_transaction(*about, siblings=siblings)
            asked = (tx, run, tool, gate, arguments, earlier)
            given, reached = self._list_grants_and_check_limit(*asked)
        remembered = self._find_covering_grant(run, gate, given, reached)
        prepared.gate = gate
        match gate:
            case Deny(reason=reason):
                output = outputs.forbidden_output(reason)
                raise CallRefusedError(output, f"policy: {reason}", tell=True)
            case Allow() if isinstance(args, AskPerson):
                question = (run, call, args, _count_pending_calls(earlier))
                prepared.question = person_questions.prepare_question(
                    self._sources, self._authority, self._limits, *question
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
                notes = (repeat.note if repeat else "", AFTER_REJECTION if gate.would_allow else "")
                call.note = "; ".join(filter(None, notes))
        self._sign_call(run, tool, arguments, prepared, gate)

    def _find_repeat(
        self,
        tx: Transaction,
        run: Run,
        tool: Tool[Any],
        arguments: str,
        prepared: PreparedCall,
        beside: Sequence[tuple[Call, str]],
    ) -> RepeatedCall | None:
        """Return which earlier call this one repeats; RefusedError if it may not be done again."""
        is_first = not run.calls and not run.parent_call
        same = (
            []
            if is_first
            else call_history.list_same_calls_in_request(tx, run.root_id, tool.name, arguments)
        )
        if any(each.status is CallStatus.REJECTED for each in same):
            raise CallRefusedError(outputs.REJECTED_BEFORE, "the same call was rejected before")
        repeat = call_checks.find_repeated_call(tx, tool, same, arguments, beside)
        if repeat and repeat.reusable_call:
            prepared.audit_data["same_as"] = repeat.reusable_call.id
            raise CallRefusedError(
                outputs.repeated_call_output(repeat.reusable_call.output), call_checks.SAME_CALL
            )
        return repeat or call_checks.find_recent_program_call(
            tx, run, tool, arguments, self._sources.clock.now()
        )

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
        given = grants.list_candidate_grants(tx, self._sources, run, tool, gate, arguments)
        return given, self._limits.find_reached_asking_limit(tx, run, _count_pending_calls(earlier))

    def _find_covering_grant(
        self, run: Run, gate: Gate, given: list[Grant], reached: ReachedLimit | None
    ) -> Grant | None:
        """Return the grant that the call may run on; None if people have to be asked.

        Looks people up in Slack. Raises RefusedError if a limit forbids asking.
        """
        if not isinstance(gate, Ask):
            return None
        if remembered := grants.find_valid_grant(self._authority, run, gate, given):
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
        """Make the call PENDING, with a place, preview and deadline. Raises RefusedError."""
        call = prepared.call
        place = card_routing.resolve_card_place(self._authority, run, gate)
        context = call_state.build_tool_context(run, call, self._sources.clock.now())
        try:
            seen = prepare_preview_for_thread(
                self._sources, run, self._previews.run_preview(tool, args, context)
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
        for name, value in call_state.build_preview_columns(seen).items():
            setattr(call, name, value)

    def _require_showable(
        self, prepared: PreparedCall, tool: Tool[Any], args: BaseModel, preview: str
    ) -> None:
        """Raise RefusedError if the approvers could not be shown all of what would run."""
        call = prepared.call
        names: dict[str, str] = json.loads(call.names)
        why = call_checks.describe_display_problem(
            tool, dump_arguments(args), names, preview=preview, reason=call.reason
        )
        if why:
            raise CallRefusedError(outputs.not_showable_output(why), why.rstrip("."), tell=True)

    def _sign_call(
        self, run: Run, tool: Tool[Any], arguments: str, prepared: PreparedCall, gate: Allow | Ask
    ) -> None:
        """Set the call's gate, digest and first revision, which fix exactly what would run."""
        call = prepared.call
        call.gate = dump_gate(gate)
        call.digest = call_state.compute_call_digest(
            self._key, run, tool, arguments, gate=call.gate, revision=1, expects=call.expects
        )
        call.key_id = compute_key_id(self._key)
        prepared.revision = Revision(
            call_id=call.id,
            number=1,
            arguments=arguments,
            digest=call.digest,
            author=calls.AGENT if run.source in MODELLED else calls.FORM,
            created_at=call.created_at,
        )


def _get_proposed_tool(tools: Registry, call: Call) -> Tool[Any]:
    """Return the tool that the call names; raises RefusedError if it is not among `tools`."""
    tool = tools.find_tool_of_call(call)
    if tool is None:
        why = outputs.unknown_tool_output(call.tool, (each.name for each in tools))
        raise CallRefusedError(why, "there is no such tool")
    return tool


def _count_pending_calls(earlier: Sequence[PreparedCall]) -> int:
    """Return how many of these calls wait for people."""
    return sum(each.call.status is CallStatus.PENDING for each in earlier)
