"""Runs one approved call exactly as it was shown.

Nothing here decides: a call gets here APPROVED, or RUNNING after a crash if its tool is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from anyio.from_thread import BlockingPortal
from pydantic import BaseModel, ValidationError

from bot.agent.outputs import now_forbidden_output
from bot.approvals import call_gates, call_state
from bot.approvals.grants import consume_grant
from bot.approvals.permissions import is_reason_in_own_words, may_approve_alone
from bot.cards.notices import REQUESTER_LEFT_REASON
from bot.monitoring.spans import WorkKind
from bot.policy.authority import Authority, LookupFailedError, Permission
from bot.policy.condition_values import Facts
from bot.policy.gates import Ask, Deny, Gate, load_gate
from bot.runs.elicitations import ElicitationBroker
from bot.runs.endings import CallOutcomeStore, RunWithCalls
from bot.signals import Signals
from bot.tools import Registry, Tool
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.runner import CallProgressReporter, classify_step_end, run_tool
from storage import calls, moves, programs, runs
from storage.record import Call, Run, Transaction
from storage.states import CallStatus, CallVerb, RunStatus, VoteOutcome

C = CallStatus


class DigestMismatchError(Exception):
    """Raised for a call that would not run as it was shown."""


@dataclass(frozen=True, slots=True)
class CallExecutor:
    """Executes calls for one worker pool."""

    sources: call_gates.PolicyFactSources
    authority: Authority
    tools: Registry
    key: bytes
    elicitations: ElicitationBroker
    outcomes: CallOutcomeStore
    signals: Signals
    lease: float  # seconds that a run is held without being renewed
    pool: Executor  # runs sync tools
    portal: Callable[[], BlockingPortal]  # runs async ones

    def execute_call(self, run: Run, call: Call) -> RunWithCalls | None:
        """Execute an approved call, or one left RUNNING by a crash, of a run this worker holds.

        Returns the run and the calls of its open plan afterwards; None if they have to be read
        again. Raises moves.StaleFenceError when the worker no longer holds the run.
        """
        with self.sources.store.read() as tx:
            shown = calls.find_call_with_votes(tx, call)
        if shown is None:
            return None
        try:
            tool, args = self._check_approved_call(run, shown)
        except DigestMismatchError as error:
            self.outcomes.mark_call_invalidated(run, call, str(error))
            return None
        if call.status is C.RUNNING:
            self._record_restart(run, call)
        elif (
            self._refuse_if_requester_left(run, call)
            or self._ask_again_if_too_old(run, call, args)
            or not self._start_if_allowed(run, shown, tool, args)
        ):
            return None
        if tool.action:  # the program that claimed it executes it
            return None
        step = CallProgressReporter(self.signals.live, run, call, tool, args)
        context = self.elicitations.build_tool_context(run, call, step)
        step.report_start()
        tracer = self.signals.tracer
        with tracer.start_span(WorkKind.TOOL, tool.name, run_id=run.id, call_id=call.id) as span:
            outcome = run_tool(
                tool,
                args,
                context,
                portal=self.portal,
                executor=self.pool,
                heartbeat=lambda: self._renew_lease_and_report(run, call, step),
                max_heartbeat_interval=self.lease / 3,
            )
            span.end = classify_step_end(tool, outcome)
        try:
            return self.outcomes.store_outcome(run, shown, args, outcome)
        finally:
            step.report_end(outcome)

    def _record_restart(self, run: Run, call: Call) -> None:
        with self.sources.store.write() as tx:
            runs.get_run_with_fence(tx, run.id, run.fence)
            moves.record_call_restart(tx, call, at=self.sources.clock.now())

    def _renew_lease_and_report(self, run: Run, call: Call, step: CallProgressReporter) -> None:
        """Renew the run's lease and report progress; the first time, redraw the card as running."""
        until = self.sources.clock.now() + timedelta(seconds=self.lease)
        with self.sources.store.write() as tx:
            moves.renew_lease(tx, run.id, run.fence, until)
            if not step.is_long:
                moves.mark_cards_for_redraw(tx, call.plan_id)
        self.signals.outbox.notify()
        step.report_long_running()

    def _check_approved_call(
        self, run: Run, shown: calls.CallWithVotes
    ) -> tuple[Tool[Any], BaseModel]:
        call = shown.call
        tool = self.tools.find_tool_as_shown(call)
        if tool is None:
            raise DigestMismatchError(call_state.describe_tool_change(self.tools, call))
        try:
            args = load_arguments(tool, shown.revision.arguments)
        except ValidationError as error:
            raise DigestMismatchError("its arguments no longer fit the tool") from error
        digest = call_state.compute_digest_of_shown_call(self.key, run, tool, shown)
        votes = call_state.list_vote_digests_if_approved(shown)
        if votes is None:
            raise DigestMismatchError("it has not been approved")
        if not (digest == call.digest == shown.revision.digest and all(v == digest for v in votes)):
            raise DigestMismatchError("what would run is not what was shown")
        if dump_arguments(args) != shown.revision.arguments:
            raise DigestMismatchError(
                "its arguments would run differently from how they were shown"
            )
        return tool, args

    def _refuse_if_requester_left(self, run: Run, call: Call) -> bool:
        """Invalidate a call that people were asked about if its requester has left; True if so."""
        try:
            has_left = isinstance(load_gate(call.gate), Ask) and not (
                self.authority.is_active_colleague(run.requester)
            )
        except LookupFailedError:
            return False  # not known is not left
        if has_left:
            self.outcomes.mark_call_invalidated(run, call, REQUESTER_LEFT_REASON)
        return has_left

    def _start_if_allowed(
        self, run: Run, shown: calls.CallWithVotes, tool: Tool[Any], args: BaseModel
    ) -> bool:
        """Evaluate policy once more and mark the call RUNNING; return False if it must not start.

        Both happen in one transaction. People are looked up before it, for the gate that was shown.
        If policy now gives another gate, they are looked up for that one, and policy is evaluated
        again.
        """
        facts = call_gates.load_policy_facts(self.sources, run, tool, args)
        begun = self._try_start_under_gate(run, shown, tool, facts, load_gate(shown.call.gate))
        if isinstance(begun, Ask):
            begun = self._try_start_under_gate(run, shown, tool, facts, begun)
        return begun is True

    def _try_start_under_gate(
        self,
        run: Run,
        shown: calls.CallWithVotes,
        tool: Tool[Any],
        facts: Facts,
        seen: Gate,
    ) -> bool | Ask:
        """Start the call if its approval still holds, and return whether it has started.

        `seen`: the gate for which people are looked up. If policy now gives another gate that asks
        people, nothing is changed, and that gate is returned.
        """
        call, now = shown.call, self.sources.clock.now()
        enough = isinstance(seen, Ask) and self._is_approval_sufficient(run, shown, seen)
        with self.sources.store.write() as tx:
            current_run = runs.get_run_with_fence(tx, run.id, run.fence)
            if current_run.status is not RunStatus.RUNNING or call_state.is_approval_expired(
                call, now
            ):
                return False  # the approval expired during the look-ups: the next step asks again
            gate = call_gates.compute_gate_in_transaction(
                tx, self.sources, run, tool, facts, call=call
            )
            match gate:
                case Deny(reason=reason):
                    note = f"policy now forbids it: {reason}"
                    if not self.outcomes.mark_rerun_unknown(tx, run, call, note):
                        output = now_forbidden_output(reason)
                        ends: dict[str, Any] = {"at": now, "output": output, "note": note}
                        moves.change_call_status(tx, call, C.INVALIDATED, actor="policy", **ends)
                    return False
                case Ask() if gate != seen:
                    return gate
                case Ask() if not (enough and self._use_grant_if_any(tx, call, gate, now)):
                    by_grant = call_gates.build_invalid_grant_reapproval
                    build = by_grant if call.grant_id else call_gates.build_policy_change_reapproval
                    self.outcomes.return_call_to_pending(tx, run, call, build(call, gate))
                    return False
            change_details: dict[str, Any] = {"draws": False, "data": {"digest": call.digest}}
            if tool.action:
                change_details |= {"draws": True, "held_until": now + programs.CLAIM_LEASE_DURATION}
            return moves.change_call_status(
                tx, call, C.RUNNING, at=now, actor="worker", **change_details
            )

    def _ask_again_if_too_old(self, run: Run, call: Call, args: BaseModel) -> bool:
        """Ask people again about a call approved too long ago, or invalidate it; True if so."""
        if not call_state.is_approval_expired(call, self.sources.clock.now()):
            return False
        why = call_gates.describe_expired_approval(call)
        if not isinstance(load_gate(call.gate), Ask):  # somebody has had it run again
            self.outcomes.mark_call_invalidated(run, call, why)
            return True
        again = self.outcomes.build_reapproval_or_refusal(run, call, args, why)
        if not isinstance(again, call_gates.ReapprovalRequest):
            self.outcomes.mark_call_invalidated(run, call, again.message)
            return True
        with self.sources.store.write() as tx:
            runs.get_run_with_fence(tx, run.id, run.fence)
            return self.outcomes.return_call_to_pending(tx, run, call, again)

    def _use_grant_if_any(self, tx: Transaction, call: Call, gate: Ask, now: datetime) -> bool:
        """Use the call's grant once, if it has one; return False if the grant does not hold."""
        return not call.grant_id or consume_grant(tx, self.sources.policy, call, gate, now)

    def _is_approval_sufficient(self, run: Run, approved: calls.CallWithVotes, gate: Ask) -> bool:
        """Return whether the call's votes or grant suffice under this gate. May ask Slack."""
        if not approved.call.grant_id:
            return self._has_enough_votes(run, approved, gate)
        with self.sources.store.read() as tx:
            delegator = call_state.find_grant_author_id(tx, approved.call)
        return may_approve_alone(self.authority, run, gate, delegator)

    def _has_enough_votes(self, run: Run, approved: calls.CallWithVotes, gate: Ask) -> bool:
        """Return whether the votes meet the gate that now applies.

        Looks people up in Slack if the gate's terms differ from those that were shown.
        """
        call, votes = approved.call, approved.votes
        shown_gate = load_gate(call.gate)
        if not isinstance(shown_gate, Ask) or gate.run_at not in (None, shown_gate.run_at):
            return False
        good_for = timedelta(seconds=gate.good_for)
        if call.decided_at and self.sources.clock.now() > call.decided_at + good_for:
            return False
        in_time, reasons = timedelta(seconds=gate.deadline), gate.reasons in ("approve", "always")
        votes = tuple(
            each
            for each in votes
            if call_state.measure_waiting_time(gate, call, each.created_at) < in_time
            if not reasons
            or each.verb != CallVerb.APPROVE
            or is_reason_in_own_words(each.verb, each.reason)
        )
        if shown_gate.counts_votes_like(gate):
            return call_state.tally_votes(shown_gate, votes).outcome is VoteOutcome.APPROVED
        against = sum(each.verb is CallVerb.REJECT for each in votes)
        if against >= gate.veto:
            return False
        # a break-glass vote counts even after the deadline, if the call waited for its start time
        if alone := call_state.find_break_glass_vote(approved.votes):
            permission = self.authority.may_break_glass(
                gate, alone.person, requester=run.requester, channel=run.channel
            )
            signed = bool(alone.passkey_id) or not gate.wants_signature
            if alone in votes or not (signed and isinstance(permission, Permission)):
                return signed and isinstance(permission, Permission)
        try:
            return self.authority.is_gate_met(
                gate,
                call_state.list_approvers_with_response_times(gate, call, votes),
                requester=run.requester,
                editors=approved.editors,
                channel=run.channel,
                signers=call_state.list_signers(votes),
            )
        except LookupFailedError:
            return False

    def recover_interrupted_call(self, run: Run, call: Call) -> None:
        """Run a call left RUNNING by a dead worker again if that is safe, else mark it UNKNOWN."""
        tool = self.tools.find_tool_of_call(call)
        self.elicitations.end_earlier_questions(run, call)
        if (
            tool is not None
            and tool.idempotent
            and not call_state.is_approval_expired(call, self.sources.clock.now())
        ):
            self.execute_call(run, call)
            return
        with self.sources.store.write() as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            self.outcomes.mark_call_unknown(
                tx, held, call, "Countersign stopped while it was running"
            )
