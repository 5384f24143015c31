"""Stores how an execution ended: the call's status, its output, and what the run does next.

People are asked again, with a new revision, if what they were shown no longer holds: policy has
become stricter, or the tool found that it would do something else, and did nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel

from bot.agent import outputs
from bot.approvals import call_gates, call_state
from bot.approvals.card_routing import remove_calls_from_cards
from bot.cards.call_pieces import RESTORED_RECORD_NOTE
from bot.policy.gates import ADD_PASSKEY, Ask, Deny, combine_gates, dump_gate, load_gate
from bot.runs.results import is_answer_to_come, post_call_outcome, post_table
from bot.runs.sub_agent_runs import hand_call_to_sub_agent
from bot.signals import Signals
from bot.tools import Effect, Registry, ToolError, runner
from bot.tools.preview import PreviewRunner
from storage import call_history, calls, decisions, endings, moves, passkeys, runs, trail
from storage.record import Call, Run, Transaction, retry_until_stored
from storage.states import CallStatus, RunStatus

log = logging.getLogger("countersign.endings")
C = CallStatus
# how long people have to say what became of a call, if its gate sets no deadline
UNKNOWN_OUTCOME_WAIT_DURATION = timedelta(hours=1)
PASSKEY_REVOKED_NOTE = "the passkey was revoked before it counted"
RunWithCalls = tuple[Run, list[Call]]  # a run of this worker, and the calls of its open plan
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallOutcomeStore:
    """Stores the outcomes of executed calls, and asks people again; for any thread."""

    sources: call_gates.PolicyFactSources
    tools: Registry
    signals: Signals
    previews: PreviewRunner
    key: bytes  # signs the digests of calls that people are asked about again

    def build_reapproval_or_refusal(
        self, run: Run, call: Call, args: BaseModel, why: str
    ) -> call_gates.ReapprovalRequest | runner.ToolFailure:
        """Return the request to ask people again about a call that did nothing, or why it fails.

        `why`: why the call did nothing. It fails if policy forbids it now, if nobody had to be
        asked, or if its preview says that it would fail.
        """
        tool = self.tools.get_call_tool_even_if_off(call)
        shown_gate = load_gate(call.gate)
        now = call_gates.compute_gate(self.sources, run, tool, args, call=call)
        if isinstance(now, Deny):
            return runner.ToolFailure(
                f"{why} Nothing was done, and policy now forbids it: {now.reason}"
            )
        # even if policy now allows the call, the people who were asked before are asked again
        gate = now if isinstance(now, Ask) else shown_gate
        if isinstance(now, Ask) and isinstance(shown_gate, Ask):
            gate = combine_gates(shown_gate, now)
        if not isinstance(gate, Ask):
            return runner.ToolFailure(f"{why} Nothing was done.")
        context = call_state.build_tool_context(run, call, self.sources.clock.now())
        try:
            preview = self.previews.run_preview(tool, args, context)
            preview = call_gates.allow_full_preview_in_thread(self.sources, run, preview)
        except ToolError as error:
            return runner.ToolFailure(f"{why} {error}")
        return call_gates.ReapprovalRequest(gate, preview, why, "worker")

    def return_call_to_pending(
        self, tx: Transaction, run: Run, call: Call, request: call_gates.ReapprovalRequest
    ) -> bool:
        """Put a call back to PENDING as a new revision, and take it off its card.

        The worker then makes a new card. Returns False if the call has changed meanwhile. If the
        call was to run again, people are asked what became of it instead. A call of a restored
        record may have been done since, which each of its cards says.
        """
        if self.mark_rerun_unknown(tx, run, call, request.reason):
            return True
        reason = request.reason
        if reason != RESTORED_RECORD_NOTE and _was_asked_after_restoration(tx, call):
            reason = f"{RESTORED_RECORD_NOTE}; {reason}"
        now, gate, preview = self.sources.clock.now(), dump_gate(request.gate), request.preview
        digest = call_state.compute_next_revision_digest(
            tx, self.key, run, call, self.tools, gate=gate, expects=preview.expects
        )
        is_asked = bool(digest) and decisions.return_call_to_pending(
            tx,
            call,
            at=now,
            actor=request.actor,
            why=reason,
            deadline=request.gate.compute_due_time(now, request.gate.deadline),
            digest=digest,
            gate=gate,
            next_at=call_state.find_next_notification_time(request.gate, now),
            **call_state.dump_preview_to_call_columns(preview),
        )
        if is_asked:
            remove_calls_from_cards(tx, call.plan_id, {call.id})
        return is_asked

    def store_outcome(
        self, run: Run, shown: calls.CallWithVotes, args: BaseModel, outcome: Any
    ) -> RunWithCalls:
        """Store how a call of this run ended, retrying until the database accepts it.

        Returns the run and the calls of its open plan afterwards. Raises moves.StaleFenceError if
        the run was taken away: the result is then only recorded in the audit. If the process stops
        first, raises the database's error: the call stays RUNNING, and the next start makes it
        UNKNOWN.
        """
        call, what = shown.call, f"run {run.id} call {shown.call.id}"
        final_outcome = outcome
        if isinstance(outcome, runner.StaleToolCall):
            why = outcome.message
            final_outcome = self._retry_until_stored(
                lambda: self.build_reapproval_or_refusal(run, call, args, why),
                f"{what}: what it is to be asked again",
            )
        call.status = C.RUNNING
        run_with_calls = self._retry_until_stored(
            lambda: self._try_store_outcome(run, shown, final_outcome),
            f"{what}: its result ({type(final_outcome).__name__})",
        )
        if isinstance(outcome, runner.ToolTimeout):
            self._watch_for_late_result(run, call, outcome.future)
        self.signals.outbox.notify()
        if self._is_sub_agent_call(call):
            self.signals.work.notify()  # the sub-agent's run is READY
        if run_with_calls is None:
            raise moves.StaleFenceError(run.id)
        return run_with_calls

    def _retry_until_stored(self, work: Callable[[], T], what: str) -> T:
        return retry_until_stored(work, self.signals.stopping, what)

    def _try_store_outcome(
        self, run: Run, shown: calls.CallWithVotes, outcome: Any
    ) -> RunWithCalls | None:
        """Store a call's outcome; return the run and its open plan's calls, or None.

        None if the run was taken away from this worker.
        """
        with self.sources.store.write() as tx:
            current = runs.get_run(tx, run.id)
            if current.fence != run.fence:
                self._record_late_result(tx, run, shown.call, type(outcome).__name__)
                return None
            going_on = current.status is not RunStatus.CANCELLED
            plan = self._apply_outcome(tx, current, shown, outcome, going_on=going_on)
            if not going_on:
                endings.close_plans_of_ended_run(tx, current, at=self.sources.clock.now())
            elif runs.close_plan_if_all_final(
                tx, current, plan, at=self.sources.clock.now()
            ):  # that was the plan's last call
                plan = calls.list_calls_of_open_plan(tx, run.id)
            return current, plan

    def mark_call_unknown(self, tx: Transaction, run: Run, call: Call, why: str) -> None:
        """Mark a call's outcome UNKNOWN and post that, with a deadline for people to resolve it.

        Nobody is asked if the run was cancelled.
        """
        self._set_unknown_with_deadline(tx, call, why)
        if shown := calls.find_call_with_votes(tx, call):
            self._post_outcome(tx, run, shown)
        if run.status is RunStatus.CANCELLED:
            endings.close_plans_of_ended_run(tx, run, at=self.sources.clock.now())

    def mark_rerun_unknown(self, tx: Transaction, run: Run, call: Call, why: str) -> bool:
        """Mark a call UNKNOWN again that was to run once more and may not; False for any other.

        That it was not run would not be true: its first start may have had its effect.
        """
        if call.status is C.PENDING or not trail.was_outcome_unknown(tx, call):
            return False
        self.mark_call_unknown(tx, run, call, f"not run again: {why}")
        return True

    def store_program_reported_outcome(
        self, tx: Transaction, run: Run, shown: calls.CallWithVotes, outcome: Any
    ) -> None:
        """Store the outcome reported by the program that executed the call; let the run go on."""
        self._apply_outcome(tx, run, shown, outcome, going_on=run.status is not RunStatus.CANCELLED)
        self._resume_or_close_run(tx, run)

    def _resume_or_close_run(self, tx: Transaction, run: Run) -> None:
        """Let a run go on after a program executed its call; close its plans if cancelled."""
        if run.status is not RunStatus.CANCELLED:
            moves.resume_run_if_unblocked(tx, run.id, at=self.sources.clock.now(), actor="worker")
        else:
            endings.close_plans_of_ended_run(tx, run, at=self.sources.clock.now())

    def mark_call_unknown_after_handover(
        self, tx: Transaction, run: Run, shown: calls.CallWithVotes, why: str
    ) -> None:
        """Mark the call UNKNOWN because its program handed the work on; ask nobody about it."""
        moves.change_call_status(
            tx,
            shown.call,
            C.UNKNOWN,
            at=self.sources.clock.now(),
            actor="worker",
            data={"why": why, "handed_on": True},
            output=outputs.UNKNOWN,
            note=why,
            deadline=None,
            held_until=None,
        )
        self._post_outcome(tx, run, shown)
        self._resume_or_close_run(tx, run)

    def _set_unknown_with_deadline(self, tx: Transaction, call: Call, why: str) -> None:
        now = self.sources.clock.now()
        moves.change_call_status(
            tx,
            call,
            C.UNKNOWN,
            at=now,
            actor="worker",
            data={"why": why},
            output=outputs.UNKNOWN,
            note=why,
            deadline=compute_resolution_deadline(call, now),
        )

    def _post_outcome(self, tx: Transaction, run: Run, shown: calls.CallWithVotes) -> list[Call]:
        """Post a call's outcome unless the model's answer will tell it; return its plan's calls."""
        plan = calls.list_calls_of_plan(tx, shown.call.plan_id)
        ended = next(each for each in plan if each.id == shown.call.id)
        shown = replace(shown, call=ended)
        post_call_outcome(tx, self.tools, run, shown, answered=is_answer_to_come(run))
        return plan

    def mark_call_invalidated(self, run: Run, call: Call, why: str) -> None:
        """Mark an approved call INVALIDATED, or UNKNOWN if it had already started before a crash.

        `why`: what no longer matches what people were shown. Raises moves.StaleFenceError if the
        run was taken away.
        """
        log.error("run %s call %s: refused to run: %s", run.id, call.id, why)
        with self.sources.store.write() as tx:
            current_run = runs.get_run_with_fence(tx, run.id, run.fence)
            # it had started before a crash, and can no longer be run again safely
            if call.status is C.RUNNING:
                self.mark_call_unknown(tx, current_run, call, why)
            elif not self.mark_rerun_unknown(tx, current_run, call, why):
                moves.change_call_status(
                    tx,
                    call,
                    C.INVALIDATED,
                    at=self.sources.clock.now(),
                    actor="worker",
                    data={"why": why},
                    output=outputs.invalidated_output(why),
                    note=why,
                )

    def _apply_outcome(
        self, tx: Transaction, run: Run, shown: calls.CallWithVotes, outcome: Any, *, going_on: bool
    ) -> list[Call]:
        """Store the outcome of the call and post it; return the calls of its plan afterwards."""
        call, now = shown.call, self.sources.clock.now()
        reads = call.does == Effect.READ
        ran = _describe_approval(shown)

        def end(target: CallStatus, output: str, note: str) -> None:
            moves.change_call_status(
                tx, call, target, at=now, actor="worker", finished_at=now, output=output, note=note
            )

        match outcome:
            case runner.ToolSuccess(output=text) if self._is_sub_agent_call(call):
                if going_on:
                    hand_call_to_sub_agent(tx, run, call, text, at=now)
                else:
                    why = "the request was cancelled before the sub-agent had begun"
                    end(C.FAILED, outputs.failed_output(f"{why}."), why)
            case runner.ToolSuccess() if not _let_approved_passkey_count(tx, run, shown, now):
                why = PASSKEY_REVOKED_NOTE
                end(C.FAILED, outputs.failed_output(f"{why}."), why)
            case runner.ToolSuccess(output=text, summary=summary):
                end(C.SUCCEEDED, outputs.succeeded_output(ran, text), summary)
            case call_gates.ReapprovalRequest() as renewal:
                if not going_on or not self.return_call_to_pending(tx, run, call, renewal):
                    output = outputs.cannot_ask_again_output(renewal.reason, ran)
                    end(C.FAILED, output, renewal.reason)
            case runner.ToolFailure(message, certain=False):
                call_history.record_possible_effect(tx, call, now)
                end(C.FAILED, outputs.failed_midway_output(message, ran), message)
            case runner.ToolFailure(message):
                end(C.FAILED, outputs.failed_output(message, ran), message)
            case runner.LostToolAnswer(message=message) if reads:
                end(C.FAILED, outputs.failed_output(message), message)
            case runner.ToolTimeout() if reads:
                end(C.FAILED, outputs.failed_output(f"{outputs.TOO_SLOW}."), outputs.TOO_SLOW)
            case runner.LostToolAnswer(message=message):
                self._set_unknown_with_deadline(tx, call, message)
            case runner.ToolTimeout():
                why = f"{outputs.TOO_SLOW}, and may still be going on"
                self._set_unknown_with_deadline(tx, call, why)
            case _:
                raise TypeError(f"unknown outcome {outcome!r}")
        plan = self._post_outcome(tx, run, shown)
        if isinstance(outcome, runner.ToolSuccess) and outcome.table is not None and going_on:
            post_table(tx, run, call, outcome.table)
        return plan

    def _is_sub_agent_call(self, call: Call) -> bool:
        tool = self.tools.find_tool_of_call(call)
        return tool is not None and tool.agent is not None

    def _watch_for_late_result(self, run: Run, call: Call, future: Future[Any]) -> None:
        """Record a result that arrives after the time-out in the audit; it changes nothing else."""

        def late(done: Future[Any]) -> None:
            with self.sources.store.write() as tx:
                self._record_late_result(
                    tx, run, call, "raised" if done.exception() else "returned"
                )

        future.add_done_callback(late)

    def _record_late_result(self, tx: Transaction, run: Run, call: Call, outcome: str) -> None:
        """Record in the audit that a result came too late to count."""
        trail.record_event(
            tx,
            "call.late",
            at=self.sources.clock.now(),
            actor="worker",
            run_id=run.id,
            call_id=call.id,
            data={"outcome": outcome},
        )


def compute_resolution_deadline(call: Call, now: datetime) -> datetime:
    """Return until when people who are asked now may say what became of the call."""
    gate = load_gate(call.gate)
    if isinstance(gate, Ask):
        return gate.compute_due_time(now, gate.deadline)
    return now + UNKNOWN_OUTCOME_WAIT_DURATION


def _let_approved_passkey_count(
    tx: Transaction, run: Run, shown: calls.CallWithVotes, at: datetime
) -> bool:
    """Make the passkey valid whose addition this call approved; False if it is no longer there.

    True for calls that are about no passkey.
    """
    if shown.call.tool != ADD_PASSKEY or shown.call.action:
        return True
    told = json.loads(shown.revision.arguments)
    event, call_id = "passkey.counts", shown.call.id
    return any(
        passkeys.update_passkey(tx, row, event, at, "worker", counts_from=at, call_id=call_id)
        for row in passkeys.list_passkeys(tx, run.team, person=run.requester)
        if (told["person"], told["fingerprint"]) == (row.person, row.fingerprint)
    )


def _describe_approval(shown: calls.CallWithVotes) -> str:
    """Return, for the model, who approved the call, their notes, and the values if edited."""
    call = shown.call
    votes = call_state.list_approving_votes(shown.votes)
    alone = call_state.find_break_glass_vote(shown.votes)
    text = outputs.unapproved_sentence(alone.person, alone.reason) if alone else ""
    text += outputs.approved_by_sentence(vote.person for vote in votes)
    text += "".join(
        outputs.approver_note_sentence(vote.person, vote.reason) for vote in votes if vote.reason
    )
    if call.grant_id:
        text += outputs.REMEMBERED_APPROVAL_SENTENCE
    if shown.editors:
        text += outputs.edited_by_sentence(shown.editors, shown.revision.arguments)
    return text


def _was_asked_after_restoration(tx: Transaction, call: Call) -> bool:
    """Return whether people were asked about the call because the record was put back."""
    return any(
        RESTORED_RECORD_NOTE in trail.get_audit_row_data(row).get("why", "")
        for row in trail.list_audit_rows_of_request(tx, call.id)
    )
