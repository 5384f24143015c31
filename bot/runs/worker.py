"""Advances one run, one step at a time, from the stored rows; keeps no state between steps.

A step is a model turn, the execution of one call, or the decision to wait. Every write checks the
fence of the claim, so a worker that stalled past its lease changes nothing any more. Claims do not
wait for the disk: after a power failure they are made again, and the outbox posts nothing of them
before they are on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TypeVar

from bot.agent import outputs
from bot.agent.turn import PlannerError
from bot.approvals.call_checks import RefusedError
from bot.approvals.card_routing import RoutedCall, find_place, put_cards, put_mark, unasked_card
from bot.approvals.person_questions import is_question
from bot.cards import answers, notices
from bot.clock import Clock
from bot.monitoring.spans import Work
from bot.policy.authority import Authority
from bot.policy.gates import Ask, load_gate
from bot.runs.endings import Held
from bot.runs.executor import CallExecutor
from bot.runs.ports import Presence, announce_wait
from bot.runs.results import say_end
from bot.runs.sub_agent_runs import report_failure
from bot.runs.worker_pool import Keeps
from bot.signals import Signals
from bot.tools import Effect, Registry
from storage import calls, inbox, moves, outbox, runs
from storage.availability import error_text, may_pass, until_stored
from storage.models import Call, Run
from storage.states import CallStatus, RunSource, RunStatus
from storage.store import Store

log = logging.getLogger("countersign.worker")
C, R = CallStatus, RunStatus
# takes a run, and the calls of its plan if some of them wait for people; returns whether there is
# more to do now, and may raise PlannerError
Turn = Callable[[Run, Sequence[Call]], bool]
T = TypeVar("T")


class Worker:
    """Advances runs; any number of workers may use one database."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        lease: float,
        signals: Signals,
        *,
        turns: Mapping[RunSource, Turn],
        executor: CallExecutor,
        tools: Registry,
        authority: Authority,
        presence: Presence,
    ) -> None:
        """`lease` is how many seconds a claim holds without being renewed.

        `turns`: by source of the run, what takes its next step while it has no open plan.
        """
        self._store = store
        self._clock = clock
        self._lease = timedelta(seconds=lease)
        self._signals = signals
        self._turns = turns
        self._executor = executor
        self._tools = tools
        self._authority = authority
        self._presence = presence

    def advance(self, run_id: str, keeps: Keeps = lambda _: True) -> None:
        """Claim the run and take steps until it waits, ends or is taken away. Raises nothing.

        Between two steps, `keeps` may say that it is another run's turn: then this run is released.
        """
        with self._signals.tracer.start_span(Work.ADVANCE, run_id=run_id):
            self._advance(run_id, keeps)

    def _advance(self, run_id: str, keeps: Keeps) -> None:
        run: Run | None = None
        try:
            claimed = self._patiently(lambda: self._claim(run_id), f"run {run_id}: its claim")
            if claimed is None:
                return
            run, known = claimed[0], [claimed]
            step = partial(self._next, run, known)
            while self._patiently(step, f"run {run_id}: its next step"):
                if not self._patiently(partial(self._stays, run, known, keeps), f"run {run_id}"):
                    return
        except moves.FencedError:
            log.info("run %s: taken away from this worker", run_id)
            self._look_back(run)
        except PlannerError as error:
            log.warning("run %s: no model turn: %s (%r)", run_id, error, error.__cause__)
            self._fail(run, str(error))
        except Exception as error:
            if may_pass(error):  # only where the process ends
                log.warning("run %s: left for the next start: %s", run_id, error_text(error))
                return
            log.exception("run %s: failed", run_id)
            self._fail(run, "Something went wrong inside Countersign.")
        finally:
            self._signals.post.give()

    def _look_back(self, run: Run | None) -> None:
        """Show that a run is over, if it was cancelled while it was shown as being worked on."""
        if run is None:
            return
        with suppress(Exception):  # a status is a comfort
            with self._store.read() as tx:
                now = runs.get(tx, run.id)
            if now is not None and now.status is R.CANCELLED:
                self._presence.done(now)

    def _patiently(self, work: Callable[[], T], what: str) -> T:
        """Do `work`, repeating it until the database accepts it."""
        return until_stored(work, self._signals.stopping, what)

    def _claim(self, run_id: str) -> Held | None:
        """Claim the run; None if another worker has it, or it cannot be claimed."""
        now = self._clock.now()
        with self._store.write(durable=False) as tx:
            run = runs.claim(tx, run_id, now=now, lease_until=now + self._lease)
            # a stream left open by a crash is closed first; the first claim finds none, and no call
            claimed_before = run is not None and run.fence > 1
            closed = claimed_before and outbox.close_streams(tx, run_id)
            found = calls.open_calls(tx, run_id) if claimed_before else []
        if closed:
            self._signals.post.give()
        return (run, found) if run is not None else None

    def _next(self, run: Run, known: list[Held]) -> bool:
        """Take the next step; return False if there is none.

        `known`: the run and calls as the claim or the last step left them; empty: read them.
        """
        more = self._step(*(known.pop() if known else self._held(run)))
        if isinstance(more, bool):
            return more
        known.append(more)
        return True

    def _stays(self, run: Run, known: list[Held], keeps: Keeps) -> bool:
        """Return whether the worker keeps the run for its next step; else make it READY again."""
        if not known:
            known.append(self._held(run))
        held, found = known[0]
        if held.status is not R.RUNNING or keeps(_goes_ahead(held, found)):
            return True
        with self._store.write(durable=False) as tx:
            why = {"why": "it is another's turn"}
            moves.run(tx, held, R.READY, at=self._clock.now(), fence=run.fence, data=why)
        self._signals.work.give()
        return False

    def _held(self, run: Run) -> Held:
        with self._store.read() as tx:
            return runs.held_by(tx, run.id, run.fence), calls.open_calls(tx, run.id)

    def _step(self, run: Run, found: list[Call]) -> Held | bool:
        """Take one step, according to the calls of the run's open plan.

        Returns the run and its plan's calls afterwards if known, else whether there is more to do
        now.
        """
        if run.status is not R.RUNNING:  # cancelled meanwhile
            self._look_back(run)
            return False
        if not found:
            return self._turns[run.source](run, ())
        for call in found:
            if call.status is C.RUNNING and not call.action:
                self._executor.recover(run, call)
                return True
        if at_once := next((c for c in found if calls.may_run(c) and c.does == Effect.READ), None):
            self._presence.working(run)
            return self._executor.execute(run, at_once) or True
        if any(calls.holds_up(call) for call in found):
            spoken_to = self._is_spoken_to(run)
            return self._turns[run.source](run, found) if spoken_to else self._wait(run, found)
        if approved := next((c for c in found if calls.may_run(c)), None):
            self._presence.working(run)
            return self._in_order(run, found, approved)
        with self._store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            runs.close_plan(tx, run, calls.open_calls(tx, run.id), at=self._clock.now())
        return True

    def _in_order(self, run: Run, found: list[Call], call: Call) -> Held | bool:
        """Execute the plan's next approved call, or cancel it if an earlier step went wrong."""
        earlier = [c for c in found if c.position < call.position]
        broken = next((c for c in earlier if _stops_the_rest(c)), None)
        if broken is None:
            return self._executor.execute(run, call) or True
        output, note = outputs.STEP_FAILED, "an earlier step failed"
        if is_question(broken):
            output, note = outputs.UNANSWERED_BEFORE, "nobody answered the question before it"
        with self._store.write() as tx:
            runs.held_by(tx, run.id, run.fence)
            moves.call(
                tx,
                call,
                C.CANCELLED,
                at=self._clock.now(),
                actor="worker",
                output=output,
                note=note,
                data={"because": broken.id},
            )
        return True

    def _is_spoken_to(self, run: Run) -> bool:
        """Return whether the model has to answer a message while people decide."""
        if run.source is not RunSource.MESSAGE:
            return False
        with self._store.read() as tx:
            return bool(inbox.held_messages(tx, run.id)) or runs.is_unanswered(tx, run.id)

    def _wait(self, run: Run, found: list[Call]) -> bool:
        """Make the run WAITING, with a card for each call; return True if it can go on instead."""
        plan_id = found[0].plan_id
        self._show_missing(run, plan_id)
        now = self._clock.now()
        with self._store.write() as tx:
            held = runs.held_by(tx, run.id, run.fence)
            if held.status is not R.RUNNING:  # its lease has lapsed, and nobody has it yet
                return False
            decided = not any(calls.holds_up(call) for call in calls.of_plan(tx, plan_id))
            if decided or inbox.held_messages(tx, run.id):
                return True
            if not moves.run(tx, held, R.WAITING, at=now, fence=run.fence):
                return False
        announce_wait(run, self._signals, self._presence)
        return False

    def _show_missing(self, run: Run, plan_id: str) -> None:
        """Post cards for calls that wait for people without one.

        These are calls that policy had allowed at first, and calls that have become UNKNOWN.
        """
        with self._store.read() as tx:
            on_cards = {c for card in outbox.cards(tx, plan_id) for c in outbox.body(card)["calls"]}
            missing = [
                c for c in calls.of_plan(tx, plan_id) if calls.waits(c) and c.id not in on_cards
            ]
        for call in missing:
            gate = load_gate(call.gate)
            if call.status is C.UNKNOWN:
                with self._store.write() as tx:
                    runs.held_by(tx, run.id, run.fence)
                    outbox.put_message(tx, unasked_card(run, plan_id, call))
                continue
            assert isinstance(gate, Ask)
            with self._store.read() as tx:
                editors = calls.editors(tx, call.id)
            try:
                place = find_place(self._authority, run, gate, editors)
            except RefusedError as error:
                with self._store.write() as tx:
                    runs.held_by(tx, run.id, run.fence)
                    at = self._clock.now()
                    moves.call(
                        tx,
                        call,
                        C.INVALIDATED,
                        at=at,
                        actor="policy",
                        output=error.output,
                        note=error.note,
                    )
                continue
            with self._store.write() as tx:
                runs.held_by(tx, run.id, run.fence)
                put_cards(tx, run, plan_id, [RoutedCall(call, gate, place)])
                put_mark(tx, run, plan_id)

    def _fail(self, run: Run | None, why: str) -> None:
        """Make the run FAILED and post that with a Retry button; nothing written is lost."""
        # a connection that we cut ourselves is no failure
        if run is None or self._signals.stopping.is_set():
            return
        ending = partial(self._give_up, run, why)
        if self._patiently(ending, f"run {run.id}: that it failed"):
            self._signals.work.give()  # whoever asked a sub-agent goes on
            self._presence.done(run)

    def _give_up(self, run: Run, why: str) -> bool:
        """Store and post the failure; return False if the run was no longer this worker's."""
        now = self._clock.now()
        with self._store.write() as tx:
            held = runs.get(tx, run.id)
            if held is None or held.fence != run.fence or held.status is not R.RUNNING:
                return False
            moves.run(tx, held, R.FAILED, at=now, fence=run.fence, data={"why": why}, error=why)
            if run.parent_call:
                say_end(tx, self._tools, report_failure(tx, self._tools, held, why, at=now))
                return True
            text = notices.gave_up(why)
            outbox.notice(
                tx,
                run,
                f"failed:{run.id}:{run.fence}",
                {"text": text, "blocks": answers.retry_blocks(text, run.id)},
            )
        return True


def _goes_ahead(run: Run, found: list[Call]) -> bool:
    """Return whether the run's next step is a call that people approved, or blocks such a call."""
    if run.source is RunSource.SERVER:  # a worker waits for it, amid such a call
        return True
    return any(map(calls.takes_precedence, found)) and not any(map(calls.holds_up, found))


def _stops_the_rest(call: Call) -> bool:
    """Return whether the call's end cancels the rest of its plan; a read's end never does."""
    if is_question(call):
        return call.status is C.EXPIRED
    return call.does != Effect.READ and call.status in (C.FAILED, C.UNKNOWN)
