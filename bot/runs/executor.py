"""Runs one approved call: checks that what was shown is what would run, writes RUNNING, calls the
tool, writes the end.

Nothing here decides; a call reaches it APPROVED, or RUNNING after a crash when its tool is
idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import timedelta
from typing import Any

from anyio.from_thread import BlockingPortal
from pydantic import BaseModel, ValidationError

from bot.approvals.terms import grants
from bot.approvals.terms.facts import facts_of
from bot.approvals.terms.fingerprint import fingerprint
from bot.approvals.terms.gating import ballots_of, gate_within, standing
from bot.core import Core
from bot.policy.authority import LookupFailedError
from bot.policy.gates import Ask, Deny, load_gate, tally
from bot.runs import reapproval
from bot.runs.results import put_table
from bot.tools import Effect, Tool, ToolContext
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.runner import Changed, Lost, Raised, Ran, Refused, TimedOut, run_tool
from storage import audit, calls, decisions, moves, runs
from storage.models import Call, Run
from storage.states import CallStatus, RunStatus

log = logging.getLogger("countersign.executor")
C = CallStatus
# how long people have to say what became of a call that no gate gives a deadline
UNKNOWN_WAIT = timedelta(hours=1)
UNKNOWN_OUTPUT = (
    "UNKNOWN: it was started, and it is not known whether it happened. Nobody has said so either. "
    "Do not assume that it did or did not, and do not run it again by yourself."
)


class MismatchError(Exception):
    """What would run is not what was shown."""


class CallExecutor:
    """Executes calls for one worker pool."""

    def __init__(self, core: Core, pool: Executor, portal: Callable[[], BlockingPortal]) -> None:
        """`pool` runs sync tools, `portal` async ones."""
        self._core = core
        self._pool = pool
        self._portal = portal

    def execute(self, run: Run, call_id: str) -> None:
        """Execute one call of a run this worker holds.

        Raises moves.FencedError when it no longer does.
        """
        core = self._core
        with core.store.read() as tx:
            shown = calls.shown(tx, call_id)
        if shown is None or shown.call.status not in (C.APPROVED, C.RUNNING):
            return
        try:
            tool, args = self._check(run, shown)
        except MismatchError as error:
            self._invalidate(run, shown.call, str(error))
            return
        if shown.call.status is C.APPROVED and not self._start(run, shown.call, tool, args):
            return
        context = ToolContext(
            shown.call.id,
            run.id,
            run.team,
            run.requester,
            run.channel,
            run.thread_ts,
            core.clock.now(),
            shown.call.expects,
        )
        log.info("run %s call %s: %s starts", run.id, call_id, tool.name)
        outcome = run_tool(
            tool,
            args,
            context,
            portal=self._portal,
            executor=self._pool,
            heartbeat=lambda: self._renew(run),
            beat=core.settings.lease / 3,
        )
        renewed = (
            reapproval.changed(core, run, tool, args, shown.call, outcome.message)
            if isinstance(outcome, Changed)
            else None
        )
        self._finish(run, shown, renewed or outcome)

    def _renew(self, run: Run) -> None:
        with self._core.store.write() as tx:
            runs.renew(
                tx,
                run.id,
                run.fence,
                self._core.clock.now() + timedelta(seconds=self._core.settings.lease),
            )

    def _check(self, run: Run, shown: calls.Shown) -> tuple[Tool[Any], BaseModel]:
        call, core = shown.call, self._core
        tool = core.tools.get(call.tool)
        if tool is None:
            raise MismatchError("the tool is no longer there")
        if tool.schema_digest() != call.schema_digest:
            raise MismatchError("the tool has changed since this was shown")
        try:
            args = load_arguments(tool, shown.revision.arguments)
        except ValidationError as error:
            raise MismatchError("its arguments no longer fit the tool") from error
        digest = fingerprint(
            core,
            run,
            tool,
            shown.revision.arguments,
            gate=call.gate,
            revision=call.revision,
            expects=call.expects,
        )
        votes = self._votes(call)
        if not (digest == call.digest == shown.revision.digest and all(v == digest for v in votes)):
            raise MismatchError("what would run is not what was shown")
        if dump_arguments(args) != shown.revision.arguments:
            raise MismatchError("its arguments would run differently from how they were shown")
        return tool, args

    def _votes(self, call: Call) -> list[str]:
        with self._core.store.read() as tx:
            found = calls.votes(tx, call.id, call.revision)
        gate = load_gate(call.gate)
        # whether it still holds is settled when it starts
        if call.grant_id and isinstance(gate, Ask):
            return []
        if isinstance(gate, Deny) or (
            isinstance(gate, Ask) and standing(gate, found).outcome != "approved"
        ):
            raise MismatchError("it has not been approved")
        return [vote.digest for vote in found]

    def _invalidate(self, run: Run, call: Call, why: str) -> None:
        log.error("run %s call %s: refused to run: %s", run.id, call.id, why)
        output = (
            f"INVALIDATED: it was not run, because {why}. Propose it anew if it is still needed."
        )
        now = self._core.clock.now()
        with self._core.store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            # it had started before a crash, and can no longer be run again safely
            if call.status is C.RUNNING:
                self._unknown(tx, run, call, why)
            else:
                moves.call(
                    tx,
                    call,
                    C.INVALIDATED,
                    at=now,
                    actor="worker",
                    data={"why": why},
                    output=output,
                    note=why,
                )

    def _start(self, run: Run, call: Call, tool: Tool[Any], args: BaseModel) -> bool:
        """Ask policy once more, then write RUNNING, in one transaction; False when it must not
        start.

        People are looked up before it; what the policy adds up is read again inside it.
        """
        core, now = self._core, self._core.clock.now()
        facts = facts_of(core, run, tool, args)
        with core.store.read() as tx:
            seen = gate_within(tx, core, run, tool, facts, call)
        enough = isinstance(seen, Ask) and not call.grant_id and self._enough(run, call, seen)
        with core.store.write() as tx:
            held = runs.held_by(tx, run.id, run.fence)
            if held.status != "running":
                return False
            gate = gate_within(tx, core, run, tool, facts, call)
            match gate:
                case Deny(reason=reason):
                    output = f"INVALIDATED: policy now forbids it: {reason}"
                    note = f"policy now forbids it: {reason}"
                    moves.call(
                        tx, call, C.INVALIDATED, at=now, actor="policy", output=output, note=note
                    )
                    return False
                case Ask() if call.grant_id:
                    if not grants.use(tx, core, call, gate):
                        reapproval.ask(
                            core, tx, run, call, reapproval.no_longer_remembered(call, gate)
                        )
                        return False
                case Ask() if not (enough and gate == seen):
                    reapproval.ask(core, tx, run, call, reapproval.stricter(call, gate))
                    return False
            return moves.call(
                tx, call, C.RUNNING, at=now, actor="worker", data={"digest": call.digest}
            )

    def _enough(self, run: Run, call: Call, gate: Ask) -> bool:
        """Whether the votes there are meet the gate that now applies.

        Looks people up when it is another one.
        """
        shown = load_gate(call.gate)
        if not isinstance(shown, Ask):
            return False
        with self._core.store.read() as tx:
            votes, editors = calls.votes(tx, call.id, call.revision), calls.editors(tx, call.id)
        asked = call.asked_at or call.created_at
        ballots = [
            each for each in ballots_of(votes) if each.at < asked + timedelta(seconds=gate.deadline)
        ]
        if shown.same_terms(gate):
            return tally(shown, ballots).outcome == "approved"
        voters = [each.person for each in ballots if each.verb == "approve"]
        if len(ballots) - len(voters) >= gate.veto or gate.reasons not in ("never", shown.reasons):
            return False
        try:
            return self._core.authority.met(
                gate, voters, requester=run.requester, editors=editors, channel=run.channel
            )
        except LookupFailedError:
            return False

    def _unknown(self, tx: Any, run: Run, call: Call, why: str) -> None:
        gate = load_gate(call.gate)
        wait = timedelta(seconds=gate.deadline) if isinstance(gate, Ask) else UNKNOWN_WAIT
        now = self._core.clock.now()
        moves.call(
            tx,
            call,
            C.UNKNOWN,
            at=now,
            actor="worker",
            data={"why": why},
            output=UNKNOWN_OUTPUT,
            note=why,
            deadline=now + wait,
        )

    def recover(self, run: Run, call: Call) -> None:
        """A call found RUNNING by a worker that has just claimed its run: nobody knows how it
        ended.
        """
        tool = self._core.tools.get(call.tool)
        if tool is not None and tool.idempotent:
            self.execute(run, call.id)
            return
        with self._core.store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            self._unknown(tx, run, call, "Countersign stopped while it was running")

    def _finish(self, run: Run, shown: calls.Shown, outcome: Any) -> None:
        call, core = shown.call, self._core
        call.status = C.RUNNING
        now = core.clock.now()
        with core.store.write() as tx:
            fenced = (current := runs.get(tx, run.id)) is None or current.fence != run.fence
            # kept as evidence; the run has another worker, and this result came too late to count
            if fenced:
                data = {"outcome": type(outcome).__name__}
                audit.record(
                    tx,
                    "call.late",
                    at=now,
                    actor="worker",
                    run_id=run.id,
                    call_id=call.id,
                    data=data,
                )
                raise_after = True
            else:
                cancelled = current is not None and current.status is RunStatus.CANCELLED
                self._write(tx, run, shown, outcome, held=not cancelled)
                if current is not None and cancelled:
                    decisions.close_cancelled(tx, current, at=now)
                elif current is not None and (plan := calls.open_plan(tx, run.id)):
                    runs.close_plan(tx, current, plan, at=now)  # when this was the last call of it
                raise_after = False
        if isinstance(outcome, TimedOut):
            self._watch(run, call, outcome.future)
        core.post()
        if raise_after:
            raise moves.FencedError(run.id)

    def _write(self, tx: Any, run: Run, shown: calls.Shown, outcome: Any, *, held: bool) -> None:
        call, now = shown.call, self._core.clock.now()
        reads = call.does == Effect.READ
        ran = _how(tx, shown)

        def end(target: CallStatus, output: str, note: str) -> None:
            moves.call(
                tx, call, target, at=now, actor="worker", finished_at=now, output=output, note=note
            )

        match outcome:
            case Ran(output=text, summary=summary, table=table):
                end(C.SUCCEEDED, f"SUCCEEDED.{ran}\n{text}", summary)
                if table is not None and held:
                    put_table(tx, run, call, table)
            case reapproval.Again() as renewed:
                if not held or not reapproval.ask(self._core, tx, run, call, renewed):
                    end(C.FAILED, f"FAILED: {renewed.why} Nothing was done.{ran}", renewed.why)
            case Refused(message=message):
                end(C.FAILED, f"FAILED: {message}{ran}", message)
            case Raised(message=message):
                end(C.FAILED, f"FAILED: {message}{ran}", message)
            case Lost(message=message) if reads:
                end(C.FAILED, f"FAILED: {message}", message)
            case TimedOut() if reads:
                end(C.FAILED, "FAILED: it took too long.", "it took too long")
            case Lost(message=message):
                self._unknown(tx, run, call, message)
            case TimedOut():
                self._unknown(tx, run, call, "it took too long, and may still be going on")
            case _:
                raise TypeError(f"unknown outcome {outcome!r}")

    def _watch(self, run: Run, call: Call, future: Future[Any]) -> None:
        """A result that comes after the time-out changes nothing, but is kept in the audit."""

        def late(done: Future[Any]) -> None:
            ended = "raised" if done.exception() else "returned"
            with self._core.store.write() as tx:
                audit.record(
                    tx,
                    "call.late",
                    at=self._core.clock.now(),
                    actor="worker",
                    run_id=run.id,
                    call_id=call.id,
                    data={"outcome": ended},
                )

        future.add_done_callback(late)


def _how(tx: Any, shown: calls.Shown) -> str:
    """How the call came to run, for the model: who approved it, and with which values when a person
    edited them.
    """
    votes = [v for v in calls.votes(tx, shown.call.id, shown.call.revision) if v.verb == "approve"]
    text = f" Approved by {', '.join(f'<@{vote.person}>' for vote in votes)}." if votes else ""
    text += "".join(
        f' <@{vote.person}> noted, quoted: "{vote.reason[:500]}".' for vote in votes if vote.reason
    )
    if shown.call.grant_id:
        text += " It ran on a remembered approval."
    if edited := calls.editors(tx, shown.call.id):
        who = ", ".join(f"<@{person}>" for person in sorted(edited))
        text += f" It was edited by {who} and ran with: {shown.revision.arguments}"
    return text
