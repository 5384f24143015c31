"""Runs one approved call exactly as it was shown, and lets its tool ask people questions meanwhile.

Nothing here decides: a call gets here APPROVED, or RUNNING after a crash if its tool is idempotent.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from datetime import timedelta
from typing import Any

from anyio.from_thread import BlockingPortal
from pydantic import BaseModel, ValidationError

from bot.agent import outputs
from bot.approvals.call_gates import (
    FactSources,
    ReapprovalRequest,
    build_invalid_grant_reapproval,
    build_policy_change_reapproval,
    compute_gate_in_transaction,
    describe_expired_approval,
    describe_expired_rerun,
    load_facts,
)
from bot.approvals.call_state import (
    build_tool_context,
    compute_call_digest,
    find_approved_digests,
    find_grantor,
    is_approval_expired,
    list_approvals_with_waits,
    measure_waiting_time,
    tally_votes,
)
from bot.approvals.grants import consume_grant
from bot.approvals.permissions import may_approve_alone
from bot.approvals.person_questions import build_server_client_name
from bot.clock import Clock
from bot.monitoring.spans import WorkKind
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.condition_values import Facts
from bot.policy.gates import Ask, Deny, Gate, load_gate
from bot.runs import reapproval
from bot.runs.endings import CallOutcomeStore, RunWithCalls
from bot.signals import Signals
from bot.tools import (
    ElicitationAnswer,
    ElicitationOutcome,
    ElicitationPort,
    ElicitationRequest,
    Registry,
    Tool,
    ToolContext,
)
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.person_question import ASK_PERSON
from bot.tools.preview import PreviewRunner
from bot.tools.runner import StaleToolCall, StepReporter, get_step_end, run_tool
from storage import calls, endings, inbox, moves, programs, runs
from storage.availability import retry_until_stored
from storage.models import Call, Delivery, Run
from storage.states import (
    CALL_FINAL,
    CallStatus,
    CallVerb,
    DeliveryKind,
    RunSource,
    RunStatus,
    VoteOutcome,
)
from storage.store import Store
from storage.transaction import Transaction

# Elicitations: questions that a tool asks people while it runs.

log = logging.getLogger("countersign.questions")
GLANCE = 0.25  # seconds between two looks at the rows


class ElicitationBroker:
    """Questions to people from tools while they run; one instance per executor."""

    def __init__(self, store: Store, clock: Clock, signals: Signals, workers: int) -> None:
        """`workers` is the size of the pool: all but one of them may wait for answers at once."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._free = threading.BoundedSemaphore(max(workers - 1, 1))
        self._may_ask = workers > 1

    def build_tool_context(self, run: Run, call: Call, step: StepReporter) -> ToolContext:
        """Return the context for the tool of an approved call, with a port for asking people."""
        found = build_tool_context(run, call, self._clock.now(), expects=call.expects)
        return replace(found, line=_CallElicitationPort(self, run, call, step))

    def end_earlier_questions(self, run: Run, call: Call) -> None:
        """End the questions of an earlier execution of the call; nobody waits for them any more."""
        with self._store.write() as tx:
            endings.cancel_elicitations_of_call(tx, run, call, at=self._clock.now(), words=outputs)

    def ask_people(
        self, run: Run, call: Call, asked: ElicitationRequest, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        """Put a tool's question to people and wait until the question is answered or ended."""
        if not (self._may_ask and self._free.acquire(blocking=False)):
            why = "no worker would be left for anything else while it waits"
            log.warning("run %s call %s: a question is not asked: %s", run.id, call.id, why)
            return ElicitationAnswer(ElicitationOutcome.REFUSED, why=why)
        try:
            child = self._store_question(run, call, asked)
            return (
                self._wait_for_answer(run, call, child, is_over)
                if child
                else ElicitationAnswer(ElicitationOutcome.NOBODY)
            )
        finally:
            self._free.release()

    def _store_question(self, run: Run, call: Call, asked: ElicitationRequest) -> Run | None:
        """Store the question as a run of its own and return that; None if the call is over."""
        now = self._clock.now()
        client = build_server_client_name(asked.server)
        child = Run(
            team=run.team,
            channel=run.channel,
            thread_ts=run.thread_ts,
            requester=run.requester,
            source=RunSource.SERVER,
            client=client,
            root_id=run.root_id or run.id,
            parent_call=call.id,
            created_at=now,
            updated_at=now,
        )
        body = {
            "tool": ASK_PERSON.name,
            "arguments": asked.question.model_dump(mode="json"),
            "why": "",
            "within": asked.seconds,
        }
        delivery = Delivery(
            key=programs.build_delivery_key(client, child.id),
            kind=DeliveryKind.PROGRAM,
            team=run.team,
            user=run.requester,
            channel=run.channel,
            body=json.dumps(body),
            received_at=now,
        )
        with self._store.write() as tx:
            if not _is_still_running(tx, run, call):
                return None
            moves.insert_run(tx, child, at=now)
            inbox.insert_delivery(tx, delivery)
            stored = inbox.find_delivery(tx, delivery.key)
            assert stored is not None
            inbox.hold_message(tx, stored, child.id)
        self._signals.work.notify()
        return child

    def _wait_for_answer(
        self, run: Run, call: Call, child: Run, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        stopping = self._signals.stopping
        while True:
            with self._store.read() as tx:
                if heard := _find_answer(tx, child):
                    return heard
                goes_on = _is_still_running(tx, run, call)
            if not goes_on or is_over() or stopping.wait(GLANCE):
                self._end_question(child)
                return ElicitationAnswer(ElicitationOutcome.NOBODY)

    def _end_question(self, child: Run) -> None:
        """End one question; questions from a later execution of the call stay open."""
        with self._store.write() as tx:
            asking = runs.find_run(tx, child.id)
            if asking is not None:
                endings.cancel_elicitation_run(tx, asking, at=self._clock.now(), words=outputs)
        self._signals.outbox.notify()


class _CallElicitationPort(ElicitationPort):
    """The port by which the tool of one running call asks people."""

    def __init__(self, lines: ElicitationBroker, run: Run, call: Call, step: StepReporter) -> None:
        self._lines = lines
        self._of = run, call
        self._step = step

    def tell(self, words: str) -> None:
        self._step.report_progress(words)

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        return self._lines.ask_people(*self._of, question, is_over)


def _is_still_running(tx: Transaction, run: Run, call: Call) -> bool:
    """Return whether the call is still RUNNING under the fence of the worker that started it."""
    held, now = runs.find_run(tx, run.id), calls.find_call(tx, call.id)
    is_held = held is not None and (held.status, held.fence) == (RunStatus.RUNNING, run.fence)
    return is_held and now is not None and now.status is CallStatus.RUNNING


def _find_answer(tx: Transaction, child: Run) -> ElicitationAnswer | None:
    """Return the answer to the question, or how it ended without one; None while it is open."""
    found = calls.list_calls_of_run(tx, child.id)
    if not found:
        row = runs.find_run(tx, child.id)
        if row is not None and row.status in (RunStatus.READY, RunStatus.RUNNING):
            return None
        return ElicitationAnswer(ElicitationOutcome.REFUSED, why="it could not be asked")
    call = found[0]
    match call.status:
        case CallStatus.ANSWERED:
            answer = calls.find_person_answer(tx, call.id)
            if answer is None or answer.declined:
                return ElicitationAnswer(ElicitationOutcome.DECLINED)
            return ElicitationAnswer(ElicitationOutcome.ANSWERED, json.loads(answer.given))
        case CallStatus.REFUSED | CallStatus.INVALIDATED:
            return ElicitationAnswer(ElicitationOutcome.REFUSED, why=call.note)
        case status if status in CALL_FINAL:
            return ElicitationAnswer(ElicitationOutcome.NOBODY)
    return None


C = CallStatus


class DigestMismatchError(Exception):
    """Raised for a call that would not run as it was shown."""


class CallExecutor:
    """Executes calls for one worker pool."""

    def __init__(
        self,
        sources: FactSources,
        authority: Authority,
        tools: Registry,
        key: bytes,
        *,
        previews: PreviewRunner,
        signals: Signals,
        lease: float,
        workers: int,
        pool: Executor,
        portal: Callable[[], BlockingPortal],
    ) -> None:
        """`pool` runs sync tools, `portal` async ones; `lease`: seconds a run is held unrenewed."""
        self._sources = sources
        self._store = sources.store
        self._clock = sources.clock
        self._authority = authority
        self._tools = tools
        self._key = key
        self._previews = previews
        self._lease = lease
        self._pool = pool
        self._portal = portal
        self._lines = ElicitationBroker(sources.store, sources.clock, signals, workers)
        self._signals = signals
        self._endings = CallOutcomeStore(
            self._store, self._clock, signals, tools, self._ask_people_again
        )

    def execute_call(self, run: Run, call: Call) -> RunWithCalls | None:
        """Execute one call of a run this worker holds, APPROVED, or RUNNING before a crash.

        Returns the run and the calls of its open plan afterwards; None if they have to be read
        again. Raises moves.StaleFenceError when the worker no longer holds the run.
        """
        with self._store.read() as tx:
            shown = calls.find_approval_of_call(tx, call)
        if shown is None:
            return None
        try:
            tool, args = self._check_approved_call(run, shown)
        except DigestMismatchError as error:
            self._endings.mark_invalidated(run, call, str(error))
            return None
        if call.status is C.RUNNING:
            self._record_restart(run, call)
        elif self._ask_again_if_too_old(run, call, tool, args) or not self._start_if_allowed(
            run, shown, tool, args
        ):
            return None
        if tool.action:  # who has claimed it goes on
            return None
        step = StepReporter(self._signals.live, run, call, tool, args)
        context = self._lines.build_tool_context(run, call, step)
        step.report_start()
        tracer = self._signals.tracer
        with tracer.start_span(WorkKind.TOOL, tool.name, run_id=run.id, call_id=call.id) as span:
            outcome = run_tool(
                tool,
                args,
                context,
                portal=self._portal,
                executor=self._pool,
                heartbeat=lambda: self._renew_lease_and_report(run, call, step),
                beat=self._lease / 3,
            )
            span.end = get_step_end(tool, outcome)
        ended: object = outcome
        try:
            if isinstance(outcome, StaleToolCall):
                build = reapproval.build_renewal_or_refusal
                asked = (self._sources, self._previews, run, tool, args, call, outcome.message)
                what = f"run {run.id} call {call.id}: what it is to be asked again"
                ended = retry_until_stored(lambda: build(*asked), self._signals.stopping, what)
            return self._endings.store_outcome(run, shown, ended)
        finally:
            step.report_end(outcome)

    def _record_restart(self, run: Run, call: Call) -> None:
        with self._store.write() as tx:
            runs.get_run_with_fence(tx, run.id, run.fence)
            moves.record_call_restart(tx, call, at=self._clock.now())

    def _renew_lease_and_report(self, run: Run, call: Call, step: StepReporter) -> None:
        """Renew the run's lease, report progress, and once redraw the card to show it running."""
        until = self._clock.now() + timedelta(seconds=self._lease)
        with self._store.write() as tx:
            moves.renew_lease(tx, run.id, run.fence, until)
            if not step.is_long:
                moves.mark_cards_for_redraw(tx, call.plan_id)
        self._signals.outbox.notify()
        step.report_long_running()

    def _ask_people_again(
        self, tx: Transaction, run: Run, call: Call, renewal: ReapprovalRequest
    ) -> bool:
        """Put the call back to PENDING so that people are asked again; False if it has changed."""
        tool, now = self._tools.get_tool_of_call(call), self._clock.now()
        return reapproval.ask_people_again(tx, run, call, renewal, tool, self._key, now)

    def _check_approved_call(
        self, run: Run, shown: calls.ApprovedCall
    ) -> tuple[Tool[Any], BaseModel]:
        call = shown.call
        tool = self._tools.find_tool_of_call(call)
        if tool is None:
            raise DigestMismatchError("the tool is no longer there")
        if tool.schema_digest() != call.schema_digest:
            raise DigestMismatchError("the tool has changed since this was shown")
        try:
            args = load_arguments(tool, shown.revision.arguments)
        except ValidationError as error:
            raise DigestMismatchError("its arguments no longer fit the tool") from error
        digest = compute_call_digest(
            self._key,
            run,
            tool,
            shown.revision.arguments,
            gate=call.gate,
            revision=call.revision,
            expects=call.expects,
            key_id=call.key_id,
        )
        votes = find_approved_digests(shown)
        if votes is None:
            raise DigestMismatchError("it has not been approved")
        if not (digest == call.digest == shown.revision.digest and all(v == digest for v in votes)):
            raise DigestMismatchError("what would run is not what was shown")
        if dump_arguments(args) != shown.revision.arguments:
            raise DigestMismatchError(
                "its arguments would run differently from how they were shown"
            )
        return tool, args

    def _start_if_allowed(
        self, run: Run, shown: calls.ApprovedCall, tool: Tool[Any], args: BaseModel
    ) -> bool:
        """Evaluate policy once more and mark the call RUNNING; return False if it must not start.

        Both happen in one transaction. People are looked up before it, under the gate that was
        shown; if policy now gives another gate, they are looked up under that, and policy is
        evaluated again.
        """
        facts = load_facts(self._sources, run, tool, args)
        begun = self._try_start_under_gate(run, shown, tool, facts, load_gate(shown.call.gate))
        if isinstance(begun, Ask):
            begun = self._try_start_under_gate(run, shown, tool, facts, begun)
        return begun is True

    def _try_start_under_gate(
        self, run: Run, shown: calls.ApprovedCall, tool: Tool[Any], facts: Facts, seen: Gate
    ) -> bool | Ask:
        """Return whether the call was started, or the gate that now applies if it is not `seen`."""
        call, now = shown.call, self._clock.now()
        enough = isinstance(seen, Ask) and self._is_approval_sufficient(run, shown, seen)
        with self._store.write() as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            if held.status is not RunStatus.RUNNING or is_approval_expired(call, now):
                return False  # what has aged while people were looked up is looked at again
            gate = compute_gate_in_transaction(tx, self._sources, run, tool, facts, call=call)
            match gate:
                case Deny(reason=reason):
                    said, note = (
                        outputs.now_forbidden_output(reason),
                        f"policy now forbids it: {reason}",
                    )
                    ended: dict[str, Any] = {"output": said, "note": note}
                    moves.change_call_status(
                        tx, call, C.INVALIDATED, at=now, actor="policy", **ended
                    )
                    return False
                case Ask() if gate != seen:
                    return gate
                case Ask() if not enough or (
                    call.grant_id and not consume_grant(tx, self._sources.policy, call, gate, now)
                ):
                    why = (
                        build_invalid_grant_reapproval
                        if call.grant_id
                        else build_policy_change_reapproval
                    )
                    self._ask_people_again(tx, run, call, why(call, gate))
                    return False
            more: dict[str, Any] = {"draws": False, "data": {"digest": call.digest}}
            if tool.action:
                more |= {"draws": True, "held_until": now + programs.LEASE}
            return moves.change_call_status(tx, call, C.RUNNING, at=now, actor="worker", **more)

    def _ask_again_if_too_old(self, run: Run, call: Call, tool: Tool[Any], args: BaseModel) -> bool:
        """Ask again about, or invalidate, a call approved too long ago; True if that was done."""
        if not is_approval_expired(call, self._clock.now()):
            return False
        if not isinstance(load_gate(call.gate), Ask):
            self._endings.mark_invalidated(run, call, describe_expired_rerun(call))
            return True
        again = reapproval.build_renewal_or_refusal(
            self._sources, self._previews, run, tool, args, call, describe_expired_approval(call)
        )
        if not isinstance(again, ReapprovalRequest):
            self._endings.mark_invalidated(run, call, again.message)
            return True
        with self._store.write() as tx:
            runs.get_run_with_fence(tx, run.id, run.fence)
            return self._ask_people_again(tx, run, call, again)

    def _is_approval_sufficient(self, run: Run, approved: calls.ApprovedCall, gate: Ask) -> bool:
        """Return whether the call's votes or grant suffice under this gate. May ask Slack."""
        if not approved.call.grant_id:
            return self._has_enough_votes(run, approved, gate)
        with self._store.read() as tx:
            giver = find_grantor(tx, approved.call)
        return may_approve_alone(self._authority, run, gate, giver)

    def _has_enough_votes(self, run: Run, approved: calls.ApprovedCall, gate: Ask) -> bool:
        """Return whether the votes meet the gate that now applies.

        Looks people up in Slack if the gate's terms differ from those that were shown.
        """
        call, votes = approved.call, approved.votes
        shown = load_gate(call.gate)
        if not isinstance(shown, Ask):
            return False
        in_time = timedelta(seconds=gate.deadline)
        votes = tuple(
            each for each in votes if measure_waiting_time(gate, call, each.created_at) < in_time
        )
        if shown.has_same_terms(gate):
            return tally_votes(shown, votes).outcome is VoteOutcome.APPROVED
        against = sum(each.verb is CallVerb.REJECT for each in votes)
        if against >= gate.veto or gate.reasons not in ("never", shown.reasons):
            return False
        try:
            return self._authority.is_gate_met(
                gate,
                list_approvals_with_waits(gate, call, votes),
                requester=run.requester,
                editors=approved.editors,
                channel=run.channel,
            )
        except LookupFailedError:
            return False

    def recover_call(self, run: Run, call: Call) -> None:
        """Run a call left RUNNING by a dead worker again if that is safe, else mark it UNKNOWN."""
        tool = self._tools.find_tool_of_call(call)
        self._lines.end_earlier_questions(run, call)
        if (
            tool is not None
            and tool.idempotent
            and not is_approval_expired(call, self._clock.now())
        ):
            self.execute_call(run, call)
            return
        with self._store.write() as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            self._endings.mark_unknown(tx, held, call, "Countersign stopped while it was running")
