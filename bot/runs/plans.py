"""Plans: the calls of one turn, as they are stored, shown to people, or replaced by others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.agent import outputs, prompt
from bot.approvals import card_routing
from bot.approvals.call_checks import REPEATED_CALL_NOTE, CallRefusedError
from bot.approvals.call_gates import PolicyFactSources
from bot.approvals.call_state import compute_call_digest, describe_call_effect
from bot.approvals.person_questions import QuestionWithPlace, queue_question_messages
from bot.cards.notices import approvals_void_notice, call_refused_before_asking_notice
from bot.policy.authority import Authority
from bot.policy.gates import Allow, Ask, Deny, dump_gate, load_gate
from bot.tools import Effect, Registry, Tool
from storage import calls, endings, moves, outbox, runs, trail
from storage.digest import NonCanonicalValueError, compute_key_id, parse_json_object
from storage.record import Call, Plan, Revision, Run, Transaction
from storage.states import MODEL_DRIVEN_SOURCES, CallStatus, CallVerb

C = CallStatus


@dataclass(slots=True)
class PreparedCall:
    """One call, ready to be stored."""

    call: Call
    proposed_arguments: str = ""  # as the model wrote them
    revision: Revision | None = None
    gate: Allow | Ask | Deny | None = None
    place: card_routing.CardPlace | None = None
    question: QuestionWithPlace | None = None
    audit_data: dict[str, Any] = field(default_factory=dict)
    reason_for_requester: str = ""  # why it was refused, if the requester should know

    def build_repeated_call_refusal(self, earlier: Call) -> CallRefusedError:
        """Return the refusal of this call with the output of an earlier one that was the same."""
        self.audit_data["same_as"] = earlier.id
        return CallRefusedError(outputs.repeated_call_output(earlier.output), REPEATED_CALL_NOTE)

    def sign(
        self, key: bytes, run: Run, tool: Tool[Any], arguments: str, gate: Allow | Ask
    ) -> None:
        """Set the call's gate, digest and first revision, which fix exactly what would run."""
        call = self.call
        call.gate = dump_gate(gate)
        call.digest = compute_call_digest(
            key, run, tool, arguments, gate=call.gate, revision=1, expects=call.expects
        )
        call.key_id = compute_key_id(key)
        self.revision = Revision(
            call_id=call.id,
            number=1,
            arguments=arguments,
            digest=call.digest,
            author=calls.AGENT_AUTHOR if run.source in MODEL_DRIVEN_SOURCES else calls.FORM_AUTHOR,
            created_at=call.created_at,
        )


def needs_approval_or_answer(prepared: Sequence[PreparedCall]) -> bool:
    """Return whether people have to approve or answer any of these calls."""
    return any(each.place or each.question for each in prepared)


def should_wait_for_people(prepared: Sequence[PreparedCall]) -> bool:
    """Return whether people are asked, and no call of the plan is a read that can run at once."""
    approved = (each.call for each in prepared if each.call.status is CallStatus.APPROVED)
    return needs_approval_or_answer(prepared) and all(call.does != Effect.READ for call in approved)


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
    """Queue the cards and questions of a plan, and an emoji on the message that asked for it."""
    found = ((each.call, each.gate, each.place) for each in prepared)
    asked = [
        card_routing.CallWithCardPlace(call, gate, at)
        for call, gate, at in found
        if isinstance(gate, Ask) and at
    ]
    for each in prepared:
        if each.question is not None:
            queue_question_messages(tx, run, each.call, each.question)
    card_routing.queue_cards(tx, run, plan_id, asked)
    if needs_approval_or_answer(prepared):
        card_routing.queue_status_emoji(tx, run, plan_id)


def _build_audit_evidence(
    tx: Transaction, tools: Registry, proposed: PreparedCall
) -> dict[str, Any]:
    """Return what the audit keeps of a call's arguments, with secret fields replaced.

    If the tool is unknown, a field that is secret in any tool counts as secret.
    """
    tool = tools.find_tool_of_call(proposed.call)
    known = [each for each in ([tool] if tool else tools) if each.has_secrets]
    text = proposed.revision.arguments if proposed.revision else proposed.proposed_arguments
    try:
        given = parse_json_object(text)
        secret = {path for each in known for path in each.list_secret_paths(given)}
    except NonCanonicalValueError:  # they cannot be read, so all of it may be secret
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
        call.output = prompt.SUB_AGENT_REFUSED_OUTPUT if entrusts else outputs.OTHER_CALLS_WAITING
        call.status, call.note = CallStatus.REFUSED, "others wait"
        call.asked_at = call.next_at = call.deadline = None
        each.place = each.question = None
        each.audit_data = {"refused": call.note}


def post_refusal_reason(tx: Transaction, run: Run, prepared: PreparedCall, title: str) -> None:
    """Post in the thread why nobody was asked about a call; each reason once per run."""
    why = prepared.reason_for_requester
    reason = hashlib.sha256(re.sub(r"\d+", "", why).encode()).hexdigest()[:16]
    key = f"refused:{run.id}:{reason}"
    if outbox.find_message_by_key(tx, key) is None:
        text = call_refused_before_asking_notice(title, why)
        outbox.queue_notice(tx, run, key, {"text": text})


def supersede_waiting_plans(tx: Transaction, tools: Registry, run: Run, at: datetime) -> None:
    """Supersede a request's waiting plans, and tell those who had approved calls of them."""
    agents = runs.list_open_runs_of_request(tx, run.root_id)
    for plan in (plan for each in agents for plan in calls.list_open_plans(tx, each.id)):
        waiting = [
            call
            for call in calls.list_calls_of_plan(tx, plan.id)
            if call.status in (C.PENDING, C.APPROVED)
        ]
        voters = {
            vote.person
            for call in waiting
            for vote in calls.list_votes_on_revision(tx, call.id, call.revision)
            if vote.verb is CallVerb.APPROVE
        }
        if voters:
            effects = [describe_call_effect(tools, tx, call) for call in waiting]
            text = approvals_void_notice(sorted(voters), run.requester, effects)
            outbox.queue_line_in_all_threads(
                tx, run, [plan.id], f"void:{plan.id}", text, notified=voters - {run.requester}
            )
    endings.supersede_unstarted_calls_of_run(tx, run, at=at)


@dataclass(frozen=True, slots=True)
class MissingCardPoster:
    """Posts the cards that a waiting plan lacks; one for all workers."""

    sources: PolicyFactSources
    authority: Authority

    def post_missing_cards(self, run: Run, plan_id: str) -> None:
        """Post cards for calls that wait for people without one.

        These are calls that policy had allowed at first, and calls that have become UNKNOWN.
        """
        with self.sources.store.read() as tx:
            on_cards = {
                c
                for card in outbox.list_cards_of_plan(tx, plan_id)
                for c in outbox.parse_message_body(card)["calls"]
            }
            missing = [
                c
                for c in calls.list_calls_of_plan(tx, plan_id)
                if calls.is_waiting_for_people(c) and c.id not in on_cards
            ]
        for call in missing:
            place_or_refusal = (
                None if call.status is C.UNKNOWN else self._find_place_or_refusal(run, call)
            )
            with self.sources.store.write() as tx:
                runs.get_run_with_fence(tx, run.id, run.fence)
                match place_or_refusal:
                    case None:
                        card = card_routing.build_card_of_allowed_call(run, plan_id, call)
                        outbox.queue_message(tx, card)
                    case CallRefusedError(output=output, note=note):
                        at, actor = self.sources.clock.now(), "policy"
                        moves.change_call_status(
                            tx, call, C.INVALIDATED, at=at, actor=actor, output=output, note=note
                        )
                    case place:
                        card_routing.queue_cards(tx, run, plan_id, [place])
                        card_routing.queue_status_emoji(tx, run, plan_id)

    def _find_place_or_refusal(
        self, run: Run, call: Call
    ) -> card_routing.CallWithCardPlace | CallRefusedError:
        """Return where the call's card belongs, or why nobody can be asked. May ask Slack."""
        gate = load_gate(call.gate)
        assert isinstance(gate, Ask)
        with self.sources.store.read() as tx:
            editors = calls.list_editors(tx, call.id)
        try:
            place = card_routing.resolve_card_place(self.authority, run, gate, editors)
        except CallRefusedError as error:
            return error
        return card_routing.CallWithCardPlace(call, gate, place)
