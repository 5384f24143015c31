"""Questions that a tool asks people while it runs, each stored as a run of its own."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from bot.approvals.call_state import build_tool_context
from bot.approvals.person_questions import build_asking_server_client_name
from bot.clock import Clock
from bot.signals import Signals
from bot.tools import (
    ElicitationAnswer,
    ElicitationOutcome,
    ElicitationPort,
    ElicitationRequest,
    ToolContext,
)
from bot.tools.person_question import ASK_PERSON
from bot.tools.runner import CallProgressReporter
from storage import calls, endings, inbox, moves, programs, runs
from storage.record import Call, Delivery, Run, Store, Transaction
from storage.states import CALL_FINAL_STATUSES, CallStatus, DeliveryKind, RunSource, RunStatus

log = logging.getLogger("countersign.questions")
POLL_SECONDS = 0.25  # pause between checks of the database for an answer


class ElicitationBroker:
    """Puts questions of running tools to people and waits for the answers; one per process."""

    def __init__(self, store: Store, clock: Clock, signals: Signals, workers: int) -> None:
        """`workers` is the size of the pool; all but one worker may wait for answers at once."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._slots = threading.BoundedSemaphore(workers - 1)

    def build_tool_context(
        self, run: Run, call: Call, reporter: CallProgressReporter
    ) -> ToolContext:
        """Return the context for the tool of an approved call, with a port for asking people."""
        found = build_tool_context(run, call, self._clock.now(), expects=call.expects)
        return replace(found, line=_CallElicitationPort(self, run, call, reporter))

    def end_earlier_questions(self, run: Run, call: Call) -> None:
        """End the questions of an earlier execution of the call; nobody waits for them any more."""
        with self._store.write() as tx:
            endings.cancel_elicitations_of_call(tx, run, call, at=self._clock.now())

    def ask_people(
        self, run: Run, call: Call, asked: ElicitationRequest, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        """Put a tool's question to people and wait until the question is answered or ended."""
        if not self._slots.acquire(blocking=False):
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
            self._slots.release()

    def _store_question(self, run: Run, call: Call, request: ElicitationRequest) -> Run | None:
        """Store the question as a run of its own and return that; None if the call is over."""
        now = self._clock.now()
        client = build_asking_server_client_name(request.server)
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
            "arguments": request.question.model_dump(mode="json"),
            "why": "",
            "within": request.seconds,
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
            inbox.hold_message_until_next_turn(tx, stored, child.id)
        self._signals.work.notify()
        return child

    def _wait_for_answer(
        self, run: Run, call: Call, child: Run, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        stopping = self._signals.stopping
        while True:
            with self._store.read() as tx:
                if answer := _find_answer(tx, child):
                    return answer
                goes_on = _is_still_running(tx, run, call)
            if not goes_on or is_over() or stopping.wait(POLL_SECONDS):
                self._end_question(child)
                return ElicitationAnswer(ElicitationOutcome.NOBODY)

    def _end_question(self, child: Run) -> None:
        """End one question; questions from a later execution of the call stay open."""
        with self._store.write() as tx:
            asking = runs.get_run(tx, child.id)
            endings.cancel_elicitation_run(tx, asking, at=self._clock.now())
        self._signals.outbox.notify()


class _CallElicitationPort(ElicitationPort):
    """The port by which the tool of one running call asks people."""

    def __init__(
        self, lines: ElicitationBroker, run: Run, call: Call, reporter: CallProgressReporter
    ) -> None:
        self._broker = lines
        self._run_and_call = run, call
        self._reporter = reporter

    def tell(self, words: str) -> None:
        self._reporter.report_progress(words)

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        return self._broker.ask_people(*self._run_and_call, question, is_over)


def _is_still_running(tx: Transaction, run: Run, call: Call) -> bool:
    """Return whether the call is still RUNNING under the fence of the worker that started it."""
    held, now = runs.get_run(tx, run.id), calls.get_call(tx, call.id)
    is_held = (held.status, held.fence) == (RunStatus.RUNNING, run.fence)
    return is_held and now.status is CallStatus.RUNNING


def _find_answer(tx: Transaction, child: Run) -> ElicitationAnswer | None:
    """Return the answer to the question, or how it ended without one; None while it is open."""
    child_calls = calls.list_calls_of_run(tx, child.id)
    if not child_calls:
        is_open = runs.get_run(tx, child.id).status in (RunStatus.READY, RunStatus.RUNNING)
        return (
            None
            if is_open
            else ElicitationAnswer(ElicitationOutcome.REFUSED, why="it could not be asked")
        )
    call = child_calls[0]
    match call.status:
        case CallStatus.ANSWERED:
            answer = calls.find_person_answer(tx, call.id)
            if answer is None or answer.declined:
                return ElicitationAnswer(ElicitationOutcome.DECLINED)
            return ElicitationAnswer(ElicitationOutcome.ANSWERED, json.loads(answer.given))
        case CallStatus.REFUSED | CallStatus.INVALIDATED:
            return ElicitationAnswer(ElicitationOutcome.REFUSED, why=call.note)
        case status if status in CALL_FINAL_STATUSES:
            return ElicitationAnswer(ElicitationOutcome.NOBODY)
    return None
