"""Stores how an execution ended: the call's status, its output, and what the run does next."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bot.agent import outputs, prompt
from bot.approvals.call_gates import Renewal
from bot.approvals.call_state import approving
from bot.clock import Clock
from bot.policy.gates import Ask, load_gate
from bot.runs.results import put_table, say_outcome
from bot.signals import Signals
from bot.tools import Effect, Registry
from bot.tools.runner import LostToolAnswer, ToolFailure, ToolRefusal, ToolSuccess, ToolTimeout
from storage import calls, endings, moves, runs, spending, trail
from storage import sub_agents as children
from storage.availability import until_stored
from storage.models import Call, Run
from storage.states import CallStatus, RunStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.endings")
C = CallStatus
# how long people have to say what became of a call that no gate gives a deadline
UNKNOWN_WAIT = timedelta(hours=1)
Held = tuple[Run, list[Call]]  # a run of this worker, and the calls of its open plan
Renew = Callable[[Transaction, Run, Call, Renewal], bool]


class Endings:
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

    def finish(self, run: Run, shown: calls.ApprovedCall, outcome: Any) -> Held:
        """Store how a call of this run ended, retrying until the database accepts it.

        Returns the run and the calls of its open plan afterwards. Raises moves.FencedError if the
        run was taken away: the result is then only recorded in the audit. If the process stops
        first, raises the database's error: the call stays RUNNING, and the next start makes it
        UNKNOWN.
        """
        call, ended = shown.call, type(outcome).__name__
        call.status = C.RUNNING
        what = f"run {run.id} call {call.id}: its result ({ended})"
        held = until_stored(lambda: self._stored(run, shown, outcome), self._signals.stopping, what)
        if isinstance(outcome, ToolTimeout):
            self._watch(run, call, outcome.future)
        self._signals.post.give()
        if self._is_sub_agent(call):
            self._signals.work.give()  # its run is ready
        if held is None:
            raise moves.FencedError(run.id)
        return held

    def _stored(self, run: Run, shown: calls.ApprovedCall, outcome: Any) -> Held | None:
        """Store the outcome; return None if the run no longer belongs to this worker."""
        with self._store.write() as tx:
            current = runs.get(tx, run.id)
            if current is None or current.fence != run.fence:
                self._late(tx, run, shown.call, type(outcome).__name__)
                return None
            going_on = current.status is not RunStatus.CANCELLED
            plan = self._write(tx, current, shown, outcome, going_on=going_on)
            if not going_on:
                endings.close_cancelled(tx, current, at=self._clock.now())
            elif runs.close_plan(tx, current, plan, at=self._clock.now()):  # it was the last one
                plan = calls.open_calls(tx, run.id)
            return current, plan

    def unknown(self, tx: Transaction, run: Run, call: Call, why: str) -> None:
        """Mark the call UNKNOWN, post that, and set the deadline until which people are asked."""
        self._not_known(tx, call, why)
        if shown := calls.approved(tx, call):
            self._say(tx, run, shown)

    def reported(self, tx: Transaction, run: Run, shown: calls.ApprovedCall, outcome: Any) -> None:
        """Store the outcome reported by the program that executed the call; let the run go on."""
        self._write(tx, run, shown, outcome, going_on=run.status is not RunStatus.CANCELLED)
        self._go_on(tx, run)

    def _go_on(self, tx: Transaction, run: Run) -> None:
        """Let the run of a call that a program executed go on, or close a cancelled run."""
        if run.status is not RunStatus.CANCELLED:
            runs.free_if_decided(tx, run.id, at=self._clock.now(), actor="worker")
        else:
            endings.close_cancelled(tx, run, at=self._clock.now())

    def handed_on(self, tx: Transaction, run: Run, shown: calls.ApprovedCall, why: str) -> None:
        """Mark the call UNKNOWN because its program handed the work on; ask nobody about it."""
        moves.call(
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
        self._say(tx, run, shown)
        self._go_on(tx, run)

    def _not_known(self, tx: Transaction, call: Call, why: str) -> None:
        gate = load_gate(call.gate)
        now = self._clock.now()
        until = gate.after(now, gate.deadline) if isinstance(gate, Ask) else now + UNKNOWN_WAIT
        moves.call(
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

    def _say(self, tx: Transaction, run: Run, shown: calls.ApprovedCall) -> list[Call]:
        """Post the outcome of the call in the thread; return the current calls of its plan."""
        plan = calls.of_plan(tx, shown.call.plan_id)
        ended = next(each for each in plan if each.id == shown.call.id)
        say_outcome(tx, self._tools, run, replace(shown, call=ended), plan)
        return plan

    def invalidated(self, run: Run, call: Call, why: str) -> None:
        """Mark an approved call INVALIDATED, or UNKNOWN if it had already started before a crash.

        `why`: what no longer matches what people were shown. Raises moves.FencedError if the run
        was taken away.
        """
        log.error("run %s call %s: refused to run: %s", run.id, call.id, why)
        with self._store.write() as tx:
            held = runs.held_by(tx, run.id, run.fence)
            # it had started before a crash, and can no longer be run again safely
            if call.status is C.RUNNING:
                self.unknown(tx, held, call, why)
            else:
                moves.call(
                    tx,
                    call,
                    C.INVALIDATED,
                    at=self._clock.now(),
                    actor="worker",
                    data={"why": why},
                    output=outputs.invalidated(why),
                    note=why,
                )

    def _write(
        self, tx: Transaction, run: Run, shown: calls.ApprovedCall, outcome: Any, *, going_on: bool
    ) -> list[Call]:
        """Store the outcome of the call and post it; return the calls of its plan afterwards."""
        call, now = shown.call, self._clock.now()
        reads = call.does == Effect.READ
        ran = _how(shown)

        def end(target: CallStatus, output: str, note: str) -> None:
            moves.call(
                tx, call, target, at=now, actor="worker", finished_at=now, output=output, note=note
            )

        match outcome:
            case ToolSuccess(output=text) if self._is_sub_agent(call):
                if going_on:
                    children.delegate(tx, run, call, prompt.task_item(run.requester, text), at=now)
                else:
                    end(C.FAILED, outputs.failed(f"{prompt.OVER}."), prompt.OVER)
            case ToolSuccess(output=text, summary=summary):
                end(C.SUCCEEDED, outputs.succeeded(ran, text), summary)
            case Renewal() as renewal:
                if not going_on or not self._renew(tx, run, call, renewal):
                    end(C.FAILED, outputs.not_renewed(renewal.why, ran), renewal.why)
            case ToolRefusal(message, certain=False) | ToolFailure(message, certain=False):
                spending.keep_attempt(tx, call, now)
                end(C.FAILED, outputs.broke_off(message, ran), message)
            case ToolRefusal(message) | ToolFailure(message):
                end(C.FAILED, outputs.failed(message, ran), message)
            case LostToolAnswer(message=message) if reads:
                end(C.FAILED, outputs.failed(message), message)
            case ToolTimeout() if reads:
                end(C.FAILED, outputs.failed(f"{outputs.TOO_SLOW}."), outputs.TOO_SLOW)
            case LostToolAnswer(message=message):
                self._not_known(tx, call, message)
            case ToolTimeout():
                self._not_known(tx, call, f"{outputs.TOO_SLOW}, and may still be going on")
            case _:
                raise TypeError(f"unknown outcome {outcome!r}")
        plan = self._say(tx, run, shown)
        if isinstance(outcome, ToolSuccess) and outcome.table is not None and going_on:
            put_table(tx, run, call, outcome.table)
        return plan

    def _is_sub_agent(self, call: Call) -> bool:
        tool = self._tools.of(call)
        return tool is not None and tool.agent is not None

    def _watch(self, run: Run, call: Call, future: Future[Any]) -> None:
        """Record a result that arrives after the time-out in the audit; it changes nothing else."""

        def late(done: Future[Any]) -> None:
            with self._store.write() as tx:
                self._late(tx, run, call, "raised" if done.exception() else "returned")

        future.add_done_callback(late)

    def _late(self, tx: Transaction, run: Run, call: Call, outcome: str) -> None:
        """Record in the audit that a result came too late to count."""
        trail.record(
            tx,
            "call.late",
            at=self._clock.now(),
            actor="worker",
            run_id=run.id,
            call_id=call.id,
            data={"outcome": outcome},
        )


def _how(shown: calls.ApprovedCall) -> str:
    """Return, for the model, who approved the call, their notes, and the values if edited."""
    call = shown.call
    counted = {vote.counts_for for vote in approving(shown.votes)}
    votes = [v for v in shown.votes if v.verb is Verb.APPROVE and v.counts_for in counted]
    text = outputs.approved_by(vote.person for vote in votes)
    text += "".join(outputs.noted(vote.person, vote.reason) for vote in votes if vote.reason)
    if call.grant_id:
        text += outputs.REMEMBERED
    if shown.editors:
        text += outputs.edited_by(shown.editors, shown.revision.arguments)
    return text
