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
from datetime import datetime, timedelta
from typing import Any

from anyio.from_thread import BlockingPortal
from pydantic import BaseModel, ValidationError

from bot.agent import outputs
from bot.approvals import grants
from bot.approvals.call_gates import (
    Renewal,
    aged,
    gate_within,
    no_longer_remembered,
    stricter,
    too_old_to_repeat,
)
from bot.approvals.call_state import (
    approvals,
    approved_digests,
    context_of,
    fingerprint,
    has_aged,
    standing,
    waited,
)
from bot.approvals.facts import Sources, facts_of
from bot.approvals.person_questions import client_of
from bot.clock import Clock
from bot.monitoring.spans import Work
from bot.policy.authority import Authority, LookupFailedError
from bot.policy.condition_values import Facts
from bot.policy.gates import Ask, Deny, Gate, load_gate
from bot.runs import reapproval
from bot.runs.endings import Endings, Held
from bot.signals import Signals
from bot.tools import Registry, Tool, ToolContext
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.elicitation import AnswerEnd, ElicitationAnswer, ElicitationPort, ElicitationRequest
from bot.tools.person_question import ASK_PERSON
from bot.tools.preview import Previews
from bot.tools.runner import StepTeller, ToolStateChange, run_tool, step_end
from storage import calls, endings, inbox, moves, person_answers, programs, runs
from storage.availability import until_stored
from storage.chain import key_with_id
from storage.models import Call, Delivery, Run
from storage.states import CALL_FINAL, Balance, CallStatus, DeliveryKind, RunSource, RunStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

# Elicitations: questions that a tool asks people while it runs.

log = logging.getLogger("countersign.questions")
GLANCE = 0.25  # seconds between two looks at the rows


class Elicitations:
    """Questions to people from tools while they run; one instance per executor."""

    def __init__(self, store: Store, clock: Clock, signals: Signals, workers: int) -> None:
        """`workers` is the size of the pool: all but one of them may wait for answers at once."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._free = threading.BoundedSemaphore(max(workers - 1, 1))
        self._may_ask = workers > 1

    def context(self, run: Run, call: Call, step: StepTeller) -> ToolContext:
        """Return the context for the tool of an approved call, with a port for asking people."""
        found = context_of(run, call, self._clock.now(), expects=call.expects)
        return replace(found, line=_OpenElicitation(self, run, call, step))

    def hang_up(self, run: Run, call: Call) -> None:
        """End the questions of an earlier execution of the call; nobody waits for them any more."""
        with self._store.write() as tx:
            endings.end_elicitations(tx, run, call, at=self._clock.now(), words=outputs)

    def ask(
        self, run: Run, call: Call, asked: ElicitationRequest, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        """Put a tool's question to people and wait until the question is answered or ended."""
        if not (self._may_ask and self._free.acquire(blocking=False)):
            why = "no worker would be left for anything else while it waits"
            log.warning("run %s call %s: a question is not asked: %s", run.id, call.id, why)
            return ElicitationAnswer(AnswerEnd.REFUSED, why=why)
        try:
            child = self._put(run, call, asked)
            return (
                self._heard(run, call, child, is_over)
                if child
                else ElicitationAnswer(AnswerEnd.NOBODY)
            )
        finally:
            self._free.release()

    def _put(self, run: Run, call: Call, asked: ElicitationRequest) -> Run | None:
        """Store the question as a run of its own and return that; None if the call is over."""
        now = self._clock.now()
        client = client_of(asked.server)
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
            "arguments": asked.asked.model_dump(mode="json"),
            "why": "",
            "within": asked.seconds,
        }
        delivery = Delivery(
            key=programs.delivery_key(client, child.id),
            kind=DeliveryKind.PROGRAM,
            team=run.team,
            user=run.requester,
            channel=run.channel,
            body=json.dumps(body),
            received_at=now,
        )
        with self._store.write() as tx:
            if not _goes_on(tx, run, call):
                return None
            moves.insert_run(tx, child, at=now)
            inbox.store_delivery(tx, delivery)
            stored = inbox.find(tx, delivery.key)
            assert stored is not None
            inbox.hold_message(tx, stored, child.id)
        self._signals.work.give()
        return child

    def _heard(
        self, run: Run, call: Call, child: Run, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        stopping = self._signals.stopping
        while True:
            with self._store.read() as tx:
                if heard := _ended(tx, child):
                    return heard
                goes_on = _goes_on(tx, run, call)
            if not goes_on or is_over() or stopping.wait(GLANCE):
                self._take_back(child)
                return ElicitationAnswer(AnswerEnd.NOBODY)

    def _take_back(self, child: Run) -> None:
        """End one question; questions from a later execution of the call stay open."""
        with self._store.write() as tx:
            asking = runs.get(tx, child.id)
            if asking is not None:
                endings.end_question(tx, asking, at=self._clock.now(), words=outputs)
        self._signals.post.give()


class _OpenElicitation(ElicitationPort):
    """The port by which the tool of one running call asks people."""

    def __init__(self, lines: Elicitations, run: Run, call: Call, step: StepTeller) -> None:
        self._lines = lines
        self._of = run, call
        self._step = step

    def tell(self, words: str) -> None:
        self._step.says(words)

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        return self._lines.ask(*self._of, question, is_over)


def _goes_on(tx: Transaction, run: Run, call: Call) -> bool:
    """Return whether the call is still RUNNING under the fence of the worker that started it."""
    held, now = runs.get(tx, run.id), calls.get(tx, call.id)
    is_held = held is not None and (held.status, held.fence) == (RunStatus.RUNNING, run.fence)
    return is_held and now is not None and now.status is CallStatus.RUNNING


def _ended(tx: Transaction, child: Run) -> ElicitationAnswer | None:
    """Return the answer to the question, or how it ended without one; None while it is open."""
    found = calls.of_run(tx, child.id)
    if not found:
        row = runs.get(tx, child.id)
        is_open = row is not None and row.status in (RunStatus.READY, RunStatus.RUNNING)
        return (
            None if is_open else ElicitationAnswer(AnswerEnd.REFUSED, why="it could not be asked")
        )
    call = found[0]
    match call.status:
        case CallStatus.ANSWERED:
            answer = person_answers.given(tx, call.id)
            if answer is None or answer.declined:
                return ElicitationAnswer(AnswerEnd.DECLINED)
            return ElicitationAnswer(AnswerEnd.ANSWERED, json.loads(answer.given))
        case CallStatus.REFUSED | CallStatus.INVALIDATED:
            return ElicitationAnswer(AnswerEnd.REFUSED, why=call.note)
        case status if status in CALL_FINAL:
            return ElicitationAnswer(AnswerEnd.NOBODY)
    return None


C = CallStatus


class DigestMismatchError(Exception):
    """Raised for a call that would not run as it was shown."""


class CallExecutor:
    """Executes calls for one worker pool."""

    def __init__(
        self,
        sources: Sources,
        authority: Authority,
        tools: Registry,
        key: bytes,
        *,
        previews: Previews,
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
        self._lines = Elicitations(sources.store, sources.clock, signals, workers)
        self._signals = signals
        self._endings = Endings(self._store, self._clock, signals, tools, self._renewed)

    def execute(self, run: Run, call: Call) -> Held | None:
        """Execute one call of a run this worker holds, APPROVED, or RUNNING before a crash.

        Returns the run and the calls of its open plan afterwards; None if they have to be read
        again. Raises moves.FencedError when the worker no longer holds the run.
        """
        with self._store.read() as tx:
            shown = calls.approved(tx, call)
        if shown is None:
            return None
        try:
            tool, args = self._check(run, shown)
        except DigestMismatchError as error:
            self._endings.invalidated(run, call, str(error))
            return None
        if call.status is C.RUNNING:
            self._restart(run, call)
        elif self._is_asked_anew(run, call, tool, args) or not self._start(run, shown, tool, args):
            return None
        if tool.action:  # who has claimed it goes on
            return None
        step = StepTeller(self._signals.live, run, call, tool, args)
        context = self._lines.context(run, call, step)
        step.began()
        tracer = self._signals.tracer
        with tracer.start_span(Work.TOOL, tool.name, run_id=run.id, call_id=call.id) as span:
            outcome = run_tool(
                tool,
                args,
                context,
                portal=self._portal,
                executor=self._pool,
                heartbeat=lambda: self._hold(run, call, step),
                beat=self._lease / 3,
            )
            span.end = step_end(tool, outcome)
        ended: object = outcome
        try:
            if isinstance(outcome, ToolStateChange):
                why, asked = outcome.message, (run, tool, args, call)
                ended = until_stored(
                    lambda: reapproval.renew_or_refuse(self._sources, self._previews, *asked, why),
                    self._signals.stopping,
                    f"run {run.id} call {call.id}: what it is to be asked again",
                )
            return self._endings.finish(run, shown, ended)
        finally:
            step.ended(outcome)

    def _restart(self, run: Run, call: Call) -> None:
        """Record that an idempotent tool is started once more, after a crash."""
        with self._store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            moves.record_restart(tx, call, at=self._clock.now())

    def _hold(self, run: Run, call: Call, step: StepTeller) -> None:
        """Renew the run's lease, report progress, and once redraw the card to show it running."""
        until = self._clock.now() + timedelta(seconds=self._lease)
        with self._store.write() as tx:
            moves.renew_lease(tx, run.id, run.fence, until)
            if not step.is_long:
                moves.redraw(tx, call.plan_id)
        self._signals.post.give()
        step.goes_on()

    def _renewed(self, tx: Transaction, run: Run, call: Call, renewal: Renewal) -> bool:
        """Put the call back to PENDING so that people are asked again; False if it has changed."""
        tool, now = self._tools.known(call), self._clock.now()
        return reapproval.ask_again(tx, run, call, renewal, tool, self._key, now)

    def _check(self, run: Run, shown: calls.ApprovedCall) -> tuple[Tool[Any], BaseModel]:
        call = shown.call
        tool = self._tools.of(call)
        if tool is None:
            raise DigestMismatchError("the tool is no longer there")
        if tool.schema_digest() != call.schema_digest:
            raise DigestMismatchError("the tool has changed since this was shown")
        try:
            args = load_arguments(tool, shown.revision.arguments)
        except ValidationError as error:
            raise DigestMismatchError("its arguments no longer fit the tool") from error
        digest = fingerprint(
            key_with_id(self._key, call.key_id),
            run,
            tool,
            shown.revision.arguments,
            gate=call.gate,
            revision=call.revision,
            expects=call.expects,
        )
        votes = approved_digests(shown)
        if votes is None:
            raise DigestMismatchError("it has not been approved")
        if not (digest == call.digest == shown.revision.digest and all(v == digest for v in votes)):
            raise DigestMismatchError("what would run is not what was shown")
        if dump_arguments(args) != shown.revision.arguments:
            raise DigestMismatchError(
                "its arguments would run differently from how they were shown"
            )
        return tool, args

    def _start(self, run: Run, shown: calls.ApprovedCall, tool: Tool[Any], args: BaseModel) -> bool:
        """Evaluate policy once more and mark the call RUNNING; return False if it must not start.

        Both happen in one transaction. People are looked up before it, under the gate that was
        shown; if policy now gives another gate, they are looked up under that, and policy is
        evaluated again.
        """
        facts = facts_of(self._sources, run, tool, args)
        begun = self._begin(run, shown, tool, facts, load_gate(shown.call.gate))
        if isinstance(begun, Ask):
            begun = self._begin(run, shown, tool, facts, begun)
        return begun is True

    def _begin(
        self, run: Run, shown: calls.ApprovedCall, tool: Tool[Any], facts: Facts, seen: Gate
    ) -> bool | Ask:
        """Return whether the call was started, or the gate that now applies if it is not `seen`."""
        call, now = shown.call, self._clock.now()
        enough = isinstance(seen, Ask) and self._suffices(run, shown, seen)
        with self._store.write() as tx:
            held = runs.held_by(tx, run.id, run.fence)
            if held.status is not RunStatus.RUNNING or has_aged(call, now):
                return False  # what has aged while people were looked up is looked at again
            gate = gate_within(tx, self._sources, run, tool, facts, call=call)
            match gate:
                case Deny(reason=reason):
                    said, note = outputs.forbidden_since(reason), f"policy now forbids it: {reason}"
                    ended: dict[str, Any] = {"output": said, "note": note}
                    moves.call(tx, call, C.INVALIDATED, at=now, actor="policy", **ended)
                    return False
                case Ask() if gate != seen:
                    return gate
                case Ask() if not (enough and self._taken(tx, call, gate, now)):
                    why = no_longer_remembered if call.grant_id else stricter
                    self._renewed(tx, run, call, why(call, gate))
                    return False
            more: dict[str, Any] = {"draws": False, "data": {"digest": call.digest}}
            if tool.action:
                more |= {"draws": True, "held_until": now + programs.LEASE}
            return moves.call(tx, call, C.RUNNING, at=now, actor="worker", **more)

    def _is_asked_anew(self, run: Run, call: Call, tool: Tool[Any], args: BaseModel) -> bool:
        """Ask again about, or invalidate, a call approved too long ago; True if that was done."""
        if not has_aged(call, self._clock.now()):
            return False
        if not isinstance(load_gate(call.gate), Ask):
            self._endings.invalidated(run, call, too_old_to_repeat(call))
            return True
        again = reapproval.renew_or_refuse(
            self._sources, self._previews, run, tool, args, call, aged(call)
        )
        if not isinstance(again, Renewal):
            self._endings.invalidated(run, call, again.message)
            return True
        with self._store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            return self._renewed(tx, run, call, again)

    def _taken(self, tx: Transaction, call: Call, gate: Ask, now: datetime) -> bool:
        """Use the call's grant once, if it has one; return False if the grant does not hold."""
        return not call.grant_id or grants.use(tx, self._sources.policy, call, gate, now)

    def _suffices(self, run: Run, approved: calls.ApprovedCall, gate: Ask) -> bool:
        """Return whether the call's votes or grant suffice under this gate. May ask Slack."""
        if not approved.call.grant_id:
            return self._enough(run, approved, gate)
        with self._store.read() as tx:
            giver = grants.grantor(tx, approved.call)
        return grants.may_decide(self._authority, run, gate, giver)

    def _enough(self, run: Run, approved: calls.ApprovedCall, gate: Ask) -> bool:
        """Return whether the votes meet the gate that now applies.

        Looks people up in Slack if the gate's terms differ from those that were shown.
        """
        call, votes = approved.call, approved.votes
        shown = load_gate(call.gate)
        if not isinstance(shown, Ask):
            return False
        in_time = timedelta(seconds=gate.deadline)
        votes = tuple(each for each in votes if waited(gate, call, each.created_at) < in_time)
        if shown.same_terms(gate):
            return standing(shown, votes).outcome is Balance.APPROVED
        against = sum(each.verb is Verb.REJECT for each in votes)
        if against >= gate.veto or gate.reasons not in ("never", shown.reasons):
            return False
        try:
            return self._authority.met(
                gate,
                approvals(gate, call, votes),
                requester=run.requester,
                editors=approved.editors,
                channel=run.channel,
            )
        except LookupFailedError:
            return False

    def recover(self, run: Run, call: Call) -> None:
        """Run a call left RUNNING by a dead worker again if that is safe, else mark it UNKNOWN."""
        tool = self._tools.of(call)
        self._lines.hang_up(run, call)
        if tool is not None and tool.idempotent and not has_aged(call, self._clock.now()):
            self.execute(run, call)
            return
        with self._store.write() as tx:
            held = runs.held_by(tx, run.id, run.fence)
            self._endings.unknown(tx, held, call, "Countersign stopped while it was running")
