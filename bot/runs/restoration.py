"""Settles what was open in a record that is an older copy, such as a restored backup.

What happened since the backup is unknown, so nothing goes on by itself: calls that wait for people
are asked again with new buttons, calls that may have run become UNKNOWN, runs without a call to ask
about are cancelled, and grants and unsettled deliveries are void.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bot.agent import outputs
from bot.approvals.call_gates import build_reapproval
from bot.approvals.call_state import compute_next_revision_digest
from bot.cards.call_pieces import RESTORED_RECORD_NOTE
from bot.clock import Clock
from bot.policy.gates import Ask, load_gate
from bot.runs.endings import CallOutcomeStore, compute_resolution_deadline
from bot.tools import Registry
from storage import (
    call_outputs,
    calls,
    decisions,
    endings,
    grants,
    inbox,
    moves,
    outbox,
    record_copies,
    runs,
    sub_agents,
    trail,
)
from storage.record import Call, Run, Store, Transaction
from storage.states import CallStatus, RunStatus

# Notices to people about the restored record.


def restored_run_notice(waits: bool) -> str:
    """Return the notice for the thread of a run that was open in a restored record."""
    text = "My data may be an older copy now, and what happened to this request since is unknown. "
    return text + (
        "I am asking again what was open. First check whether it was done already."
        if waits
        else "I stop here. Check what was done, and ask again for what you still want."
    )


def restored_backup_notice() -> str:
    """Return the notice for a person whose message or click was unsettled in a restored record."""
    return (
        "My data may be an older copy now, so what you last did here may be lost. "
        "Check whether it was done, and do it again if not."
    )


log = logging.getLogger("countersign.restored")
C, R = CallStatus, RunStatus


@dataclass(frozen=True, slots=True)
class RestoredRecordSettler:
    """Settles what was open in a restored record; used once, at the start, before anything else."""

    store: Store
    clock: Clock
    tools: Registry
    key: bytes
    outcomes: CallOutcomeStore
    show_run_end: Callable[[Run], None]  # shows that a request is over; it never fails

    def settle_work_if_restored(self) -> None:
        """Settle open deliveries and runs in one transaction, if the record is an older copy."""
        why, now = self.store.mismatch_reason, self.clock.now()
        if not why:
            return
        log.error("the record may be an older one: %s; what was open is asked again", why)
        with self.store.write() as tx:
            # one of several processes may have settled everything before this one
            first = record_copies.delete_copy_note(tx) or not self.store.is_multi_process
            over = self._settle_and_list_ended_runs(tx, why, now) if first else []
        self.store.accept_rows_despite_mismatch()
        for run in over:
            if not run.parent_call:
                self.show_run_end(run)

    def _settle_and_list_ended_runs(self, tx: Transaction, why: str, now: datetime) -> list[Run]:
        """Settle deliveries, grants and runs of a restored record; return the runs that ended."""
        trail.record_event(tx, "record.restored", at=now, actor="system", data={"why": why})
        for delivery in inbox.list_new_and_held_deliveries(tx):
            inbox.mark_delivery_done(tx, delivery, "the record was restored from an older copy")
            if delivery.user:
                text, key = restored_backup_notice(), f"restored:{delivery.key}"
                outbox.queue_private_reply(tx, delivery, text, key=key)
        grants.revoke_all_grants(tx, now)
        # sub-agents' runs come before the runs that wait for them
        found = sorted(
            runs.list_open_and_failed_runs(tx),
            key=lambda run: -sub_agents.count_nesting_levels(tx, run),
        )
        return [run for run in found if not self._settle_run(tx, run, now)]

    def _settle_run(self, tx: Transaction, run: Run, now: datetime) -> bool:
        """Settle what was open in a run; return False if the run ended by it."""
        plans = calls.list_open_plans(tx, run.id)
        for plan in plans:
            for call in calls.list_calls_of_plan(tx, plan.id):
                self._ask_again_or_invalidate(tx, run, call, now)
        waits = calls.is_run_blocked(tx, run.id)
        if run.status is R.FAILED:  # only a person can resume it
            return True
        if run.status is not R.READY:  # a worker then posts what people are asked again
            moves.change_run_status(
                tx, run, R.READY, at=now, actor="system", data={"why": RESTORED_RECORD_NOTE}
            )
        if not waits:
            endings.cancel_run(tx, runs.get_run(tx, run.id), at=now, actor="system")
        if run.parent_call:
            if not waits:
                output_text = call_outputs.stopped_sub_agent_output(
                    RESTORED_RECORD_NOTE, sub_agents.list_non_reading_sub_agent_calls(tx, run)
                )
                sub_agents.end_call_of_sub_agent(
                    tx,
                    run,
                    C.CANCELLED,
                    at=now,
                    actor="system",
                    output=output_text,
                    note=RESTORED_RECORD_NOTE,
                )
            return waits
        text = restored_run_notice(waits)
        outbox.queue_notice(
            tx, run, f"restored:{run.id}:{trail.get_audit_head(tx).seq}", {"text": text}
        )
        return waits

    def _ask_again_or_invalidate(
        self, tx: Transaction, run: Run, call: Call, now: datetime
    ) -> None:
        """Have people asked again about an open call; invalidate it if nobody was asked before."""
        gate = load_gate(call.gate)
        tool = self.tools.find_tool_of_call(call)
        match call.status:
            case C.APPROVED if trail.was_outcome_unknown(tx, call):
                self._mark_unknown_and_ask(tx, run, call, now)
            case C.PENDING | C.APPROVED if isinstance(gate, Ask) and tool is not None:
                self.outcomes.return_call_to_pending(
                    tx, run, call, build_reapproval(call, gate, RESTORED_RECORD_NOTE)
                )
            case C.PENDING | C.APPROVED:
                output = outputs.invalidated_output(RESTORED_RECORD_NOTE)
                moves.change_call_status(
                    tx,
                    call,
                    C.INVALIDATED,
                    at=now,
                    actor="system",
                    output=output,
                    note=RESTORED_RECORD_NOTE,
                )
            case C.RUNNING | C.UNKNOWN:
                self._mark_unknown_and_ask(tx, run, call, now)

    def _mark_unknown_and_ask(self, tx: Transaction, run: Run, call: Call, now: datetime) -> None:
        """Mark the call UNKNOWN and have people asked how it ended, by a new revision.

        The buttons on older cards do not have that revision.
        """
        deadline = compute_resolution_deadline(call, now)
        if call.status is not C.UNKNOWN:
            moves.change_call_status(
                tx,
                call,
                C.UNKNOWN,
                at=now,
                actor="system",
                output=outputs.UNKNOWN,
                note=RESTORED_RECORD_NOTE,
                deadline=deadline,
            )
        unknown = calls.get_call(tx, call.id)
        digest = compute_next_revision_digest(tx, self.key, run, call, self.tools)
        if not digest or unknown.deadline is None:
            return
        decisions.return_call_to_pending(
            tx,
            unknown,
            at=now,
            actor="system",
            why=RESTORED_RECORD_NOTE,
            deadline=deadline,
            digest=digest,
        )
