"""Stores how an execution ended: the call's status, its output, and what the run does next."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bot.agent import outputs, prompt
from bot.approvals.call_gates import ReapprovalRequest
from bot.approvals.call_state import list_approving_votes
from bot.clock import Clock
from bot.policy.gates import Ask, load_gate
from bot.runs.results import post_approved_call_outcome, post_table
from bot.signals import Signals
from bot.tools import Effect, Registry
from bot.tools.runner import LostToolAnswer, ToolFailure, ToolRefusal, ToolSuccess, ToolTimeout
from storage import call_history, calls, endings, moves, runs, trail
from storage import sub_agents as children
from storage.models import Call, Run
from storage.states import CallStatus, CallVerb, RunStatus
from storage.store import Store, retry_until_stored
from storage.transaction import Transaction

log = logging.getLogger("countersign.endings")
C = CallStatus
# how long people have to say what became of a call that no gate gives a deadline
UNKNOWN_WAIT = timedelta(hours=1)
RunWithCalls = tuple[Run, list[Call]]  # a run of this worker, and the calls of its open plan
Renew = Callable[[Transaction, Run, Call, ReapprovalRequest], bool]


class CallOutcomeStore:
    """Stores the outcomes of executed calls; one instance per executor."""

    def __init__(
        self, store: Store, clock: Clock, signals: Signals, tools: Registry, renew: Renew
    ) -> None:
        """`renew` has a call asked again, within the given transaction; `tools` word outcomes."""
        self._store = store
        self._tools = tools
        self._clock = clock
        self._signals = signals
        self._renew = renew

    def store_outcome(self, run: Run, shown: calls.ApprovedCall, outcome: Any) -> RunWithCalls:
        """Store how a call of this run ended, retrying until the database accepts it.

        Returns the run and the calls of its open plan afterwards. Raises moves.StaleFenceError if
        the run was taken away: the result is then only recorded in the audit. If the process stops
        first, raises the database's error: the call stays RUNNING, and the next start makes it
        UNKNOWN.
        """
        call, ended = shown.call, type(outcome).__name__
        call.status = C.RUNNING
        what = f"run {run.id} call {call.id}: its result ({ended})"
        held = retry_until_stored(
            lambda: self._try_store_outcome(run, shown, outcome), self._signals.stopping, what
        )
        if isinstance(outcome, ToolTimeout):
            self._watch_for_late_result(run, call, outcome.future)
        self._signals.outbox.notify()
        if self._is_sub_agent_call(call):
            self._signals.work.notify()  # its run is ready
        if held is None:
            raise moves.StaleFenceError(run.id)
        return held

    def _try_store_outcome(
        self, run: Run, shown: calls.ApprovedCall, outcome: Any
    ) -> RunWithCalls | None:
        """Store the outcome; return None if the run no longer belongs to this worker."""
        with self._store.write() as tx:
            current = runs.find_run(tx, run.id)
            if current is None or current.fence != run.fence:
                self._record_late_result(tx, run, shown.call, type(outcome).__name__)
                return None
            going_on = current.status is not RunStatus.CANCELLED
            plan = self._apply_outcome(tx, current, shown, outcome, going_on=going_on)
            if not going_on:
                endings.close_plans_of_cancelled_run(tx, current, at=self._clock.now())
            elif runs.close_plan_if_all_final(
                tx, current, plan, at=self._clock.now()
            ):  # it was the last one
                plan = calls.list_open_calls(tx, run.id)
            return current, plan

    def mark_unknown(self, tx: Transaction, run: Run, call: Call, why: str) -> None:
        """Mark the call UNKNOWN, post that, and set the deadline until which people are asked."""
        self._set_unknown_with_deadline(tx, call, why)
        if shown := calls.find_approval_of_call(tx, call):
            self._post_outcome(tx, run, shown)

    def store_reported_outcome(
        self, tx: Transaction, run: Run, shown: calls.ApprovedCall, outcome: Any
    ) -> None:
        """Store the outcome reported by the program that executed the call; let the run go on."""
        self._apply_outcome(tx, run, shown, outcome, going_on=run.status is not RunStatus.CANCELLED)
        self._resume_or_close_run(tx, run)

    def _resume_or_close_run(self, tx: Transaction, run: Run) -> None:
        """Let the run of a call that a program executed go on, or close a cancelled run."""
        if run.status is not RunStatus.CANCELLED:
            moves.resume_run_if_unblocked(tx, run.id, at=self._clock.now(), actor="worker")
        else:
            endings.close_plans_of_cancelled_run(tx, run, at=self._clock.now())

    def mark_handed_on(
        self, tx: Transaction, run: Run, shown: calls.ApprovedCall, why: str
    ) -> None:
        """Mark the call UNKNOWN because its program handed the work on; ask nobody about it."""
        moves.change_call_status(
            tx,
            shown.call,
            C.UNKNOWN,
            at=self._clock.now(),
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
        gate = load_gate(call.gate)
        now = self._clock.now()
        until = (
            gate.compute_due_time(now, gate.deadline)
            if isinstance(gate, Ask)
            else now + UNKNOWN_WAIT
        )
        moves.change_call_status(
            tx,
            call,
            C.UNKNOWN,
            at=now,
            actor="worker",
            data={"why": why},
            output=outputs.UNKNOWN,
            note=why,
            deadline=until,
        )

    def _post_outcome(self, tx: Transaction, run: Run, shown: calls.ApprovedCall) -> list[Call]:
        """Post the outcome of the call in the thread; return the current calls of its plan."""
        plan = calls.list_calls_of_plan(tx, shown.call.plan_id)
        ended = next(each for each in plan if each.id == shown.call.id)
        post_approved_call_outcome(tx, self._tools, run, replace(shown, call=ended), plan)
        return plan

    def mark_invalidated(self, run: Run, call: Call, why: str) -> None:
        """Mark an approved call INVALIDATED, or UNKNOWN if it had already started before a crash.

        `why`: what no longer matches what people were shown. Raises moves.StaleFenceError if the
        run was taken away.
        """
        log.error("run %s call %s: refused to run: %s", run.id, call.id, why)
        with self._store.write() as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            # it had started before a crash, and can no longer be run again safely
            if call.status is C.RUNNING:
                self.mark_unknown(tx, held, call, why)
            else:
                moves.change_call_status(
                    tx,
                    call,
                    C.INVALIDATED,
                    at=self._clock.now(),
                    actor="worker",
                    data={"why": why},
                    output=outputs.invalidated_output(why),
                    note=why,
                )

    def _apply_outcome(
        self, tx: Transaction, run: Run, shown: calls.ApprovedCall, outcome: Any, *, going_on: bool
    ) -> list[Call]:
        """Store the outcome of the call and post it; return the calls of its plan afterwards."""
        call, now = shown.call, self._clock.now()
        reads = call.does == Effect.READ
        ran = _describe_approval(shown)

        def end(target: CallStatus, output: str, note: str) -> None:
            moves.change_call_status(
                tx, call, target, at=now, actor="worker", finished_at=now, output=output, note=note
            )

        match outcome:
            case ToolSuccess(output=text) if self._is_sub_agent_call(call):
                if going_on:
                    children.hand_call_to_sub_agent(
                        tx, run, call, prompt.build_task_item(run.requester, text), at=now
                    )
                else:
                    end(C.FAILED, outputs.failed_output(f"{prompt.OVER}."), prompt.OVER)
            case ToolSuccess(output=text, summary=summary):
                end(C.SUCCEEDED, outputs.succeeded_output(ran, text), summary)
            case ReapprovalRequest() as renewal:
                if not going_on or not self._renew(tx, run, call, renewal):
                    output = outputs.not_asked_again_output(renewal.reason, ran)
                    end(C.FAILED, output, renewal.reason)
            case ToolRefusal(message, certain=False) | ToolFailure(message, certain=False):
                call_history.insert_attempt(tx, call, now)
                end(C.FAILED, outputs.failed_midway_output(message, ran), message)
            case ToolRefusal(message) | ToolFailure(message):
                end(C.FAILED, outputs.failed_output(message, ran), message)
            case LostToolAnswer(message=message) if reads:
                end(C.FAILED, outputs.failed_output(message), message)
            case ToolTimeout() if reads:
                end(C.FAILED, outputs.failed_output(f"{outputs.TOO_SLOW}."), outputs.TOO_SLOW)
            case LostToolAnswer(message=message):
                self._set_unknown_with_deadline(tx, call, message)
            case ToolTimeout():
                why = f"{outputs.TOO_SLOW}, and may still be going on"
                self._set_unknown_with_deadline(tx, call, why)
            case _:
                raise TypeError(f"unknown outcome {outcome!r}")
        plan = self._post_outcome(tx, run, shown)
        if isinstance(outcome, ToolSuccess) and outcome.table is not None and going_on:
            post_table(tx, run, call, outcome.table)
        return plan

    def _is_sub_agent_call(self, call: Call) -> bool:
        tool = self._tools.find_tool_of_call(call)
        return tool is not None and tool.agent is not None

    def _watch_for_late_result(self, run: Run, call: Call, future: Future[Any]) -> None:
        """Record a result that arrives after the time-out in the audit; it changes nothing else."""

        def late(done: Future[Any]) -> None:
            with self._store.write() as tx:
                self._record_late_result(
                    tx, run, call, "raised" if done.exception() else "returned"
                )

        future.add_done_callback(late)

    def _record_late_result(self, tx: Transaction, run: Run, call: Call, outcome: str) -> None:
        """Record in the audit that a result came too late to count."""
        trail.record_event(
            tx,
            "call.late",
            at=self._clock.now(),
            actor="worker",
            run_id=run.id,
            call_id=call.id,
            data={"outcome": outcome},
        )


def _describe_approval(shown: calls.ApprovedCall) -> str:
    """Return, for the model, who approved the call, their notes, and the values if edited."""
    call = shown.call
    counted = {vote.counted_person for vote in list_approving_votes(shown.votes)}
    votes = [v for v in shown.votes if v.verb is CallVerb.APPROVE and v.counted_person in counted]
    text = outputs.approved_by_sentence(vote.person for vote in votes)
    text += "".join(
        outputs.note_sentence(vote.person, vote.reason) for vote in votes if vote.reason
    )
    if call.grant_id:
        text += outputs.REMEMBERED
    if shown.editors:
        text += outputs.edited_by_sentence(shown.editors, shown.revision.arguments)
    return text
