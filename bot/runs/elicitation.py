"""What a tool asks whoever asked for its call, while it runs: a question amid a call.

It is a request of its own below that call, in the same thread, and ends with it: an answer that
nobody waits for any more would change nothing.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from bot.agent import outputs
from bot.approvals.call_state import context_of
from bot.approvals.person_questions import client_of
from bot.clock import Clock
from bot.signals import Signals
from bot.tools import ToolContext
from bot.tools.elicitation import AnswerEnd, ElicitationAnswer, ElicitationPort, ElicitationRequest
from bot.tools.people.question import ASK_PERSON
from bot.tools.step import StepTeller
from storage import calls, endings, inbox, moves, person_answers, program_requests, runs
from storage.models import Call, Delivery, Run
from storage.states import CALL_FINAL, CallStatus, DeliveryKind, RunSource, RunStatus
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.questions")
GLANCE = 0.25  # seconds between two looks at the rows


class Elicitations:
    """One per executor: makes the line of each call."""

    def __init__(self, store: Store, clock: Clock, signals: Signals, workers: int) -> None:
        """`workers`: of whom all but one may wait for answers at once."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._free = threading.BoundedSemaphore(max(workers - 1, 1))
        self._may_ask = workers > 1

    def context(self, run: Run, call: Call, step: StepTeller) -> ToolContext:
        """Return what the tool of an approved call may know, with its line."""
        found = context_of(run, call, self._clock.now(), expects=call.expects)
        return replace(found, line=_OpenElicitation(self, run, call, step))

    def hang_up(self, run: Run, call: Call) -> None:
        """End what an earlier life of the call had asked: nobody waits for its answer."""
        with self._store.write() as tx:
            endings.hang_up(tx, run, call, at=self._clock.now(), words=outputs)

    def ask(
        self, run: Run, call: Call, asked: ElicitationRequest, is_over: Callable[[], bool]
    ) -> ElicitationAnswer:
        """Ask, and wait for what comes of it."""
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
        """Store the question as a request of its own; None where the call is over by now."""
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
            key=program_requests.delivery_key(client, child.id),
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
            moves.started(tx, child, at=now)
            inbox.store_delivery(tx, delivery)
            stored = inbox.find(tx, delivery.key)
            assert stored is not None
            inbox.hold(tx, stored, child.id)
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
        """End one question; what a later life of its call has asked meanwhile stays."""
        with self._store.write() as tx:
            asking = runs.get(tx, child.id)
            if asking is not None:
                endings.take_back(tx, asking, at=self._clock.now(), words=outputs)
        self._signals.post.give()


class _OpenElicitation(ElicitationPort):
    """The line of one call that runs."""

    def __init__(self, lines: Elicitations, run: Run, call: Call, step: StepTeller) -> None:
        self._lines = lines
        self._of = run, call
        self._step = step

    def tell(self, words: str) -> None:
        self._step.says(words)

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        return self._lines.ask(*self._of, question, is_over)


def _goes_on(tx: Transaction, run: Run, call: Call) -> bool:
    """Whether the call is being run still, by whoever it was begun by."""
    held, now = runs.get(tx, run.id), calls.get(tx, call.id)
    is_held = held is not None and (held.status, held.fence) == (RunStatus.RUNNING, run.fence)
    return is_held and now is not None and now.status is CallStatus.RUNNING


def _ended(tx: Transaction, child: Run) -> ElicitationAnswer | None:
    """What came of the question; None while it waits."""
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
