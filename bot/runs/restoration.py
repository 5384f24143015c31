"""Restores a record that is older than the last process, as after a backup was restored.

What happened since the backup is unknown, so nothing goes on by itself: calls that wait for people
are asked again with new buttons, calls that may have run become UNKNOWN, runs without a call to ask
about are cancelled, and grants and unsettled deliveries are void.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.agent import outputs
from bot.approvals.call_gates import as_it_was
from bot.approvals.call_state import as_asked_again
from bot.clock import Clock
from bot.policy.gates import Ask, load_gate
from bot.runs import reapproval
from bot.runs.endings import UNKNOWN_WAIT
from bot.tools import Registry
from storage import (
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
from storage.models import Call, Run
from storage.states import CallStatus, RunStatus
from storage.store import Store
from storage.transaction import Transaction

# Notices to people about the restored record.


def restored_run_notice(waits: bool) -> str:
    """Return the notice for the thread of a run that was open in a restored record."""
    text = (
        "My data was restored from a backup, and what happened to this request since is unknown. "
    )
    return text + (
        "I am asking again what was open. First check whether it was done already."
        if waits
        else "I stop here. Check what was done, and ask again for what you still want."
    )


def lost_delivery_notice() -> str:
    """Return the notice for a person whose message or click was unsettled in a restored record."""
    return (
        "My data was restored from a backup, so what you last did here may be lost. "
        "Check whether it was done, and do it again if not."
    )


log = logging.getLogger("countersign.restored")
C, R = CallStatus, RunStatus
WHY = "the record was put back from an older copy, and this may have been done since"


@dataclass(frozen=True, slots=True)
class Restoration:
    """Settles what was open in a restored record; used once, at the start, before anything else."""

    store: Store
    clock: Clock
    tools: Registry
    key: bytes
    ended: Callable[[Run], None]  # shows that a request is over; it never fails

    def take_up(self) -> None:
        """Settle, in one transaction, all that was open, if the record is an older copy."""
        why, now = self.store.astray, self.clock.now()
        if not why:
            return
        log.error("the record is older than its last life: %s; what was open is asked again", why)
        with self.store.write() as tx:
            # on a server another process may have been faster
            first = record_copies.delete_copy_note(tx) or not self.store.shared
            over = self._over(tx, why, now) if first else []
        self.store.accept()
        for run in over:
            if not run.parent_call:
                self.ended(run)

    def _over(self, tx: Transaction, why: str, now: datetime) -> list[Run]:
        """Settle all that was open; return the runs that ended by it."""
        trail.record(tx, "record.restored", at=now, actor="system", data={"why": why})
        for delivery in inbox.unsettled_deliveries(tx):
            inbox.settle_delivery(tx, delivery, "the record was put back from an older copy")
            if delivery.user:
                outbox.put_private(
                    tx,
                    f"restored:{delivery.key}",
                    channel=delivery.channel or delivery.user,
                    thread_ts=delivery.thread_ts,
                    person=delivery.user,
                    text=lost_delivery_notice(),
                )
        grants.revoke_all_grants(tx, now)
        # sub-agents before those who wait for them
        found = sorted(runs.unfinished(tx), key=lambda run: -sub_agents.nesting_depth(tx, run))
        return [run for run in found if not self._goes_on(tx, run, now)]

    def _goes_on(self, tx: Transaction, run: Run, now: datetime) -> bool:
        """Settle what was open in a run; return False if the run ended by it."""
        plans = calls.open_plans(tx, run.id)
        for plan in plans:
            for call in calls.of_plan(tx, plan.id):
                self._ask(tx, run, call, now)
        waits = calls.run_waits(tx, run.id)
        if run.status is R.FAILED:  # only a person takes it up again
            return True
        outbox.close_streams(tx, run.id)
        if run.status is not R.READY:  # a worker shows what is asked again
            moves.run(tx, run, R.READY, at=now, actor="system", data={"why": WHY})
        if not waits:
            ready = runs.get(tx, run.id)
            assert ready is not None
            endings.cancel_run(tx, ready, at=now, actor="system", words=outputs)
        if run.parent_call:
            if not waits:
                end, said = C.CANCELLED, outputs.stopped(WHY, sub_agents.recorded_actions(tx, run))
                sub_agents.hand_in_result(
                    tx, run, end, at=now, actor="system", output=said, note=WHY
                )
            return waits
        text = restored_run_notice(waits)
        outbox.notice(tx, run, f"restored:{run.id}:{trail.head(tx).seq}", {"text": text})
        return waits

    def _ask(self, tx: Transaction, run: Run, call: Call, now: datetime) -> None:
        """Have people asked again about an open call; invalidate it if it has no gate that asks."""
        gate, tool = load_gate(call.gate), self.tools.of(call)
        match call.status:
            case C.PENDING | C.APPROVED if isinstance(gate, Ask) and tool is not None:
                again = as_it_was(call, gate, WHY)
                reapproval.ask_again(tx, run, call, again, tool, self.key, now)
            case C.PENDING | C.APPROVED:
                output = outputs.invalidated(WHY)
                moves.call(tx, call, C.INVALIDATED, at=now, actor="system", output=output, note=WHY)
            case C.RUNNING | C.UNKNOWN:
                self._doubt(tx, run, call, now)

    def _doubt(self, tx: Transaction, run: Run, call: Call, now: datetime) -> None:
        """Mark the call UNKNOWN and ask about it with buttons that older cards do not have."""
        gate = load_gate(call.gate)
        wait = timedelta(seconds=gate.deadline) if isinstance(gate, Ask) else UNKNOWN_WAIT
        if call.status is C.RUNNING:
            moves.call(
                tx,
                call,
                C.UNKNOWN,
                at=now,
                actor="system",
                output=outputs.UNKNOWN,
                note=WHY,
                deadline=now + wait,
            )
        unknown = calls.get(tx, call.id)
        digest = as_asked_again(tx, self.key, run, call, self.tools)
        if not digest or unknown is None or unknown.deadline is None:
            return
        decisions.ask_again(
            tx, unknown, at=now, actor="system", why=WHY, deadline=now + wait, digest=digest
        )
